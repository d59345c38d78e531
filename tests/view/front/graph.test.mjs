// The graph of the step view: layers, folds, focus, colours, files.
import assert from "node:assert/strict";
import { test } from "node:test";
import { paint, shapeBytes } from "./colours.js";
import { layered, spread } from "./layers.js";
import { place } from "./place.js";
import { dotText } from "./save.js";
import { computations, hasScopes, isWhole, noFolds, sceneOf, sheetOf } from "./scene.js";

const item = (n, o, p = [], more = {}) => ({ n, o, s: "f32[4]", f: "element", t: `  ${n}`, h: [o, "", n], p, ...more });

function moduleOf() {
  const items = [
    item("p0", "parameter", [], { v: "0" }), item("neg", "negate", ["p0"]), item("exp", "exponential", ["neg"], { r: 1 }),
    item("x", "parameter", [], { v: "0" }), item("f", "fusion", ["x"], { c: ["fused"], v: "kLoop" }), item("y", "add", ["f", "x"], { r: 1 }),
  ];
  const chunks = [{ h: "HloModule m", i: [], z: "" }, { h: "%fused (p0: f32[4]) -> f32[4] {", i: [0, 1, 2], z: "}" }, { h: "ENTRY %main (x: f32[4]) -> f32[4] {", i: [3, 4, 5], z: "}" }];
  return { payload: { items, chunks, artifacts: [], traces: [], order: [] }, artifact: { k: "module", c: [0, 1, 2], n: 6 } };
}

function graphOf(count, part = (k) => `block${Math.floor(k / 10)}/op${k}`) {
  const items = Array.from({ length: count }, (_, k) => item(part(k), "Relu", k ? [part(k - 1)] : [], { f: "tf-element" }));
  return { payload: { items, chunks: [{ h: "graph g {", i: items.map((_, k) => k), z: "}" }], artifacts: [], traces: [], order: [] }, artifact: { k: "graph", c: [0], n: count } };
}

test("every edge leads down, and no two nodes overlap", () => {
  const sizes = new Map(Array.from({ length: 40 }, (_, k) => [`n${k}`, [60 + (k % 7) * 10, 42]]));
  const edges = [...sizes.keys()].flatMap((n, k) => [[n, `n${k * 2 + 1}`], [n, `n${k * 2 + 2}`], [n, `n${k + 9}`]]).filter(([, b]) => sizes.has(b));
  const { boxes } = layered(sizes, edges);
  assert.equal(boxes.size, 40);
  for (const [a, b] of edges) assert.ok(boxes.get(a).y + boxes.get(a).h < boxes.get(b).y, `${a} above ${b}`);
  const all = [...boxes.values()];
  for (const [k, a] of all.entries()) for (const b of all.slice(k + 1)) assert.ok(a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y);
});

test("a cycle is laid out too, and a name may be anything", () => {
  const { boxes } = layered(new Map([["a", [50, 42]], ["__proto__", [50, 42]], ["c", [50, 42]]]), [["a", "__proto__"], ["__proto__", "c"], ["c", "a"]]);
  assert.equal(boxes.size, 3);
});

test("positions keep order and distance and stay by the wishes", () => {
  assert.deepEqual(spread([0, 200, 400], [1, 1, 1], [50, 50, 50]), [0, 200, 400]);
  const tight = spread([0, 0, 0], [1, 1, 1], [50, 50, 50]);
  assert.deepEqual(tight, [-68, 0, 68]);
});

test("a thousand nodes are placed fast enough to be folded by hand", () => {
  const sizes = new Map(Array.from({ length: 1000 }, (_, k) => [`n${k}`, [80, 42]]));
  const edges = [...sizes.keys()].flatMap((n, k) => (k ? [[`n${k - 1 - (k * 7) % Math.min(k, 30)}`, n]] : []));
  const from = performance.now();
  layered(sizes, edges);
  assert.ok(performance.now() - from < 2000);
});

test("a fusion is a box around its ops, and a node where it is folded", () => {
  const { payload, artifact } = moduleOf();
  assert.deepEqual([...computations(artifact, payload).keys()], ["fused", "main", ""]);
  assert.ok(isWhole(artifact, payload));
  const open = place(sceneOf(artifact, payload, noFolds()));
  assert.deepEqual(open.nodes.map((n) => n.item.n).sort(), ["exp", "neg", "p0", "x", "y"]);
  const [box] = open.groups;
  assert.equal(box.fold, "f");
  for (const n of open.nodes.filter((x) => ["exp", "neg", "p0"].includes(x.item.n))) assert.ok(n.x >= box.x && n.x + n.w <= box.x + box.w && n.y >= box.y && n.y + n.h <= box.y + box.h);
  assert.deepEqual(open.edges.map((e) => [e.from, e.to]).sort(), [["f/exp", "y"], ["f/neg", "f/exp"], ["f/p0", "f/neg"], ["x", "f/p0"], ["x", "y"]]);
  const folds = noFolds();
  folds.closed.add("f");
  const closed = place(sceneOf(artifact, payload, folds));
  assert.deepEqual(closed.nodes.map((n) => [n.item.n, n.fold]), [["x", ""], ["f", "f"], ["y", ""]]);
  assert.deepEqual(closed.edges.map((e) => [e.from, e.to]), [["x", "f"], ["f", "y"], ["x", "y"]]);
});

test("a large graph starts with its scopes folded, and one opens at a time", () => {
  const { payload, artifact } = graphOf(120);
  assert.ok(hasScopes(artifact, payload));
  assert.ok(!hasScopes(...Object.values(graphOf(50)).reverse()));
  const folds = noFolds();
  const closed = place(sceneOf(artifact, payload, folds));
  assert.equal(closed.nodes.length, 12);
  assert.equal(closed.edges.length, 11);
  assert.equal(closed.nodes[0].item.h[2], "10 nodes");
  folds.open.add("block3");
  const open = place(sceneOf(artifact, payload, folds));
  assert.equal(open.nodes.length, 21);
  assert.deepEqual(open.groups.map((g) => g.label), ["block3/"]);
});

test("focus shows what is within some steps", () => {
  const { payload, artifact } = graphOf(1000, (k) => `n${k}`);
  const near = sceneOf(artifact, payload, { ...noFolds(), focus: "n500", radius: 3 });
  assert.deepEqual([...near.nodes.keys()], [497, 498, 499, 500, 501, 502, 503].map((k) => `n${k}`));
  assert.match(near.note, /^7 of 1,000 ops/);
});

test("what Python laid out comes in the same form, each key once", () => {
  const items = [item("a", "add"), item("f", "fusion", ["a"], { c: ["g"] })];
  const sheet = sheetOf({ w: 10, h: 10, nodes: [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [1, 0, 0, 5, 5]], edges: [[0, 2, 10, 20, 5, -3]], groups: [] }, items);
  assert.deepEqual(sheet.nodes.map((n) => n.key), ["a", "a#1", "f"]);
  assert.deepEqual(sheet.edges, [{ from: "a", to: "f", points: [2.5, 6, 10, 20, 15, 17, 2.5, 0] }]);
});

test("bytes of shapes", () => {
  assert.equal(shapeBytes("f32[2,3]"), 24);
  assert.equal(shapeBytes("(bf16[8], pred[], s4[3])"), 16 + 1 + 2);
  assert.equal(shapeBytes("f8e4m3fn[5]"), 5);
  assert.equal(shapeBytes("c128[2]"), 32);
  assert.equal(shapeBytes("token[]"), 0);
});

test("weights lie with the layer that alone reads them, whatever their own scope is called", () => {
  const { payload, artifact } = graphOf(120, (k) => `net/layer${Math.floor(k / 40)}/op${k}`);
  payload.items.push(item("kernels/w", "VarHandleOp"), item("shared/w", "VarHandleOp"), item("shared/v", "VarHandleOp"));
  for (const [k, w] of [[3, "kernels/w"], [5, "shared/w"], [90, "shared/w"], [7, "shared/v"]]) payload.items[k].p.push(w);
  payload.chunks[0].i = payload.items.map((_, k) => k);
  const keys = (open) => [...sceneOf(artifact, payload, { ...noFolds(), open: new Set(open) }).nodes.keys()];
  assert.deepEqual(keys([]), ["net/"]);
  assert.deepEqual(keys(["net"]), ["net/layer0/", "net/layer1/", "net/layer2/", "shared/w"]);
});

test("colours tell scope, memory and time, and what is not known is said to be so", () => {
  const items = [item("a", "add", [], { m: "net/one/Add" }), item("b", "add", [], { m: "net/two/Add", s: "f32[4096]" }), item("c", "add", [])];
  const scopes = paint("name scope", items, new Map());
  assert.deepEqual(scopes.legend.map((l) => l.label), ["net/one", "net/two", "none"]);
  assert.equal(new Set(items.map(scopes.of)).size, 3);
  const memory = paint("memory", items, new Map());
  assert.equal(memory.of(items[1]), "heat-4");
  assert.equal(memory.of(items[0]), "heat-0");
  assert.equal(paint("time", items, new Map()).of(items[0]), "hue-none");
  assert.equal(paint("time", items, new Map([["a", 1e-3]])).of(items[0]), "heat-4");
  assert.deepEqual(paint("opcode", items, new Map()).legend, [{ cls: "fam-element", label: "elementwise" }]);
});

test("DOT has every node once, within its box, and quotes what it must", () => {
  const { payload, artifact } = moduleOf();
  payload.items[5].n = 'y"\\evil';
  const text = dotText(place(sceneOf(artifact, payload, noFolds())), 'a "title"');
  assert.equal(text.match(/label="[^"]*\\n/g).length, 5);
  assert.match(text, /subgraph "cluster_f" \{\n\s+label="f {2}kLoop";\n\s+"f\/p0"/);
  assert.ok(text.includes('"y\\"\\\\evil"'));
  assert.ok(text.startsWith('digraph "a \\"title\\"" {'));
});

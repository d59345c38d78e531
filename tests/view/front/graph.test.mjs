// The graph of the step view: layers, colours, files.
import assert from "node:assert/strict";
import { test } from "node:test";
import { paint, shapeBytes } from "./colours.js";
import { layered, spread } from "./layers.js";
import { dotText } from "./save.js";

const item = (n, o, p = [], more = {}) => ({ n, o, s: "f32[4]", f: "element", t: `  ${n}`, h: [o, "", n], p, ...more });

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

test("bytes of shapes", () => {
  assert.equal(shapeBytes("f32[2,3]"), 24);
  assert.equal(shapeBytes("(bf16[8], pred[], s4[3])"), 16 + 1 + 2);
  assert.equal(shapeBytes("f8e4m3fn[5]"), 5);
  assert.equal(shapeBytes("c128[2]"), 32);
  assert.equal(shapeBytes("token[]"), 0);
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
  const node = (n, x, y) => ({ key: n, item: item(n, "add"), x, y, w: 20, h: 10 });
  const sheet = { w: 100, h: 100, nodes: [node("x", 0, 0), node("f/neg", 12, 32), node('y"\\evil', 0, 80)], edges: [{ from: "x", to: "f/neg" }], groups: [{ key: "f", label: "f  kLoop", x: 10, y: 30, w: 40, h: 20 }], note: "" };
  const text = dotText(sheet, 'a "title"');
  assert.equal(text.match(/label="[^"]*\\n/g).length, 3);
  assert.match(text, /subgraph "cluster_f" \{\n\s+label="f {2}kLoop";\n\s+"f\/neg"/);
  assert.ok(text.includes('"y\\"\\\\evil"'));
  assert.ok(text.startsWith('digraph "a \\"title\\"" {'));
});

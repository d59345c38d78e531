// What is drawn of a program: groups open and closed, repeats, what is inlined, ports, marks.
import assert from "node:assert/strict";
import { test } from "node:test";

import { boxCount, bundlesAgain, bundlesOf } from "./bundles.js";
import { bytesOf, outlineFrom, outlines } from "./outline.js";
import { givenFolds, noFolds, sceneOf } from "./scene.js";

const item = (n, o, p = [], more = {}) => ({ n, o, s: "f32[4]", f: "element", t: `  %${n} = f32[4] ${o}(${p.map((x) => `%${x}`).join(", ")})`, h: [o, "", "f32[4]"], ...(p.length ? { p } : {}), ...more });

/** A payload with one module: computations by name, the last the entry; `t` its outline. */
function moduleOf(parts, o = []) {
  const items = [];
  const chunks = Object.entries(parts).map(([name, { items: own, t }], k, all) => {
    const i = own.map((x) => items.push(x) - 1);
    return { h: `${k === all.length - 1 ? "ENTRY " : ""}%${name} (p: f32[4]) -> f32[4] {`, i, z: "}", ...(t ? { t } : {}) };
  });
  const artifact = { k: "module", c: chunks.map((_, k) => k), n: items.length, o };
  return { payload: { items, chunks }, artifact };
}

/** Three layers of two ops each, a repeat. */
function threeLayers(open) {
  const own = [item("p", "parameter", [], { v: "0" })];
  let last = "p";
  for (let k = 0; k < 3; k += 1) {
    own.push(item(`half${k}`, "constant", [], { v: "0.5" }), item(`d${k}`, "dot", [last]), item(`a${k}`, "add", [`d${k}`, `half${k}`]));
    last = `a${k}`;
  }
  own.push(item("end", "tanh", [last], { r: 1 }));
  const g = [[-1, "repeat", "layer 0-2", "layer_*"], ...[0, 1, 2].map((k) => [0, "scope", `layer_${k}`, `layer_${k}`])];
  const t = { g, m: [-1, 1, 1, 3, 2, 3, 3, 3, -1, 1], r: "iq..q..q...", u: [[10, 32], [4, 32]], w: [0, 1, 0, 1, 0, 1, 1] };
  return moduleOf({ main: { items: own, t } }, open);
}

const edges = (scene) => scene.edges.map((e) => `${e.from}>${e.to}`).sort();

test("a closed repeat is one node with all that it holds", () => {
  const { artifact, payload } = threeLayers([]);
  const scene = sceneOf(artifact, payload, givenFolds(artifact));
  assert.deepEqual([...scene.nodes.keys()], ["p", "@layer_*", "end"]);
  const node = scene.nodes.get("@layer_*");
  assert.deepEqual([node.fold, node.stack, node.count, node.weight.flops], ["@layer_*", 3, 6, 42]);
  assert.deepEqual(edges(scene), ["@layer_*>end", "p>@layer_*"]);
  assert.equal(scene.where.get("a2"), "@layer_*");
});

test("an open repeat shows its first instance for all; a spread one all of them", () => {
  const { artifact, payload } = threeLayers(["@layer_*"]);
  const scene = sceneOf(artifact, payload, givenFolds(artifact));
  assert.deepEqual([...scene.nodes.keys()], ["p", "d0", "a0", "end"]);
  assert.deepEqual([...scene.groups].map(([k, g]) => [k, g.stack, g.count]), [["@layer_*", 3, 6]], "two ops in each of three layers");
  assert.deepEqual(edges(scene), ["a0>end", "d0>a0", "p>d0"]);
  assert.equal(scene.nodes.get("d0").weight.flops, 30);
  assert.equal(scene.where.get("d2"), "d0");
  assert.deepEqual(scene.nodes.get("a0").operands, [{ text: "0.5", name: "half0" }]);
  const spread = sceneOf(artifact, payload, { ...givenFolds(artifact), spread: () => true });
  assert.deepEqual([...spread.nodes.keys()], ["p", "@layer_0", "@layer_1", "@layer_2", "end"]);
  assert.deepEqual(edges(spread), ["@layer_0>@layer_1", "@layer_1>@layer_2", "@layer_2>end", "p>@layer_0"]);
});

test("an op that only one layer has leads into the next layer, not into the one that is drawn for both", () => {
  const own = [item("p", "parameter", [], { v: "0" })];
  const [m, g] = [[-1, 1], [[-1, "repeat", "layer 0-2", "layer_*"]]];
  let last = "p";
  for (let k = 0; k < 3; k += 1) {
    const layer = g.push([0, "scope", `layer_${k}`, `layer_${k}`]) - 1;
    g.push([layer, "scope", "first"], [layer, "scope", "second"]);
    own.push(item(`d${k}`, "dot", [last]), item(`a${k}`, "add", [`d${k}`]), item(`t${k}`, "tanh", [`a${k}`]), item(`u${k}`, "tanh", [`t${k}`]));
    m.push(layer + 1, 2, layer + 2, k === 1 ? 3 : 2);
    if (k === 1) own.push(item("more", "sine", ["u1"]));
    last = k === 1 ? "more" : `u${k}`;
  }
  const { artifact, payload } = moduleOf({ main: { items: own, t: { g, m, r: `i${".".repeat(13)}`, u: [[1, 1]], w: Array(13).fill(0) } } }, ["@layer_*"]);
  assert.deepEqual(edges(sceneOf(artifact, payload, givenFolds(artifact))), ["@layer_0/first>@layer_0/second", "p>@layer_0/first"]);
});

/** Four layers, one with an op more than the others, each with a part of two ops and a fusion of three; in the last part of the program a loop whose body has a fusion too. */
function nestedLayers(open) {
  const inside = (name) => ({ items: [item(`${name}.p`, "parameter", [], { v: "0" }), ...[1, 2, 3].map((n) => item(`${name}.${n}`, "add", [n > 1 ? `${name}.${n - 1}` : `${name}.p`], n === 3 ? { r: 1 } : {}))], t: { g: [], m: [-1, 4], r: "i...", u: [[1, 1]], w: [0, 0, 0] } });
  const parts = {};
  const own = [item("p", "parameter", [], { v: "0" })];
  const [m, g] = [[-1], [[-1, "repeat", "layer 0-3", "layer_*"]]];
  let last = "p";
  const put = (group, x) => {
    own.push(x);
    m.push(group);
    last = x.n;
  };
  for (let k = 0; k < 4; k += 1) {
    const layer = g.push([0, "scope", `layer_${k}`, `layer_${k}`]) - 1;
    const part = g.push([layer, "scope", "part", `layer_${k}/part`]) - 1;
    parts[`fused${k}`] = inside(`fused${k}`);
    put(part, item(`d${k}`, "dot", [last]));
    put(part, item(`e${k}`, "exponential", [last]));
    if (k === 2) put(layer, item("more", "sine", [last]));
    put(layer, item(`f${k}`, "fusion", [last], { f: "fusion", c: [`fused${k}`] }));
  }
  parts.fusedL = inside("fusedL");
  parts.body = { items: [item("b", "parameter", [], { v: "0" }), item("fl", "fusion", ["b"], { f: "fusion", c: ["fusedL"] }), item("bt", "tanh", ["fl"], { r: 1 })], t: { g: [], m: [-1, 3], r: "i..", u: [[1, 1]], w: [0, 0] } };
  put(-1, item("loop", "while", [last], { f: "control", c: ["body"], r: 1 }));
  parts.main = { items: own, t: { g, m: m.flatMap((x) => [x, 1]), r: `i${".".repeat(own.length - 1)}`, u: [[8, 8]], w: own.slice(1).map(() => 0) } };
  return moduleOf(parts, open);
}

test("a group counts the same ops, marks and work open and closed, whatever is open in it; parts add up to the whole", () => {
  const { artifact, payload } = nestedLayers([]);
  const marks = { added: new Set(["e1", "fused2.3", "more", "f3"]), removed: new Set(), changed: new Set(["d0", "d1", "fusedL.1"]) };
  const tell = (x) => [x.count, x.marks.added, x.marks.changed, x.weight.flops];
  const seen = new Map();
  const keys = ["@layer_*", "@layer_0/part", "f0", "loop", "loop/fl"];
  for (let n = 0; n < 2 ** keys.length; n += 1) {
    const open = new Set(keys.filter((_, k) => n & (1 << k)));
    const scene = sceneOf(artifact, payload, { ...noFolds(), open: (key) => open.has(key) }, { marks });
    const total = [...scene.nodes.values()].filter((x) => !x.group && !x.port).concat([...scene.groups.values()].filter((x) => !x.parent)).reduce((t, x) => t + x.count, 0);
    assert.equal(total, 4 * (2 + 3) + 1 + 4);
    for (const [key, x] of [...scene.nodes, ...scene.groups]) {
      if (!keys.includes(key)) continue;
      const told = JSON.stringify(tell(x));
      assert.equal(seen.get(key) || told, told, `${key} with ${[...open]} open`);
      seen.set(key, told);
    }
  }
  assert.deepEqual(JSON.parse(seen.get("@layer_*")), [21, 4, 2, 13 * 8]);
  assert.deepEqual(JSON.parse(seen.get("@layer_0/part")).slice(0, 3), [8, 1, 2], "of all four layers");
  assert.deepEqual(JSON.parse(seen.get("loop")).slice(0, 3), [4, 0, 1]);
  assert.deepEqual(JSON.parse(seen.get("f0")).slice(0, 2), [12, 2], "of its likes too");
});

test("all ops brings back what is inlined", () => {
  const { artifact, payload } = threeLayers(["@layer_*"]);
  const scene = sceneOf(artifact, payload, { ...givenFolds(artifact), all: true });
  assert.ok(scene.nodes.has("half0"));
  assert.deepEqual(scene.nodes.get("a0").operands, []);
});

test("a group counts what a pass did to its ops, of all repeats; few inlined ops that a pass is about are drawn", () => {
  const { artifact, payload } = threeLayers(["@layer_*"]);
  const marks = { added: new Set(["d1", "d2", "half0"]), removed: new Set(), changed: new Set(["a0"]) };
  const open = sceneOf(artifact, payload, givenFolds(artifact), { marks });
  assert.deepEqual(open.nodes.get("d0").marks, { added: 2, removed: 0, changed: 0 });
  assert.deepEqual(open.groups.get("@layer_*").marks, { added: 3, removed: 0, changed: 1 });
  assert.ok(open.nodes.has("half0"));
  const closed = sceneOf(artifact, payload, { ...givenFolds(artifact), open: () => false }, { marks, seconds: new Map([["d0", 2], ["d1", 3]]) });
  assert.equal(closed.nodes.get("@layer_*").weight.seconds, 5);
  assert.equal(closed.nodes.get("end").weight.seconds, null);
});

test("what is inlined in a computation that is new as a whole stays so", () => {
  const fused = { items: [item("f", "parameter", [], { v: "0" }), item("two", "constant", [], { v: "2" }), item("twice", "multiply", ["f", "two"], { r: 1 })], t: { g: [], m: [-1, 3], r: "iq.", u: [[1, 1]], w: [0] } };
  const main = { items: [item("x", "parameter", [], { v: "0" }), item("made", "fusion", ["x"], { c: ["fused"], r: 1 })], t: { g: [], m: [-1, 2], r: "i.", u: [[1, 1]], w: [0] } };
  const { artifact, payload } = moduleOf({ fused, main });
  const drawn = (added) => [...sceneOf(artifact, payload, noFolds(), { marks: { added: new Set(added), removed: new Set(), changed: new Set() } }).nodes.keys()];
  assert.deepEqual(drawn(["made", "two", "twice"]), ["x", "made/twice"]);
  assert.deepEqual(drawn(["two"]), ["x", "made/two", "made/twice"]);
});

test("tuples and their elements are edges; a loop's results come from its body", () => {
  const pair = { s: "(f32[4], f32[4])" };
  const body = { items: [item("b", "parameter", [], { v: "0", ...pair }), item("b0", "get-tuple-element", ["b"], { v: "0" }), item("b1", "get-tuple-element", ["b"], { v: "1" }), item("grown", "add", ["b0", "b1"]), item("bt", "tuple", ["grown", "b1"], { r: 1, ...pair })], t: { g: [], m: [-1, 5], r: "ipp.o", u: [[4, 16]], w: [0] } };
  const cond = { items: [item("c", "parameter", [], { v: "0", ...pair }), item("less", "compare", ["c"], { s: "pred[]", r: 1 })], t: { g: [], m: [-1, 2], r: "i.", u: [[1, 1]], w: [0] } };
  const main = { items: [item("x", "parameter", [], { v: "0" }), item("y", "parameter", [], { v: "1" }), item("t", "tuple", ["x", "y"], pair), item("loop", "while", ["t"], { c: ["body", "cond"], ...pair }), item("one", "get-tuple-element", ["loop"], { v: "0" }), item("two", "get-tuple-element", ["loop"], { v: "1" }), item("end", "multiply", ["one", "two"], { r: 1 })], t: { g: [], m: [-1, 7], r: "iip.pp.", u: [[4, 16]], w: [0, 0] } };
  const { artifact, payload } = moduleOf({ body, cond, main });
  const open = sceneOf(artifact, payload, noFolds());
  assert.deepEqual([...open.groups.keys()], ["loop", "loop/body", "loop/condition"]);
  assert.deepEqual(edges(open), ["loop/body/grown>end", "x>loop/body/grown", "x>loop/condition/less", "y>end", "y>loop/body/grown", "y>loop/condition/less"]);
  const closed = sceneOf(artifact, payload, { ...noFolds(), open: () => false });
  assert.deepEqual(edges(closed), ["loop>end", "x>loop", "y>loop"]);
  assert.equal(closed.nodes.get("loop").fold, "loop");
});

test("of many parameters the weights are named in what reads them", () => {
  const own = [];
  for (let k = 0; k < 12; k += 1) own.push(item(`w${k}`, "parameter", [], { v: String(k), m: `params['w${k}']`, an: 1 }));
  own.push(item("x", "parameter", [], { v: "12", m: "x", an: 1 }));
  own.push(item("a", "dot", ["x", "w0"]), item("b", "add", ["a", ...own.slice(1, 12).map((i) => i.n)]), item("r", "tuple", ["a", "b"], { r: 1 }));
  const { artifact, payload } = moduleOf({ main: { items: own, t: { g: [], m: [-1, 16], r: `${"i".repeat(13)}..o`, u: [[1, 1]], w: [0, 0] } } });
  const scene = sceneOf(artifact, payload, noFolds());
  assert.deepEqual([...scene.nodes].filter(([, n]) => n.port).map(([k, n]) => [k, n.port, n.count]), [["x", "in", 1], ["r", "out", 1], ["@parameters", "in", 12]]);
  assert.deepEqual(scene.nodes.get("a").operands, [{ text: "w0", name: "w0" }]);
  assert.deepEqual(scene.nodes.get("b").operands, [{ text: "11 parameters", name: "w1" }]);
  assert.equal(scene.nodes.get("r").item.m, "2 results");
  assert.equal(scene.where.get("w3"), "@parameters");
});

test("a weight that every repeat has by the same name is named once; numbers have four digits", () => {
  const own = [];
  for (let k = 0; k < 12; k += 1) own.push(item(`w${k}`, "parameter", [], { v: String(k), m: `layers[${k}]['kernel']`, an: 1 }));
  own.push(item("x", "parameter", [], { v: "12", m: "x", an: 1 }), item("tiny", "constant", [], { v: "7.62939453e-06" }), item("root", "constant", [], { v: "0.797884583" }));
  own.push(item("a", "dot", ["x", "w0", "w1"]), item("b", "multiply", ["a", "tiny"]), item("r", "multiply", ["b", "root"], { r: 1 }));
  const { artifact, payload } = moduleOf({ main: { items: own, t: { g: [], m: [-1, 18], r: `${"i".repeat(13)}qq...`, u: [[1, 1]], w: [0, 0, 0] } } });
  const scene = sceneOf(artifact, payload, noFolds());
  const read = (key) => scene.nodes.get(key).operands.map((o) => o.text);
  assert.deepEqual([read("a"), read("b"), read("r")], [["kernel"], ["7.629e-6"], ["0.7979"]]);
});

test("what is not on the page is told of by group, with the edges between", () => {
  const own = [item("z", "tanh", ["gone"], { r: 1 })];
  const t = { g: [[-1, "scope", "early"], [-1, "repeat", "layer 0-9", "layer_*", 10], [1, "scope", "layer_0", "layer_0"]], m: [-1, 1], r: ".", u: [[1, 8]], w: [0], x: { n: [[0, 100, 5, 6, "100 dot"], [1, 90, 1, 1, "90 add"], [2, 10, 1, 1, "10 add"]], p: 300, e: [[0, 2, 64, 2], [1, -2, 32, 1], [0, -2, 16, 1]] } };
  const { artifact, payload } = moduleOf({ main: { items: own, t } });
  artifact.n = 201;
  const closed = sceneOf(artifact, payload, { ...noFolds(), open: () => false });
  assert.deepEqual([...closed.nodes].map(([k, n]) => [k, n.count, n.stack, n.fold]).sort(), [["@early", 100, 1, ""], ["@layer_*", 100, 10, "@layer_*"], ["@parameters", 300, 1, ""], ["z", 1, 1, ""]]);
  assert.equal(closed.nodes.get("@parameters").item.h[0], "300 parameters");
  assert.deepEqual(edges(closed), ["@early>@layer_*", "@early>z", "@layer_*>z"]);
  const open = sceneOf(artifact, payload, noFolds());
  assert.ok(open.groups.has("@layer_*"));
  const [inside] = [...open.nodes].filter(([, n]) => n.group === "@layer_*");
  assert.deepEqual([inside[1].count, inside[1].item.h[0]], [10, "10 add"], "what it does, though it is not there");
  assert.ok(edges(open).includes(`${inside[0]}>z`), "the first instance stands for all: what they give leads on");
});

test("a program between two rewrites has the groups of those around it", () => {
  const { artifact, payload } = threeLayers(["@layer_*"]);
  const made = { ...payload, items: [...payload.items, item("new", "sine", ["d1"])], chunks: [{ ...payload.chunks[0], i: [...payload.chunks[0].i, payload.items.length], t: undefined }] };
  const moment = { k: "module", c: [0], n: made.items.length };
  outlineFrom(moment, made, [artifact, artifact], payload);
  assert.deepEqual(moment.o, ["@layer_*"]);
  const outline = outlines(moment, made).get("");
  assert.equal(outline.groups[outline.member.at(-1)].key, "layer_1");
  assert.equal(outline.roles.at(-1), ".");
});

test("bytes of shapes", () => {
  assert.equal(bytesOf("f32[2,3]"), 24);
  assert.equal(bytesOf("(pred[4], bf16[2], c64[])"), 16);
  assert.equal(bytesOf("f32[?,3]"), 12);
  assert.equal(bytesOf("token[]"), 0);
});

/** A chain of ten ops, of which the fourth goes on to the eighth too, and a group of two in the middle. */
function longChain() {
  const own = [item("p", "parameter", [], { v: "0" })];
  for (let k = 0; k < 10; k += 1) own.push(item(`n${k}`, k % 3 ? "tanh" : "dot", [k ? `n${k - 1}` : "p", ...(k === 7 ? ["n3"] : [])], k % 3 ? {} : { f: "matrix" }));
  own[10].r = 1;
  const t = { g: [[-1, "scope", "mid", "mid"]], m: [-1, 5, 0, 2, -1, 4], r: `i${".".repeat(10)}`, u: [[1, 1]], w: own.slice(1).map(() => 0) };
  return moduleOf({ main: { items: own, t } });
}

test("a program of too many boxes is cut into bundles of neighbours, where little flows on", () => {
  const { artifact, payload } = longChain();
  const entry = outlines(artifact, payload).get("");
  assert.equal(boxCount(entry), 9);
  const bundles = bundlesOf(entry, 3);
  assert.equal(new Set(bundles.values()).size, 3);
  const scene = sceneOf(artifact, payload, { ...noFolds(), open: () => false, bundles });
  const drawn = [...scene.nodes].filter(([, n]) => !n.port);
  assert.equal(drawn.length, 3);
  assert.equal(drawn.reduce((t, [, n]) => t + n.count, 0), 10);
  assert.match(drawn[0][1].item.h[0], /dot/);
  const order = drawn.map(([key]) => key);
  for (const e of scene.edges) if (order.includes(e.from) && order.includes(e.to)) assert.ok(order.indexOf(e.from) < order.indexOf(e.to), "no circle");
  const open = sceneOf(artifact, payload, { ...noFolds(), bundles });
  assert.equal(open.nodes.size, 11);
  assert.equal([...open.groups.values()].filter((g) => !g.parent).length, 3);
});

test("bundles stay as they are from stage to stage; what is new lies with what comes before it", () => {
  const { artifact, payload } = longChain();
  const entry = outlines(artifact, payload).get("");
  const bundles = bundlesOf(entry, 3);
  assert.equal(bundlesAgain(entry, bundles), bundles);
  const without = new Map([...bundles].filter(([key]) => key !== "n2"));
  assert.equal(bundlesAgain(entry, without).get("n2"), bundles.get("n1"));
  assert.equal(bundlesAgain(entry, new Map([["other", "x"]])), null);
});

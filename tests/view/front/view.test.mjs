// The rest of the step view that needs no browser: payloads, passes, differences, guesses, loops, numbers, pairs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { summary } from "./branches.js";
import { ChartLabels, nextOver } from "./charts.js";
import { differences } from "./compare.js";
import { tokens } from "./highlight.js";
import { loopsOf } from "./loops.js";
import { errorsOf, levels, number } from "./numerics.js";
import { overlayPaint } from "./overlay.js";
import { moveBefore, moveStep, orderOf, placesOf } from "./order.js";
import { dealings, relation } from "./pair.js";
import { comingStages, tree } from "./passes.js";
import { nextChange, score, toldPart } from "./predict.js";
import { momentOf, replayable } from "./replay.js";
import { stationsShown, stationStages } from "./side.js";
import { insideOf, opsOfLine, stackOf } from "./source.js";
import { merge, Store } from "./store.js";
import { carriersOf } from "./code.js";
import { rewriteCount } from "./why.js";
import { definitionOf, linesOf, textOf, withoutDirectives } from "./text.js";

const item = (n, p = [], more = {}) => ({ n, o: "add", s: "f32[4]", f: "element", t: `  %${n} = f32[4] add(${p.map((x) => `%${x}`).join(", ")})`, h: ["add", "", n], p, ...more });
const stage = (name, b, a, more = {}) => ({ i: 0, kind: "hlo_pass", name, pl: [], ch: Number(b !== a), s: 1e-3, d: "", b, a, ...more });

function payloadOf() {
  const items = [item("a"), item("b", ["a"]), item("c", ["b"]), item("d", ["c"]), item("c", ["a"])];
  const head = "ENTRY %main () -> f32[4] {";
  const chunks = [{ h: head, i: [0, 1, 2, 3], z: "}" }, { h: head, i: [0, 4, 3], z: "}" }];
  const artifacts = [{ k: "module", c: [0], n: 4 }, { k: "module", c: [1], n: 3 }];
  const stages = [stage("start", -1, 0), stage("cse", 0, 0), stage("dce", 0, 1, { why: { rewrites: [{ rule: "drop", edits: [{ a: "b", b: "c" }] }], decisions: [{ subject: ["b", "c"], taken: 1, action: "fuse", predicates: [] }] } })];
  return { revision: 1, title: "", items, chunks, artifacts, traces: [{ name: "t", live: true, counts: {}, runs: [], stages }], order: [0] };
}

test("a delta is merged once, in order, with what it fills in and sets", () => {
  const payload = payloadOf();
  const delta = { base: 1, revision: 2, items: [], chunks: [], artifacts: [], traces: [], order: [0], fills: [[1, { k: "module", c: [0], n: 4 }]], sets: [[0, 2, { err: 0.5 }]] };
  assert.ok(merge(payload, delta));
  assert.deepEqual([payload.artifacts[1].n, payload.traces[0].stages[2].err], [4, 0.5]);
  assert.ok(merge(payload, delta), "the same again does nothing");
  assert.ok(!merge(payload, { ...delta, base: 7, revision: 8 }), "one was missed");
});

test("any two stages are compared by name", () => {
  const payload = payloadOf();
  const [section] = differences(payload, payload.artifacts[0], payload.artifacts[1]);
  assert.equal(section.name, "main");
  assert.deepEqual(section.rows, [0, [1, -1], [2, 4], 3]);
  assert.deepEqual(differences(payload, payload.artifacts[0], payload.artifacts[0]), []);
});

test("long equal parts of a difference are left out", () => {
  const items = Array.from({ length: 20 }, (_, k) => item(`n${k}`));
  items.push(item("n0", ["x"]));
  const head = "%f (a: f32[4]) -> f32[4] {";
  const payload = { items, chunks: [{ h: head, i: [...Array(20).keys()], z: "}" }, { h: head, i: [20, ...[...Array(20).keys()].slice(1)], z: "}" }] };
  const [{ rows }] = differences(payload, { k: "module", c: [0] }, { k: "module", c: [1] });
  assert.deepEqual(rows, [[0, 20], 1, 2, 3, -16]);
});

test("pipelines are a tree, and a pipeline that begins anew is a round", () => {
  const names = ["algsimp", "dce", "cse", "algsimp", "dce", "cse"];
  const stages = [stage("first", 0, 0, { pl: ["cpu", "outer"] }), ...names.map((n) => stage(n, 0, 0, { pl: ["cpu", "outer", "simplify"] })), stage("last", 0, 0, { pl: ["cpu", "outer"] }), stage("asm", 0, 0, { kind: "assembly" })];
  const labels = tree(stages).map((e) => ("branch" in e ? `${"  ".repeat(e.branch.depth)}${e.branch.label} ${e.branch.from}-${e.branch.to}` : `${"  ".repeat(e.depth)}${stages[e.stage].name}`));
  assert.deepEqual(labels, ["outer 0-7", "  first", "  simplify 1-6", "    algsimp", "    dce", "    cse", "    round 2 4-6", "      algsimp", "      dce", "      cse", "  last", "Backend 8-8", "  asm"]);
});

test("a guess is scored against what the next pass did", () => {
  const payload = payloadOf();
  const store = new Store(payload);
  assert.equal(nextChange(store, payload.traces[0], 0), 2);
  const marks = store.marks(0, 1);
  const result = score(new Set(["b", "d"]), marks, new Set(["a", "b", "c", "d"]));
  assert.deepEqual([result.right, result.wrong, result.missed], [["b"], ["d"], ["c"]]);
  assert.equal(result.words, "1 of 2 found, 1 wrong, 1 missed");
  assert.match(score(new Set(["b", "c"]), marks, new Set(["b", "c"])).words, /all of them/);
});

test("the reason why a node stays out of clusters is no change of it", () => {
  const payload = payloadOf();
  const at = payload.items.length;
  const { n, o, ...others } = payload.items[0];
  payload.items.push({ n: "n", o, ...others }, { n: "n", o, x: "too small", ...others }, { n: "n", o, g: "cluster_0", ...others });
  const chunk = payload.chunks.length;
  for (const k of [0, 1, 2]) payload.chunks.push({ h: "", i: [at + k], z: "" });
  const graph = payload.artifacts.length;
  for (const k of [0, 1, 2]) payload.artifacts.push({ k: "graph", name: "g", c: [chunk + k] });
  const store = new Store(payload);
  assert.equal(store.marks(graph, graph + 1).changed.size, 0);
  assert.equal(store.marks(graph, graph + 2).changed.size, 1);
});

test("two ops: what was decided about them, and how they stand", () => {
  const payload = payloadOf();
  const store = new Store(payload);
  assert.deepEqual(dealings(payload.traces[0], "c", "b").map((d) => [d.stage, d.decisions.length, d.rewrites.length]), [[2, 1, 1]]);
  assert.equal(dealings(payload.traces[0], "a", "d").length, 0);
  assert.equal(relation(store, 0, "a", "b")[0], "a feeds b.");
  assert.match(relation(store, 0, "d", "a")[0], /a → b → c → d/);
  assert.equal(relation(store, 0, "a", "gone")[0], "gone does not exist at this stage.");
});

test("innermost loops are found, the vector one is hot", () => {
  const asm = ["main:", ".LBB0_1:", "\txorl %eax, %eax", ".LBB0_2:", "\tvaddps %zmm0, %zmm1, %zmm2", "\tjne\t.LBB0_2", "\tjne\t.LBB0_1", ".LBB0_5:", "\tincl %eax", "\tjb .LBB0_5", "\tretq"];
  assert.deepEqual(loopsOf(asm, "asm"), ["", "", "", "hot", "hot", "hot", "", "inner", "inner", "inner", ""]);
  const llvm = ["define void @f() {", "entry:", "  br label %loop", "loop:", "  %x = fadd <16 x float> %a, %b", "  br i1 %c, label %loop, label %end", "end:", "  ret void", "}"];
  assert.deepEqual(loopsOf(llvm, "llvm"), ["", "", "", "hot", "hot", "hot", "", "", ""]);
});

test("lines, sections and text of a module", () => {
  const payload = payloadOf();
  const source = linesOf(payload.artifacts[1], payload, new Store(payload).marks(0, 1), "after");
  assert.deepEqual(source.lines.map((l) => [l.op, l.mark]), [["", ""], ["a", ""], ["c", "~"], ["d", ""], ["", ""], ["", ""]]);
  assert.ok(source.lines.slice(1, 5).every((l) => l.section === source.lines[0].heading));
  assert.equal(textOf(source), "ENTRY %main () -> f32[4] {\n  %a = f32[4] add()\n  %c = f32[4] add(%a)\n  %d = f32[4] add(%c)\n}\n");
});

test("directives are left out of assembly, tables are not", () => {
  const lines = ["\t.text", "f:", ".Ltmp0:", "\t.loc 1 2", "\tretq", ".LBB0_1:", "\t.long 1"].map((text, k) => ({ text, number: k + 1 }));
  assert.deepEqual(withoutDirectives({ language: "asm", lines }).lines.map((l) => l.text), ["f:", "\tretq", ".LBB0_1:", "\t.long 1"]);
});

test("numbers and errors", () => {
  assert.deepEqual([null, 0, 0.5, 1234567, 2e-7, 1.7976931348623157e308].map(number), ["unknown", "0", "0.5", "1.2e+6", "2.0e-7", "inf"]);
  assert.deepEqual(errorsOf({ stages: [{ err: 0.1 }, {}, { err: null }] }), [0.1, null, null]);
  const heights = levels([null, 0, 1e-8, 1e-2], 20);
  assert.equal(heights[0], 0);
  assert.ok(heights[1] < heights[2] && heights[2] < heights[3] && heights[3] <= 20);
});

test("a branch in figures", () => {
  const payload = payloadOf();
  const sum = summary(new Store(payload), payload.traces[0]);
  assert.deepEqual([sum.stages, sum.ops, sum.temp, sum.run, sum.compile], [3, 3, null, null, 3e-3]);
});

test("tokens put a line together again, whatever it holds", () => {
  for (const language of ["hlo", "llvm", "asm"]) {
    for (const line of ['  %a = f32[2]{0} add(%b, "x\\"y"), metadata={op_name="q"}', "<img src=x onerror=alert(1)>", "\tmovq\t$-3, (%rax) # c", ""]) assert.equal(tokens(line, language).map((t) => t[0]).join(""), line);
  }
});

function rewritten() {
  // b = a + 0 goes, then c = b' - b' becomes a constant; before: a, zero, b, c, root d
  const items = [
    item("a"), item("zero"), item("b", ["a", "zero"]), item("c", ["b", "b"]), item("d", ["c", "b"], { r: 1, t: "  ROOT %d = f32[4] add(%c, %b)" }),
    item("c", ["a", "a"]), item("d", ["c", "a"], { r: 1, t: "  ROOT %d = f32[4] add(%c, %a)" }), item("none"), item("d", ["none", "a"], { r: 1, t: "  ROOT %d = f32[4] add(%none, %a)" }),
  ];
  const head = "ENTRY %main () -> f32[4] {";
  const chunks = [{ h: "HloModule m", i: [], z: "" }, { h: head, i: [0, 1, 2, 3, 4], z: "}" }, { h: head, i: [0, 7, 8], z: "}" }];
  const box = (i, k) => [i, 10, k * 60, 80, 42];
  const drawn = (list) => ({ w: 100, h: 400, nodes: list.map(box), edges: [], groups: [] });
  const artifacts = [{ k: "module", c: [0, 1], n: 5, g: drawn([0, 1, 2, 3, 4]) }, { k: "module", c: [0, 2], n: 3, g: drawn([0, 7, 8]) }];
  const rewrites = [
    { rule: "A + 0 => A", edits: [{ kind: "replace", in: "main", a: "b", i: 2, b: "a", j: 0 }, { kind: "remove", in: "main", a: "b", i: 2 }, { kind: "remove", in: "main", a: "zero", i: 1 }] },
    { rule: "A - A => 0", edits: [{ kind: "add", in: "main", b: "none", j: 7 }, { kind: "replace", in: "main", a: "c", i: 5, b: "none", j: 7 }, { kind: "remove", in: "main", a: "c", i: 5 }] },
  ];
  const stages = [stage("algsimp", 0, 1, { why: { rewrites, decisions: [] } })];
  return { revision: 1, title: "", items, chunks, artifacts, traces: [{ name: "t", live: false, counts: {}, runs: [], stages }], order: [0] };
}

test("one rewrite at a time: the program and the difference after each", () => {
  const payload = rewritten();
  const store = new Store(payload);
  const [pass] = payload.traces[0].stages;
  assert.equal(replayable(store, pass), 2);
  const texts = (m, artifact) => linesOf(artifact, m.payload, m.marks, "after").lines.map((l) => l.text).filter((t) => t.startsWith("  "));
  const one = momentOf(store, pass, 0);
  assert.deepEqual(texts(one, one.b).length, 5);
  assert.deepEqual(texts(one, one.a), ["  %a = f32[4] add()", "  %c = f32[4] add(%a, %a)", "  ROOT %d = f32[4] add(%c, %a)"]);
  assert.deepEqual([[...one.marks.removed].sort(), [...one.marks.changed].sort(), [...one.marks.added]], [["b", "zero"], ["c", "d"], []]);
  const two = momentOf(store, pass, 1);
  assert.deepEqual(texts(two, two.a), ["  %a = f32[4] add()", "  %none = f32[4] add()", "  ROOT %d = f32[4] add(%none, %a)"]);
  assert.deepEqual([...two.marks.added, ...two.marks.removed], ["none", "c"]);
  const [section] = differences(two.payload, two.b, two.a);
  assert.equal(section.rows.filter((r) => Array.isArray(r)).length, 3);
  assert.equal(momentOf(store, pass, 2), null);
});

test("rewrites whose edits are not all on the page are not made again", () => {
  const payload = rewritten();
  payload.traces[0].stages[0].why.rewrites[1].more = 3;
  const store = new Store(payload);
  assert.equal(replayable(store, payload.traces[0].stages[0]), 1);
  assert.equal(momentOf(store, payload.traces[0].stages[0], 1), null);
  payload.artifacts[0].n = 500;
  assert.equal(replayable(store, payload.traces[0].stages[0]), 0);
});

test("passes are moved past, into and out of pipelines", () => {
  const tree = [{ id: 0, name: "cse" }, { id: 1, name: "simplify", loop: true, inside: [{ id: 2, name: "algsimp" }, { id: 3, name: "dce" }] }, { id: 4, name: "fusion" }];
  const names = () => placesOf(tree).map((r) => `${"  ".repeat(r.depth)}${r.pass.name}`);
  assert.ok(moveStep(tree, 0, 1));
  assert.deepEqual(names(), ["simplify", "  cse", "  algsimp", "  dce", "fusion"]);
  assert.ok(moveStep(tree, 0, -1));
  assert.deepEqual(orderOf(tree), [[0], [1, [[2], [3]]], [4]]);
  assert.ok(!moveStep(tree, 0, -1), "it is the first");
  assert.ok(moveBefore(tree, 4, 3));
  assert.deepEqual(orderOf(tree), [[0], [1, [[2], [4], [3]]]]);
  assert.ok(!moveBefore(tree, 1, 2), "not into itself");
  assert.ok(moveStep(tree, 1, -1), "a whole pipeline");
  assert.deepEqual(names()[0], "simplify");
});

test("a Python line knows the ops that it made, itself or through calls", () => {
  const payload = payloadOf();
  payload.frames = [["/f/train.py:9", "<module>", -1], ["/f/train.py:4", "loss", 0], ["/f/layer.py:2", "layer", 1], ["/f/layer.py:3", "layer", 1]];
  Object.assign(payload.items[0], { k: 2, w: "/f/layer.py:2" });
  Object.assign(payload.items[1], { k: 3, w: "/f/layer.py:3" });
  Object.assign(payload.items[2], { k: 0, w: "/f/train.py:9" });
  payload.items[3].w = "/f/train.py:4"; // a line without a stack
  const store = new Store(payload);
  const of = (place) => opsOfLine(store, 0, place).map((i) => i.n);
  assert.deepEqual(stackOf(payload, payload.items[0]), [["/f/layer.py:2", "layer"], ["/f/train.py:4", "loss"], ["/f/train.py:9", "<module>"]]);
  assert.deepEqual([of("/f/layer.py:2"), of("/f/train.py:4"), of("/f/train.py:9"), of("/f/none.py:1")], [["a"], ["a", "b", "d"], ["a", "b", "c"], []]);
});

test("a fusion says what is in it, without its parameters", () => {
  const payload = payloadOf();
  payload.items.push(item("p0", [], { o: "parameter" }), item("t", ["p0"], { o: "tanh" }), item("f", ["a"], { o: "fusion", c: ["fused"] }));
  payload.chunks.push({ h: "%fused (p0: f32[4]) -> f32[4] {", i: [5, 6], z: "}" });
  payload.artifacts[0].c.push(2);
  const store = new Store(payload);
  assert.deepEqual(insideOf(store, 0, payload.items[7]).map((i) => i.n), ["t"]);
  assert.deepEqual(insideOf(store, 0, payload.items[0]), []);
});

test("in a rewrite names in quotes stay, and of a line that is cut the end is what the compiler wrote", () => {
  const long = (x, rest) => `  ROOT %call = f32[4] custom-call(%a, %${x}), backend_config="%b ... (${rest} more characters)`;
  const items = [item("a"), item("b", ["a"]), item("said", ["b"], { t: '  %said = f32[4] custom-call(%b), backend_config="uses %b"' }), item("call", ["a", "b"], { t: long("b", 90), r: 1 }), item("said", ["a"], { t: '  %said = f32[4] custom-call(%a), backend_config="uses %b"' }), item("call", ["a", "a"], { t: long("a", 88), r: 1 })];
  const head = "ENTRY %main () -> f32[4] {";
  const chunks = [{ h: head, i: [0, 1, 2, 3], z: "}" }, { h: head, i: [0, 4, 5], z: "}" }];
  const pass = stage("cse", 0, 1, { why: { rewrites: [{ rule: "", edits: [{ kind: "replace", in: "main", a: "b", b: "a" }, { kind: "remove", in: "main", a: "b" }] }], decisions: [] } });
  const payload = { ...payloadOf(), items, chunks, artifacts: [{ k: "module", c: [0], n: 4 }, { k: "module", c: [1], n: 3 }], traces: [{ name: "t", live: false, counts: {}, runs: [], stages: [pass] }] };
  const m = momentOf(new Store(payload), pass, 0);
  assert.deepEqual(m.payload.chunks.at(-1).i.map((i) => m.payload.items[i].t), [items[0].t, items[4].t, items[5].t]);
});

test("passes to come follow those that ran; a loop that has begun has its next rounds below", () => {
  const ran = ["algsimp", "dce"].map((n) => stage(n, 0, 0, { pl: ["cpu", "simplify"] }));
  const coming = [["hlo_pass", ["cpu", "simplify"], 0, ["cse"]], ["hlo_pass", ["cpu", "simplify"], 24, ["algsimp", "dce", "cse"]], ["hlo_pass", ["cpu", "later"], 25, ["dce"]], ["assembly", [], 0, ["assembly"]]];
  const left = comingStages({ stages: ran, coming });
  assert.deepEqual(left.map((x) => `${x.pl.slice(1).join("/")}:${x.name}`), ["simplify:cse", "simplify/next rounds:algsimp", "simplify/next rounds:dce", "simplify/next rounds:cse", "later:dce", ":assembly"]);
  const labels = tree([...ran, ...left]).flatMap((e) => ("branch" in e ? [`${e.branch.label} ${e.branch.from}-${e.branch.to}`] : []));
  assert.deepEqual(labels, ["simplify 0-5", "next rounds 3-5", "later 6-6", "Backend 7-7"]);
  assert.deepEqual(comingStages({ stages: ran }), []);
});

test("who guesses is told nothing of the stages to come", () => {
  const payload = payloadOf();
  const trace = payload.traces[0];
  trace.counts = { stages: 3, passes: 2, changed: 1, kernels: 4 };
  assert.equal(toldPart(trace, -1), trace);
  const part = toldPart(trace, 2);
  assert.deepEqual([part.stages.length, part.counts], [2, { stages: 3, passes: 2, changed: 1 }]);
  assert.equal(toldPart(trace, 2), part, "the same each time");
  assert.equal(new Store(payload).history(part, "b").length, 0);
});

test("a station of the ribbon leads to the pass that fused most", () => {
  const payload = payloadOf();
  const stages = [stage("program", -1, 0, { kind: "tf2xla" }), stage("fusion", 0, 0), stage("dce", 0, 1), stage("loop-fusion", 0, 1), stage("sibling-fusion", 1, 1)];
  const leads = stationStages({ stages }, new Store(payload));
  assert.deepEqual([...leads], [["hlo", 0], ["fusion", 3]]);
});

test("what an op runs in: the calls around it; one that is gone is found by op_name and opcode where that is one op", () => {
  const inner = [item("e", [], { m: "jit(f)/exp" }), item("n", ["e"], { m: "jit(f)/neg" })];
  const outer = [item("wave", [], { o: "fusion", c: ["fused"] }), item("one", [], { m: "mul" }), item("two", [], { m: "mul" })];
  const payload = { items: [...inner, ...outer], chunks: [{ h: "%fused (p: f32[4]) -> f32[4] {", i: [0, 1], z: "}" }, { h: "ENTRY %main () -> f32[4] {", i: [2, 3, 4], z: "}" }], artifacts: [{ k: "module", c: [0, 1] }] };
  const store = new Store(payload);
  assert.deepEqual(carriersOf(store, 0, "e"), ["e", "wave"]);
  assert.deepEqual(carriersOf(store, 0, "wave"), ["wave"]);
  assert.deepEqual(carriersOf(store, 0, "old", item("old", [], { m: "jit(f)/neg" })), ["old", "n", "wave"]);
  assert.deepEqual(carriersOf(store, 0, "old", item("old", [], { m: "mul" })), ["old"], "which of two is not known");
  assert.deepEqual(carriersOf(store, 0, "old", item("old", [], { m: "jit(f)/neg", o: "constant" })), ["old"]);
});

test("names lead to the lines that define them, labels and registers of LLVM IR within their function", () => {
  const llvm = ["define void @f() {", "entry:", "  %x = add i32 1, 2", "  br label %end", "end:", "  ret void", "}", "define void @g() {", "entry:", "  %x = add i32 3, 4", "  call void @f()", "  store i32 %x, ptr %p", "}"];
  const source = linesOf({ k: "code", lang: "llvm", lines: llvm, ops: [] }, {}, { added: new Set(), removed: new Set(), changed: new Set() }, "after");
  assert.equal(definitionOf(source, 10, "@f"), 0);
  assert.equal(definitionOf(source, 11, "%x"), 9);
  assert.equal(definitionOf(source, 3, "%end"), 4);
  assert.equal(definitionOf(source, 11, "%end"), -1, "another function's");
  const asm = linesOf({ k: "code", lang: "asm", lines: ["f:", "\tcallq\tg", ".LBB0_1:", "\tjne\t.LBB0_1", "g:", "\tretq"], ops: [] }, {}, { added: new Set(), removed: new Set(), changed: new Set() }, "after");
  assert.deepEqual([definitionOf(asm, 1, "g"), definitionOf(asm, 3, ".LBB0_1"), definitionOf(asm, 1, "$f"), definitionOf(asm, 1, "none")], [4, 2, 0, -1]);});

test("an overlay of numbers is a scale, one of texts a colour each, and both say what they mean", () => {
  const scale = overlayPaint({ a: 1, b: 3, c: 11 });
  assert.deepEqual([1, 3, 11].map((v) => scale.of(v)), ["heat-0", "heat-1", "heat-4"]);
  assert.deepEqual(scale.legend.map((k) => k.label), ["≤ 3", "≤ 5", "≤ 7", "≤ 9", "≤ 11", "no value"]);
  assert.deepEqual(overlayPaint({ a: 2 }).legend.map((k) => k.label), ["2", "no value"], "one value is no scale");
  const kinds = overlayPaint(Object.fromEntries(Array.from({ length: 10 }, (_, k) => [`op${k}`, `kind ${k}`])));
  assert.deepEqual([kinds.of("kind 0"), kinds.of("kind 9")], ["hue-0", "hue-7"]);
  assert.equal(kinds.legend.length, 9);
  assert.equal(kinds.legend[7].label, "3 more");
});

test("a value in the memory chart ends where another takes its bytes", () => {
  const value = (offset, size, start, end) => ["n", "", "", offset, size, start, end];
  const [a, b, beside] = [value(0, 8, 1, 4), value(4, 8, 4, 6), value(8, 8, 2, 3)];
  assert.equal(nextOver([a, b, beside], 0, 8, 1, 4), 4);
  assert.equal(nextOver([a, b, beside], 4, 8, 4, 6), 7);
  assert.equal(nextOver([a, beside], 0, 8, 1, 4), 5);
});

test("runs one after the other are no rounds of a pipeline", () => {
  const runs = ["execution", "execution", "execution"].map((n) => stage(n, -1, 0, { kind: n }));
  assert.deepEqual(tree(runs).flatMap((e) => ("branch" in e ? [e.branch.label] : [])), ["Run"]);
});

test("the ribbon of a live view has the stations that lie ahead, not those of other targets", () => {
  const trace = { stages: [stage("program", -1, 0, { kind: "hlo" })], coming: [["hlo_pass", ["cpu"], 0, ["algsimp", "fusion"]], ["buffer_assignment", [], 0, ["buffer_assignment"]], ["assembly", [], 0, ["assembly"]]] };
  const leads = new Map([["hlo", 0]]);
  const labels = (more, t = trace) => stationsShown(t, leads, more).map(([label]) => label);
  assert.deepEqual(labels(true), ["HLO", "Fusion", "Buffers", "LLVM", "asm", "run"]);
  assert.deepEqual(labels(false), ["HLO", "LLVM", "run"]);
  assert.ok(labels(true, { stages: trace.stages }).includes("PTX"), "nothing is known of what comes");
});

test("no name of a chart lies over another one, and none leaves the chart", () => {
  globalThis.document = { createElementNS: () => ({ attributes: {}, setAttribute(k, v) { this.attributes[k] = v; }, append() {}, classList: { add() {} }, dataset: {} }), createTextNode: (t) => t };
  const points = [[100, 50], [101, 51], [102, 50], [99, 49], [290, 50], [150, 8], [60, 50]];
  const labels = new ChartLabels(300, 100, points.map(([x, y]) => [x, y, 5]));
  const boxes = points.slice(0, 6).map(([x, y]) => labels.place(x, y, "dot_general"));
  delete globalThis.document;
  const names = labels.taken.slice(points.length);
  assert.equal(boxes.filter((b) => b).length, names.length);
  assert.ok(names.length >= 3);
  for (const a of names) {
    assert.ok(a[0] >= 0 && a[2] <= 300 && a[1] >= 0 && a[3] <= 100);
    for (const b of labels.taken.filter((x) => x !== a)) assert.ok(a[0] >= b[2] || b[0] >= a[2] || a[1] >= b[3] || b[1] >= a[3]);
  }
});

test("rewrites are counted with those that are not on the page", () => {
  assert.equal(rewriteCount({ why: { rewrites: [1, 2], decisions: [], more_rewrites: 1305 } }), 1307);
  assert.deepEqual([rewriteCount({ why: { rewrites: [1], decisions: [] } }), rewriteCount({}), rewriteCount(undefined)], [1, 0, 0]);
});

// The film's model: who is who from stage to stage, what stands still, what a moment is.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fateOf, filmOf, holderOf } from "./filmlineage.js";
import { slotsOf } from "./filmplan.js";
import { nameAt } from "./pins.js";
import { changesOf, kernelsOf, momentAt, planOf, tickAt, timelineOf } from "./filmtime.js";
import { framesOf } from "./filmsave.js";
import { Store } from "./store.js";

const FIELD = { x: 10, y: 20, w: 600, h: 300 };

/** A payload of programs: each {entry: [...], computations: {name: [...]}} of lines "name = opcode(operands) -> called". */
function filmed(programs, { live = false, edits = [], kernels = null } = {}) {
  const payload = { revision: 1, title: "", items: [], chunks: [], artifacts: [], traces: [], order: [0] };
  const seen = new Map();
  const item = (line) => {
    if (seen.has(line)) return seen.get(line);
    const [, n, o, p, c] = line.match(/^(\S+) = (\S+)\((.*?)\)(?: -> (\S+))?$/);
    const made = { n, o, s: "f32[8]", f: o === "dot" ? "matrix" : o === "fusion" ? "fusion" : "element", t: line, h: [o, "", ""], m: `jit(f)/${o}` };
    if (p) made.p = p.split(", ");
    if (c) made.c = [c];
    seen.set(line, payload.items.push(made) - 1);
    return seen.get(line);
  };
  const chunk = (h, lines) => payload.chunks.push({ h, i: lines.map(item), z: "}", t: { g: [], m: [], r: lines.map(() => ".").join(""), u: [[8, 1000]], w: lines.map(() => 0) } }) - 1;
  programs.forEach(({ entry, computations = {} }) => {
    const c = [...Object.entries(computations).map(([name, lines]) => chunk(`%${name} (p: f32[8]) -> f32[8] {`, lines)), chunk("ENTRY %main (a: f32[8]) -> f32[8] {", entry)];
    payload.artifacts.push({ k: "module", c, n: c.reduce((t, k) => t + payload.chunks[k].i.length, 0), note: "", o: [] });
  });
  const stages = payload.artifacts.map((_, k) => ({ i: k, kind: k ? "hlo_pass" : "hlo", name: `pass${k}`, pl: ["all"], ch: 1, s: null, d: "", b: k - 1, a: k, n: [k, 0, 0], ...(edits[k] ? { why: { rewrites: [{ edits: edits[k] }], decisions: [] } } : {}) }));
  if (kernels) stages.push({ i: stages.length, kind: "execution", name: "execution", pl: [], ch: 1, s: 1, d: "", b: -1, a: payload.artifacts.push({ k: "execution", kernels }) - 1 });
  payload.traces.push({ name: "t", live, counts: { kernels: 1 }, runs: [], stages });
  const store = new Store(payload);
  return { film: filmOf(store, payload.traces[0]), store, trace: payload.traces[0] };
}

const FIRST = { entry: ["a = parameter()", "b = add(a, a)", "c = add(a, b)", "d = tanh(b)"] };
const named = (film, f, name) => film.frames[f].names.get(name);

test("an op that keeps its name is one mark, whatever is changed in it", () => {
  const { film } = filmed([FIRST, { entry: ["a = parameter()", "b = add(a, a)", "d = tanh(a)"] }]);
  assert.equal(named(film, 0, "d"), named(film, 1, "d"));
  assert.deepEqual(film.frames[1].changed.map((m) => m.name), ["d"]);
  assert.deepEqual(film.frames[1].gone.map((m) => m.name), ["c"]);
  assert.equal(film.marks.length, 4);
});

test("a TensorFlow graph's nodes become the instructions that they are lowered to", () => {
  const payload = { revision: 1, title: "", items: [], chunks: [], artifacts: [], traces: [], order: [0] };
  const add = (x) => payload.items.push({ s: "f32[8]", t: x.n, h: [x.o, "", ""], f: "element", ...x }) - 1;
  const chunk = (h, items, c = []) => payload.chunks.push({ h, i: items.map(add), z: "}", t: { g: [], m: [], r: items.map(() => ".").join(""), u: [[8, 1000], [9, 9000]], w: items.map((x) => (x.o === "dot" ? 1 : 0)), ...(c.length ? { c } : {}) } }) - 1;
  const node = (n, o, p) => ({ n, o, f: "tf-element", ...(p ? { p } : {}) });
  const graph = (main, functions = []) => payload.artifacts.push({ k: "graph", c: [main, ...functions], n: [main, ...functions].reduce((t, k) => t + payload.chunks[k].i.length, 0), o: [] }) - 1;
  graph(chunk("graph g {", [node("x", "Placeholder"), node("net/mul", "MatMul", ["x"]), node("print", "Print", ["net/mul"]), node("lone", "Const")]));
  graph(chunk("graph g {", [node("x", "Placeholder"), node("cluster_0", "cluster_0", ["x"]), node("print", "Print", ["cluster_0"])], [[1, "cluster_0"]]), [chunk("function cluster_0 {", [node("arg", "_Arg"), node("net/mul", "MatMul", ["arg"])])]);
  const of = (n, o, p) => ({ n, o, m: "net/mul", y: "MatMul", ...(p ? { p } : {}) });
  payload.artifacts.push({ k: "module", c: [chunk("ENTRY %main (a: f32[8]) -> f32[8] {", [{ n: "x", o: "parameter" }, of("r.1", "reshape", ["x"]), of("d.2", "dot", ["r.1"])])], n: 3, o: [] });
  const stages = ["tf_graph", "tf_graph", "hlo"].map((kind, k) => ({ i: k, kind, name: `stage${k}`, pl: [], ch: 1, s: null, d: "", b: k - 1, a: k, n: [1, 0, 0] }));
  payload.traces.push({ name: "t", live: false, counts: { kernels: 1 }, runs: [], stages });
  const film = filmOf(new Store(payload), payload.traces[0]);
  assert.deepEqual(film.frames.map((f) => f.isGraph), [true, true, false]);
  const mul = named(film, 0, "net/mul");
  assert.equal(named(film, 1, "net/mul"), mul);
  assert.equal(holderOf(mul, 1), named(film, 1, "cluster_0"));
  assert.equal(named(film, 2, "d.2"), mul, "the heaviest of what it becomes");
  assert.equal(holderOf(mul, 2), null);
  assert.equal(named(film, 2, "r.1").from, mul);
  assert.notEqual(named(film, 2, "x"), named(film, 0, "x"), "a parameter is not the node that happens to have its name");
  assert.equal(named(film, 0, "lone").died, 1);
  assert.ok(slotsOf(film).spots.has(mul));
});

test("what a rewrite replaces goes into what replaces it", () => {
  const { film, trace } = filmed([FIRST, { entry: ["a = parameter()", "b = add(a, a)", "d = tanh(b)"] }], { edits: [null, [{ kind: "replace", in: "main", a: "c", b: "b" }]] });
  const gone = film.frames[1].gone[0];
  assert.equal(gone.into, named(film, 1, "b"));
  assert.deepEqual(fateOf(film, gone, trace), [{ stage: 1, text: "replaced by b at pass1" }]);
});

test("an op that is cloned into a fusion is the same mark, held by the fusion", () => {
  const fused = { entry: ["a = parameter()", "f = fusion(a) -> inside"], computations: { inside: ["p = parameter()", "x = add(p, p)", "y = add(p, x)", "z = tanh(x)"] } };
  const { film, trace } = filmed([FIRST, fused]);
  const [b, c, d] = ["b", "c", "d"].map((n) => named(film, 0, n));
  assert.deepEqual(["x", "y", "z"].map((n) => named(film, 1, n)), [b, c, d]);
  assert.equal(holderOf(b, 1), named(film, 1, "f"));
  assert.deepEqual(film.frames[1].gone, []);
  assert.deepEqual(film.frames[1].added.map((m) => m.name), ["f"]);
  assert.equal(named(film, 1, "p"), undefined); // it stands for the operand
  assert.deepEqual(fateOf(film, d, trace).map((x) => x.text), ["fused into f at pass1"]);
});

test("what a pass leaves alone stands still", () => {
  const entry = Array.from({ length: 30 }, (_, k) => `n${k} = ${k % 3 ? "add" : "tanh"}(n${Math.max(0, k - 1)})`);
  const { film, store, trace } = filmed([{ entry }, { entry: [...entry.slice(0, 12), ...entry.slice(14), "new = dot(n11, n15)"] }]);
  const slots = slotsOf(film);
  const plan = planOf(film, slots, kernelsOf(film, store, trace), FIELD);
  const [before, after] = [plan.at(0), plan.at(1)];
  assert.equal(slots.scenes.length, 1);
  for (const m of film.frames[1].order.filter((x) => x.born === 0)) assert.deepEqual([...before.slice(m.id * 5, m.id * 5 + 5)], [...after.slice(m.id * 5, m.id * 5 + 5)]);
  for (const m of film.frames[0].gone) assert.equal(after[m.id * 5 + 2], 0);
  const places = film.frames[1].order.map((m) => `${after[m.id * 5]} ${after[m.id * 5 + 1]}`);
  assert.equal(new Set(places).size, places.length); // no two on one place
  for (const m of film.frames[0].order) assert.ok(before[m.id * 5] >= FIELD.x && before[m.id * 5] <= FIELD.x + FIELD.w && before[m.id * 5 + 1] >= FIELD.y && before[m.id * 5 + 1] <= FIELD.y + FIELD.h);
});

test("kernels stand as they were measured, else as the cost model has them, and not before a live compilation is over", () => {
  const measured = filmed([FIRST], { kernels: [["k1", "b", 3e-6, 0, 0], ["k2", "d", 1e-6, 0, 0]] });
  const told = kernelsOf(measured.film, measured.store, measured.trace);
  assert.deepEqual(told.kernels.map((k) => [k.name, k.text]), [["b", "3.00 µs"], ["d", "1.00 µs"]]);
  assert.deepEqual([told.measured, told.note], [true, "4.00 µs measured"]);
  const plan = planOf(measured.film, slotsOf(measured.film), told, FIELD);
  assert.ok(plan.bars[0].box.w > 2.9 * plan.bars[1].box.w);
  const modelled = filmed([FIRST]);
  assert.deepEqual(kernelsOf(modelled.film, modelled.store, modelled.trace).kernels.map((k) => k.text), ["33 %", "33 %", "33 %"]);
  const live = filmed([FIRST], { live: true });
  assert.deepEqual(kernelsOf(live.film, live.store, live.trace).kernels, []);
});

test("a moment belongs to one stage; what stands still is saved as one frame", () => {
  const { film, trace } = filmed([FIRST, { entry: ["a = parameter()", "d = tanh(a)"] }]);
  const timeline = timelineOf(film, trace, new Set([0]), false);
  assert.equal(changesOf(trace.stages[1]), 1);
  assert.deepEqual([momentAt(timeline, 0).to, momentAt(timeline, timeline.total).to], [0, 1]);
  const { start, end } = timeline.shots[0];
  assert.deepEqual([tickAt(timeline, start - 0.01).stage, tickAt(timeline, start).stage], [0, 1]);
  assert.ok(Math.abs(momentAt(timeline, (start + end) / 2).u - 0.5) < 1e-9);
  const frames = framesOf({ reel: { timeline }, seconds: 4, rate: 20 });
  assert.equal(frames.reduce((t, f) => t + f.ms, 0), 4000);
  assert.ok(frames.length < 80);
});

test("a pinned op is followed through a loop that is made anew, and back", () => {
  const body = (n) => [`p${n} = parameter()`, `sum${n} = add(p${n}, p${n})`, `turned${n} = tanh(sum${n})`];
  const loop = (n) => ({ entry: ["a = parameter()", `while.${n} = while(a) -> body${n}`], computations: { [`body${n}`]: body(n) } });
  const { film } = filmed([loop(1), { ...loop(1), entry: ["a = parameter()", "b = negate(a)", "while.1 = while(b) -> body1"] }, loop(2), { entry: ["a = parameter()"] }]);
  assert.equal(nameAt(film, "sum1", 0, 2), "sum2");
  assert.equal(nameAt(film, "turned2", 2, 0), "turned1");
  assert.equal(nameAt(film, "while.1", 1, 2), "while.2");
  assert.equal(nameAt(film, "sum1", 0, 3), "", "it is gone");
  assert.equal(nameAt(film, "sum2", 3, 0), "sum1", "pinned at the stage that removed it");
  assert.equal(nameAt(film, "nothing", 0, 2), "");
});

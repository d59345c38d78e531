// Who holds what: slices, ranges of devices, and how an array is cut on the card.
import assert from "node:assert/strict";
import { test } from "node:test";
import { axesAfter, gridOf, rangesOf, shardingName, sliceOf } from "./sharding.js";
import { merge, Store } from "./store.js";

test("the slice of a part is NumPy's", () => {
  assert.equal(sliceOf([4, 2], [64, 32], 3), "[16:32, 16:32]");
  assert.equal(sliceOf([1, 2], [64, 32], 1), "[:, 16:32]");
  assert.equal(sliceOf([4], [10], 3), "[9:10]"); // the last part is smaller
  assert.equal(sliceOf([8], [5], 7), "[5:5]"); // and may be empty
});

test("devices in short", () => {
  assert.equal(rangesOf([0, 1, 2, 3, 8]), "0-3, 8");
  assert.equal(rangesOf([0, 1]), "0, 1");
});

test("the last dimension that is split goes to the right", () => {
  assert.deepEqual(gridOf([4, 2]), { rows: 4, columns: 2 });
  assert.deepEqual(gridOf([8, 1]), { rows: 8, columns: 1 });
  assert.deepEqual(gridOf([1, 8]), { rows: 1, columns: 8 });
  assert.deepEqual(gridOf([2, 1, 2, 2]), { rows: 4, columns: 2 });
  assert.deepEqual(gridOf([]), { rows: 1, columns: 1 });
});

test("shardings come with deltas and are named by the axes of the mesh", () => {
  const payload = { revision: 0, title: "", items: [], chunks: [], artifacts: [{ k: "module", mesh: "m" }], traces: [], order: [] };
  const delta = (base, of) => ({ base, revision: base + 1, items: [], chunks: [], artifacts: [], traces: [], order: [], shardings: { m: { axes: [["x", 8]], ids: [], of } } });
  merge(payload, delta(0, { "{devices=[8]<=[8]}": { w: "", x: '[{"x"}]', a: [0] } }));
  merge(payload, delta(1, { "{manual}": { w: "", x: "", a: [] } }));
  const store = new Store(payload);
  assert.equal(shardingName(store, 0, "{devices=[8]<=[8]}"), '[{"x"}]');
  assert.equal(shardingName(store, 0, "{manual}"), "{manual}");
  assert.equal(shardingName(store, 0, "{unknown}"), "{unknown}");
});

test("the steps of a propagation add axes to what is annotated", () => {
  const table = { axes: [["x", 4], ["y", 2]], ids: [], of: { "{s}": { w: "", x: "", a: [1] } } };
  const items = new Map([["a", { n: "a", sh: "{s}" }], ["b", { n: "b" }]]);
  const step = (from, to, axes) => ({ action: "split", taken: 1, subject: [from, to], predicates: [["factor i", 1, axes]] });
  const steps = [step("a", "b", '{"y"}'), { action: "split", taken: 0, subject: ["b"], predicates: [["factor j", 0, 'wanted {"x"}, got none: factor i has it']] }, step("a", "b", '{"x":(1)2}')];
  assert.deepEqual([...axesAfter(table, steps.slice(0, 2), items)], [["a", [1]], ["b", [1]]]);
  assert.deepEqual(axesAfter(table, steps, items).get("b"), [0, 1]);
});

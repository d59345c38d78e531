// What the TPU's panes compute: shortened instructions, lanes of spans, layouts in words, where a program is found.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "./store.js";
import { bundlesWith, inRegisters, lanesOf, layoutWords } from "./tpu.js";

test("instructions are shown with machine registers", () => {
  assert.equal(inRegisters("%v1003_v3 = vadd.f32 %v1001_v1, %v1002_v2"), "v3 = vadd.f32 v1, v2");
  assert.equal(inRegisters("%1007 = vmatpush.xpose.msra.mxu0 %v1003_v3"), "vmatpush.xpose.msra.mxu0 v3");
  assert.equal(inRegisters("%v5_v0 = vld [vmem:[%s12574_s1 + $0xe0] sm:$0xff]"), "v0 = vld [s1 + $0xe0]");
  assert.equal(inRegisters("%s8_s2 = sld [smem:[#allocation5]] (!%p9_p0)"), "s2 = sld [smem:[#allocation5]] (!p0)");
});

test("spans that overlap are in lanes of their own", () => {
  const span = (from, to) => ["n", "copy", from, to];
  assert.deepEqual(lanesOf([span(0, 10), span(2, 4), span(4, 8), span(10, 12), span(3, 9)]), [0, 1, 1, 0, 2]);
  assert.deepEqual(lanesOf([]), []);
});

test("tiled layouts are said in words, others are not", () => {
  assert.equal(layoutWords("{1,0:T(8,128)(2,1)S(1)}"), "tiles of 8 x 128 (8 sublanes by 128 lanes), 2 rows share a 32-bit word, in VMEM");
  assert.equal(layoutWords("{0:T(256)(128)S(9)}"), "tiles of 256, cut again into tiles of 128, in memory space 9");
  assert.equal(layoutWords("{1,0}"), "");
  assert.equal(layoutWords(), "");
});

test("an op lives on in the program that computes it", () => {
  const stage = (name, a) => ({ i: 0, kind: "llo", name, pl: [], ch: 1, s: null, d: "", b: -1, a });
  const artifacts = [{ k: "tpu_schedule" }, { k: "bundles", serves: [], head: "9 bundles" }, { k: "bundles", serves: ["fusion.1", "fusion.2"], head: "5 bundles" }];
  const trace = { name: "t", live: false, counts: {}, runs: [], stages: [stage("schedule", 0), stage("TLP", 1), stage("fusion.1", 2)] };
  const store = new Store({ revision: 1, title: "", items: [], chunks: [], artifacts, traces: [trace], order: [0] });
  assert.deepEqual(store.counterpart(trace, 0, "fusion.2"), { stage: 2, name: "fusion.2" });
  assert.deepEqual(store.counterpart(trace, 1, "fusion.1"), { stage: 2, name: "fusion.1" });
  assert.equal(store.counterpart(trace, 1, "other"), null);
  assert.deepEqual(store.history(trace, "fusion.2"), [{ stage: 2, what: "5 bundles" }]);
});

test("bundles are found by their instructions, as written or in machine registers", () => {
  const rows = [[0, "", 0, "", 0, "%v5_v0 = vld [vmem:[%s1_s0]]"], [1, "", 0, ""], [2, "", 0, "fusion.1", 1, "%9 = inlined_call %s1_s0"], [3, "", 0, "", 0, "%v6_v1 = VADD.f32 1.0, %v5_v0"]];
  assert.deepEqual(bundlesWith({ rows }, "vadd.f32 1.0, v0"), [3]);
  assert.deepEqual(bundlesWith({ rows }, "%v5_v0"), [0, 3]);
  assert.deepEqual(bundlesWith({ rows }, "Fusion.1 "), [2]);
  assert.deepEqual(bundlesWith({ rows }, " "), []);
});

"""Dots that are results are computed in the caller's layout."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.cpu.compiler import CompileOptions, compile_module
from xlanb.hlo.opcode import HloOpcode as O

DOT = "dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
BATCHES = "dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
TURNED, PLAIN = "f32[40,90]{0,1}", "f32[40,90]{1,0}"
CASES = {
    "the only result": (f"ROOT r = f32[40,90] {DOT}", TURNED, 0),
    "in a tuple": (f"d = f32[40,90] {DOT}\n ROOT r = (f32[40,90], f32[40,30]) tuple(d, x)", f"({TURNED}, f32[40,30]{{1,0}})", 0),
    "with another user": (
        f"d = f32[40,90] {DOT}\n e = f32[40,90] exponential(d)\n ROOT r = (f32[40,90], f32[40,90]) tuple(d, e)",
        f"({TURNED}, {PLAIN})",
        1,
    ),
    "twice": (f"d = f32[40,90] {DOT}\n ROOT r = (f32[40,90], f32[40,90]) tuple(d, d)", f"({TURNED}, {PLAIN})", 1),
    "as wanted": (f"ROOT r = f32[40,90] {DOT}", PLAIN, 0),
    "rows before columns": (f"ROOT r = f32[5,40,90] {BATCHES}", "f32[5,40,90]{1,2,0}", 0),
    "the batch is fastest": (f"ROOT r = f32[5,40,90] {BATCHES}", "f32[5,40,90]{0,2,1}", 1),
}  # fmt: skip


@pytest.mark.parametrize(("body", "result", "copies"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("pipeline", ["default", "xla"])
def test_results_are_not_copied(body, result, copies, pipeline):
    batch = (5,) if "batch" in body else ()
    shapes = [(*batch, 40, 30), (*batch, 30, 90)]
    x, y = (f"f32[{','.join(map(str, s))}]" for s in shapes)
    order = f"{{{','.join(map(str, reversed(range(len(shapes[0])))))}}}"
    text = f"""HloModule m, entry_computation_layout={{({x}{order}, {y}{order})->{result}}}
ENTRY e {{
  x = {x} parameter(0)
  y = {y} parameter(1)
  {body}
}}"""
    exe = compile_module(xlanb.hlo.parse(text), CompileOptions(pipeline=pipeline))
    rng = np.random.default_rng(0)
    given = [rng.integers(-4, 5, s).astype(np.float32) for s in shapes]
    got, want = exe(*given), xlanb.evaluate(text, *given)
    for a, b in zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]:
        np.testing.assert_allclose(a, b, rtol=1e-5)
    counted = sum(i.opcode is O.COPY for i in exe.hlo_module.instructions())
    is_turned = result != PLAIN
    assert counted == copies if pipeline == "default" else counted >= is_turned

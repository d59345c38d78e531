"""A compilation for a GPU by our compiler, recorded and stepped, as from a real dump.

Checks its passes, its code and its launches.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, XlanbError
from xlanb.explorer.trace import Trace
from xlanb.runtime.gpu_program import GpuProgram

TEXT = """HloModule m

ENTRY e {
  x = f32[64,32] parameter(0)
  w = f32[32,16] parameter(1)
  d = f32[64,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = f32[64,16] tanh(d), metadata={op_name="jit(f)/tanh" source_file="f.py" source_line=7}
}
"""

LOOP = """HloModule l

body {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  y = f32[8] multiply(x, x)
  ROOT t = (s32[], f32[8]) tuple(m, y)
}

condition {
  s = (s32[], f32[8]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  k = s32[] constant(3)
  ROOT c = pred[] compare(n, k), direction=LT
}

ENTRY e {
  x = f32[8] parameter(0)
  z = s32[] constant(0)
  i = (s32[], f32[8]) tuple(z, x)
  l = (s32[], f32[8]) while(i), body=body, condition=condition
  ROOT r = f32[8] get-tuple-element(l), index=1
}
"""


@pytest.fixture(scope="module")
def trace() -> Trace:
    return xlanb.trace(TEXT, target="a100")


def test_the_last_stages_are_code_and_launches(trace: Trace) -> None:
    assert [s.kind for s in trace][-5:] == ["buffer_assignment", "llvm_ir", "llvm_ir_optimized", "ptx", "gpu_program"]
    assert "algsimp" in [s.name for s in trace]
    assert trace.program is None
    assert trace.gpu_program is not None


def test_ptx_has_lines_that_lead_to_hlo(trace: Trace) -> None:
    record = trace["ptx"].after
    assert ".target sm_80\n" in record.text
    assert record.functions
    assert set(record.kernels) == set(record.functions)
    shown = record.text.splitlines()
    known = {i.name for c in trace["buffer_assignment"].before.computations for i in c.instructions}
    assert record.lines
    assert set(record.lines.values()) <= known
    assert all("\t" in shown[number - 1] for number in record.lines)


def test_llvm_ir_is_there_before_and_after_its_passes(trace: Trace) -> None:
    first, second = trace["llvm_ir"].after, trace["llvm_ir_optimized"].after
    assert set(first.functions) == set(second.functions) == set(trace["ptx"].after.functions)
    assert "nvptx64" in first.text
    assert first.lines
    assert second.lines


def test_the_program_has_kernels_and_launches(trace: Trace) -> None:
    program = trace["kernels"].after
    assert isinstance(program, GpuProgram)
    assert program.device is not None
    assert program.device.key == "a100_sxm_80"
    assert [k.name for k in program.kernels] == [x.thunk.name for x in program.launches]
    assert all(k.estimate is not None and k.estimate.seconds > 0 for k in program.kernels)
    assert program.seconds == pytest.approx(sum(k.estimate.seconds for k in program.kernels if k.estimate is not None))
    assert any(k.op_name == "jit(f)/tanh" and k.source == "f.py:7" for k in program.kernels)
    assert all(k.code.ptx and k.code.llvm and k.code.hlo for k in program.kernels)
    assert "NVIDIA A100" in str(program)


def test_a_loop_spans_what_it_launches() -> None:
    program = xlanb.trace(LOOP, target="a100")["kernels"].after
    loop = next(x for x in program.launches if x.thunk.kind == "kWhile")
    inner = [x for x in program.launches if x.thunk.parent == loop.thunk.number]
    assert {x.thunk.branch for x in inner} == {"condition", "body"}
    assert loop.seconds == pytest.approx(sum(x.seconds for x in inner))
    assert loop.detail == "3 iterations"
    assert all(x.times == 3 for x in inner)


def test_a_compilation_for_a_gpu_is_stepped() -> None:
    steps = xlanb.Compilation(TEXT, target="h100")
    assert steps.run_to("algsimp") is not None
    coming = [c.name for c in steps.coming]
    assert coming[-5:] == ["buffer_assignment", "llvm_ir", "llvm_ir_optimized", "ptx", "gpu_program"]
    executable = steps.finish()
    assert executable.device.key == "h100_sxm"
    assert steps.coming == ()
    x, w = np.ones((64, 32), np.float32), np.full((32, 16), 0.01, np.float32)
    np.testing.assert_allclose(executable.emulate(x, w), np.tanh(x @ w), rtol=1e-5)


def test_a_fork_is_for_the_same_gpu() -> None:
    steps = xlanb.Compilation(TEXT, target="a100")
    steps.finish()
    left = steps.fork("algsimp", without=["fusion-wrapper"])
    assert left.finish().device.key == "a100_sxm_80"
    assert left.trace.stages[-1].kind == "gpu_program"
    assert "fusion-wrapper" not in [s.name for s in left.trace][left.trace.forked_at + 1 :]
    with pytest.raises(ArgumentError, match="a100"):
        steps.attempt("d", "r")


def test_what_is_compiled_for_no_gpu_says_so() -> None:
    with pytest.raises(XlanbError, match="a100"):
        xlanb.trace(TEXT, target="a1000")
    tf = xlanb.tf
    with tf.Graph().as_default():
        y = tf.placeholder(tf.float32, [2], name="x") * 2.0
        with pytest.raises(ArgumentError, match="for the CPU"):
            xlanb.trace(y, {"x:0": np.ones(2, np.float32)}, target="a100")


def test_a_recording_keeps_a_compilation_for_a_gpu() -> None:
    with xlanb.recording() as recorded:
        xlanb.compile(TEXT, target="a100")
    (found,) = recorded.programs
    assert found.trace.stages[-1].kind == "gpu_program"

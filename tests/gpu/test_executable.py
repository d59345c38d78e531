"""Programs compiled for an absent GPU.

Checks kernels, launch sequence, PTX, and the emulation against the evaluator.
"""

import numpy as np
import pytest

import xlanb
from xlanb.errors import ArgumentError, CompilationError, XlanbError
from xlanb.gpu import compiler, ptx
from xlanb.gpu.launches import Conditional, KernelLaunch, While
from xlanb.transforms.pipeline import HloPassPipeline

NO_PASSES = compiler.GpuCompileOptions(passes=HloPassPipeline("none", []))

ADD = """HloModule add
f {
  p = f32[100,37] parameter(0)
  q = f32[37] parameter(1)
  b = f32[100,37] broadcast(q), dimensions={1}
  ROOT a = f32[100,37] add(p, b)
}
ENTRY e {
  x = f32[100,37] parameter(0)
  y = f32[37] parameter(1)
  g = f32[100,37] fusion(x, y), kind=kLoop, calls=f
  ROOT t = f32[37,100] transpose(g), dimensions={1,0}
}"""

LOOP = """HloModule count
body {
  s = (s32[], f32[5]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  v = f32[5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  w = f32[5] add(v, v)
  ROOT t = (s32[], f32[5]) tuple(m, w)
}
condition {
  s = (s32[], f32[5]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  most = s32[] constant(6)
  ROOT c = pred[] compare(n, most), direction=LT
}
ENTRY e {
  x = f32[5] parameter(0)
  zero = s32[] constant(0)
  t = (s32[], f32[5]) tuple(zero, x)
  w = (s32[], f32[5]) while(t), condition=condition, body=body
  ROOT r = f32[5] get-tuple-element(w), index=1
}"""

CHOICE = """HloModule choose
first { a = f32[4] parameter(0)  ROOT n = f32[4] negate(a) }
second { a = f32[4] parameter(0)  ROOT d = f32[4] add(a, a) }
third { a = f32[4] parameter(0)  ROOT d = f32[4] multiply(a, a) }
ENTRY e {
  k = s32[] parameter(0)
  x = f32[4] parameter(1)
  ROOT c = f32[4] conditional(k, x, x, x), branch_computations={first, second, third}
}"""


def build(text):
    return compiler.compile_module(xlanb.hlo.parse(text), NO_PASSES)


def check(text, *arrays):
    """Return the emulated result, which must equal the evaluator's."""
    exe = build(text)
    got, want = exe.emulate(*arrays), xlanb.evaluate(xlanb.hlo.parse(text), *arrays)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    return exe


def test_instruction_and_fusion_are_a_kernel_each():
    rng = np.random.default_rng(0)
    exe = check(ADD, rng.standard_normal((100, 37), np.float32), rng.standard_normal(37, np.float32))
    assert [k.instruction.name for k in exe.kernels] == ["g", "t"]
    first = exe.kernels[0]
    assert first.blocks * first.threads >= 3700 > (first.blocks - 1) * first.threads
    assert sum(a.is_written for a in first.arguments) == 1
    assert "kernel g<<<" in str(exe.launches)


def test_each_kernel_has_ptx_of_its_own_for_the_device():
    exe = build(ADD)
    assert set(exe.ptx) == {"g", "t"}
    assert all(f".entry {name}(" in text and ".target sm_80" in text for name, text in exe.ptx.items())
    newer = compiler.compile_module(xlanb.hlo.parse(ADD), compiler.GpuCompileOptions("h100", NO_PASSES.passes))
    assert ".target sm_90a" in newer.ptx["g"]


def test_host_runs_loops():
    exe = check(LOOP, np.arange(5, dtype=np.float32))
    (loop,) = (launch for launch in exe.launches if isinstance(launch, While))
    assert any(isinstance(k, KernelLaunch) for k in loop.body)


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 7])
def test_host_takes_a_branch(index):
    exe = check(CHOICE, np.int32(index), np.arange(4, dtype=np.float32))
    assert any(isinstance(launch, Conditional) for launch in exe.launches)


def test_arguments_are_checked():
    exe = build(ADD)
    with pytest.raises(ArgumentError, match="takes 2 arguments"):
        exe.emulate(np.zeros((100, 37), np.float32))
    with pytest.raises(ArgumentError, match=r"argument 1 \(y\): expected f32\[37\]"):
        exe.emulate(np.zeros((100, 37), np.float32), np.zeros(38, np.float32))


def test_only_nvidias_devices_run_kernels():
    with pytest.raises(CompilationError, match="does not run PTX"):
        compiler.compile_module(xlanb.hlo.parse(ADD), compiler.GpuCompileOptions("mi300", NO_PASSES.passes))
    with pytest.raises(XlanbError, match="unknown GPU"):
        xlanb.compile(ADD, target="a1000")


def test_face_compiles_for_a_device():
    exe = xlanb.compile(ADD, target="a100")
    x, y = np.ones((100, 37), np.float32), np.arange(37, dtype=np.float32)
    np.testing.assert_array_equal(exe.emulate(x, y), (x + y).T)
    assert "for NVIDIA A100" in str(exe)


def test_steps_show_passes_and_buffers():
    steps = compiler.compile_steps(xlanb.hlo.parse(ADD), compiler.GpuCompileOptions("a100"))
    kinds = [stage.kind for stage in steps]
    assert kinds[-1] == "buffer_assignment"
    assert kinds.count("hlo_pass") > 10


def test_results_keep_the_layout_of_the_entry():
    text = "HloModule m\nENTRY e { x = f32[3,4]{0,1} parameter(0)\n  ROOT a = f32[3,4]{0,1} add(x, x) }"
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(build(text).emulate(x), x + x)


def test_chains_deeper_than_pythons_stack():
    count = 1500
    lines = [f"a{n} = f32[4] add(a{n - 1}, x)" for n in range(1, count)]
    text = f"""HloModule m
f {{
  x = f32[4] parameter(0)
  a0 = f32[4] negate(x)
  {chr(10).join(lines)}
  ROOT r = f32[4] negate(a{count - 1})
}}
ENTRY e {{ x = f32[4] parameter(0)  ROOT g = f32[4] fusion(x), kind=kLoop, calls=f }}"""
    np.testing.assert_array_equal(build(text).emulate(np.ones(4, np.float32)), np.full(4, 2.0 - count))


def test_grids_have_an_end():
    text = "HloModule m\nENTRY e { x = f32[] parameter(0)\n  ROOT b = f32[1099511627776] broadcast(x), dimensions={} }"
    with pytest.raises(CompilationError, match="needs a grid of 2147483648 blocks"):
        build(text)


def test_a_kernel_tells_what_a_multiprocessor_holds() -> None:
    text = "HloModule m\nENTRY e { x = f32[4096] parameter(0)\nROOT r = f32[4096] tanh(x) }"
    (kernel,) = xlanb.compile(text, target="a100").kernels
    assert kernel.ptx == xlanb.compile(text, target="a100").ptx[kernel.name]
    held = kernel.occupancy
    assert held is not None
    assert held.warps == held.blocks * kernel.threads // 32
    assert held.max_warps == 64
    assert (kernel.registers is None) == (ptx.find_ptxas() is None)
    assert kernel.registers is None or 0 < kernel.registers <= 255

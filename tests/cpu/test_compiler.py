"""Kernels that cannot be emitted as planned: the program is emitted again, but not forever."""

import numpy as np
import pytest

import xlanb
from xlanb.codegen.elemental import Elemental, OverwrittenError
from xlanb.cpu import CompileOptions, compile_module
from xlanb.errors import CompilationError
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

AS_IT_IS = CompileOptions(pipeline=HloPassPipeline("none"))
STEP = """
  t{n} = f32[50,40] transpose(x{k}), dimensions={{1,0}}
  r{n} = f32[40,50] reshape(t{n})
  x{n} = f32[40,50] add(r{n}, x{k})"""
FUSION = """HloModule m
f {{
  x0 = f32[40,50] parameter(0){steps}
  ROOT z = f32[40,50] negate(x7)
}}
ENTRY e {{
  x = f32[40,50] parameter(0)
  ROOT r = f32[40,50] fusion(x), kind=kLoop, calls=f
}}
""".format(steps="".join(STEP.format(k=k, n=k + 1) for k in range(7)))
"""Each element needs 128 elements of its operand."""


def test_a_fusion_that_is_too_large_is_opened(monkeypatch):
    x = np.random.default_rng(0).standard_normal((40, 50)).astype(np.float32)
    module = parse(FUSION)
    assert len(compile_module(module, AS_IT_IS).kernels) == 1
    monkeypatch.setattr("xlanb.codegen.elemental.SIZE_LIMIT", 40)
    exe = compile_module(module, AS_IT_IS)
    assert len(exe.kernels) > 1
    np.testing.assert_allclose(exe(x), xlanb.evaluate(module, x), rtol=1e-5, atol=1e-6)


def test_a_kernel_that_fits_no_plan_is_refused_by_its_instruction(monkeypatch):
    def refuse(*_):
        raise OverwrittenError("x is read after r has overwritten it with its result")

    monkeypatch.setattr(Elemental, "_read", refuse)
    with pytest.raises(
        CompilationError,
        match=r"x is read after r has overwritten it with its result, even as a kernel of its own:\n.*fusion",
    ):
        compile_module(parse(FUSION), AS_IT_IS)

"""Compiled code reads each value in the layout it was written in, for all layouts of a module."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.cpu.layout_programs import Program
from xlanb.cpu import CompileOptions, compile_module, pipelines
from xlanb.errors import CompilationError, PassError
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, parse
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import HloPassPipeline
from xlanb.transforms.simplifiers.hlo_cse import HloCse

PIPELINES = {"default": "default", "xla": "xla", "none": HloPassPipeline("none")}


def close(got: Any, wanted: Any) -> bool:
    """Equal, or as close as sums in another order."""
    a, b = np.asarray(got), np.asarray(wanted)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    x, y = (v.astype(np.complex128 if v.dtype.kind == "c" else np.float64) for v in (a, b))
    scale = max(1.0, float(np.max(np.abs(y[np.isfinite(y)]), initial=0.0)))
    return a.tobytes() == b.tobytes() or np.allclose(x, y, rtol=1e-5, atol=1e-5 * scale, equal_nan=True)


@pytest.mark.parametrize("pipeline", PIPELINES)
@pytest.mark.parametrize("seed", range(40))
def test_random_layouts_change_no_value(seed: int, pipeline: str) -> None:
    program = Program(seed, bitcasts=seed % 2 == 1, steps=4 + seed % 9)
    module, arguments = parse(program.text_once), program.arguments()
    wanted = evaluate(module, *arguments)
    got = compile_module(module, CompileOptions(pipeline=PIPELINES[pipeline], verify=True))(*arguments)
    assert [close(g, w) for g, w in zip(got, wanted, strict=True)] == [True] * len(wanted), program.text_once


@pytest.mark.parametrize("kind", ["f32", "pred", "s8", "u4", "c64"])
@pytest.mark.parametrize(
    "body",
    [
        "a = {k}[2,3,4]{{1,0,2}} copy(p)\n b = {k}[2,3,4]{{0,1,2}} copy(p)\n"
        " ROOT t = ({k}[2,3,4]{{1,0,2}}, {k}[2,3,4]{{0,1,2}}) tuple(a, b)",
        "a = {k}[2,4,3]{{1,2,0}} transpose(p), dimensions={{0,2,1}}\n"
        " b = {k}[2,4,3]{{1,0,2}} transpose(p), dimensions={{0,2,1}}\n ROOT t = tuple(a, b)",
        "ROOT t = ({k}[2,3,4]{{1,0,2}}, {k}[2,3,4]{{0,1,2}}) tuple(p, p)",
    ],
    ids=["copies", "transposes", "itself"],
)
def test_one_value_in_two_layouts_stays_two_arrays(kind: str, body: str) -> None:
    module = parse(f"HloModule m\nENTRY e {{\n p = {kind}[2,3,4]{{0,2,1}} parameter(0)\n {body.format(k=kind)}\n}}")
    x = (np.arange(24).reshape(2, 3, 4) % (2 if kind == "pred" else 15)).astype(
        module.entry_computation.parameters[0].array_shape.dtype
    )
    for got, wanted in zip(compile_module(module)(x), evaluate(module, x), strict=True):
        np.testing.assert_array_equal(got, wanted)


def test_large_transposes_into_two_layouts() -> None:
    module = parse(
        """HloModule m
ENTRY e {
  p = f32[10,20,30,40]{1,2,3,0} parameter(0)
  a = f32[10,20,40,30]{1,2,0,3} transpose(p), dimensions={0,1,3,2}
  b = f32[10,20,40,30]{1,2,3,0} transpose(p), dimensions={0,1,3,2}
  ROOT r = tuple(a, b)
}"""
    )
    x = np.arange(240000, dtype=np.float32).reshape(10, 20, 30, 40)
    for got in compile_module(module)(x):
        np.testing.assert_array_equal(got, x.transpose(0, 1, 3, 2))


HANDED_ON = {
    "fusion": """
f {
  x = f32[2,3]{0,1} parameter(0)
  ROOT n = f32[2,3]{1,0} negate(x)
}
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  g = f32[2,3]{0,1} fusion(p), kind=kLoop, calls=f
  ROOT b = f32[3,2]{1,0} bitcast(g)
}""",
    "update": """
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  n = f32[2,3]{0,1} negate(p)
  z = s32[] constant(0)
  c = f32[1,2]{1,0} constant({{7, 8}})
  u = f32[2,3]{1,0} dynamic-update-slice(n, c, z, z)
  ROOT b = f32[3,2]{0,1} bitcast(u)
}""",
    "copy-start": """
ENTRY e {
  p = f32[2,3]{0,1} parameter(0)
  s = (f32[2,3]{1,0}, f32[2,3]{0,1}, u32[]) copy-start(p)
  d = f32[2,3]{1,0} copy-done(s)
  ROOT b = f32[3,2]{1,0} bitcast(d)
}""",
    "equal copies": """
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  a = f32[2,3]{1,0} copy(p)
  b = f32[2,3]{0,1} copy(p)
  x = f32[3,2]{1,0} bitcast(a)
  y = f32[3,2]{1,0} bitcast(b)
  ROOT t = (f32[3,2]{1,0}, f32[3,2]{1,0}) tuple(x, y)
}""",
}


@pytest.mark.parametrize("name", HANDED_ON)
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_declared_layouts_of_a_text_with_bitcasts_count(name: str, pipeline: str) -> None:
    module = parse("HloModule m\n" + HANDED_ON[name])
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    got = compile_module(module, CompileOptions(pipeline=PIPELINES[pipeline]))(x)
    np.testing.assert_array_equal(np.asarray(got), np.asarray(evaluate(module, x)))


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_context_of_a_copy_start_is_a_number_of_its_own(pipeline: str) -> None:
    text = "HloModule m\nENTRY e {\n  p = f32[1] parameter(0)\n  ROOT s = (f32[1], f32[1], u32[]) copy-start(p)\n}"
    x = np.array([1.5], np.float32)
    first, second, context = compile_module(parse(text), CompileOptions(pipeline=PIPELINES[pipeline]))(x)
    assert (first, second, context) == (1.5, 1.5, 0)  # all three had the array's bytes


def test_entry_layouts_hold_without_layout_assignment() -> None:
    text = """HloModule m, entry_computation_layout={(f32[2,3]{0,1})->(f32[2,3]{1,0}, f32[2,3]{0,1})}
ENTRY e {
  p = f32[2,3]{1,0} parameter(0)
  n = f32[2,3]{1,0} negate(p)
  ROOT t = (f32[2,3]{1,0}, f32[2,3]{1,0}) tuple(n, n)
}"""
    exe = compile_module(parse(text), CompileOptions(disable_passes=("layout-assignment",)))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    first, second = exe(x)
    np.testing.assert_array_equal(first, -x)
    np.testing.assert_array_equal(second, -x)
    assert (first.flags.c_contiguous, second.flags.f_contiguous) == (True, True)


class MergeCopies(HloPass):
    """Merges copies into different layouts, which cse must not do."""

    name = "test-merge-copies"

    def apply(self, module: HloModule) -> None:
        HloCse(is_layout_sensitive=False).apply(module)


TWO_LAYOUTS = """HloModule m
ENTRY e {
  p = f32[2,3,4]{0,2,1} parameter(0)
  ROOT r = (f32[2,3,4]{1,0,2}, f32[2,3,4]{0,1,2}) tuple(p, p)
}"""


def test_no_code_is_made_of_a_module_whose_layouts_do_not_agree() -> None:
    wrong = pipelines.pipeline().insert(MergeCopies(), after="cpu-parallel-task-assigner")
    with pytest.raises(CompilationError, match=r"(?s)after layout-assignment.*the operand copy.* is taken as"):
        compile_module(parse(TWO_LAYOUTS), CompileOptions(pipeline=wrong))


def test_verification_names_the_pass_that_breaks_layouts() -> None:
    wrong = pipelines.pipeline().insert(MergeCopies(), after="cpu-parallel-task-assigner")
    with pytest.raises(PassError, match="HLO_passes_after_layout_assignment/test-merge-copies left an invalid module"):
        compile_module(parse(TWO_LAYOUTS), CompileOptions(pipeline=wrong, verify=True))

"""Select-and-scatter against the evaluator: layouts, windows, types, threads, array bounds."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.cpu.conftest import NO_PASSES
from tests.cpu.guard_pages import run_guarded
from xlanb.codegen import jit
from xlanb.cpu import compile_module, compiler
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, parse

TYPES = {"f32": np.float32, "bf16": ml_dtypes.bfloat16, "s32": np.int32, "u8": np.uint8, "f64": np.float64}
CASES = {
    "2x2": ("2,8,10,32", "2,4,5,32", "1x2x2x1 stride=1x2x2x1"),
    "3x3 overlapping": ("2,9,11,33", "2,5,6,33", "1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    "5x5": ("1,12,12,7", "1,10,10,7", "1x5x5x1 pad=0_0x1_1x1_1x0_0"),
    "windows outside": ("3,4,4,5", "3,4,4,5", "1x2x2x1 stride=1x2x2x1 pad=0_0x2_2x2_2x0_0"),
    "window dilation": ("2,9,9,16", "2,5,5,16", "1x3x3x1 rhs_dilate=1x2x2x1"),
    "base dilation": ("2,5,5,16", "2,7,7,16", "1x3x3x1 lhs_dilate=1x2x2x1"),
    "rows of one": ("2,6,6,1", "2,3,3,1", "1x2x2x1 stride=1x2x2x1"),
    "padded channels": ("2,4,6", "2,4,9", "1x1x1 pad=0_0x0_0x2_1"),
    "channels windowed": ("2,6,12", "2,6,6", "1x1x2 stride=1x1x2"),
    "nothing windowed": ("5,18", "5,18", "1x1"),
    "everything windowed": ("17", "15", "3"),
}
LAYOUTS = {4: ("{3,2,1,0}", "{2,1,3,0}", "{0,3,2,1}"), 3: ("{2,1,0}", "{0,1,2}"), 2: ("{1,0}", "{0,1}"), 1: ("{0}",)}


def text(case: str, kind: str, layout: str, select: str = "GE", scatter: str = "add") -> str:
    base, source, window = CASES[case]
    scalars = f"  a = {kind}[] parameter(0)\n  b = {kind}[] parameter(1)\n"
    return (
        f"HloModule m\n\nselect {{\n{scalars}  ROOT r = pred[] compare(a, b), direction={select}\n}}\n\n"
        f"scatter {{\n{scalars}  ROOT r = {kind}[] {scatter}(a, b)\n}}\n\nENTRY e {{\n"
        f"  x = {kind}[{base}]{layout} parameter(0)\n  s = {kind}[{source}]{layout} parameter(1)\n"
        f"  z = {kind}[] constant(1)\n  ROOT r = {kind}[{base}]{layout} select-and-scatter(x, s, z), "
        f"window={{size={window}}}, select=select, scatter=scatter\n}}\n"
    )


def arguments(case: str, kind: str) -> list[np.ndarray]:
    """Few values, so that windows have several largest elements; some are NaN."""
    rng, dtype = np.random.default_rng(0), TYPES[kind]
    made = []
    for dims in CASES[case][:2]:
        x = rng.integers(-3, 4, tuple(map(int, dims.split(",")))).astype(np.float64)
        if kind not in ("s32", "u8"):
            x[rng.random(x.shape) < 0.02] = np.nan
        made.append(np.abs(x).astype(dtype) if kind == "u8" else x.astype(dtype))
    return made


def check(module: HloModule, given: list[np.ndarray]) -> None:
    got, want = compile_module(module, NO_PASSES)(*given), evaluate(module, *given)
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))  # NaN of bf16 differ


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("case", CASES)
def test_every_window(case: str, kind: str) -> None:
    given = arguments(case, kind)
    for layout in LAYOUTS[given[0].ndim]:
        check(parse(text(case, kind, layout)), given)


@pytest.mark.parametrize(("select", "scatter"), [("LT", "multiply"), ("NE", "subtract"), ("EQ", "maximum")])
def test_every_computation(select: str, scatter: str) -> None:
    given = arguments("3x3 overlapping", "f32")
    check(parse(text("3x3 overlapping", "f32", "{3,2,1,0}", select, scatter)), given)


def test_threads_share_windows_without_common_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_target", lambda _: replace(jit.host(), threads=4))
    monkeypatch.setitem(CASES, "large", ("4,64,64,40", "4,32,32,40", "1x3x3x1 stride=1x2x2x1 pad=0_0x0_1x0_1x0_0"))
    monkeypatch.setitem(CASES, "rows", ("512,256", "256,128", "2x2 stride=2x2"))
    monkeypatch.setitem(CASES, "one image", ("300,800", "300,799", "1x2"))
    for case in ("large", "rows", "one image"):
        given = arguments(case, "f32")
        module = parse(text(case, "f32", ""))
        exe = compile_module(module, NO_PASSES)
        assert exe.program.is_parallel
        np.testing.assert_array_equal(exe(*given), evaluate(module, *given))


@pytest.mark.parametrize("case", ["3x3 overlapping", "windows outside", "padded channels", "everything windowed"])
def test_nothing_is_touched_that_is_not_an_array(case: str) -> None:
    exe = compile_module(parse(text(case, "f32", "")), NO_PASSES)
    for at_end in (True, False):
        run_guarded(exe, arguments(case, "f32"), at_end=at_end)

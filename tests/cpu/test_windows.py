"""Pooling of all forms against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from xlanb.cpu import Executable
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

TYPES = {"f32": "f4", "f64": "f8", "s32": "i4", "u8": "u1", "c64": "c8", "bf16": ml_dtypes.bfloat16, "f16": "f2"}
Dims = tuple[int, ...]


def module(op: str, dims: Dims, out: Dims, window: str, t: str = "f32", layout: str = "") -> str:
    return f"""HloModule m
    fold {{
      a = {t}[] parameter(0)
      b = {t}[] parameter(1)
      ROOT r = {t}[] {op}(a, b)
    }}
    ENTRY e {{
      x = {t}[{",".join(map(str, dims))}]{layout} parameter(0)
      first = {t}[] parameter(1)
      ROOT r = {t}[{",".join(map(str, out))}]{layout} reduce-window(x, first), window={{{window}}}, to_apply=fold
    }}"""


def check(backend: Callable[[str], Executable], text: str, dims: Dims, t: str = "f32", first: float = 1) -> None:
    x = np.random.default_rng(0).integers(0, 9, dims).astype(TYPES[t])
    arrays = (x, np.array(first, x.dtype))
    exe = backend(text)
    # Twice: a write past a result would change the next one's memory.
    for _ in range(2):
        np.testing.assert_array_equal(exe(*arrays), evaluate(parse(text), *arrays))


CASES: dict[str, tuple[Dims, Dims, str]] = {
    "nhwc": ((2, 9, 11, 33), (2, 5, 6, 33), "size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0"),
    "nchw": ((2, 3, 9, 41), (2, 3, 5, 21), "size=1x1x3x3 stride=1x1x2x2 pad=0_0x0_0x1_1x1_1"),
    "row": ((4, 100), (4, 100), "size=1x5 pad=0_0x2_2"),
    "wide strides": ((4, 100), (4, 34), "size=1x7 stride=1x3 pad=0_0x3_3"),
    "dilated": ((1, 12, 90), (1, 10, 84), "size=1x3x3 pad=0_0x2_0x0_0 rhs_dilate=1x2x3"),
    "cut": ((1, 12, 90), (1, 8, 85), "size=1x3x3 pad=0_0x-2_0x-1_-2"),
    "all padding": ((3, 40), (9, 40), "size=2x1 pad=4_3x0_0"),
    "depth": ((5, 6, 7, 20), (3, 3, 4, 20), "size=2x2x2x1 stride=2x2x2x1 pad=0_1x0_0x1_0x0_0"),
    "narrow": ((6, 7, 3), (5, 6, 3), "size=2x2x1"),
    "whole": ((6, 70), (1, 1), "size=6x70"),
    "less than a vector": ((3, 5, 21), (3, 5, 10), "size=1x1x3 stride=1x1x2"),
    "small images": ((3, 5, 7, 7), (3, 5, 7, 7), "size=1x1x3x3 pad=0_0x0_0x1_1x1_1"),
    "small images, strided": ((3, 5, 13, 13), (3, 5, 7, 7), "size=1x1x5x5 stride=1x1x2x2 pad=0_0x0_0x2_2x2_2"),
    "short rows": ((50, 12), (50, 12), "size=1x5 pad=0_0x2_2"),
    "shorter rows": ((50, 5), (50, 4), "size=1x4 pad=0_0x1_1"),
    "short rows, dilated": ((50, 15), (50, 13), "size=1x5 pad=0_0x3_3 rhs_dilate=1x2"),
    "one result": ((2, 30, 20), (2, 1, 20), "size=1x30x1"),
}


@pytest.mark.parametrize("name", CASES)
def test_forms(backend: Callable[[str], Executable], name: str) -> None:
    dims, out, window = CASES[name]
    for op in ("add", "maximum"):
        check(backend, module(op, dims, out, window), dims)


@pytest.mark.parametrize("t", TYPES)
def test_types(backend: Callable[[str], Executable], t: str) -> None:
    for name in ("nhwc", "nchw", "small images"):
        dims, out, window = CASES[name]
        for op in ("add", "multiply") if t == "c64" else ("maximum", "minimum", "add"):
            check(backend, module(op, dims, out, window, t), dims, t, first=2)


@pytest.mark.parametrize("layout", ["{0,1,2,3}", "{3,2,1,0}", "{1,3,2,0}"])
def test_layouts(backend: Callable[[str], Executable], layout: str) -> None:
    for name in ("nhwc", "nchw", "depth"):
        dims, out, window = CASES[name]
        check(backend, module("maximum", dims, out, window, layout=layout), dims)


def test_nan_is_kept(backend: Callable[[str], Executable]) -> None:
    dims, out, window = CASES["nhwc"]
    x = np.random.default_rng(1).standard_normal(dims).astype(np.float32)
    x[1, 4, 5, ::3] = np.nan
    for op in ("maximum", "minimum"):
        text = module(op, dims, out, window)
        arrays = (x, np.float32(0))
        np.testing.assert_array_equal(backend(text)(*arrays), evaluate(parse(text), *arrays))


def test_several_operands(backend: Callable[[str], Executable]) -> None:
    text = """HloModule m
    keep {
      a = f32[] parameter(0)
      i = s32[] parameter(1)
      b = f32[] parameter(2)
      j = s32[] parameter(3)
      ge = pred[] compare(a, b), direction=GE
      v = f32[] select(ge, a, b)
      p = s32[] select(ge, i, j)
      ROOT r = (f32[], s32[]) tuple(v, p)
    }
    ENTRY e {
      x = f32[9,10] parameter(0)
      i = s32[9,10] parameter(1)
      low = f32[] constant(-inf)
      zero = s32[] constant(0)
      ROOT r = (f32[5,5], s32[5,5]) reduce-window(x, i, low, zero), window={size=3x2 stride=2x2 pad=1_1x0_0}, to_apply=keep
    }"""
    x = np.random.default_rng(3).integers(0, 5, (9, 10)).astype(np.float32)
    places = np.arange(90, dtype=np.int32).reshape(9, 10)
    for got, expected in zip(backend(text)(x, places), evaluate(parse(text), x, places), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("name", "t"), [("nhwc", "f32"), ("nhwc", "bf16"), ("narrow", "f32"), ("nchw", "bf16"), ("small images", "f32")]
)
def test_windows_are_folded_in_vectors(backend: Callable[[str], Executable], name: str, t: str) -> None:
    dims, out, window = CASES[name]
    plan = "\n".join(map(str, backend(module("maximum", dims, out, window, t)).plans.values()))
    assert "by vectors of" in plan


@pytest.mark.parametrize(
    ("dims", "out", "window"), [((1,), (3,), "size=1 pad=0_2"), ((1, 1), (1, 4), "size=1x3 pad=0_0x4_1")]
)
def test_windows_of_one_element(backend: Callable[[str], Executable], dims: Dims, out: Dims, window: str) -> None:
    check(backend, module("add", dims, out, window), dims)

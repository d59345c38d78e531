"""Dots and convolutions for several vector widths that the host supports."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest

from xlanb.codegen import jit
from xlanb.cpu import CompileOptions, Executable, compile_module
from xlanb.evaluator import evaluate
from xlanb.hlo import parse
from xlanb.transforms.pipeline import HloPassPipeline

DTYPES = {
    "f32": np.float32, "f64": np.float64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "s8": np.int8, "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32, "c64": np.complex64, "c128": np.complex128, "f8e4m3fn": ml_dtypes.float8_e4m3fn,
}  # fmt: skip
TOLERANCE = {"f16": 4e-3, "bf16": 3e-2, "f8e4m3fn": 0.3, "f64": 1e-12, "c128": 1e-12}


def array(rng: np.random.Generator, shape: tuple[int, ...], t: str) -> np.ndarray:
    """Random numbers of an element type."""
    dtype = np.dtype(DTYPES[t])
    if dtype.kind in "iu":
        return rng.integers(-100 if dtype.kind == "i" else 0, 100, shape).astype(dtype)
    values = rng.standard_normal(shape)
    return (values + 1j * rng.standard_normal(shape)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def assert_close(got: np.ndarray, want: np.ndarray, t: str) -> None:
    """Integers are equal, floats within the rounding errors of a sum."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    if got.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want)
        return
    wide = np.complex128 if got.dtype.kind == "c" else np.float64
    tolerance = TOLERANCE.get(t, 2e-4)
    np.testing.assert_allclose(got.astype(wide), want.astype(wide), rtol=tolerance, atol=tolerance)


@pytest.fixture
def build(width: int) -> Callable[[str], Executable]:
    """build(text) -> Executable for vectors of that width, without passes."""
    del width
    return lambda text: compile_module(parse(text), CompileOptions(pipeline=HloPassPipeline("none")))


@pytest.fixture
def check(build: Callable[[str], Executable], width: int) -> Callable[..., Executable]:
    """check(text, shapes, types): compile a module of two parameters, compare it, return it.

    It is compared with the interpreter on random arguments; the executable is returned.
    """

    def checked(text: str, shapes: Sequence[tuple[int, ...]], types: Sequence[str] = ("f32", "f32")) -> Executable:
        if "f16" in types and width == 128 and jit.host().triple.startswith("x86"):
            pytest.skip("x86 before AVX converts f16 by library calls, which are not there")
        rng = np.random.default_rng(7)
        arguments = [array(rng, s, t) for s, t in zip(shapes, types, strict=True)]
        exe = build(text)
        want = np.asarray(evaluate(parse(text), *arguments))
        low = next((t for t in types if t in TOLERANCE), types[0])
        assert_close(np.asarray(exe(*arguments)), want, low)
        return exe

    return checked

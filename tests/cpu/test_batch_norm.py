"""Batch normalization of every floating type, computed in the same type as in XLA:CPU.

Compared between compiled code and the evaluator.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from tests.numeric_values import FLOATS
from xlanb.shape.primitive_type import BY_TEXT

TEXT = """HloModule m

ENTRY e {
  x = T[4,3,8] parameter(0)
  s = T[8] parameter(1)
  o = T[8] parameter(2)
  m = T[8] parameter(3)
  v = T[8] parameter(4)
  g = T[4,3,8] parameter(5)
  a = T[4,3,8] batch-norm-inference(x, s, o, m, v), epsilon=0.001, feature_index=2
  b = (T[4,3,8], T[8], T[8]) batch-norm-training(x, s, o), epsilon=0.001, feature_index=2
  c = (T[4,3,8], T[8], T[8]) batch-norm-grad(x, s, m, v, g), epsilon=0.001, feature_index=2
  ROOT r = (T[4,3,8], (T[4,3,8], T[8], T[8]), (T[4,3,8], T[8], T[8])) tuple(a, b, c)
}
"""
SHAPES = ((4, 3, 8), (8,), (8,), (8,), (8,), (4, 3, 8))


def arguments(t: str, spread: float) -> list[Any]:
    """Numbers of about this size; the variance is not negative."""
    rng = np.random.default_rng(0)
    given = [(spread * rng.standard_normal(s)).astype(np.float32) for s in SHAPES]
    given[4] = np.abs(given[4])
    with np.errstate(over="ignore"):
        return [v.astype(BY_TEXT[t].dtype) for v in given]


def leaves(value: Any) -> list[Any]:
    return [leaf for v in value for leaf in leaves(v)] if isinstance(value, tuple) else [np.asarray(value)]


def wide(x: Any) -> Any:
    return x.astype(np.float64)


@pytest.mark.parametrize("spread", [0.0, 2.0, 300.0])
@pytest.mark.parametrize("t", FLOATS)
def test_compiled_code_gives_what_the_evaluator_does(t: str, spread: float) -> None:
    text, given = TEXT.replace("T[", f"{t}["), arguments(t, spread)
    got, want = leaves(xlanb.compile(text)(*given)), leaves(xlanb.evaluate(text, *given))
    tolerance = {"f64": 1e-9, "f32": 2e-4}.get(t, 0.02)
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(wide(x), wide(y), rtol=tolerance, atol=tolerance * max(1.0, spread))


@pytest.mark.parametrize("t", ["f8e3m4", "f8e4m3fn", "f8e5m2", "bf16"])
def test_a_narrow_float_is_rounded_at_the_end(t: str) -> None:
    dtype = BY_TEXT[t].dtype
    text = TEXT.replace("T[", f"{t}[")
    x, s, o, m, v, _ = given = arguments(t, 2.0)
    exact = (wide(x) - wide(m)) / np.sqrt(wide(v) + 0.001) * wide(s) + wide(o)
    within = np.abs(exact) < float(np.asarray(BY_TEXT[t].scalar(1)).astype(dtype)) * 10
    for run in (xlanb.compile(text), lambda *a: xlanb.evaluate(text, *a)):
        np.testing.assert_allclose(wide(leaves(run(*given))[0])[within], exact[within], rtol=0.13, atol=0.07)


def test_features_of_fewer_digits_are_normalised_in_the_type_of_the_array() -> None:
    text = """HloModule m
ENTRY e {
  x = f64[3,5,2] parameter(0)
  v = f32[5] parameter(1)
  ROOT y = f64[3,5,2] batch-norm-inference(x, v, v, v, v), epsilon=0.001, feature_index=1
}
"""
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3, 5, 2)), rng.uniform(0.1, 2, 5).astype(np.float32)
    wide = v.astype(np.float64)[None, :, None]
    epsilon = float(np.float32(0.001))  # an attribute of 32 bits
    wanted = (x - wide) / np.sqrt(wide + epsilon) * wide + wide
    np.testing.assert_allclose(xlanb.compile(text)(x, v), wanted, rtol=0, atol=1e-14)
    np.testing.assert_allclose(xlanb.evaluate(text, x, v), wanted, rtol=0, atol=1e-14)


def test_the_statistics_have_the_type_that_the_instruction_says() -> None:
    text = """HloModule m
ENTRY e {
  x = f64[3,5,2] parameter(0)
  v = f32[5] parameter(1)
  ROOT y = (f64[3,5,2], f64[5], f64[5]) batch-norm-training(x, v, v), epsilon=0.001, feature_index=1
}
"""
    rng = np.random.default_rng(0)
    x, v = rng.standard_normal((3, 5, 2)), np.ones(5, np.float32)
    for seen in (xlanb.compile(text)(x, v), xlanb.evaluate(text, x, v)):
        assert [a.dtype for a in seen] == [np.float64] * 3
        np.testing.assert_allclose(seen[1], x.mean((0, 2)), rtol=0, atol=1e-14)
        np.testing.assert_allclose(seen[2], x.var((0, 2)), rtol=0, atol=1e-14)

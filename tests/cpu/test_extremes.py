"""Maximum and minimum of floats for all vector widths: NaN propagates, +0 is above -0."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb

_SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 1e-40, -1e-40, 3e38]
_OPS = {"maximum": np.maximum, "minimum": np.minimum}


def _wanted(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    made = _OPS[op](a, b)
    zeros = (a == 0) & (b == 0)
    negative = (np.signbit(a) & np.signbit(b)) if op == "maximum" else (np.signbit(a) | np.signbit(b))
    return np.where(zeros, np.where(negative, -0.0, 0.0).astype(a.dtype), made)


def _same(got: np.ndarray, want: np.ndarray) -> None:
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize("count", [3, 4, 9, 16, 70, 121])
@pytest.mark.parametrize(("t", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("op", _OPS)
def test_every_pair(op: str, t: str, dtype: type, count: int) -> None:
    pairs = np.array(np.meshgrid(_SPECIAL, _SPECIAL), np.float64).reshape(2, -1).astype(dtype)[:, :count]
    shape = f"{t}[{count}]"
    exe = xlanb.compile(
        f"HloModule m\nENTRY e {{\n  a = {shape} parameter(0)\n  b = {shape} parameter(1)\n  ROOT r = {shape} {op}(a, b)\n}}\n"
    )
    a, b = (np.ascontiguousarray(p) for p in pairs)
    with np.errstate(invalid="ignore"):
        _same(exe(a, b), _wanted(op, a, b))


@pytest.mark.parametrize("shape", [(5, 1000), (7, 33), (200, 9)])
@pytest.mark.parametrize(("t", "dtype"), [("f32", np.float32), ("f64", np.float64)])
@pytest.mark.parametrize("dimension", [0, 1])
@pytest.mark.parametrize("op", _OPS)
def test_reductions(op: str, dimension: int, t: str, dtype: type, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    a = np.where(rng.random(shape) < 0.5, 0.0, -0.0).astype(dtype)
    a[rng.integers(0, shape[0], 3), rng.integers(0, shape[1], 3)] = np.nan
    start = -np.inf if op == "maximum" else np.inf
    exe = xlanb.compile(f"""HloModule m
r {{
  x = {t}[] parameter(0)
  y = {t}[] parameter(1)
  ROOT z = {t}[] {op}(x, y)
}}
ENTRY e {{
  a = {t}[{shape[0]},{shape[1]}] parameter(0)
  i = {t}[] constant({start})
  ROOT m = {t}[{shape[1 - dimension]}] reduce(a, i), dimensions={{{dimension}}}, to_apply=r
}}""")
    want = a.take(0, dimension)
    for k in range(1, shape[dimension]):
        want = _wanted(op, want, a.take(k, dimension))
    _same(exe(a), want)

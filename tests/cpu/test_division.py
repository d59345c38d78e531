"""Quotients and remainders of integers: vectors divide floats, and give what integers give."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb

TYPES = {
    f"{sign}{bits}": np.dtype(f"{'i' if sign == 's' else 'u'}{bits // 8}") for sign in "su" for bits in (8, 16, 32)
}


def operands(kind: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Numbers next to products and powers of two, where a rounded quotient would be off by one."""
    low, high = (int(v) for v in (np.iinfo(kind).min, np.iinfo(kind).max))
    rng = np.random.default_rng(0)
    if kind.itemsize == 1:
        every = np.arange(low, high + 1)
        a, b = np.meshgrid(every, every)
    else:
        powers = [s * 2**k + d for k in range(kind.itemsize * 8) for d in (-1, 0, 1) for s in (-1, 1)]
        b = rng.permutation([*powers, *rng.integers(low, high, 3000, endpoint=True)])
        limit = np.maximum(high // np.maximum(np.abs(b), 1), 1)
        b = np.concatenate([b] * 4)
        a = rng.integers(-limit, limit + 1, (4, len(limit))).ravel() * b + rng.integers(-1, 2, len(b))
        a[: len(powers)] = powers
    return tuple(np.clip(v, low, high).astype(kind).ravel() for v in (a, b))


def wanted(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Truncated quotients; by zero they are all ones, and the remainder is the dividend."""
    x, y = a.astype(np.int64), b.astype(np.int64)
    by = np.where(y == 0, 1, y)
    quotient = np.sign(x) * np.sign(by) * (np.abs(x) // np.abs(by))
    remainder = x - quotient * by
    return np.where(y == 0, -1, quotient).astype(a.dtype), np.where(y == 0, x, remainder).astype(a.dtype)


@pytest.mark.parametrize("name", TYPES)
def test_vectors_divide_exactly(name: str) -> None:
    a, b = operands(TYPES[name])
    array = f"{name}[{len(a)}]"
    exe = xlanb.compile(
        f"HloModule m\n\nENTRY e {{\n  a = {array} parameter(0)\n  b = {array} parameter(1)\n"
        f"  q = {array} divide(a, b)\n  r = {array} remainder(a, b)\n  ROOT t = ({array}, {array}) tuple(q, r)\n}}\n"
    )
    for got, want in zip(exe(a, b), wanted(a, b), strict=True):
        np.testing.assert_array_equal(got, want)


def test_divisors_of_all_elements_are_divided_by_as_floats() -> None:
    exe = xlanb.compile(
        "HloModule m\n\nENTRY e {\n  a = s32[1000] parameter(0)\n  n = s32[] parameter(1)\n"
        "  b = s32[1000] broadcast(n), dimensions={}\n  ROOT r = s32[1000] remainder(a, b)\n}\n"
    )
    a = np.arange(-500, 500, dtype=np.int32) * 4_000_037
    for n in (7, -3, 1, -1, 0, np.iinfo(np.int32).min):
        by = np.full_like(a, n)
        np.testing.assert_array_equal(exe(a, np.int32(n)), wanted(a, by)[1])
    assert "fdiv" in exe.llvm_ir

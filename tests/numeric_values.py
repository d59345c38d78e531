"""Difficult values of every element type, and the comparison of arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import BY_TEXT

Array = NDArray[Any]
T = PrimitiveType

INTEGERS = ("s2", "u2", "s4", "u4", "s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
SMALL_FLOATS = (
    *("f4e2m1fn", "f8e3m4", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e4m3fnuz"),
    *("f8e5m2", "f8e5m2fnuz", "f8e8m0fnu"),
)
FLOATS = (*SMALL_FLOATS, "bf16", "f16", "f32", "f64")
NUMERIC = ("pred", *INTEGERS, *FLOATS, "c64", "c128")


@np.errstate(all="ignore")
def values_of(name: str, rng: np.random.Generator) -> Array:
    """All values of a type of up to 16 bits; of a wider one its edges, ties and random bits."""
    t = BY_TEXT[name]
    if t is T.PRED:
        return np.array([False, True])
    if t.is_complex:
        parts = values_of("f32" if t is T.C64 else "f64", rng)
        made = np.empty(parts.shape, t.dtype)
        made.real, made.imag = parts, rng.permutation(parts)
        return made
    if t.bits < 8:
        codes = np.arange(2**t.bits, dtype=np.uint8)
        return codes.view(t.dtype)
    if t.bits <= 16:
        return np.arange(2**t.bits, dtype=f"u{t.bits // 8}").view(t.dtype)
    return _wide_integers(t, rng) if t.is_integral else _wide_floats(t, rng)


def _random_bits(t: PrimitiveType, rng: np.random.Generator) -> Array:
    return rng.integers(0, 2**t.bits - 1, 1000, dtype=np.uint64).astype(f"u{t.bits // 8}").view(t.dtype)


def _wide_integers(t: PrimitiveType, rng: np.random.Generator) -> Array:
    """Powers of two and their neighbours, numbers halfway between floats, random ones."""
    powers = [2**k + d for k in range(t.bits) for d in (-1, 0, 1)]
    halfway = [
        2**k + 2 ** (k - m - 1) + d for k in range(4, t.bits) for m in (1, 2, 3, 7, 10, 23) if m < k for d in (-1, 0, 1)
    ]
    numbers = np.array([n % 2**t.bits for n in (*powers, *halfway)], np.uint64).astype(f"u{t.bits // 8}")
    return np.concatenate([numbers.view(t.dtype), _random_bits(t, rng)])


def _wide_floats(t: PrimitiveType, rng: np.random.Generator) -> Array:
    """Return halfway points of each narrower type and their neighbours, integer limits, random
    bits.
    """
    info = np.finfo(t.dtype)
    ends = [
        s * (2.0**b + d) for b in (1, 2, 4, 7, 8, 15, 16, 31, 32, 63, 64) for s in (1, -1) for d in (-1, -0.5, 0, 1)
    ]
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, *ends]
    parts = [np.array(special, t.dtype), _random_bits(t, rng)]
    for name in (*SMALL_FLOATS, "bf16", "f16"):
        narrow = BY_TEXT[name]
        codes = np.arange(2**narrow.bits, dtype=np.uint8 if narrow.bits <= 8 else np.uint16)
        numbers = codes[:: 1 if narrow.bits <= 8 else 97].view(narrow.dtype).astype(np.float64)
        numbers = np.sort(numbers[np.isfinite(numbers)])
        halfway = ((numbers[1:] + numbers[:-1]) / 2).astype(t.dtype)
        parts += [halfway, np.nextafter(halfway, t.dtype.type(np.inf)), np.nextafter(halfway, t.dtype.type(-np.inf))]
    return np.concatenate(parts)


@np.errstate(all="ignore")
def some_of(name: str, rng: np.random.Generator, count: int) -> Array:
    """So many values of a type, the special ones among them often."""
    t = BY_TEXT[name]
    drawn = rng.choice(values_of(name, rng), count)
    if t is T.PRED or t.is_complex:
        return drawn
    facts: Any = ml_dtypes.iinfo if t.is_integral else ml_dtypes.finfo
    edges = [facts(t.dtype).min, facts(t.dtype).max, *np.array([0, 1, 2, 3], np.float32).astype(t.dtype)]
    if t.is_floating:
        specials = np.array([-0.0, -1, 0.5, 1.5, np.inf, -np.inf, np.nan], np.float32)
        edges += [facts(t.dtype).smallest_subnormal, *specials.astype(t.dtype)]
    return np.where(rng.random(count) < 0.5, rng.choice(np.array(edges, t.dtype), count), drawn).astype(t.dtype)


@np.errstate(all="ignore")
def same(a: Array, b: Array) -> Array:
    """Which elements are the same to the bit, but for NaNs, which are all the same."""
    if np.iscomplexobj(a):
        return same(np.real(a), np.real(b)) & same(np.imag(a), np.imag(b))
    if not is_float(a):
        return np.asarray(a == b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))


def is_float(a: Array) -> bool:
    """Whether the elements are real floats, narrow ones too."""
    return "float" in a.dtype.name


def assert_same(got: Array, want: Array, *sources: Array) -> None:
    """Fail with the first elements that differ, and their inputs."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    wrong = np.flatnonzero(~same(got, want))
    shown = [(*(s.ravel()[k] for s in sources), got.ravel()[k], want.ravel()[k]) for k in wrong[:5]]
    assert not shown, f"{len(wrong)} of {got.size} differ: {shown}"

"""Every element type converted to every other: compiled code and evaluator agree bitwise."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlanb
from tests.numeric_values import NUMERIC, assert_same, values_of

NOT_A_NUMBER = 255


def _conversions(source: str, count: int) -> tuple[str, list[str]]:
    """A module that converts an array to every other type, and those types."""
    targets = [t for t in NUMERIC if t != source and (source[0] != "c" or t[0] == "c")]
    lines = "\n".join(f"  c{k} = {t}[{count}] convert(a)" for k, t in enumerate(targets))
    shape = ", ".join(f"{t}[{count}]" for t in targets)
    names = ", ".join(f"c{k}" for k in range(len(targets)))
    return (
        f"HloModule m\nENTRY e {{\n  a = {source}[{count}] parameter(0)\n{lines}\n  ROOT r = ({shape}) tuple({names})\n}}\n",
        targets,
    )


@pytest.mark.parametrize("source", NUMERIC)
def test_every_value_converts_as_the_evaluator_has_it(source):
    x = values_of(source, np.random.default_rng(0))
    text, targets = _conversions(source, len(x))
    results = zip(targets, xlanb.compile(text)(x), xlanb.evaluate(text, x), strict=True)
    for _, got, want in results:
        assert_same(np.asarray(got), np.asarray(want), x)


def _convert(x, to):
    source = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64", np.dtype(np.int32): "s32"}[x.dtype]
    text = f"HloModule m\nENTRY e {{ a = {source}[{len(x)}] parameter(0) ROOT r = {to}[{len(x)}] convert(a) }}\n"
    return [np.asarray(run) for run in (xlanb.compile(text)(x), xlanb.evaluate(text, x))]


E8M0 = {
    0.0: NOT_A_NUMBER, -1.0: NOT_A_NUMBER, np.inf: NOT_A_NUMBER, np.nan: NOT_A_NUMBER,
    1.0: 127, 2.9: 128, 3.0: 129, 6.0: 130, 12.0: 131, 2.0**-127: 0, 2.0**-149: 0, 1.25 * 2.0**-127: 1,
    1.49 * 2.0**127: 254, 1.5 * 2.0**127: NOT_A_NUMBER,
}  # fmt: skip
"""Floats and their f8e8m0fnu codes, as XLA:CPU converts them: ties to the larger power of two."""


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_powers_of_two_have_neither_zero_nor_sign(kind):
    for got in _convert(np.array(list(E8M0), kind), "f8e8m0fnu"):
        assert got.view(np.uint8).tolist() == list(E8M0.values())


def test_a_double_is_rounded_once_to_eight_bits_and_by_way_of_f32_to_bf16():
    x = np.array([-0.24218749999999997, 1 + 2.0**-8 + 2.0**-40], np.float64)
    for small, wide in zip(_convert(x, "f8e4m3fn"), _convert(x, "bf16"), strict=True):
        assert small[0] == ml_dtypes.float8_e4m3fn(-0.234375)
        assert wide[1] == 1  # just above a tie: rounded once it would be 1 + 2^-7


def test_an_integer_is_rounded_by_way_of_f32_to_bf16():
    for got in _convert(np.array([21692415, -21692415], np.int32), "bf16"):
        assert got.astype(np.float32).tolist() == [21757952, -21757952]


def test_four_bits_have_no_nan():
    for got in _convert(np.array([np.nan, -np.nan], np.float32), "f4e2m1fn"):
        assert got.view(np.uint8).tolist() == [8, 8]


def test_sub_byte_integers_lie_in_memory_as_numpy_has_them():
    x = np.arange(-8, 8, dtype=np.int32)
    for got in _convert(x, "s4"):
        assert got.view(np.uint8).tolist() == x.astype(ml_dtypes.int4).view(np.uint8).tolist()

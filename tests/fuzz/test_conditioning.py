"""Differences that rounding explains, and others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.fuzz.conditioning import is_rounding
from xlanb.evaluator import evaluate
from xlanb.hlo import parse

LIMITS = {"max_steps": 1000, "max_seconds": 5.0}
QUOTIENT = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  s = f32[4] sine(x)
  t = f32[4] sine(x)
  d = f32[4] subtract(s, t)
  o = f32[] constant(1)
  b = f32[4] broadcast(o), dimensions={}
  ROOT r = f32[4] divide(b, BELOW)
}
"""
X = np.arange(1, 5, dtype=np.float32)


@pytest.mark.parametrize(
    ("below", "got", "is_explained"),
    [
        ("d", [1e7, -np.inf, -3e8, np.inf], True),
        ("s", 1 / np.sin(X), True),
        ("s", 1 / np.sin(X) + [0, 0, 0, 1e-3], False),
        ("s", [1 / np.sin(1), np.inf, 1 / np.sin(3), 1 / np.sin(4)], False),
    ],
)
def test_what_rounding_explains(below, got, is_explained):
    module = parse(QUOTIENT.replace("BELOW", below))
    expected = [evaluate(module, X)]
    assert is_rounding(module, [X], [np.asarray(got, np.float32)], expected, **LIMITS) == is_explained


def test_whole_numbers_are_exact():
    module = parse("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT r = f32[4] add(x, x)\n}\n")
    assert not is_rounding(module, [X], [2 * X + np.float32(1e-5)], [2 * X], **LIMITS)


def test_large_whole_numbers_are_rounded():
    module = parse(
        "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  s = f32[4] add(x, x)\n  ROOT r = s32[4] convert(s)\n}\n"
    )
    x = X * np.float32(2**27)  # floats are 64 apart
    expected = (2 * x).astype(np.int32)
    assert is_rounding(module, [x], [expected + 64], [expected], **LIMITS)
    assert not is_rounding(module, [X], [(2 * X).astype(np.int32) + 1], [(2 * X).astype(np.int32)], **LIMITS)


def test_what_is_left_of_large_terms_is_rounding_but_not_what_is_left_of_small_ones():
    module = parse(
        "HloModule m\nENTRY e {\n  x = s64[1,3] parameter(0)\n  y = s64[3,1] parameter(1)\n"
        "  ROOT d = f32[1,1] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    ones = np.ones((3, 1), np.int64)
    large, small = np.array([[2**62, -(2**62), 1]]), np.array([[4, -4, 1]])
    got, expected = [np.zeros((1, 1), np.float32)], [np.ones((1, 1), np.float32)]
    assert is_rounding(module, [large, ones], got, expected, **LIMITS)
    assert not is_rounding(module, [small, ones], got, expected, **LIMITS)


def test_reflectors_of_columns_that_are_but_rounding_are_arbitrary():
    module = parse(
        "HloModule m\nENTRY e {\n  x = f32[3,3] parameter(0)\n"
        '  q = (f32[3,3]{0,1}, f32[3]{0}) custom-call(x), custom_call_target="lapack_sgeqrf_ffi", '
        "operand_layout_constraints={f32[3,3]{0,1}}, api_version=API_VERSION_TYPED_FFI, backend_config={}\n"
        "  ROOT t = f32[3] get-tuple-element(q), index=1\n}\n"
    )
    alike, regular = np.ones((3, 3), np.float32), np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]], np.float32)
    for x, is_explained in ((alike, True), (regular, False)):
        expected = np.asarray(evaluate(module, x))
        got = expected + np.array([0, 0.5, 0], np.float32)
        assert is_rounding(module, [x], [got], [expected], **LIMITS) == is_explained


def test_a_sum_of_fractions_that_comes_to_zero_is_rounded():
    module = parse(
        "HloModule m\nENTRY e {\n  x = f32[1,3] parameter(0)\n  y = f32[3,1] parameter(1)\n"
        "  ROOT d = f32[1,1] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n}\n"
    )
    x, fractions, whole = (np.array(v, np.float32) for v in ([[1, 1, -2]], [[0.1], [0.2], [0.15]], [[1], [3], [2]]))
    got, expected = [np.full((1, 1), 1e-8, np.float32)], [np.zeros((1, 1), np.float32)]
    assert is_rounding(module, [x, fractions], got, expected, **LIMITS)
    assert not is_rounding(module, [x, whole], got, expected, **LIMITS)

"""Arithmetic by XLA's rules, where they differ from NumPy's."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import xlanb
from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate
from xlanb.shape.primitive_type import BY_TEXT


def unary(opcode, x, t, result=None, attributes=""):
    x = np.asarray(x, BY_TEXT[t].dtype)
    dims = list(x.shape)
    return evaluate(
        f"HloModule m\nENTRY e {{ p = {t}{dims} parameter(0)\n ROOT r = {result or t}{dims} {opcode}(p){attributes} }}",
        x,
    )


def binary(opcode, x, y, t, result=None, attributes=""):
    x, y = (np.asarray(v, BY_TEXT[t].dtype) for v in (x, y))
    dims = list(x.shape)
    text = f"HloModule m\nENTRY e {{ p = {t}{dims} parameter(0)\n q = {t}{dims} parameter(1)\n ROOT r = {result or t}{dims} {opcode}(p, q){attributes} }}"
    return evaluate(text, x, y)


def test_integer_division():
    low = -(2**31)
    np.testing.assert_array_equal(
        binary("divide", [7, -7, 7, -7, 5, low], [2, 2, -2, -2, 0, -1], "s32"),
        [3, -3, -3, 3, -1, low],
    )
    np.testing.assert_array_equal(
        binary("remainder", [7, -7, 7, -7, 5, low], [2, 2, -2, -2, 0, -1], "s32"),
        [1, -1, 1, -1, 5, 0],
    )
    np.testing.assert_array_equal(binary("divide", [7, 9], [0, 2], "u8"), [255, 4])


@given(st.integers(-128, 127), st.integers(-128, 127))
def test_integer_division_as_in_c(x, y):
    quotient = -1 if y == 0 else int(math.copysign(1, x) * math.copysign(1, y)) * (abs(x) // abs(y))
    rest = x if y == 0 else x - quotient * y
    assert binary("divide", x, y, "s8") == np.array(quotient).astype(np.int8)
    assert binary("remainder", x, y, "s8") == np.array(rest).astype(np.int8)


def test_integer_power():
    np.testing.assert_array_equal(
        binary("power", [2, 2, -1, -1, 1, 0, -3], [10, -1, -3, -2, -5, 0, 3], "s32"),
        [1024, 0, -1, 1, 1, 1, -27],
    )


def test_shifts_by_the_width_or_more():
    np.testing.assert_array_equal(binary("shift-left", [1, 1, 1, -1], [3, 8, -1, 7], "s8"), [8, 0, 0, -128])
    np.testing.assert_array_equal(binary("shift-right-logical", [-1, -1, -1], [1, 8, 100], "s8"), [127, 0, 0])
    np.testing.assert_array_equal(binary("shift-right-arithmetic", [-128, 64, -1], [2, 8, 100], "s8"), [-32, 0, -1])
    np.testing.assert_array_equal(binary("shift-right-logical", [-1, -8], [1, 3], "s4").astype(int), [7, 1])


def test_nan_wins_in_maximum_and_minimum():
    nan = np.nan
    for t in ("f32", "bf16", "f16"):
        assert np.isnan(binary("maximum", [nan, 1], [1, nan], t).astype(float)).all()
        assert np.isnan(binary("minimum", [nan, 1], [1, nan], t).astype(float)).all()


def test_conversion_to_integers_saturates():
    x = [np.nan, np.inf, -np.inf, 1e20, -1e20, -1.9, 1.9]
    np.testing.assert_array_equal(
        unary("convert", x, "f32", "s32"), [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1, 1]
    )
    np.testing.assert_array_equal(unary("convert", x, "f32", "u8"), [0, 255, 0, 255, 0, 0, 1])
    np.testing.assert_array_equal(
        unary("convert", [1e30, -1e30, 2.0**63], "f64", "s64"), [2**63 - 1, -(2**63), 2**63 - 1]
    )
    np.testing.assert_array_equal(
        unary("convert", [1e30, 2.0**64, 2.0**63], "f64", "u64"),
        np.array([2**64 - 1, 2**64 - 1, 2**63], np.uint64),
    )
    np.testing.assert_array_equal(unary("convert", [9, -9, 3.7], "f32", "s4").astype(int), [7, -8, 3])


def test_other_conversions():
    np.testing.assert_array_equal(unary("convert", [300, -1], "s32", "u8"), [44, 255])
    np.testing.assert_array_equal(unary("convert", [0.0, 0.1, np.nan], "f32", "pred"), [False, True, True])
    np.testing.assert_array_equal(unary("convert", [1 + 2j], "c64", "s32"), [1])
    # 1 + 2^-8 is halfway between two bf16, of which the lower is even; 1 + 3 * 2^-8 rounds up
    np.testing.assert_array_equal(
        unary("convert", [1 + 2**-8, 1 + 3 * 2**-8], "f32", "bf16").astype(float), [1, 1 + 2**-6]
    )


def test_rounding():
    x = [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997]
    np.testing.assert_array_equal(unary("round-nearest-even", x, "f32"), [0, 2, 2, -0.0, -2, 0])
    np.testing.assert_array_equal(unary("round-nearest-afz", x, "f32"), [1, 2, 3, -1, -3, 0])


def test_narrow_floats_are_rounded_once():
    third = np.asarray(1 / 3, ml_dtypes.bfloat16)
    expected = np.exp(np.float32(third)).astype(ml_dtypes.bfloat16)
    assert unary("exponential", third, "bf16") == expected


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_erf(t):
    x = np.linspace(-6, 6, 257).astype(BY_TEXT[t].dtype)
    expected = [math.erf(v) for v in x]
    np.testing.assert_allclose(unary("erf", x, t), expected, atol=1e-15 if t == "f64" else 1e-7, rtol=0)
    assert np.isnan(unary("erf", [np.nan], t)).all()
    np.testing.assert_array_equal(unary("erf", [np.inf, -np.inf], t), [1, -1])


def test_counts_of_bits():
    np.testing.assert_array_equal(unary("popcnt", [0, -1, 5], "s32"), [0, 32, 2])
    np.testing.assert_array_equal(unary("count-leading-zeros", [0, 1, -1, 255], "s32"), [32, 31, 0, 24])
    np.testing.assert_array_equal(unary("count-leading-zeros", [0, 1, 7], "u4").astype(int), [4, 3, 1])


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_mulhi(x, y):
    assert binary("mulhi", x, y, "s64") == (x * y) >> 64
    a, b = x % 2**64, y % 2**64
    assert binary("mulhi", np.uint64(a), np.uint64(b), "u64") == (a * b) >> 64
    low = (x % 2**32, y % 2**32)
    assert binary("mulhi", *low, "u32") == (low[0] * low[1]) >> 32


def test_reduce_precision():
    result = unary(
        "reduce-precision",
        [1 + 2**-11, 70000, 1e-8, np.nan, 65504],
        "f32",
        attributes=", exponent_bits=5, mantissa_bits=10",
    )
    np.testing.assert_array_equal(result, [1, np.inf, 0, np.nan, 65504])


@given(st.floats(width=32))
def test_reduce_precision_to_bf16_is_the_conversion(x):
    value = np.float32(x)
    expected = value.astype(ml_dtypes.bfloat16).astype(np.float32)
    result = unary("reduce-precision", value, "f32", attributes=", exponent_bits=8, mantissa_bits=7")
    if not 0 < abs(value) < 1.2e-38:  # subnormal results become zero
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("t", ["f16", "f8e5m2", "f8e5m2fnuz"])
def test_reduce_precision_keeps_subnormal_numbers_where_the_exponent_stays(t):
    dtype = BY_TEXT[t].dtype
    x = np.array([2**-16, -(2**-15), 2**-14, 4], np.float32).astype(dtype)
    text = f"HloModule m\nENTRY e {{ x = {t}[4] parameter(0) ROOT r = {t}[4] reduce-precision(x), exponent_bits=%d, mantissa_bits=2 }}\n"
    for run in (evaluate, lambda text, x: xlanb.compile(text)(x)):
        np.testing.assert_array_equal(run(text % 5, x), x)
        assert run(text % 4, x).astype(np.float32).tolist() == [0, 0, 0, 4]


def test_comparison_by_total_order():
    x = [-np.nan, -np.inf, -0.0, 0.0, np.inf, np.nan]
    x = np.copysign(np.array(x, np.float32), [-1, -1, -1, 1, 1, 1]).astype(np.float32)
    assert binary("compare", x[:-1], x[1:], "f32", "pred", ", direction=LT, type=TOTALORDER").all()
    assert not binary("compare", x[2:3], x[3:4], "f32", "pred", ", direction=LT").any()


def test_complex_numbers():
    np.testing.assert_allclose(unary("abs", [3 + 4j], "c64", "f32"), [5])
    np.testing.assert_allclose(unary("sign", [3 + 4j, 0], "c64"), [0.6 + 0.8j, 0], rtol=1e-6)
    quotient = binary("divide", [1 + 1j, 1 + 0j], [complex(np.nan, np.inf), 0j], "c64")
    np.testing.assert_array_equal([quotient[0], quotient[1].real], [0, np.inf])


def test_predicates():
    x, y = [False, True, True], [True, True, False]
    np.testing.assert_array_equal(binary("add", x, y, "pred"), [True, True, True])
    np.testing.assert_array_equal(binary("multiply", x, y, "pred"), [False, True, False])
    np.testing.assert_array_equal(unary("not", x, "pred"), [True, False, False])


def test_sub_byte_integers_wrap_around():
    np.testing.assert_array_equal(binary("add", [7, -8], [1, -1], "s4").astype(int), [-8, 7])
    np.testing.assert_array_equal(binary("multiply", [5, 15], [5, 15], "u4").astype(int), [9, 1])


def test_clamp_takes_scalar_bounds_and_keeps_nan():
    text = "HloModule m\nENTRY e { l = f32[] constant(0)\n p = f32[4] parameter(0)\n h = f32[] constant(1)\n ROOT r = f32[4] clamp(l, p, h) }"
    np.testing.assert_array_equal(evaluate(text, np.array([-1, 0.5, 2, np.nan], np.float32)), [0, 0.5, 1, np.nan])


def test_bitcast_convert_across_widths():
    text = "HloModule m\nENTRY e { p = u32[2] parameter(0)\n ROOT r = u8[2,4] bitcast-convert(p) }"
    np.testing.assert_array_equal(evaluate(text, np.array([0x04030201, 5], np.uint32)), [[1, 2, 3, 4], [5, 0, 0, 0]])
    text = "HloModule m\nENTRY e { p = u8[1,2] parameter(0)\n ROOT r = u16[1] bitcast-convert(p) }"
    np.testing.assert_array_equal(evaluate(text, np.array([[1, 2]], np.uint8)), [0x0201])
    text = "HloModule m\nENTRY e { p = u8[2] parameter(0)\n n = s4[2,2] bitcast-convert(p)\n b = u8[2] bitcast-convert(n)\n ROOT t = (s4[2,2], u8[2]) tuple(n, b) }"
    nibbles, back = evaluate(text, np.array([0x1F, 0x72], np.uint8))
    np.testing.assert_array_equal(nibbles.astype(int), [[-1, 1], [2, 7]])
    np.testing.assert_array_equal(back, [0x1F, 0x72])


@pytest.mark.parametrize(
    ("opcode", "t"), [("atan2", "s8"), ("shift-left", "f32"), ("maximum", "c64"), ("remainder", "c64")]
)
def test_no_elements_are_no_matter_of_their_type(opcode, t):
    result = binary(opcode, [], [], t)
    assert (result.shape, result.dtype) == ((0,), BY_TEXT[t].dtype)
    with pytest.raises(EvaluationError):
        binary(opcode, [1], [1], t)


@pytest.mark.parametrize(("t", "x"), [("f32", [-88.9, -100.0, -104.5]), ("f64", [-709.9, -721.75, -746.0])])
def test_a_logistic_function_falls_to_zero_by_subnormals(t, x):
    result = unary("logistic", x, t)
    np.testing.assert_allclose(result, np.exp(np.array(x, result.dtype)), rtol=1e-6)
    assert result[1] > 0 == result[2]


def test_the_logarithm_of_a_complex_number_near_one_keeps_its_digits():
    z = np.array([5.5e-86 - 6.7e-4j, 1e-9 + 1e-8j, 1e-200 + 0j, 0.3 - 0.2j, 3 + 4j])
    exact = z - z**2 / 2 + z**3 / 3 - z**4 / 4 + z**5 / 5
    exact[3:] = np.log(1 + z[3:])
    result = unary("log-plus-one", z, "c128")
    np.testing.assert_allclose(result.real, exact.real, rtol=1e-12)
    np.testing.assert_allclose(result.imag, exact.imag, rtol=1e-12)


def test_a_fraction_below_one_step_of_the_random_number_is_never_rounded_up() -> None:
    """XLA compares integers: the fraction times 2^bits is truncated first."""
    text = "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n r = u32[4] parameter(1)\n ROOT s = s8[4] stochastic-convert(x, r)\n}"
    x = np.array([1e-40, -1e-12, 2 + 2.0**-20, 0.5], np.float32)
    seen = evaluate(text, x, np.zeros(4, np.uint32))
    np.testing.assert_array_equal(seen, np.array([0, 0, 3, 1], np.int8))
    np.testing.assert_array_equal(xlanb.compile(text)(x, np.zeros(4, np.uint32)), seen)

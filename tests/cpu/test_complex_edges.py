"""Complex functions of zero, tiny, huge, infinite or NaN parts: compiled code and interpreter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError, HloVerifierError, UnimplementedError

PARTS = [0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan]
FUNCTIONS = "exponential log sqrt rsqrt sine cosine logistic exponential-minus-one log-plus-one sign".split()


def same(a, b, tolerance):
    for x, y in ((a.real, b.real), (a.imag, b.imag)):
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("kind", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
@pytest.mark.parametrize("opcode", FUNCTIONS)
def test_functions_at_their_edges(opcode, kind, dtype):
    limits = np.finfo(dtype)
    parts = [*PARTS, 0.9 * float(limits.max), float(limits.tiny)]
    x = np.array([complex(a, b) for a, b in product(parts, parts)], dtype)
    text = f"HloModule m\nENTRY e {{ x = {kind}[{x.size}] parameter(0) ROOT r = {kind}[{x.size}] {opcode}(x) }}\n"
    with np.errstate(all="ignore"):
        same(xlanb.compile(text)(x), xlanb.evaluate(text, x), 100 * float(limits.eps))


@pytest.mark.parametrize(("kind", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
def test_roots_and_logarithms_of_huge_numbers_are_finite(kind, dtype):
    big = 0.9 * float(np.finfo(dtype).max)
    x = np.array([big, -big, big * 1j, big + big * 1j], dtype)
    for opcode, expected in (("sqrt", np.sqrt(x)), ("log", np.log(x)), ("rsqrt", 1 / np.sqrt(x))):
        text = f"HloModule m\nENTRY e {{ x = {kind}[4] parameter(0) ROOT r = {kind}[4] {opcode}(x) }}\n"
        made = xlanb.compile(text)(x)
        assert np.isfinite(made).all()
        np.testing.assert_allclose(made, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "operation",
    ["c64[2] maximum(x, y)", "c64[2] minimum(x, y)", "c64[2] clamp(x, y, x)", "pred[2] compare(x, y), direction=LT"],
)
def test_complex_numbers_have_no_order(operation):
    text = f"HloModule m\nENTRY e {{ x = c64[2] parameter(0) y = c64[2] parameter(1) ROOT r = {operation} }}\n"
    with pytest.raises(
        UnimplementedError, match=r"c64, which is not ordered \(compare real and imaginary parts\).*\n.*%r = "
    ):
        xlanb.compile(text)
    with pytest.raises(EvaluationError, match="c64 values are not ordered: compare their parts"):
        xlanb.evaluate(text, np.ones(2, np.complex64), np.ones(2, np.complex64))


def test_complex_numbers_have_no_largest():
    text = "HloModule m\nENTRY e { x = c64[2] parameter(0) ROOT r = (c64[1], s32[1]) topk(x), k=1, largest=true }\n"
    with pytest.raises(HloVerifierError, match="expected real numbers, not unordered"):
        xlanb.compile(text)
    with pytest.raises(EvaluationError, match="c64 values are not ordered: compare their parts"):
        xlanb.evaluate(text, np.ones(2, np.complex64))


@pytest.mark.parametrize(("kind", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
@pytest.mark.parametrize("opcode", ["multiply", "divide", "power", "atan2"])
def test_two_operands_at_their_edges(opcode, kind, dtype):
    limits = np.finfo(dtype)
    is_exact = opcode in ("multiply", "divide")  # no function rounds: bitwise equal, including signs of zeros
    parts = [*PARTS, 0.9 * float(limits.max)] if is_exact else [*PARTS, 0.3]
    numbers = np.array([complex(a, b) for a, b in product(parts, parts)], dtype)
    x, y = (v.ravel() for v in np.meshgrid(numbers, numbers, indexing="ij"))
    text = f"HloModule m\nENTRY e {{ x = {kind}[{x.size}] parameter(0) y = {kind}[{x.size}] parameter(1) ROOT r = {kind}[{x.size}] {opcode}(x, y) }}\n"
    made, expected = xlanb.compile(text)(x, y), xlanb.evaluate(text, x, y)
    if is_exact:
        for a, b in ((made.real, expected.real), (made.imag, expected.imag)):
            np.testing.assert_array_equal(a, b)
            np.testing.assert_array_equal(np.signbit(a)[~np.isnan(a)], np.signbit(b)[~np.isnan(b)])
    else:
        same(made, expected, 100 * float(limits.eps))


@pytest.mark.parametrize(("kind", "dtype"), [("c64", np.complex64), ("c128", np.complex128)])
@pytest.mark.parametrize("opcode", ["tanh", "tan"])
def test_tangents_at_their_edges(opcode, kind, dtype):
    parts = [*PARTS, 0.3, -40.0, 1e30]
    x = np.array([complex(a, b) for a, b in product(parts, parts)], dtype)
    text = f"HloModule m\nENTRY e {{ x = {kind}[{x.size}] parameter(0) ROOT r = {kind}[{x.size}] {opcode}(x) }}\n"
    made, expected = xlanb.compile(text)(x), xlanb.evaluate(text, x)
    same(made, expected, 100 * float(np.finfo(dtype).eps))
    inside = np.isfinite(x) & (np.abs(x) < 100)
    reference = {"tanh": np.tanh, "tan": np.tan}[opcode](x[inside].astype(np.complex128))
    np.testing.assert_allclose(made[inside], reference, rtol=1e-5)


def test_products_are_rounded_part_by_part():
    """A fused multiply-add would avoid the overflow."""
    x, y = (np.array([v], np.complex64) for v in (3e38 + 3e38j, -1.5 - 1.5j))
    text = "HloModule m\nENTRY e { x = c64[1] parameter(0) y = c64[1] parameter(1) ROOT r = c64[1] multiply(x, y) }\n"
    for made in (xlanb.compile(text)(x, y), xlanb.evaluate(text, x, y)):
        assert np.isnan(made.real).all()
        assert np.isneginf(made.imag).all()


@pytest.mark.parametrize("opcode", "acos acosh asin asinh atanh cosh sinh atan".split())
def test_functions_that_complex_numbers_do_not_have(opcode):
    text = f"HloModule m\nENTRY e {{ x = c64[2] parameter(0) ROOT r = c64[2] {opcode}(x) }}\n"
    with pytest.raises(UnimplementedError, match=f"{opcode} of c64 is not implemented"):
        xlanb.compile(text)
    with pytest.raises(EvaluationError, match="expected a floating type, not c64"):
        xlanb.evaluate(text, np.ones(2, np.complex64))

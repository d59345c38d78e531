"""Complex functions where parts are zero, tiny, huge, infinite or NaN: compiled code gives the interpreter's results."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import xlanb
from xlanb.errors import EvaluationError, UnimplementedError

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
    with pytest.raises(UnimplementedError):
        xlanb.compile(text)
    with pytest.raises(EvaluationError, match="numbers of type c64 have no order: compare their parts"):
        xlanb.evaluate(text, np.ones(2, np.complex64), np.ones(2, np.complex64))

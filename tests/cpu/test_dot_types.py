"""Dots of all combinations of element types, with and without the kinds of dimensions."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xlanb
from tests.numeric_values import NUMERIC, SMALL_FLOATS, is_float
from xlanb.shape.primitive_type import BY_TEXT

NARROW = [t for t in (*SMALL_FLOATS, "bf16", "f16") if t not in ("f8e8m0fnu", "f4e2m1fn")]
FORMS = {
    "vectors": ((500,), (500,), "lhs_contracting_dims={0}, rhs_contracting_dims={0}"),
    "batch": (
        (8, 500),
        (8, 500),
        "lhs_batch_dims={0}, lhs_contracting_dims={1}, rhs_batch_dims={0}, rhs_contracting_dims={1}",
    ),
    "matrix by vector": ((8, 500), (500,), "lhs_contracting_dims={1}, rhs_contracting_dims={0}"),
    "two contracted": ((20, 25), (25, 20), "lhs_contracting_dims={0,1}, rhs_contracting_dims={1,0}"),
}


def _dot(types, left, right, numbers, result):
    a, b, c = types
    shape = lambda t, dims: f"{t}[{','.join(map(str, dims))}]"  # noqa: E731 - a line of text
    return (
        f"HloModule m\nENTRY e {{\n a = {shape(a, left)} parameter(0)\n b = {shape(b, right)} parameter(1)\n"
        f" ROOT r = {shape(c, result)} dot(a, b), {numbers}\n}}\n"
    )


@pytest.mark.parametrize("t", NARROW)
@pytest.mark.parametrize("form", FORMS)
def test_products_of_narrow_floats_are_rounded_once_at_the_end(t, form):
    left, right, numbers = FORMS[form]
    result = (8,) if form in ("batch", "matrix by vector") else ()
    dtype, rng = BY_TEXT[t].dtype, np.random.default_rng(0)
    a, b = ((0.4 * rng.standard_normal(s)).astype(np.float32).astype(dtype) for s in (left, right))
    exact = np.asarray(
        xlanb.evaluate(_dot(("f64",) * 3, left, right, numbers, result), *(x.astype(np.float64) for x in (a, b)))
    )
    got = np.asarray(xlanb.compile(_dot((t,) * 3, left, right, numbers, result))(a, b))
    finfo = ml_dtypes.finfo(dtype)
    half = np.maximum(np.abs(exact) * float(finfo.eps), float(finfo.smallest_subnormal)) / 2
    assert (np.abs(got.astype(np.float64) - exact) <= half * 1.01 + 1e-4).all()


def _operand(name, shape, rng):
    t = BY_TEXT[name]
    if name == "pred":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if t.is_integral:
        low, high = (-(1 << (t.bits - 1)) if t.is_signed else 0), (1 << (t.bits - t.is_signed))
        return rng.integers(max(low, -9), min(high, 10), shape).astype(np.int8).astype(t.dtype)
    if name == "f8e8m0fnu":
        return np.exp2(rng.integers(-3, 4, shape)).astype(np.float32).astype(t.dtype)
    real = rng.standard_normal(shape)
    wide = real + 1j * rng.standard_normal(shape) if t.is_complex else real.astype(np.float32)
    return wide.astype(t.dtype)


SIZES = st.lists(st.sampled_from([1, 2, 5, 17, 33]), max_size=2).map(tuple)
TYPES = st.sampled_from(NUMERIC)


@settings(max_examples=60)
@given(a=TYPES, b=TYPES, c=TYPES, batch=SIZES, left=SIZES, right=SIZES, summed=SIZES, seed=st.integers(0, 99))
def test_any_types_meet_as_in_the_evaluator(a, b, c, batch, left, right, summed, seed):
    rows, columns = (*batch, *left, *summed), (*batch, *summed, *right)
    n, m, k = len(batch), len(left), len(summed)
    listed = lambda first, count: "{" + ",".join(str(first + d) for d in range(count)) + "}"  # noqa: E731 - a line of text
    numbers = (
        f"lhs_batch_dims={listed(0, n)}, rhs_batch_dims={listed(0, n)}, "
        f"lhs_contracting_dims={listed(n + m, k)}, rhs_contracting_dims={listed(n, k)}"
    )
    text = _dot((a, b, c), rows, columns, numbers, (*batch, *left, *right))
    rng = np.random.default_rng(seed)
    x, y = _operand(a, rows, rng), _operand(b, columns, rng)
    got, want = np.asarray(xlanb.compile(text)(x, y)), np.asarray(xlanb.evaluate(text, x, y))
    assert got.dtype == want.dtype
    with np.errstate(all="ignore"):
        kind = np.complex128 if np.iscomplexobj(want) else np.float64
        if is_float(want) or np.iscomplexobj(want):
            eps = float(ml_dtypes.finfo(want.dtype).eps if is_float(want) else np.finfo(want.dtype).eps)
            near = 4e-6 * max(1, math.prod(summed))
            np.testing.assert_allclose(got.astype(kind), want.astype(kind), rtol=1.01 * eps, atol=near)
        elif is_float(x) or is_float(y) or np.iscomplexobj(x) or np.iscomplexobj(y):
            assert (np.abs(got.astype(kind) - want.astype(kind)) <= 1).mean() > 0.99  # a float sum and an integer
        else:
            np.testing.assert_array_equal(got, want)


MIXED = {
    ("c64", "s16", "s32"): ([1.5 + 0.5j, -4.5], [1, 2], -7),  # the real part of -7.5 + 0.5i, truncated
    ("u32", "c64", "c64"): ([1, 2], [0.5 + 0.5j, 2 + 0.5j], 4.5 + 1.5j),
    ("f32", "f32", "s32"): ([1.5, 1.5], [1.5, 0.5], 3),
    ("f8e5m2", "f8e5m2", "s32"): ([1.5, 1.5], [1.5, 0.5], 3),
    ("f64", "f64", "f32"): ([1 + 2.0**-30, 1], [1, -1], 2.0**-30),
    ("s16", "s16", "pred"): ([3, 1], [1, -3], False),
}
"""Types of operands and result: operands, and XLA's type of their product."""


@pytest.mark.parametrize("types", MIXED)
@pytest.mark.parametrize("rank", [1, 2])
def test_the_sum_is_converted_not_the_operands(types, rank):
    *operands, expected = MIXED[types]
    shape = (1,) * (rank - 1) + (2,)
    x, y = (np.array(v).astype(BY_TEXT[t].dtype).reshape(shape) for v, t in zip(operands, types, strict=False))
    numbers = f"lhs_contracting_dims={{{rank - 1}}}, rhs_contracting_dims={{{rank - 1}}}"
    text = _dot(types, shape, shape, numbers, (1,) * (2 * (rank - 1)))
    for run in (xlanb.compile(text), lambda *arrays: xlanb.evaluate(text, *arrays)):
        assert np.asarray(run(x, y)).reshape(()) == expected

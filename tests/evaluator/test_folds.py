"""reduce, reduce-window, select-and-scatter, scan, sort, against loops over elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.evaluator import evaluate
from xlanb.hlo import parse

ADD = "c { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
ARGMAX = """c {
  a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  g = pred[] compare(b, a), direction=GT
  m = f32[] select(g, b, a)
  n = s32[] select(g, j, i)
  ROOT r = (f32[], s32[]) tuple(m, n)
}
"""


def f32(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def test_reduce_of_any_dimensions(rng):
    x = f32(rng, 3, 4, 5)
    text = f"HloModule m\n{ADD}ENTRY e {{ x = f32[3,4,5] parameter(0)\n z = f32[] constant(1)\n ROOT r = f32[4] reduce(x, z), dimensions={{0,2}}, to_apply=c }}"
    np.testing.assert_allclose(evaluate(text, x), 1 + x.sum(axis=(0, 2)), rtol=1e-5)


@pytest.mark.parametrize("kind", ["bitcast", "bitcast-convert"])
def test_a_reducer_that_reads_bits(kind):
    text = (
        f"HloModule m\nc {{ a = f32[] parameter(0)\n s = s32[] {kind}(a)\n f = f32[] {kind}(s)\n b = f32[] parameter(1)\n"
        " ROOT r = f32[] maximum(f, b) }\nENTRY e { x = f32[2,3] parameter(0)\n z = f32[] constant(1)\n"
        " ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=c }"
    )
    assert evaluate(text, np.arange(6, dtype=np.float32).reshape(2, 3)) == 5


@pytest.mark.parametrize("size", [7, 5000])
def test_variadic_reduce_sequential_and_in_pairs(rng, size):
    x = f32(rng, size, 3)
    x[[2, 4]] = 9
    text = f"""HloModule m
{ARGMAX}ENTRY e {{ x = f32[{size},3] parameter(0)
 i = s32[{size},3] iota(), iota_dimension=0
 l = f32[] constant(-inf)
 k = s32[] constant(-1)
 ROOT r = (f32[3], s32[3]) reduce(x, i, l, k), dimensions={{0}}, to_apply=c }}"""
    values, places = evaluate(text, x)
    np.testing.assert_array_equal(values, [9, 9, 9])
    np.testing.assert_array_equal(places, [2, 2, 2])


def test_a_narrow_sum_is_rounded_once():
    for t, dtype in (("bf16", ml_dtypes.bfloat16), ("f16", np.float16)):
        text = f"HloModule m\n{ADD}ENTRY e {{ x = f32[4000] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32[] reduce(x, z), dimensions={{0}}, to_apply=c }}"
        assert evaluate(text.replace("f32", t), np.full(4000, 0.5, dtype)) == 2000


def test_a_computation_that_is_no_monoid_folds_from_first_to_last():
    text = """HloModule m
c { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = f32[] subtract(b, a) }
ENTRY e { x = f32[3] parameter(0)
 z = f32[] constant(10)
 ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=c }"""
    assert evaluate(text, np.array([1, 2, 3], np.float32)) == 3 - (2 - (1 - 10))


def windows_one_by_one(x, sizes, strides, pads, base, window):
    """Lists of the elements of each window of a matrix, without missing ones."""
    spread = {(r * base[0], c * base[1]): x[r, c] for r in range(x.shape[0]) for c in range(x.shape[1])}
    out = []
    extent = [
        (n - 1) * b + 1 + sum(p) - ((k - 1) * w + 1)
        for n, b, p, k, w in zip(x.shape, base, pads, sizes, window, strict=True)
    ]
    shape = [max(e // s + 1, 0) if e >= 0 else 0 for e, s in zip(extent, strides, strict=True)]
    for r in range(shape[0]):
        for c in range(shape[1]):
            at = [
                (
                    r * strides[0] + i * window[0] - pads[0][0],
                    c * strides[1] + j * window[1] - pads[1][0],
                )
                for i in range(sizes[0])
                for j in range(sizes[1])
            ]
            out.append([spread[p] for p in at if p in spread])
    return out, shape


two = st.tuples(st.integers(1, 3), st.integers(1, 3))
pad = st.tuples(st.integers(0, 2), st.integers(0, 2))


@given(two, two, st.tuples(pad, pad), two, two, st.booleans())
def test_reduce_window(sizes, strides, pads, base, window, generic):
    x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
    elements, shape = windows_one_by_one(x, sizes, strides, pads, base, window)
    attributes = "size={}x{} stride={}x{} pad={}_{}x{}_{} lhs_dilate={}x{} rhs_dilate={}x{}".format(
        *sizes, *strides, *pads[0], *pads[1], *base, *window
    )
    computation = (
        ADD.replace("add(a, b)", "maximum(a, b)")
        if not generic
        else ADD.replace("ROOT r = f32[] add(a, b)", "m = f32[] maximum(a, b)\n ROOT r = f32[] abs(m)")
    )
    text = f"HloModule m\n{computation}ENTRY e {{ x = f32[3,4] parameter(0)\n z = f32[] constant(0)\n ROOT r = f32{shape} reduce-window(x, z), window={{{attributes}}}, to_apply=c }}"
    np.testing.assert_array_equal(evaluate(text, x).reshape(-1), [max([0, *e]) for e in elements])


@pytest.mark.parametrize("reducer", ["add(a, b)", "maximum(b, a)"])
@pytest.mark.parametrize(
    ("window", "reaches"),
    [
        (f"size={2**40} pad={2**40 - 1}_0", [[0], [0, 1], [0, 1, 2]]),
        (f"size={2**40} pad={2**40 - 3}_2 rhs_reversal=1", [[0, 1, 2]] * 3),
        (f"size={2**62} pad={2**62 - 3}_0", [[0, 1, 2]]),
        (f"size={2**20} rhs_dilate=2 pad={2**21 - 4}_1", [[0, 2], [1]]),
        (f"size={2**20} stride={2**20} pad={2**20}_{2**20}", [[], [0, 1, 2]]),
        (f"size={2**41} lhs_dilate={2**40} stride={2**40} pad={2**41 - 1}_0", [[0], [0, 1], [1, 2]]),
    ],
)
def test_a_window_of_padding_alone_but_for_a_few_elements(window, reaches, reducer):
    x = np.array([1, 2, 4], np.float32)
    computation = ADD.replace("add(a, b)", reducer)
    text = (
        f"HloModule m\n{computation}ENTRY e {{ x = f32[3] parameter(0)\n z = f32[] constant(0)\n"
        f" ROOT r = reduce-window(x, z), window={{{window}}}, to_apply=c }}"
    )
    fold = sum if "add" in reducer else max
    got = evaluate(text, x)
    np.testing.assert_array_equal(got[: len(reaches)], [fold([0, *x[read]]) for read in reaches])


def test_select_and_scatter():
    text = f"""HloModule m
{ADD}s {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT r = pred[] compare(a, b), direction=GE }}
ENTRY e {{ x = f32[5] parameter(0)
 y = f32[2] parameter(1)
 z = f32[] constant(1)
 ROOT r = f32[5] select-and-scatter(x, y, z), window={{size=3 stride=2}}, select=s, scatter=c }}"""
    # Both windows select the middle element; of equal ones the first is kept.
    np.testing.assert_array_equal(
        evaluate(text, np.array([1, 2, 7, 7, 0], np.float32), np.array([10, 20], np.float32)),
        [1, 1, 31, 1, 1],
    )


@pytest.mark.parametrize("backwards", [False, True])
def test_scan(backwards):
    text = f"""HloModule m
c {{ x = f32[2] parameter(0)
 s = f32[2] parameter(1)
 a = f32[2] add(x, s)
 ROOT t = (f32[2], f32[2]) tuple(a, a) }}
ENTRY e {{ x = f32[2,3] parameter(0)
 s = f32[2] parameter(1)
 ROOT r = (f32[2,3], f32[2]) scan(x, s), dimensions={{1}}, num_carries=1, is_reverse={str(backwards).lower()}, to_apply=c }}"""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    line = x[:, ::-1] if backwards else x
    expected = line.cumsum(axis=1) + 1
    out, carry = evaluate(text, x, np.ones(2, np.float32))
    np.testing.assert_array_equal(out, expected[:, ::-1] if backwards else expected)
    np.testing.assert_array_equal(carry, expected[:, -1])


def sort_text(comparator, n, t="f32", key="LT", attributes=""):
    body = {
        "plain": f"ROOT r = pred[] compare(a, b), direction={key}{attributes}",
        "abs": f"x = {t}[] abs(a)\n y = {t}[] abs(b)\n ROOT r = pred[] compare(x, y), direction={key}{attributes}",
    }[comparator]
    return f"""HloModule m
c {{ a = {t}[] parameter(0)
 b = {t}[] parameter(1)
 i = s32[] parameter(2)
 j = s32[] parameter(3)
 {body} }}
ENTRY e {{ x = {t}[2,{n}] parameter(0)
 i = s32[2,{n}] iota(), iota_dimension=1
 ROOT s = ({t}[2,{n}], s32[2,{n}]) sort(x, i), dimensions={{1}}, is_stable=true, to_apply=c }}"""


@pytest.mark.parametrize("comparator", ["plain", "abs"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("n", [0, 1, 2, 13, 64])
def test_sort_is_stable_for_any_comparator(rng, comparator, direction, n):
    x = rng.integers(-4, 5, (2, n)).astype(np.float32)
    values, order = evaluate(sort_text(comparator, n, key=direction), x)
    sign = 1 if direction == "LT" else -1
    for row, line, places in zip(x, values, order, strict=True):
        expected = sorted(range(n), key=lambda k: sign * (abs(row[k]) if comparator == "abs" else row[k]))
        np.testing.assert_array_equal(places, expected)
        np.testing.assert_array_equal(line, row[expected])


def test_sort_by_total_order_puts_nan_last():
    x = np.array([[np.nan, 1, -0.0, 0.0, -np.inf], [0.0, -0.0, 5, np.nan, -1]], np.float32)
    _, order = evaluate(sort_text("plain", 5, attributes=", type=TOTALORDER"), x)
    np.testing.assert_array_equal(order, [[4, 2, 3, 1, 0], [4, 1, 0, 2, 3]])


@given(st.lists(st.sampled_from([np.nan, 1.0, -1.0, 3.0, -0.0]), max_size=20))
def test_a_comparator_that_is_no_order_loses_nothing(row):
    n = len(row)
    _, order = evaluate(sort_text("plain", n), np.array([row, row[::-1]], np.float32).reshape(2, n))
    np.testing.assert_array_equal(np.sort(order, axis=1), np.broadcast_to(np.arange(n), (2, n)))


@pytest.mark.parametrize("kind", ["f32", "f8e4m3", "s4"])
def test_reduce_of_no_dimension_of_an_array_without_elements(kind):
    text = (
        f"HloModule m\n{ADD.replace('f32', kind)}ENTRY e {{ x = {kind}[0,3] parameter(0)\n z = {kind}[] constant(1)\n"
        f" ROOT r = {kind}[0,3] reduce(x, z), dimensions={{}}, to_apply=c }}"
    )
    x = np.zeros((0, 3), parse(text).entry_computation.root.array_shape.dtype)
    assert evaluate(text, x).shape == (0, 3)


@pytest.mark.parametrize(
    "operation",
    [
        "reduce(x, z), dimensions={0}, to_apply=f",
        "reduce-window(x, z), window={size=2}, to_apply=f",
        "scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f",
        "select-and-scatter(x, u, z), window={size=2 stride=2}, select=ge, scatter=f",
    ],
)
@pytest.mark.parametrize("wide", ["f16", "f32"])
def test_a_reducer_may_mix_types(operation, wide):
    text = (
        f"HloModule m\nf {{\n  a = f8e4m3fn[] parameter(0)\n  b = {wide}[] parameter(1)\n  c = {wide}[] convert(a)\n"
        f"  ROOT r = {wide}[] multiply(c, b)\n}}\n"
        "ge {\n  a = f8e4m3fn[] parameter(0)\n  b = f8e4m3fn[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}\n"
        "ENTRY e {\n  x = f8e4m3fn[4] parameter(0)\n  z = f8e4m3fn[] constant(2)\n  i = s32[2,1] constant({{0}, {2}})\n"
        f"  u = f8e4m3fn[2] constant({{2, 3}})\n  ROOT r = {operation}\n}}\n"
    )
    x = np.array([1, 2, 3, 4], ml_dtypes.float8_e4m3fn)
    expected = {"reduce": 48, "reduce-window": [4, 12, 24], "scatter": [2, 2, 9, 4], "select-and-scatter": [2, 4, 2, 6]}
    result = evaluate(text, x)
    np.testing.assert_array_equal(result.astype(np.float32), expected[operation.partition("(")[0]])


def test_a_long_fold_into_a_narrower_type_is_done_step_by_step() -> None:
    text = """HloModule m
add {
  a = bf16[] parameter(0)
  b = bf16[] parameter(1)
  ROOT s = f8e4m3[] add(a, b)
}
ENTRY e {
  p = bf16[5001] parameter(0)
  z = bf16[] constant(0)
  ROOT r = bf16[] reduce(p, z), dimensions={0}, to_apply=add
}"""
    x = np.zeros(5001, np.float32)
    x[[3, 5000]] = 2, 1
    module = parse(text)
    assert evaluate(module, x.astype(module.entry_computation.parameters[0].array_shape.dtype)) == 3


@pytest.mark.parametrize("t", ["f4e2m1fn", "f8e4m3fn", "bf16"])
def test_a_window_begins_with_a_number_of_another_type(t: str) -> None:
    """The reducer's type counts, whatever narrow float type the initial value has.

    NumPy cannot convert between some of these types.
    """
    text = f"""HloModule m
    mul {{ a = f8e8m0fnu[] parameter(0)
      b = f8e8m0fnu[] parameter(1)
      ROOT r = f8e8m0fnu[] multiply(a, b) }}
    ENTRY e {{
      x = f8e8m0fnu[4] parameter(0)
      one = {t}[] constant(2)
      ROOT r = reduce-window(x, one), window={{size=2}}, to_apply=mul
    }}"""
    x = np.array([1, 2, 4, 8], ml_dtypes.float8_e8m0fnu)
    seen = evaluate(text, x)
    np.testing.assert_array_equal(np.asarray(seen).astype(np.float32), np.array([4, 16, 64], seen.dtype).astype("f4"))

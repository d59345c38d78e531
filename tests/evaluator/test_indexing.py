"""gather and scatter, against loops over the definition."""

from __future__ import annotations

import numpy as np
import pytest

from xlanb.evaluator import evaluate

GATHER = """HloModule m
ENTRY e { x = f32[6,5,4] parameter(0)
 i = s32[4,2,3] parameter(1)
 ROOT g = f32[4,2,3,2] gather(x, i), offset_dims={1,3}, collapsed_slice_dims={1}, start_index_map={2,0}, index_vector_dim=1, slice_sizes={2,1,2} }"""


def test_gather_clamps_its_starts(rng):
    x = rng.standard_normal((6, 5, 4)).astype(np.float32)
    indices = rng.integers(-3, 8, (4, 2, 3)).astype(np.int32)
    result = evaluate(GATHER, x, indices)
    for b in range(4):
        for c in range(3):
            last, first = indices[b, :, c]
            first, last = min(max(first, 0), 4), min(max(last, 0), 2)
            np.testing.assert_array_equal(result[b, :, c, :], x[first : first + 2, 0, last : last + 2])


def test_gather_with_batching_dimensions(rng):
    x = rng.standard_normal((3, 6)).astype(np.float32)
    indices = rng.integers(0, 6, (4, 3)).astype(np.int32)
    text = """HloModule m
ENTRY e { x = f32[3,6] parameter(0)
 i = s32[4,3] parameter(1)
 ROOT g = f32[4,3] gather(x, i), offset_dims={}, collapsed_slice_dims={1}, start_index_map={1}, operand_batching_dims={0}, start_indices_batching_dims={1}, index_vector_dim=2, slice_sizes={1,1} }"""
    np.testing.assert_array_equal(evaluate(text, x, indices), x[np.arange(3)[None, :], indices])


COMBINERS = {
    "ROOT r = f32[] add(a, b)": lambda a, b: a + b,
    "ROOT r = f32[] multiply(a, b)": lambda a, b: a * b,
    "ROOT r = f32[] maximum(a, b)": max,
    "ROOT r = f32[] subtract(b, a)": lambda a, b: b - a,
    "n = f32[] negate(a)\n ROOT r = f32[] add(n, b)": lambda a, b: b - a,
    "ROOT r = f32[] copy(b)": lambda _, b: b,
}


@pytest.mark.parametrize("body", COMBINERS)
def test_scatter_combines_in_order_and_skips_what_is_outside(rng, body):
    x = rng.standard_normal((6, 5)).astype(np.float32)
    indices = rng.integers(-2, 7, (7, 2)).astype(np.int32)
    updates = rng.standard_normal((2, 7, 2)).astype(np.float32)
    text = f"""HloModule m
c {{ a = f32[] parameter(0)
 b = f32[] parameter(1)
 {body} }}
ENTRY e {{ x = f32[6,5] parameter(0)
 i = s32[7,2] parameter(1)
 u = f32[2,7,2] parameter(2)
 ROOT s = f32[6,5] scatter(x, i, u), update_window_dims={{0,2}}, inserted_window_dims={{}}, scatter_dims_to_operand_dims={{1,0}}, index_vector_dim=1, to_apply=c }}"""
    expected = x.copy()
    for k, (column, row) in enumerate(indices):
        if not (0 <= row <= 4 and 0 <= column <= 3):
            continue
        for i in range(2):
            for j in range(2):
                at = row + i, column + j
                expected[at] = COMBINERS[body](expected[at], updates[i, k, j])
    np.testing.assert_allclose(evaluate(text, x, indices, updates), expected, rtol=1e-5, atol=1e-6)


def test_an_overwriting_scatter_keeps_the_last_update():
    text = """HloModule m
c { a = s32[] parameter(0)
 ROOT b = s32[] parameter(1) }
ENTRY e { x = s32[3] parameter(0)
 i = s32[4] parameter(1)
 u = s32[4] parameter(2)
 ROOT s = s32[3] scatter(x, i, u), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c }"""
    np.testing.assert_array_equal(
        evaluate(
            text,
            np.zeros(3, np.int32),
            np.array([1, 1, 5, 0], np.int32),
            np.array([1, 2, 3, 4], np.int32),
        ),
        [4, 2, 0],
    )


def test_a_variadic_scatter():
    text = """HloModule m
c { a = s32[] parameter(0)
 f = f32[] parameter(1)
 b = s32[] parameter(2)
 g = f32[] parameter(3)
 s = s32[] add(a, b)
 m = f32[] maximum(f, g)
 ROOT t = (s32[], f32[]) tuple(s, m) }
ENTRY e { x = s32[3] parameter(0)
 y = f32[3] parameter(1)
 i = s32[3,1] parameter(2)
 u = s32[3] parameter(3)
 v = f32[3] parameter(4)
 ROOT s = (s32[3], f32[3]) scatter(x, y, i, u, v), update_window_dims={}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=c }"""
    sums, tops = evaluate(
        text,
        np.zeros(3, np.int32),
        np.zeros(3, np.float32),
        np.array([[2], [2], [0]], np.int32),
        np.array([1, 2, 3], np.int32),
        np.array([5, 4, -1], np.float32),
    )
    np.testing.assert_array_equal(sums, [3, 0, 3])
    np.testing.assert_array_equal(tops, [0, 0, 5])

"""Data movement: shapes, padding, slices, layouts under bitcast."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.errors import EvaluationError
from xlanb.evaluator import evaluate


def run(body, *arrays):
    return evaluate(f"HloModule m\nENTRY e {{ {body} }}", *arrays)


def test_a_bitcast_of_a_token_is_the_token():
    result = run(
        "t = token[] after-all()\n b = token[] bitcast(t)\n p = s32[2] parameter(0)\n ROOT r = (token[], s32[2]) tuple(b, p)",
        X[0, :2],
    )
    np.testing.assert_array_equal(result[1], X[0, :2])


X = np.arange(6, dtype=np.int32).reshape(2, 3)


def test_broadcast_with_dimensions_in_any_order():
    np.testing.assert_array_equal(
        run("p = s32[2,3] parameter(0)\n ROOT r = s32[3,4,2] broadcast(p), dimensions={2,0}", X),
        np.broadcast_to(X.T[:, None, :], (3, 4, 2)),
    )


def test_iota_without_elements_needs_no_memory_for_its_longest_dimension():
    assert run("ROOT r = u8[1000000000000,0] iota(), iota_dimension=0").shape == (1000000000000, 0)


def test_iota_wraps_in_its_own_type():
    np.testing.assert_array_equal(
        run("ROOT r = u8[2,300] iota(), iota_dimension=1")[1], np.arange(300).astype(np.uint8)
    )


def test_a_reshape_whose_dynamic_sizes_cannot_be_told():
    body = (
        "p = s32[2,3] parameter(0)\n n = s32[] constant(2)\n d = s32[2,<=3] set-dimension-size(p, n), dimensions={1}\n"
        " ROOT r = s32[<=3,<=2] reshape(d), inferred_dimension=1"
    )
    with pytest.raises(EvaluationError, match="cannot be inferred from 4 elements"):
        run(body, X)


def test_transpose_reverse_reshape_concatenate():
    np.testing.assert_array_equal(
        run("p = s32[2,3] parameter(0)\n ROOT r = s32[3,2] transpose(p), dimensions={1,0}", X), X.T
    )
    np.testing.assert_array_equal(
        run("p = s32[2,3] parameter(0)\n ROOT r = s32[2,3] reverse(p), dimensions={1}", X),
        X[:, ::-1],
    )
    np.testing.assert_array_equal(run("p = s32[2,3] parameter(0)\n ROOT r = s32[3,2] reshape(p)", X), X.reshape(3, 2))
    np.testing.assert_array_equal(
        run("p = s32[2,3] parameter(0)\n ROOT r = s32[2,6] concatenate(p, p), dimensions={1}", X),
        np.hstack([X, X]),
    )


def test_bitcast_keeps_the_place_in_memory():
    result = run("p = s32[2,3]{0,1} parameter(0)\n ROOT r = s32[3,2]{1,0} bitcast(p)", X)
    np.testing.assert_array_equal(result, X.T)
    result = run("p = s32[2,3]{1,0} parameter(0)\n ROOT r = s32[6]{0} bitcast(p)", X)
    np.testing.assert_array_equal(result, X.reshape(-1))


def padded_one_by_one(x, low, high, interior, value):
    spread = []
    for k, v in enumerate(x):
        spread.append(v)
        if k + 1 < len(x):
            spread += [value] * interior
    line = [value] * max(low, 0) + spread[max(-low, 0) :]
    return (line + [value] * high) if high >= 0 else line[:high]


@given(st.integers(0, 5), st.integers(-3, 3), st.integers(-3, 3), st.integers(0, 2))
def test_pad_in_one_dimension(n, low, high, interior):
    x = list(range(1, n + 1))
    size = n + max(n - 1, 0) * interior + low + high
    if size < 0 or (low < 0 and high < 0 and -low > size + -low + -high):
        return
    text = f"p = s32[{n}] parameter(0)\n v = s32[] constant(9)\n ROOT r = s32[{size}] pad(p, v), padding={low}_{high}_{interior}"
    spread = n + max(n - 1, 0) * interior
    if low < -spread or high < -spread:
        return
    np.testing.assert_array_equal(run(text, np.array(x, np.int32)), padded_one_by_one(x, low, high, interior, 9))


@pytest.mark.parametrize(("start", "clamped"), [(-3, 0), (0, 0), (1, 1), (99, 1)])
def test_dynamic_slices_are_clamped(start, clamped):
    text = """p = s32[2,3] parameter(0)
 z = s32[] constant(0)
 s = s64[] parameter(1)
 c = s64[] constant(0)
 u = s32[2,2] parameter(2)
 d = s32[2,2] dynamic-slice(p, c, s), dynamic_slice_sizes={2,2}
 w = s32[2,3] dynamic-update-slice(p, u, c, s)
 ROOT t = (s32[2,2], s32[2,3]) tuple(d, w)"""
    update = np.full((2, 2), 7, np.int32)
    cut, written = run(text, X, np.int64(start), update)
    np.testing.assert_array_equal(cut, X[:, clamped : clamped + 2])
    expected = X.copy()
    expected[:, clamped : clamped + 2] = 7
    np.testing.assert_array_equal(written, expected)


def test_slice_with_strides():
    np.testing.assert_array_equal(
        run("p = s32[2,3] parameter(0)\n ROOT r = s32[1,2] slice(p), slice={[1:2], [0:3:2]}", X),
        [[3, 5]],
    )


def test_dynamic_sizes_bear_on_reductions():
    text = """HloModule m
add { a = s32[] parameter(0)
 b = s32[] parameter(1)
 ROOT c = s32[] add(a, b) }
ENTRY e {
 p = s32[6] parameter(0)
 n = s32[] parameter(1)
 d = s32[<=6] set-dimension-size(p, n), dimensions={0}
 z = s32[] constant(0)
 s = s32[] reduce(d, z), dimensions={0}, to_apply=add
 g = s32[] get-dimension-size(d), dimensions={0}
 ROOT t = (s32[], s32[], s32[<=6]) tuple(s, g, d) }"""
    total, size, rest = evaluate(text, np.arange(6, dtype=np.int32), np.int32(4))
    assert (total, size) == (6, 4)
    np.testing.assert_array_equal(rest, [0, 1, 2, 3])
    with pytest.raises(EvaluationError, match="size 7 exceeds the bound 6 of the dimension"):
        evaluate(text, np.arange(6, dtype=np.int32), np.int32(7))

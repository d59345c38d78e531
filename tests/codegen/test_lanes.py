"""Indices that differ from lane to lane: arithmetic, and where a condition on them changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xlanb.codegen import jit, lanes
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import split
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import I1, I64
from xlanb.codegen.values import Value, Vector


def function() -> Function:
    """An empty function for the host."""
    return ModuleBuilder("m", jit.host()).function("f", [], "", "")


def value_of(index: Ix, n: int) -> int:
    """The value of an index for counter n."""
    if isinstance(index, int):
        return index
    assert isinstance(index, lanes.LaneIndex)
    assert isinstance(index.base, int)
    return index.base + sum(k * ((n + c) // a % m if m else (n + c) // a) for (a, m, c), k in index.terms)


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(0, 40),
    st.integers(1, 40),
    st.integers(1, 6),
    st.integers(1, 12),
)
def test_a_lane_index_is_what_integers_give(sizes: list[int], low: int, count: int, factor: int, divisor: int) -> None:
    """Split over dimensions, joined, multiplied, divided and reduced, its lanes match integers."""
    f, width, high = function(), 4, low + count - 1
    with f.vectorized(width):
        q = lanes.counter(f, low, low, high, width)
        assert f.within(q, low, high + 1).number == 1
        whole: Ix = 0
        try:
            scaled = f.add(f.mul(q, factor), 3)
            quotient, remainder = f.div(scaled, divisor), f.rem(scaled, divisor)
            where = split(f, q, [99, *sizes])
        except lanes.NotAVectorError:
            return
        for v, size in zip(where, [99, *sizes], strict=True):
            whole = f.add(f.mul(whole, size), v)
        for n in range(low, low + min(width, count)):
            assert value_of(whole, n) == n
            assert value_of(quotient, n) == (n * factor + 3) // divisor
            assert value_of(remainder, n) == (n * factor + 3) % divisor
        for index in (whole, quotient, remainder):  # the first lane is known, so all are
            if isinstance(index, lanes.LaneIndex):
                assert index.numbers == [value_of(index, low + k) for k in range(width)]


def test_a_condition_that_changes_in_the_loop_says_where() -> None:
    f = function()
    with f.vectorized(4):
        q = lanes.counter(f, Value(f, I64, "%i"), 0, 99, 4)
        with pytest.raises(lanes.SplitError) as caught:
            f.within(f.add(q, -20), 0, 50)
        assert caught.value.cuts == (20, 70)


def test_a_branch_cannot_depend_on_the_lane() -> None:
    f = function()
    with f.vectorized(4):
        condition = Vector(f, I1.times(4), "%c")
        with pytest.raises(lanes.NotAVectorError, match="differs between lanes"):
            f.choose(condition, lambda: [f.const(I64, 1)], lambda: [f.const(I64, 2)])


def test_a_lane_index_has_no_single_value() -> None:
    f = function()
    with f.vectorized(4):
        q = lanes.counter(f, 0, 0, 99, 4)
        with pytest.raises(lanes.NotAVectorError, match="expected a uniform index"):
            repr(q)

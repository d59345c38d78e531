"""Literals: whose memory they hold, and what makes them equal."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xlanb.shape import Literal
from xlanb.shape.literal import ALIGNMENT
from xlanb.shape.shape import of_array

DTYPES = (np.float32, np.float64, np.int8, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4)
LARGE = 5000


@pytest.mark.parametrize("count", [3, LARGE])
def test_an_array_that_somebody_may_write_to_is_copied(count: int) -> None:
    array = np.arange(count, dtype=np.float32)
    view = array.view()
    view.flags.writeable = False
    made = [Literal.of(array), Literal.of(view)]
    array[0] = 7
    for literal in made:
        assert literal.array[0] == 0
        assert not literal.array.flags.writeable


@pytest.mark.parametrize("count", [3, LARGE])
def test_an_array_that_nobody_writes_to_is_kept(count: int) -> None:
    array = np.arange(count, dtype=np.float32)
    array.flags.writeable = False
    assert Literal.of(array).array is array
    given = np.arange(count, dtype=np.float32)
    literal = Literal(of_array(given), given, is_own=True)
    assert literal.array is given
    assert not given.flags.writeable


def test_a_small_part_does_not_keep_a_large_array() -> None:
    array = np.zeros(1 << 20, np.float32)
    array.flags.writeable = False
    assert not np.shares_memory(Literal.of(array[:8]).array, array)
    part = np.zeros(1 << 20, np.float32)[:8]
    assert not np.shares_memory(Literal(of_array(part), part, is_own=True).array, part)


@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_of_large_arrays_begin_at_a_cache_line(dtype: type) -> None:
    array = np.ones((2, LARGE), dtype)
    for literal in (Literal.of(array), Literal.of(array[:, ::2])):
        assert literal.array.ctypes.data % ALIGNMENT == 0
        assert literal.array.dtype == array.dtype
        assert (literal.array == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [4, LARGE])
def test_literals_are_equal_by_shape_and_bits(dtype: type, count: int) -> None:
    array = np.zeros(count, dtype)
    one, same = Literal.of(array), Literal.of(array)
    assert one == same
    assert hash(one) == hash(same)
    assert one.bits == same.bits
    array[count // 2] = 1
    assert one != Literal.of(array)
    assert one.bits != Literal.of(array).bits
    flat, square = Literal.of(array), Literal.of(array.reshape(2, -1))
    assert flat != square
    assert flat.bits == square.bits


@pytest.mark.parametrize("count", [4, LARGE])
def test_zeros_of_both_signs_differ_and_nan_is_itself(count: int) -> None:
    zeros, nans = np.zeros(count, np.float32), np.full(count, np.nan, np.float32)
    assert Literal.of(zeros) != Literal.of(-zeros)
    assert Literal.of(nans) == Literal.of(nans.copy())


def test_elided_literals_are_equal_to_nothing_else() -> None:
    shape, zero = of_array(np.zeros(LARGE, np.float32)), np.broadcast_to(np.float32(0), LARGE)
    one, other = Literal(shape, zero, is_elided=True), Literal(shape, zero, is_elided=True)
    assert len({one, other, one}) == 2

"""sort: by the comparator's key if it is recognized, else a merge sort over whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.evaluator.elementwise import total_order
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value, is_floating, widen
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("sort")
def _sort(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    axis = i.dimensions[0]
    lines = [np.moveaxis(x, axis, -1) for x in operands]
    order = _known_order(i.to_apply, lines)
    if order is None:
        order = merge_order(ev, i.to_apply, lines)
    results = tuple(np.moveaxis(np.take_along_axis(x, order, axis=-1), -1, axis) for x in lines)
    return results if i.shape.is_tuple else results[0]


def _known_order(comparator: HloComputation, lines: Sequence[Array]) -> Array | None:
    """The order by one operand, if the comparator only compares two of its elements by < or >."""
    root = comparator.root
    if root.opcode is not HloOpcode.COMPARE or any(o.opcode is not HloOpcode.PARAMETER for o in root.operands):
        return None
    a, b = (o.parameter_number for o in root.operands)
    direction = root.attributes["direction"]
    if a // 2 != b // 2 or a == b or direction not in ("LT", "GT"):
        return None
    key = lines[a // 2]
    if any(o.array_shape.dtype != key.dtype for o in root.operands):
        return None
    if root.get("type") == "TOTALORDER" and is_floating(key):
        key = total_order(key)
    elif key.dtype.kind == "c" or (is_floating(key) and bool(np.isnan(widen(key)).any())):
        return None  # not an order: the result depends on the comparisons made
    return order_by_key(key, descending=(direction == "GT") == (a < b))


def order_by_key(key: Array, *, descending: bool) -> Array:
    """Indices that stably sort the last dimension; NaN is the largest."""
    wide = widen(key)
    if not descending:
        return np.argsort(wide, axis=-1, kind="stable")
    return np.asarray(wide.shape[-1] - 1 - np.flip(np.argsort(np.flip(wide, -1), axis=-1, kind="stable"), -1))


def merge_order(ev: Evaluator, comparator: HloComputation, lines: Sequence[Array]) -> Array:
    """Indices that stably sort the last dimension of all operands together by any comparator.

    Bottom-up: sorted runs of doubling length are merged, all pairs of all rows at once. In a merge
    each element of the left run finds, by binary search, how many of the right run come before it;
    elements of the right run take the remaining positions.
    """
    outer, length = lines[0].shape[:-1], lines[0].shape[-1]
    order = np.broadcast_to(np.arange(length), (*outer, length)).copy()
    run = 1
    while run < length:
        order = _merge_runs(ev, comparator, lines, order, run)
        run *= 2
    return order


def _merge_runs(ev: Evaluator, comparator: HloComputation, lines: Sequence[Array], order: Array, run: int) -> Array:
    length = order.shape[-1]
    at = np.arange(length)
    pair = at // (2 * run) * (2 * run)
    left = at[at < pair + run]
    begin = np.minimum(pair[left] + run, length)
    end = np.minimum(pair[left] + 2 * run, length)
    shape = (*order.shape[:-1], left.size)
    low, high = np.broadcast_to(begin, shape).copy(), np.broadcast_to(end, shape).copy()
    mine = order[..., left]
    for _ in range(run.bit_length()):
        searching = low < high
        middle = np.where(searching, (low + high) // 2, 0)
        theirs = np.take_along_axis(order, np.minimum(middle, length - 1), axis=-1)
        comes_first = searching & _less(ev, comparator, lines, theirs, mine)
        low, high = (
            np.where(comes_first, middle + 1, low),
            np.where(searching & ~comes_first, middle, high),
        )
    # If the comparator is not an order, two elements must still not get one position.
    before = np.maximum.accumulate(low - begin + pair[left] * length, axis=-1) - pair[left] * length
    places = left + np.minimum(before, end - begin)
    is_left = np.zeros(order.shape, np.bool_)
    np.put_along_axis(is_left, places, values=True, axis=-1)
    out = np.empty_like(order)
    out[is_left] = mine.reshape(-1)
    out[~is_left] = np.delete(order, left, axis=-1).reshape(-1)
    return out


def _less(ev: Evaluator, comparator: HloComputation, lines: Sequence[Array], a: Array, b: Array) -> Array:
    """Whether the elements at indices a come before those at b."""
    arguments = [np.take_along_axis(x, index, axis=-1) for x in lines for index in (a, b)]
    return np.asarray(ev.map(comparator, arguments))

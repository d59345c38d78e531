"""reduce-window and select-and-scatter, by strided views.

Each offset within the window is processed for all windows at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.bits import convert
from xlanb.evaluator.folding import combine, monoid
from xlanb.evaluator.indexing import scatter_into
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, Value
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.folding import Monoid
    from xlanb.evaluator.interpreter import Evaluator


_FEW_OFFSETS: Final = 2**16
"""Windows with at most this many offsets are processed in full."""


def window_count(size: int, d: WindowDimension) -> int:
    """The number of positions of a window along a dimension of `size` elements."""
    base = (size - 1) * d.base_dilation + 1 if size > 0 else 0
    extent = (d.size - 1) * d.window_dilation + 1 if d.size > 0 else 0
    padded = base + d.padding_low + d.padding_high
    return 0 if padded < extent or extent == 0 else (padded - extent) // d.stride + 1


def window_positions(size: int, d: WindowDimension) -> tuple[Array, Array]:
    """The element read at each position and offset: indices [positions, window].

    Also returns whether there is an element.
    """
    return _positions(size, d, np.arange(window_count(size, d))[:, None], np.arange(d.size)[None, :])


def window_offset(size: int, d: WindowDimension, offset: int) -> tuple[Array, Array]:
    """The element read at each position, at one offset in the window: indices [positions].

    Also returns whether there is an element.
    """
    return _positions(size, d, np.arange(window_count(size, d)), np.asarray(offset))


def reading_offsets(size: int, d: WindowDimension) -> Sequence[int]:
    """The offsets within a window that read an element at some position, in ascending order.

    A window may be far larger than the array below it (2**62 elements, nearly all in the padding).
    If there are many offsets, those that only read padding are left out.
    """
    if size == 0:
        return ()
    if d.size <= _FEW_OFFSETS:
        return range(d.size)
    elements = np.arange(size) * d.base_dilation + d.padding_low
    found = np.zeros(0, np.int64)
    for place in range(window_count(size, d)):
        steps = elements - place * d.stride
        within = (steps >= 0) & (steps % d.window_dilation == 0) & (steps // d.window_dilation < d.size)
        found = np.union1d(found, steps[within] // d.window_dilation)
    return tuple(map(int, d.size - 1 - found[::-1] if d.reversal else found))


def _positions(size: int, d: WindowDimension, places: Array, offsets: Array) -> tuple[Array, Array]:
    steps = d.size - 1 - offsets if d.reversal else offsets
    at = places * d.stride + steps * d.window_dilation - d.padding_low
    inside = (at >= 0) & (at < (size - 1) * d.base_dilation + 1) & (at % d.base_dilation == 0)
    return np.where(inside, at // d.base_dilation, 0), inside


def checked_window(window: Window, rank: int) -> tuple[WindowDimension, ...]:
    """The `rank` dimensions of a window; an empty window has one element.

    Raises:
        EvaluationError: the number of dimensions differs, or a size, stride or dilation is below 1.
    """
    dimensions = window.dimensions or (WindowDimension(1),) * rank
    if len(dimensions) != rank:
        raise EvaluationError(f"a window of {len(dimensions)} dimensions does not match rank {rank}")
    if any(min(d.size, d.stride, d.window_dilation, d.base_dilation) < 1 for d in dimensions):
        raise EvaluationError("sizes, strides and dilations of a window must be at least 1")
    return dimensions


@rule("reduce-window")
def _reduce_window(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    count = len(operands) // 2
    arrays, inits = operands[:count], operands[count:]
    dimensions = checked_window(i.window, arrays[0].ndim)
    known = monoid(i.to_apply, arrays[0], inits[0]) if count == 1 else None
    if known is not None:
        results: tuple[Array, ...] = (_reduce_known(known, arrays[0], inits[0], dimensions),)
    else:
        results = _reduce_any(ev, i, arrays, inits, dimensions)
    return results if i.shape.is_tuple else results[0]


def _reduce_known(known: Monoid, x: Array, init: Array, dimensions: Sequence[WindowDimension]) -> Array:
    """Reduce one dimension after another; positions outside count as the identity."""
    wide = known.accumulator(x)
    identity = known.identity(wide.dtype)
    for axis, d in enumerate(dimensions):
        if d == WindowDimension(1):
            continue
        size = wide.shape[axis]
        line = np.moveaxis(wide, axis, -1)
        total = np.full((*line.shape[:-1], window_count(size, d)), identity, wide.dtype)
        for k in reading_offsets(size, d):
            at, inside = window_offset(size, d, k)
            total = known.combine(total, np.where(inside, line[..., at], identity))
        wide = np.moveaxis(total, -1, axis)
    return known.result(init, wide, x.dtype)


def _offsets(dimensions: Sequence[WindowDimension], sizes: Sequence[int]) -> Iterator[tuple[tuple[Array, ...], Array]]:
    """For each offset in the window that reads anything, in row-major order: its indices.

    These are an open mesh of indices into the operand, and which of them are in bounds.
    """
    rank = len(dimensions)
    last: tuple[int, ...] = (-1,) * rank
    mesh: list[tuple[Array, Array]] = [(np.zeros(0, np.int64), np.zeros(0, np.bool_))] * rank
    for offset in product(*map(reading_offsets, sizes, dimensions)):
        for axis, k in enumerate(offset):
            if k != last[axis]:
                at, inside = window_offset(sizes[axis], dimensions[axis], k)
                shape = [-1 if d == axis else 1 for d in range(rank)]
                mesh[axis] = at.reshape(shape), inside.reshape(shape)
        last = offset
        yield tuple(at for at, _ in mesh), math.prod((inside for _, inside in mesh), start=np.ones((), np.bool_))


def _reduce_any(
    ev: Evaluator,
    i: HloInstruction,
    arrays: Sequence[Array],
    inits: Sequence[Array],
    dimensions: Sequence[WindowDimension],
) -> tuple[Array, ...]:
    sizes = arrays[0].shape
    shape = tuple(window_count(n, d) for n, d in zip(sizes, dimensions, strict=True))
    kinds = [
        leaf.as_array().dtype for _, leaf in i.to_apply.root.shape.leaves()
    ]  # the reducer's type: arrays may have others
    accumulators = tuple(np.broadcast_to(convert(v, k), shape) for v, k in zip(inits, kinds, strict=True))
    if 0 in sizes:
        return accumulators
    for at, inside in _offsets(dimensions, sizes):
        new = combine(ev, i.to_apply, accumulators, [np.broadcast_to(x[at], shape) for x in arrays])
        accumulators = tuple(
            np.where(inside, convert(n, k), a) for n, a, k in zip(new, accumulators, kinds, strict=True)
        )
    return accumulators


@rule("select-and-scatter")
def _select_and_scatter(ev: Evaluator, i: HloInstruction, operand: Array, source: Array, init: Array) -> Array:
    dimensions = checked_window(i.window, operand.ndim)
    out = np.full(operand.shape, init, init.dtype)
    if 0 in source.shape or 0 in operand.shape:
        return out
    found, place = _selected(ev, i, operand, dimensions, source.shape)
    flat = scatter_into(ev, i.attributes["scatter"], [out.reshape(-1)], place[found], [source[found]])[0]
    return flat.reshape(operand.shape)


def _selected(
    ev: Evaluator,
    i: HloInstruction,
    operand: Array,
    dimensions: Sequence[WindowDimension],
    shape: tuple[int, ...],
) -> tuple[Array, Array]:
    """For each window, whether it has an element, and the flat index of the selected one.

    `select` prefers that one over all later ones.
    """
    select = i.attributes["select"]
    flat_index = np.arange(operand.size).reshape(operand.shape)
    chosen = np.zeros(shape, operand.dtype)
    place = np.zeros(shape, np.int64)
    found = np.zeros(shape, np.bool_)
    for at, inside in _offsets(dimensions, operand.shape):
        element = operand[at]
        if element.shape != shape:
            raise EvaluationError(f"the window has {element.shape} positions, but the source has shape {shape}")
        keeps = np.asarray(ev.map(select, [chosen, element]))
        takes = inside & (~found | ~keeps)
        chosen = np.where(takes, element, chosen)
        place = np.where(takes, flat_index[at], place)
        found = found | inside
    return found, place

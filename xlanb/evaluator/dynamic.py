"""Dynamic dimensions: an array is stored at its actual size.

So a size is set by slicing, and read from the array.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.registry import EvaluationRule, rule
from xlanb.evaluator.values import Array, describe, scalar_int
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


_TOGETHER = frozenset({O.MAP, O.REDUCE, O.REDUCE_WINDOW, O.SORT, O.CONCATENATE})


def meeting(i: HloInstruction, found: EvaluationRule) -> EvaluationRule:
    """The rule of an instruction, with operands cut to one size if their dynamic sizes differ.

    It is the smaller of two sizes. But for an elementwise operation, an operand of size 1 takes the
    other's size, as in XLA.
    """
    shapes = [o.shape for o in i.operands if isinstance(o.shape, ArrayShape)]
    if len(shapes) < len(i.operands) or not any(s.is_dynamic for s in shapes):
        return found
    if i.opcode is O.DOT:
        return lambda ev, i, /, *operands: found(ev, i, *_contracted(i, *operands))
    if i.opcode is O.SCATTER:
        return lambda ev, i, /, *operands: found(ev, i, *_scattered(i, operands))
    if i.opcode.is_elementwise or i.opcode in _TOGETHER:
        return lambda ev, i, /, *operands: found(ev, i, *_together(i, operands))
    return found


def _together(i: HloInstruction, operands: Sequence[Array]) -> list[Array]:
    shapes = [o.array_shape for o in i.operands]
    rank = max(s.rank for s in shapes)
    cut = list(operands)
    for axis in range(rank):
        if i.opcode is O.CONCATENATE and axis == i.dimensions[0]:
            continue
        full = [n for n, s in enumerate(shapes) if s.rank == rank]
        sizes = [operands[n].shape[axis] for n in full if shapes[n].is_dynamic_dimension(axis)]
        if not sizes:
            continue
        size = _meet(sizes, implicit_broadcast=i.opcode.is_elementwise)
        for n in full:
            if not (i.opcode.is_elementwise and shapes[n].is_dynamic_dimension(axis) and cut[n].shape[axis] == 1):
                cut[n] = resized(cut[n], axis, min(size, cut[n].shape[axis]))
    return cut


def _meet(sizes: Sequence[int], *, implicit_broadcast: bool) -> int:
    several = [n for n in sizes if n != 1] if implicit_broadcast else sizes
    return min(several, default=1)


def _contracted(i: HloInstruction, a: Array, b: Array) -> tuple[Array, Array]:
    for part in ("batch", "contracting"):
        for p, q in zip(i.ints(f"lhs_{part}_dims"), i.ints(f"rhs_{part}_dims"), strict=True):
            size = min(a.shape[p], b.shape[q])
            a, b = resized(a, p, size), resized(b, q, size)
    return a, b


def _scattered(i: HloInstruction, operands: Sequence[Array]) -> list[Array]:
    """Cut index vectors and updates to the same number along each scatter dimension."""
    made, first = list(operands), len(operands) // 2
    vector, windows = i.attributes["index_vector_dim"], i.ints("update_window_dims")
    axes = [d for d in range(made[first].ndim) if d != vector]
    places = [d for d in range(made[first + 1].ndim) if d not in windows]
    for axis, place in zip(axes, places, strict=True):
        cut = [(first, axis), *((n, place) for n in range(first + 1, len(made)))]
        size = min(made[n].shape[d] for n, d in cut)
        for n, d in cut:
            made[n] = resized(made[n], d, size)
    return made


@rule("get-dimension-size")
def _get_dimension_size(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.asarray(x.shape[i.dimensions[0]], np.int32)


@rule("set-dimension-size")
def _set_dimension_size(ev: Evaluator, i: HloInstruction, x: Array, size: Array) -> Array:
    """Drop elements beyond the new size.

    If the size grows, fill with zeros, which must not be read.
    """
    axis = i.dimensions[0]
    shape = i.array_shape
    wanted = scalar_int(size)
    bound = shape.dimensions[axis]
    if wanted < 0 or (bound >= 0 and wanted > bound):
        raise EvaluationError(f"size {wanted} exceeds the bound {bound} of the dimension")
    if not shape.is_dynamic_dimension(axis):
        wanted = bound
    return resized(x, axis, wanted)


def resized(x: Array, axis: int, size: int) -> Array:
    """x with one dimension cut, or extended with zeros."""
    if size <= x.shape[axis]:
        return x[(slice(None),) * axis + (slice(size),)]
    sizes = list(x.shape)
    sizes[axis] = size - x.shape[axis]
    return np.concatenate([x, np.zeros(sizes, x.dtype)], axis=axis)


@rule("dynamic-reshape")
def _dynamic_reshape(ev: Evaluator, i: HloInstruction, x: Array, *sizes: Array) -> Array:
    wanted = [scalar_int(s) for s in sizes]
    if any(n < 0 for n in wanted) or math.prod(wanted) != x.size:
        raise EvaluationError(f"{describe(x)} has {x.size} elements, which does not match the sizes {wanted}")
    return x.reshape(wanted)

"""Track which indices of a dot an array's dimensions hold, through data movement.

A dimension is a number in mixed radix: its digits, most significant first, are parts of the dot's
axes. A transpose permutes dimensions. A bitcast or reshape regroups the digits, in memory order,
into other dimensions, and splits a digit if a dimension ends within it:

    dot = f32[4,768]       (b)        (t, g)           t of 256, g of 3
    bitcast f32[4,256,3]   (b) (t)    (g)
    transpose f32[3,4,256] (g) (b)    (t)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape

MOVING = frozenset((O.BITCAST, O.COPY, O.RESHAPE, O.TRANSPOSE))
"""Opcodes that `forward` and `backward` support."""


@dataclass(frozen=True, slots=True)
class Digit:
    """The part of an axis with this `stride` and number of values, `size`."""

    axis: str
    stride: int
    size: int


Dims = tuple[tuple[Digit, ...], ...]
"""The digits of each dimension, the most significant first; digits of size 1 are omitted."""


def whole(axes: Iterable[tuple[str, int]]) -> Dims:
    """Dimensions that are one axis each."""
    return tuple((Digit(axis, 1, size),) if size != 1 else () for axis, size in axes)


def forward(i: HloInstruction, dims: Dims) -> Dims | None:
    """The digits of a data-moving instruction's result, from its operand's; None if impossible."""
    if i.opcode is O.TRANSPOSE:
        return tuple(dims[d] for d in i.dimensions)
    return _through(i, i.operands[0].array_shape, i.array_shape, dims)


def backward(i: HloInstruction, dims: Dims) -> Dims | None:
    """The digits of a data-moving instruction's operand, from its result's; None if impossible."""
    if i.opcode is O.TRANSPOSE:
        return tuple(dims[i.dimensions.index(d)] for d in range(len(dims)))
    return _through(i, i.array_shape, i.operands[0].array_shape, dims)


def _through(i: HloInstruction, source: ArrayShape, to: ArrayShape, dims: Dims) -> Dims | None:
    if i.opcode is O.COPY:
        return dims
    if source.element_type is not to.element_type:
        return None
    if i.opcode is O.BITCAST:
        return _regrouped(dims, source.minor_to_major[::-1], to, to.minor_to_major[::-1])
    return _regrouped(dims, range(source.rank), to, range(to.rank))


def _regrouped(dims: Dims, order: Sequence[int], to: ArrayShape, to_order: Sequence[int]) -> Dims | None:
    """Regroup digits from dimensions in one order to others, both most major first."""
    rest = [digit for d in order for digit in dims[d]]
    out: dict[int, tuple[Digit, ...]] = {}
    for d in reversed(to_order):
        size, group = to.dimensions[d], list[Digit]()
        while size > 1:
            if not rest:
                return None
            digit = rest.pop()
            low, high = (digit.size, size) if digit.size <= size else (size, digit.size)
            if high % low:
                return None
            if digit.size > size:
                rest.append(Digit(digit.axis, digit.stride * size, digit.size // size))
                digit = Digit(digit.axis, digit.stride, size)
            group.insert(0, digit)
            size //= digit.size
        out[d] = tuple(group)
    return None if rest else tuple(out[d] for d in range(to.rank))


def steps(dims: Dims, strides: Sequence[int]) -> dict[Digit, int]:
    """The elements from one value of each digit to the next, given the dimensions' strides."""
    return {
        digit: stride * prod(inner.size for inner in group[n + 1 :])
        for group, stride in zip(dims, strides, strict=True)
        for n, digit in enumerate(group)
    }


def refined(found: Iterable[Digit]) -> tuple[Digit, ...] | None:
    """The digits of each axis that all given digits are composed of, most significant first.

    None if there are none.
    """
    marks: dict[str, set[int]] = {}
    for digit in found:
        marks.setdefault(digit.axis, set()).update((digit.stride, digit.stride * digit.size))
    out: list[Digit] = []
    for axis, places in marks.items():
        ordered = sorted(places, reverse=True)
        for high, low in pairwise(ordered):
            if high % low:
                return None
            out.append(Digit(axis, low, high // low))
    return tuple(out)


def step_of(digit: Digit, coarse: dict[Digit, int]) -> int:
    """The step of a refined digit, from those of coarser digits; 0 if the array lacks it."""
    for whole_digit, step in coarse.items():
        if (
            whole_digit.axis == digit.axis
            and whole_digit.stride <= digit.stride < whole_digit.stride * whole_digit.size
        ):
            return step * (digit.stride // whole_digit.stride)
    return 0

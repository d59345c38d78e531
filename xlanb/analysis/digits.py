"""Which indices of a product's operands and result an array's dimensions hold, through the instructions that only move data.

A dimension is a number in mixed radix: its digits, the most significant first, are parts of the axes of a product. A transpose permutes dimensions; a bitcast or reshape
cuts the digits in memory order into other dimensions, a digit in two where a dimension ends within it:

    dot = f32[4,768]       (b)        (t, g)           t of 256, g of 3
    bitcast f32[4,256,3]   (b) (t)    (g)
    transpose f32[3,4,256] (g) (b)    (t)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape

MOVING = frozenset((O.BITCAST, O.COPY, O.RESHAPE, O.TRANSPOSE))
"""Opcodes that `forward` and `backward` go through."""


@dataclass(frozen=True, slots=True)
class Digit:
    """The part of an axis that counts by `stride` and has `size` values."""

    axis: str
    stride: int
    size: int


Dims = tuple[tuple[Digit, ...], ...]
"""The digits of each dimension, the most significant first; digits of size 1 are omitted."""


def whole(axes: Iterable[tuple[str, int]]) -> Dims:
    """Dimensions that are an axis each."""
    return tuple((Digit(axis, 1, size),) if size != 1 else () for axis, size in axes)


def forward(i: HloInstruction, dims: Dims) -> Dims | None:
    """The digits of the result of an instruction that moves data, by those of its operand; None where they do not fit."""
    if i.opcode is O.TRANSPOSE:
        return tuple(dims[d] for d in i.dimensions)
    return _through(i, i.operands[0].array_shape, i.array_shape, dims)


def backward(i: HloInstruction, dims: Dims) -> Dims | None:
    """The digits of the operand of an instruction that moves data, by those of its result; None where they do not fit."""
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
    """The digits of dimensions in an order, slowest first, as those of other dimensions in theirs."""
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
    """Elements from one value of each digit to the next, in an array whose dimensions have these strides."""
    return {
        digit: stride * prod(inner.size for inner in group[n + 1 :])
        for group, stride in zip(dims, strides, strict=True)
        for n, digit in enumerate(group)
    }


def refined(found: Iterable[Digit]) -> tuple[Digit, ...] | None:
    """The digits of each axis that all of these can be made of, the most significant first; None where there are none."""
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
    """The step of a refined digit, by those of the digits that it is part of; 0 where an array does not have it."""
    for whole_digit, step in coarse.items():
        if (
            whole_digit.axis == digit.axis
            and whole_digit.stride <= digit.stride < whole_digit.stride * whole_digit.size
        ):
            return step * (digit.stride // whole_digit.stride)
    return 0

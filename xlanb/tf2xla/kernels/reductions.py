"""Reductions over axes (tf2xla/kernels/reduction_ops.cc, index_ops.cc)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.broadcasting import broadcast_to, canonical_axes
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import highest, lowest
from xlanb.tf2xla.registry import register

_REDUCTIONS: dict[str, tuple[HloOpcode, Callable[[PrimitiveType], Any]]] = {
    "Sum": (HloOpcode.ADD, lambda k: np.zeros((), k.dtype)),
    "Mean": (HloOpcode.ADD, lambda k: np.zeros((), k.dtype)),
    "Prod": (HloOpcode.MULTIPLY, lambda k: np.ones((), k.dtype)),
    "Max": (HloOpcode.MAXIMUM, lowest),
    "Min": (HloOpcode.MINIMUM, highest),
    "All": (HloOpcode.AND, lambda k: np.ones((), k.dtype)),
    "Any": (HloOpcode.OR, lambda k: np.zeros((), k.dtype)),
}


@register(*_REDUCTIONS, constants=(1,))
def _reduce(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    kind, dims = x.array_shape.element_type, x.array_shape.dimensions
    axes = canonical_axes(ctx.ints(1), len(dims), ctx.op.name)
    opcode, initial = _REDUCTIONS[ctx.op.type]
    # XLA sums 16-bit floats in f32, as TensorFlow's kernel does
    wide = PrimitiveType.F32 if opcode is HloOpcode.ADD and kind.is_floating and kind.bits < 32 else kind
    if wide is not kind:
        x = ctx.b.convert(x, wide)
    y = ctx.b.reduce(x, ctx.b.constant(initial(wide)), axes, opcode) if axes else x
    if ctx.op.type == "Mean":
        count = _count(ctx, x, axes)
        y = ctx.b.divide(y, broadcast_to(ctx.b, count, y.array_shape.dimensions))
    if wide is not kind:
        y = ctx.b.convert(y, kind)
    if ctx.attr("keep_dims", False):
        y = ctx.b.reshape(y, [1 if i in axes else d for i, d in enumerate(dims)])
    return y


def _count(ctx: OpContext, x: HloInstruction, axes: Sequence[int]) -> HloInstruction:
    """Return how many elements are reduced to one, in the element type of `x`."""
    shape = x.array_shape
    known = prod(shape.dimensions[a] for a in axes if not shape.is_dynamic_dimension(a))
    count = ctx.b.constant(np.asarray(known).astype(shape.dtype))
    for a in axes:
        if shape.is_dynamic_dimension(a):
            size = ctx.b.convert(ctx.b.get_dimension_size(x, a), shape.element_type)
            count = ctx.b.multiply(count, size)
    return count


@register("EuclideanNorm", constants=(1,))
def _norm(ctx: OpContext) -> HloInstruction:
    """The root of the sum of the squares of absolute values."""
    x = ctx.input(0)
    kind, dims = x.array_shape.element_type, x.array_shape.dimensions
    axes = canonical_axes(ctx.ints(1), len(dims), ctx.op.name)
    wide = PrimitiveType.F32 if kind.is_floating and kind.bits < 32 else kind
    x = ctx.b.convert(x, wide) if wide is not kind else x
    length = ctx.b.abs(x) if kind.is_complex else x
    squares = ctx.b.multiply(length, length)
    zero = ctx.b.constant(np.zeros((), squares.array_shape.dtype))
    y = ctx.b.sqrt(ctx.b.reduce(squares, zero, axes, HloOpcode.ADD) if axes else squares)
    y = ctx.b.convert(y, kind) if y.array_shape.element_type is not kind else y
    return ctx.b.reshape(y, [1 if i in axes else d for i, d in enumerate(dims)]) if ctx.attr("keep_dims") else y

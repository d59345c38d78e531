"""Order along dimensions: running sums, reversal, rolling.

Source: tf2xla/kernels/{scan_ops,reverse_op,reverse_sequence_op,roll_op}.cc.
"""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloComputation, HloInstruction, HloOpcode
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import canonical_axes, canonical_axis
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar, sum_type
from xlanb.tf2xla.registry import register


def _scan(ctx: OpContext, x: HloInstruction, initial: float, region: HloOpcode | HloComputation) -> HloInstruction:
    """Running reductions along the axis of input 1: a window over all that came before."""
    axis = canonical_axis(int(ctx.number(1)), x.array_shape.rank, ctx.op.name)
    b = ctx.b
    if x.array_shape.element_count == 0:
        return x
    start = scalar(ctx, x, initial)
    is_reversed = bool(ctx.attr("reverse", False))
    if ctx.attr("exclusive", False):  # the element itself does not count: all move on by one
        step = (-1, 1, 0) if is_reversed else (1, -1, 0)
        x = b.pad(x, start, [step if i == axis else (0, 0, 0) for i in range(x.array_shape.rank)])
    return running(ctx, x, axis, start, region, is_reversed=is_reversed)


def running(
    ctx: OpContext,
    x: HloInstruction,
    axis: int,
    start: HloInstruction,
    region: HloOpcode | HloComputation,
    *,
    is_reversed: bool = False,
) -> HloInstruction:
    """The running reduction along an axis, each element included; from the end if `is_reversed`."""
    size = x.array_shape.dimensions[axis]
    if x.array_shape.element_count == 0:
        return x
    before, after = (0, size - 1) if is_reversed else (size - 1, 0)
    window = [WindowDimension(1)] * x.array_shape.rank
    window[axis] = WindowDimension(size, 1, before, after)
    return ctx.b.reduce_window(x, start, Window(tuple(window)), region)


@register("Cumsum", "Cumprod", constants=(1,))
def _cumulative(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    kind = x.array_shape.element_type
    opcode, initial = (HloOpcode.ADD, 0) if ctx.op.type == "Cumsum" else (HloOpcode.MULTIPLY, 1)
    return ctx.b.convert(_scan(ctx, ctx.b.convert(x, sum_type(kind)), initial, opcode), kind)


@register("CumulativeLogsumexp", constants=(1,))
def _cumulative_logsumexp(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    kind = x.array_shape.element_type
    wide = ctx.b.convert(x, sum_type(kind))
    return ctx.b.convert(_scan(ctx, wide, float("-inf"), _log_add_exp(ctx, wide.array_shape.element_type)), kind)


def _log_add_exp(ctx: OpContext, kind: PrimitiveType) -> HloComputation:
    """log(exp(x) + exp(y)) as high + log1p(exp(low - high)); for two minus infinities, high."""
    inner = ctx.b.sub_computation("log_add_exp")
    x, y = (inner.parameter(i, array(kind)) for i in range(2))
    high, low = inner.maximum(x, y), inner.minimum(x, y)
    total = inner.add(high, inner.log1p(inner.exp(inner.subtract(low, high))))
    return inner.build_computation(inner.select(inner.is_finite(high), total, high))


@register("ReverseV2", constants=(1,))
def _reverse_v2(ctx: OpContext) -> HloInstruction:
    axes = ctx.ints(1)
    dims = canonical_axes(axes, ctx.shape(0).rank, ctx.op.name)
    if len(dims) != len(axes):
        ctx.fail(f"{axes} contains an axis twice")
    return ctx.b.reverse(ctx.input(0), dims) if dims else ctx.input(0)


@register("Reverse", constants=(1,))
def _reverse(ctx: OpContext) -> HloInstruction:
    marks = ctx.ints(1)
    if len(marks) != ctx.shape(0).rank:
        ctx.fail(f"{len(marks)} flags do not match {ctx.shape(0).rank} dimensions")
    dims = [i for i, mark in enumerate(marks) if mark]
    return ctx.b.reverse(ctx.input(0), dims) if dims else ctx.input(0)


@register("ReverseSequence")
def _reverse_sequence(ctx: OpContext) -> HloInstruction:
    """Reverse the first lengths[i] elements of sequence i by a gather of (batch, position)
    pairs.
    """
    x, lengths = ctx.inputs
    b = ctx.b
    dims = x.array_shape.dimensions
    (batch,), (axis,) = (
        canonical_axes([int(ctx.attr(a, 0))], len(dims), ctx.op.name) for a in ("batch_dim", "seq_dim")
    )
    if batch == axis or lengths.array_shape.dimensions != (dims[batch],):
        ctx.fail(
            f"lengths {lengths.shape} must have one element for each of {dims[batch]} sequences, and batch_dim "
            "must differ from seq_dim"
        )
    kind = lengths.array_shape.element_type
    grid = array(kind, [dims[batch], dims[axis]])
    position = b.iota(grid, 1)
    length = b.broadcast_in_dim(lengths, grid.dimensions, [0])
    mirrored = b.subtract(b.subtract(length, filled(ctx, length, 1)), position)
    source = b.select(b.compare(position, length, "LT"), mirrored, position)
    pairs = b.concatenate([b.reshape(v, [*grid.dimensions, 1]) for v in (b.iota(grid, 0), source)], 2)
    moved = b.gather(
        x,
        pairs,
        offset_dims=range(2, len(dims)),
        collapsed_slice_dims=sorted((batch, axis)),
        start_index_map=[batch, axis],
        index_vector_dim=2,
        slice_sizes=[1 if i in (batch, axis) else d for i, d in enumerate(dims)],
    )
    others = [i for i in range(len(dims)) if i not in (batch, axis)]
    place = {batch: 0, axis: 1, **{d: i + 2 for i, d in enumerate(others)}}
    return b.transpose(moved, [place[i] for i in range(len(dims))])


@register("Roll", constants=(2,))
def _roll(ctx: OpContext) -> HloInstruction:
    """Move element i to (i + shift) mod size: slice the doubled array from (-shift) mod size."""
    x, shift, axes = ctx.input(0), ctx.input(1), ctx.ints(2)
    b = ctx.b
    kind = shift.array_shape.element_type
    shifts = b.reshape(shift, [len(axes)])
    for position, axis in enumerate(axes):
        (d,) = canonical_axes([axis], x.array_shape.rank, ctx.op.name)
        dims = x.array_shape.dimensions
        if dims[d] < 2:
            continue
        size = b.constant(np.asarray(dims[d]).astype(kind.dtype))
        one = b.reshape(b.slice(shifts, [position], [position + 1]), [])
        start = b.remainder(b.subtract(size, b.remainder(one, size)), size)
        zero = scalar(ctx, shift, 0)
        x = b.dynamic_slice(b.concatenate([x, x], d), [start if i == d else zero for i in range(len(dims))], dims)
    return x

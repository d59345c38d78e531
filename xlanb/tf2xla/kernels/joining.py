"""Splitting and joining arrays (tf2xla/kernels/{split_op,concat_op,pack_op,unpack_op}.cc)."""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape.shape import same_dimensions
from xlanb.tf2xla.broadcasting import canonical_axes, canonical_axis
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


def _concatenated(ctx: OpContext, parts: list[HloInstruction], axis: int) -> HloInstruction:
    (axis,) = canonical_axes([axis], parts[0].array_shape.rank, ctx.op.name)
    return ctx.b.concatenate(parts, axis) if len(parts) > 1 else parts[0]


@register("ConcatV2", constants=(-1,))
def _concat(ctx: OpContext) -> HloInstruction:
    return _concatenated(ctx, ctx.inputs[:-1], int(ctx.number(-1)))


@register("Concat", constants=(0,))
def _concat_v1(ctx: OpContext) -> HloInstruction:
    return _concatenated(ctx, ctx.inputs[1:], int(ctx.number(0)))


@register("ConcatOffset", constants=slice(None))
def _concat_offset(ctx: OpContext) -> list[HloInstruction]:
    """Return each tensor's offset in the concatenation: 0 except along the axis."""
    shapes = [ctx.ints(i) for i in range(1, ctx.input_count)]
    axis = canonical_axis(int(ctx.number(0)), len(shapes[0]), ctx.op.name)
    rests = {(*s[:axis], *s[axis + 1 :]) for s in shapes}
    if len(rests) != 1 or len({len(s) for s in shapes}) != 1:
        ctx.fail(f"shapes {shapes} differ in other dimensions than axis {axis}")
    offsets, offset = [], 0
    for shape in shapes:
        offsets.append(
            ctx.b.constant(np.asarray([offset if i == axis else 0 for i in range(len(shape))], ctx.shape(1).dtype))
        )
        offset += shape[axis]
    return offsets


@register("Pack")
def _pack(ctx: OpContext) -> HloInstruction:
    parts = ctx.inputs
    if not all(same_dimensions(p.shape, parts[0].shape) for p in parts):
        ctx.fail("values to stack must have the same shape")
    dims = list(parts[0].array_shape.dimensions)
    (axis,) = canonical_axes([ctx.attr("axis", 0)], len(dims) + 1, ctx.op.name)
    grown = [*dims[:axis], 1, *dims[axis:]]
    reshaped = [ctx.b.reshape(p, grown) for p in parts]
    return ctx.b.concatenate(reshaped, axis) if len(reshaped) > 1 else reshaped[0]


def _pieces(ctx: OpContext, x: HloInstruction, axis: int, sizes: list[int]) -> list[HloInstruction]:
    """Consecutive slices of `x` of these sizes along an axis."""
    if len(sizes) == 1:
        return [x]
    dims = x.array_shape.dimensions
    out, offset = [], 0
    for size in sizes:
        starts = [offset if i == axis else 0 for i in range(len(dims))]
        offset += size
        out.append(ctx.b.slice(x, starts, [offset if i == axis else d for i, d in enumerate(dims)]))
    return out


@register("Unpack")
def _unpack(ctx: OpContext) -> list[HloInstruction]:
    x = ctx.input(0)
    dims = list(x.array_shape.dimensions)
    (axis,) = canonical_axes([ctx.attr("axis", 0)], len(dims), ctx.op.name)
    count = len(ctx.op.outputs)
    if dims[axis] != count:
        ctx.fail(f"dimension {axis} of {x.shape} does not match the {count} outputs")
    return [ctx.b.reshape(p, [*dims[:axis], *dims[axis + 1 :]]) for p in _pieces(ctx, x, axis, [1] * count)]


@register("Split", constants=(0,))
def _split(ctx: OpContext) -> list[HloInstruction]:
    x = ctx.input(1)
    axis = canonical_axis(int(ctx.number(0)), x.array_shape.rank, ctx.op.name)
    size, count = x.array_shape.dimensions[axis], len(ctx.op.outputs)
    if size % count:
        ctx.fail(f"dimension {axis} of {x.shape} cannot be split into {count} equal parts")
    return _pieces(ctx, x, axis, [size // count] * count)


@register("SplitV", constants=(1, 2))
def _split_v(ctx: OpContext) -> list[HloInstruction]:
    """Split by sizes; one of them may be -1 for the remainder."""
    x, sizes = ctx.input(0), ctx.ints(1)
    axis = canonical_axis(int(ctx.number(2)), x.array_shape.rank, ctx.op.name)
    size = x.array_shape.dimensions[axis]
    rest = size - sum(s for s in sizes if s != -1)
    full = [rest if s == -1 else s for s in sizes]
    if sizes.count(-1) > 1 or any(s < 0 for s in full) or sum(full) != size or len(full) != len(ctx.op.outputs):
        ctx.fail(f"sizes {sizes} do not match dimension {axis} of {x.shape} and {len(ctx.op.outputs)} outputs")
    return _pieces(ctx, x, axis, full)

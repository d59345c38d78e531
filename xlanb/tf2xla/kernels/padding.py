"""Padding with a constant and by reflection (tf2xla/kernels/{pad_op,mirror_pad_op}.cc)."""

from __future__ import annotations

from xlanb.hlo import HloInstruction
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import scalar
from xlanb.tf2xla.registry import register


def _paddings(ctx: OpContext, rank: int) -> list[tuple[int, int]]:
    """Low and high padding of each dimension, from input 1."""
    flat = ctx.ints(1)
    if len(flat) != 2 * rank or any(p < 0 for p in flat):
        ctx.fail(f"paddings {flat} must be {rank} pairs of non-negative numbers")
    return list(zip(flat[::2], flat[1::2], strict=True))


@register("Pad", "PadV2", constants=(1,))
def _pad(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    value = ctx.b.reshape(ctx.input(2), []) if ctx.op.type == "PadV2" else scalar(ctx, x, 0)
    paddings = _paddings(ctx, x.array_shape.rank)
    return ctx.b.pad(x, value, [(low, high, 0) for low, high in paddings]) if any(map(any, paddings)) else x


def _along(ctx: OpContext, x: HloInstruction, axis: int, start: int, limit: int) -> HloInstruction:
    dims = x.array_shape.dimensions
    return ctx.b.slice(
        x,
        [start if i == axis else 0 for i in range(len(dims))],
        [limit if i == axis else d for i, d in enumerate(dims)],
    )


def _skipped(ctx: OpContext, size: int, low: int, high: int) -> int:
    """Return 1 if the reflection omits the border (REFLECT), 0 if it repeats it (SYMMETRIC)."""
    skipped = int(ctx.attr("mode") == "REFLECT")
    if max(low, high) > size - skipped:
        ctx.fail(f"paddings {low}, {high} are too large to reflect a dimension of size {size}")
    return skipped


@register("MirrorPad", constants=(1,))
def _mirror_pad(ctx: OpContext) -> HloInstruction:
    """[reflected beginning, x, reflected end] along each dimension in turn."""
    x = ctx.input(0)
    for axis, (low, high) in enumerate(_paddings(ctx, x.array_shape.rank)):
        size = x.array_shape.dimensions[axis]
        skip = _skipped(ctx, size, low, high)
        parts = [x]
        if low:
            parts.insert(0, ctx.b.reverse(_along(ctx, x, axis, skip, skip + low), [axis]))
        if high:
            parts.append(ctx.b.reverse(_along(ctx, x, axis, size - skip - high, size - skip), [axis]))
        x = ctx.b.concatenate(parts, axis) if len(parts) > 1 else x
    return x


@register("MirrorPadGrad", constants=(1,))
def _mirror_pad_grad(ctx: OpContext) -> HloInstruction:
    """Each dimension's padding folded back onto the elements that it reflects, and added."""
    x = ctx.input(0)
    for axis, (low, high) in enumerate(_paddings(ctx, x.array_shape.rank)):
        total = x.array_shape.dimensions[axis]
        size = total - low - high
        skip = _skipped(ctx, size, low, high)
        middle = _along(ctx, x, axis, low, total - high)
        for width, start, before in ((low, 0, skip), (high, total - high, size - skip - high)):
            if width:
                part = ctx.b.reverse(_along(ctx, x, axis, start, start + width), [axis])
                around = [
                    (before, size - before - width, 0) if i == axis else (0, 0, 0) for i in range(x.array_shape.rank)
                ]
                middle = ctx.b.add(middle, ctx.b.pad(part, scalar(ctx, x, 0), around))
        x = middle
    return x

"""Maximum and mean over windows, and their gradients (tf2xla/kernels/pooling_ops.cc)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.hlo import HloComputation, HloInstruction, HloOpcode
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import lowest, scalar, scalar_of, sum_type
from xlanb.tf2xla.kernels.windows import ImageLayout, SpatialWindow, layout_of, pooling_window, spatial_windows
from xlanb.tf2xla.registry import register


def _pooling(ctx: OpContext, dims: Sequence[int], first: int | None) -> tuple[ImageLayout, list[SpatialWindow]]:
    """Return layout and windows over an input of `dims`.

    ksize and strides are attributes, or (V2) the inputs from `first` on.
    """
    layout = layout_of(ctx, 5 if "3D" in ctx.op.type else 4)
    ksize, strides = (
        (ctx.attr("ksize"), ctx.attr("strides")) if first is None else (ctx.ints(first), ctx.ints(first + 1))
    )
    if not len(dims) == len(ksize) == len(strides) == layout.rank:
        ctx.fail(f"input, ksize and strides must have {layout.rank} dimensions")
    if any(v != 1 for values in (ksize, strides) for i, v in enumerate(values) if i not in layout.spatial):
        ctx.fail("pooling over the batch or the channels is not supported")
    windows = [int(ksize[i]) for i in layout.spatial]
    return layout, spatial_windows(ctx, layout, [dims[i] for i in layout.spatial], windows, strides)


@register("MaxPool", "MaxPool3D")
def _max_pool(ctx: OpContext) -> HloInstruction:
    return _max(ctx, None)


@register("MaxPoolV2", constants=(1, 2))
def _max_pool_v2(ctx: OpContext) -> HloInstruction:
    return _max(ctx, 1)


def _max(ctx: OpContext, first: int | None) -> HloInstruction:
    x = ctx.input(0)
    window = pooling_window(*_pooling(ctx, x.array_shape.dimensions, first))
    return ctx.b.reduce_window(x, ctx.b.constant(lowest(x.array_shape.element_type)), window, HloOpcode.MAXIMUM)


@register("MaxPoolGrad", "MaxPool3DGrad")
def _max_pool_grad(ctx: OpContext) -> HloInstruction:
    return _max_grad(ctx, None)


@register("MaxPoolGradV2", constants=(3, 4))
def _max_pool_grad_v2(ctx: OpContext) -> HloInstruction:
    return _max_grad(ctx, 3)


def _max_grad(ctx: OpContext, first: int | None) -> HloInstruction:
    """Each gradient goes to the first largest element of its window."""
    x, _, gradient = ctx.inputs[:3]
    window = pooling_window(*_pooling(ctx, x.array_shape.dimensions, first))
    return ctx.b.select_and_scatter(x, gradient, scalar(ctx, gradient, 0), window, "GE", HloOpcode.ADD)


@register("MaxPoolGradGrad", "MaxPool3DGradGrad")
def _max_pool_grad_grad(ctx: OpContext) -> HloInstruction:
    return _max_grad_grad(ctx, None)


@register("MaxPoolGradGradV2", constants=(3, 4))
def _max_pool_grad_grad_v2(ctx: OpContext) -> HloInstruction:
    return _max_grad_grad(ctx, 3)


def _max_grad_grad(ctx: OpContext, first: int | None) -> HloInstruction:
    """Take the gradient at the first largest element of each window, reducing both together."""
    x, _, gradient = ctx.inputs[:3]
    layout, spatial = _pooling(ctx, x.array_shape.dimensions, first)
    kinds = [x.array_shape.element_type, gradient.array_shape.element_type]
    inits = [ctx.b.constant(lowest(kinds[0])), scalar_of(ctx, kinds[1], 0)]
    both = ctx.b.reduce_window([x, gradient], inits, pooling_window(layout, spatial), _larger_of_pairs(ctx, kinds))
    return ctx.b.get_tuple_element(both, 1)


def _larger_of_pairs(ctx: OpContext, kinds: list[PrimitiveType]) -> HloComputation:
    """(a, x), (b, y) -> (a, x) where a >= b, else (b, y)."""
    inner = ctx.b.sub_computation("larger_of_pairs")
    a, x, b, y = (inner.parameter(i, array(kinds[i % 2])) for i in range(4))
    first = inner.compare(a, b, "GE")
    return inner.build_computation(inner.tuple([inner.select(first, a, b), inner.select(first, x, y)]))


def _divided_by_count(
    ctx: OpContext, x: HloInstruction, layout: ImageLayout, spatial: Sequence[SpatialWindow]
) -> HloInstruction:
    """`x`, one element a window, over the number of elements in the window that are not padding."""
    for axis, w in zip(layout.spatial, spatial, strict=True):
        ctx.check_constant([w.count])
        starts = np.arange(w.count) * w.stride - w.low
        counts = np.minimum(starts + w.window, w.size) - np.maximum(starts, 0)
        if (counts == w.window).all():
            x = ctx.b.divide(x, scalar(ctx, x, w.window))
        else:
            divisor = ctx.b.constant(counts.astype(x.array_shape.dtype))
            x = ctx.b.divide(x, ctx.b.broadcast_in_dim(divisor, x.array_shape.dimensions, [axis]))
    return x


@register("AvgPool", "AvgPool3D")
def _avg_pool(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    kind = x.array_shape.element_type
    layout, spatial = _pooling(ctx, x.array_shape.dimensions, None)
    wide = ctx.b.convert(x, sum_type(kind))
    total = ctx.b.reduce_window(wide, scalar(ctx, wide, 0), pooling_window(layout, spatial), HloOpcode.ADD)
    return ctx.b.convert(_divided_by_count(ctx, total, layout, spatial), kind)


@register("AvgPoolGrad", "AvgPool3DGrad", constants=(0,))
def _avg_pool_grad(ctx: OpContext) -> HloInstruction:
    """Sum the divided gradient, dilated by the strides, over the windows that contain each
    element.
    """
    dims, gradient = ctx.sizes(0), ctx.input(1)
    kind = gradient.array_shape.element_type
    layout, spatial = _pooling(ctx, dims, None)
    counts = dict(zip(layout.spatial, (w.count for w in spatial), strict=True))
    if gradient.array_shape.dimensions != tuple(counts.get(axis, size) for axis, size in enumerate(dims)):
        ctx.fail(f"gradient {gradient.shape} does not match an input of {dims}")
    shares = _divided_by_count(ctx, ctx.b.convert(gradient, sum_type(kind)), layout, spatial)
    window = [WindowDimension(1)] * layout.rank
    for axis, w in zip(layout.spatial, spatial, strict=True):
        low = w.window - 1 - w.low
        high = w.size + w.window - 1 - ((w.count - 1) * w.stride + 1) - low
        window[axis] = WindowDimension(w.window, 1, low, high, 1, w.stride)
    return ctx.b.convert(
        ctx.b.reduce_window(shares, scalar(ctx, shares, 0), Window(tuple(window)), HloOpcode.ADD), kind
    )

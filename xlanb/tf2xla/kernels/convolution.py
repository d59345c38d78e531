"""Convolutions of images and volumes, and their gradients
(tf2xla/kernels/{conv_ops,conv_op_helpers}.cc).

A depthwise convolution is a grouped one: its filter [..., channels, multiplier] is read as [..., 1,
channels * multiplier], one group per channel.
"""

from __future__ import annotations

from math import prod

from xlanb.hlo import HloInstruction
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.windows import ImageLayout, SpatialWindow, layout_of, spatial_windows
from xlanb.tf2xla.registry import register

_DEPTHWISE = "DepthwiseConv2dNative"


def _is_depthwise(ctx: OpContext) -> bool:
    return ctx.op.type.startswith(_DEPTHWISE)


def _grouped_filter_dims(ctx: OpContext, dims: tuple[int, ...]) -> tuple[int, ...]:
    """The filter's dimensions as spatial..., inputs of a group, outputs."""
    if len(dims) < 2:
        ctx.fail(f"a filter of sizes {list(dims)} lacks the dimensions of input and output channels")
    return (*dims[:-2], 1, dims[-2] * dims[-1]) if _is_depthwise(ctx) else dims


def _groups(ctx: OpContext, channels: int, filter_dims: tuple[int, ...]) -> int:
    inputs, outputs = filter_dims[-2:]
    if inputs == 0 or channels % inputs:
        ctx.fail(f"{channels} input channels are not divisible by the filter's {inputs}")
    groups = channels // inputs
    if groups and outputs % groups:
        ctx.fail(f"{outputs} output channels are not divisible by {groups} groups")
    return groups


def _windows(
    ctx: OpContext, layout: ImageLayout, x_dims: tuple[int, ...], filter_dims: tuple[int, ...]
) -> list[SpatialWindow]:
    if len(x_dims) != layout.rank or len(filter_dims) != layout.rank:
        ctx.fail(f"input and filter must have {layout.rank} dimensions, not {len(x_dims)} and {len(filter_dims)}")
    sizes = [x_dims[i] for i in layout.spatial]
    return spatial_windows(ctx, layout, sizes, filter_dims[:-2], ctx.attr("strides"), ctx.attr("dilations", ()))


def _forward_numbers(layout: ImageLayout) -> ConvolutionDimensionNumbers:
    n = len(layout.spatial)
    return ConvolutionDimensionNumbers(
        layout.batch,
        layout.feature,
        layout.spatial,
        n,
        n + 1,
        tuple(range(n)),
        layout.batch,
        layout.feature,
        layout.spatial,
    )


@register("Conv2D", "Conv3D", _DEPTHWISE)
def _convolution(ctx: OpContext) -> HloInstruction:
    return convolution(ctx)


def convolution(ctx: OpContext) -> HloInstruction:
    """The convolution of an image or a volume (input 0) by a filter (input 1)."""
    x, kernel = ctx.input(0), ctx.input(1)
    layout = layout_of(ctx, 5 if ctx.op.type == "Conv3D" else 4)
    dims = _grouped_filter_dims(ctx, kernel.array_shape.dimensions)
    spatial = _windows(ctx, layout, x.array_shape.dimensions, dims)
    groups = _groups(ctx, x.array_shape.dimensions[layout.feature], dims)
    window = Window(tuple(WindowDimension(w.window, w.stride, w.low, w.high, w.dilation) for w in spatial))
    return ctx.b.convolution(
        x, ctx.b.reshape(kernel, dims), window, _forward_numbers(layout), feature_group_count=groups
    )


def _checked_gradient(
    ctx: OpContext, layout: ImageLayout, gradient: HloInstruction, spatial: list[SpatialWindow], outputs: int
) -> None:
    dims = gradient.array_shape.dimensions
    want = [w.count for w in spatial]
    if len(dims) != layout.rank or [dims[i] for i in layout.spatial] != want or dims[layout.feature] != outputs:
        ctx.fail(f"out_backprop {gradient.shape}: expected the spatial sizes {want} and {outputs} channels")


@register("Conv2DBackpropInput", "Conv3DBackpropInputV2", f"{_DEPTHWISE}BackpropInput", constants=(0,))
def _backprop_input(ctx: OpContext) -> HloInstruction:
    """Convolve the gradient, dilated by the strides, with the reversed filter, channels
    exchanged.
    """
    sizes, kernel, gradient = ctx.sizes(0), ctx.input(1), ctx.input(2)
    layout = layout_of(ctx, 5 if "3D" in ctx.op.type else 4)
    dims = _grouped_filter_dims(ctx, kernel.array_shape.dimensions)
    spatial = _windows(ctx, layout, tuple(sizes), dims)
    _checked_gradient(ctx, layout, gradient, spatial, dims[-1])
    groups = _groups(ctx, sizes[layout.feature], dims)
    kernel = ctx.b.reverse(_exchanged(ctx, ctx.b.reshape(kernel, dims), groups), range(len(spatial)))
    window = []
    for w in spatial:
        low = w.extent - 1 - w.low
        high = w.size + w.extent - 1 - ((w.count - 1) * w.stride + 1) - low
        window.append(WindowDimension(w.window, 1, low, high, w.dilation, w.stride))
    return ctx.b.convolution(
        gradient, kernel, Window(tuple(window)), _forward_numbers(layout), feature_group_count=groups
    )


def _exchanged(ctx: OpContext, kernel: HloInstruction, groups: int) -> HloInstruction:
    """Exchange input and output channels in each group.

    [..., inputs / groups, outputs] becomes [..., outputs / groups, inputs].
    """
    *window, inputs, outputs = kernel.array_shape.dimensions
    n = len(window)
    split = ctx.b.reshape(kernel, [*window, inputs, groups, outputs // groups])
    moved = ctx.b.transpose(split, [*range(n), n + 2, n + 1, n])
    return ctx.b.reshape(moved, [*window, outputs // groups, groups * inputs])


@register("Conv2DBackpropFilter", "Conv3DBackpropFilterV2", f"{_DEPTHWISE}BackpropFilter", constants=(1,))
def _backprop_filter(ctx: OpContext) -> HloInstruction:
    """Convolve the input with the gradient, exchanging channels and batch.

    Groups of channels become groups of the batch.
    """
    x, filter_dims, gradient = ctx.input(0), tuple(ctx.sizes(1)), ctx.input(2)
    layout = layout_of(ctx, 5 if "3D" in ctx.op.type else 4)
    dims = _grouped_filter_dims(ctx, filter_dims)
    spatial = _windows(ctx, layout, x.array_shape.dimensions, dims)
    _checked_gradient(ctx, layout, gradient, spatial, dims[-1])
    groups = _groups(ctx, x.array_shape.dimensions[layout.feature], dims)
    n = len(spatial)
    numbers = ConvolutionDimensionNumbers(
        layout.feature,
        layout.batch,
        layout.spatial,
        layout.batch,
        layout.feature,
        layout.spatial,
        n,
        n + 1,
        tuple(range(n)),
    )
    window = []
    for w in spatial:
        needed = (w.count - 1) * w.stride + 1 + (w.window - 1) * w.dilation
        window.append(WindowDimension(w.count, w.dilation, w.low, needed - w.size - w.low, w.stride))
    made = ctx.b.convolution(x, gradient, Window(tuple(window)), numbers, batch_group_count=groups)
    return ctx.b.reshape(made, filter_dims)


@register("Conv")
def _conv(ctx: OpContext) -> HloInstruction:
    """Convolve over any number of spatial dimensions; several batch dimensions are merged."""
    x, kernel = ctx.input(0), ctx.input(1)
    batch_dims = int(ctx.attr("batch_dims", 1))
    x_dims, dims = x.array_shape.dimensions, kernel.array_shape.dimensions
    n = len(dims) - 2
    if n < 0 or batch_dims < 0 or len(x_dims) != batch_dims + n + 1:
        ctx.fail(f"input {x.shape} does not match filter {kernel.shape} with {batch_dims} batch dimensions")
    batch, rest = x_dims[:batch_dims], x_dims[batch_dims:]
    x = ctx.b.reshape(x, [prod(batch), *rest])
    last = ctx.attr("data_format", "CHANNELS_LAST") == "CHANNELS_LAST"
    layout = ImageLayout(0, n + 1, tuple(range(1, n + 1))) if last else ImageLayout(0, 1, tuple(range(2, n + 2)))
    dilations = ctx.attr("dilations", ()) or (1,) * (n + 2)
    spatial = spatial_windows(
        ctx, layout, [x.array_shape.dimensions[i] for i in layout.spatial], dims[:-2], ctx.attr("strides"), dilations
    )
    window = Window(tuple(WindowDimension(w.window, w.stride, w.low, w.high, w.dilation) for w in spatial))
    groups = _groups(ctx, x.array_shape.dimensions[layout.feature], dims)
    made = ctx.b.convolution(x, kernel, window, _forward_numbers(layout), feature_group_count=groups)
    return ctx.b.reshape(made, [*batch, *made.array_shape.dimensions[1:]])

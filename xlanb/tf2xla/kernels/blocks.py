"""Move blocks of space into the batch or the channels, and back.

After tf2xla/kernels/{spacetobatch_op,batchtospace_op,spacetodepth_op,depthtospace_op}.cc.
"""

from __future__ import annotations

from math import prod

from xlanb.hlo import HloInstruction
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.kernels.windows import ImageLayout, layout_of, spatial_windows
from xlanb.tf2xla.registry import register


def _pairs(ctx: OpContext, index: int, count: int) -> list[tuple[int, int]]:
    flat = ctx.ints(index)
    if len(flat) != 2 * count or any(v < 0 for v in flat):
        ctx.fail(f"input {index} must be {count} pairs of non-negative numbers, not {flat}")
    return list(zip(flat[::2], flat[1::2], strict=True))


@register("SpaceToBatchND", constants=(1, 2))
def _space_to_batch_nd(ctx: OpContext) -> HloInstruction:
    return _to_batch(ctx, ctx.ints(1), _pairs(ctx, 2, len(ctx.ints(1))))


@register("SpaceToBatch", constants=(1,))
def _space_to_batch(ctx: OpContext) -> HloInstruction:
    return _to_batch(ctx, [int(ctx.attr("block_size"))] * 2, _pairs(ctx, 1, 2))


def _to_batch(ctx: OpContext, block: list[int], paddings: list[tuple[int, int]]) -> HloInstruction:
    """[n, s0, s1, ...] -> [b0 b1 n, s0 / b0, s1 / b1, ...]"""
    x = ctx.input(0)
    m, rank = len(block), x.array_shape.rank
    if rank < m + 1 or any(b < 1 for b in block):
        ctx.fail(f"blocks {block} do not match {x.shape}")
    around = [(0, 0, 0), *((low, high, 0) for low, high in paddings), *((0, 0, 0) for _ in range(rank - m - 1))]
    x = ctx.b.pad(x, scalar(ctx, x, 0), around)
    batch, *dims = x.array_shape.dimensions
    space, rest = dims[:m], dims[m:]
    if any(s % b for s, b in zip(space, block, strict=True)):
        ctx.fail(f"padded sizes {space} are not multiples of the blocks {block}")
    split = ctx.b.reshape(x, [batch, *(v for s, b in zip(space, block, strict=True) for v in (s // b, b)), *rest])
    order = [*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m + 1, 2), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    return ctx.b.reshape(
        ctx.b.transpose(split, order),
        [batch * prod(block), *(s // b for s, b in zip(space, block, strict=True)), *rest],
    )


@register("BatchToSpaceND", constants=(1, 2))
def _batch_to_space_nd(ctx: OpContext) -> HloInstruction:
    return _from_batch(ctx, ctx.ints(1), _pairs(ctx, 2, len(ctx.ints(1))))


@register("BatchToSpace", constants=(1,))
def _batch_to_space(ctx: OpContext) -> HloInstruction:
    return _from_batch(ctx, [int(ctx.attr("block_size"))] * 2, _pairs(ctx, 1, 2))


def _from_batch(ctx: OpContext, block: list[int], crops: list[tuple[int, int]]) -> HloInstruction:
    """[b0 b1 n, s0, s1, ...] -> [n, s0 b0, s1 b1, ...], cropped"""
    x = ctx.input(0)
    m, (batch, *dims) = len(block), x.array_shape.dimensions
    if len(dims) < m or any(b < 1 for b in block) or batch % prod(block):
        ctx.fail(f"blocks {block} do not match {x.shape}")
    space, rest = dims[:m], dims[m:]
    split = ctx.b.reshape(x, [*block, batch // prod(block), *space, *rest])
    order = [m, *(v for i in range(m) for v in (m + 1 + i, i)), *range(2 * m + 1, 2 * m + 1 + len(rest))]
    whole = [batch // prod(block), *(s * b for s, b in zip(space, block, strict=True)), *rest]
    merged = ctx.b.reshape(ctx.b.transpose(split, order), whole)
    starts = [0, *(low for low, _ in crops), *(0 for _ in rest)]
    limits = [whole[0], *(size - high for size, (_, high) in zip(whole[1 : m + 1], crops, strict=True)), *rest]
    if any(a > z for a, z in zip(starts, limits, strict=True)):
        ctx.fail(f"crops {crops} exceed {whole}")
    return ctx.b.slice(merged, starts, limits)


@register("SpaceToDepth", ranks="4")
def _space_to_depth(ctx: OpContext) -> HloInstruction:
    """Channels of the result: (block row, block column, channel)."""
    x, size = ctx.input(0), int(ctx.attr("block_size"))
    layout = layout_of(ctx, 4)
    dims = x.array_shape.dimensions
    if any(dims[i] % size for i in layout.spatial):
        ctx.fail(f"sizes of {x.shape} are not multiples of the block size {size}")
    channels = dims[layout.feature]
    shape = {i: dims[i] // size for i in layout.spatial} | {
        layout.feature: channels * size * size,
        layout.batch: dims[layout.batch],
    }
    split: list[int] = []
    where: dict[int, int] = {}
    for i, d in enumerate(dims):
        where[i] = len(split)
        split.extend([d // size, size] if i in layout.spatial else [d])
    blocks = [where[i] + 1 for i in layout.spatial]
    order = [p for i in range(4) for p in ([*blocks, where[i]] if i == layout.feature else [where[i]])]
    return ctx.b.reshape(ctx.b.transpose(ctx.b.reshape(x, split), order), [shape[i] for i in range(4)])


@register("DepthToSpace", ranks="4")
def _depth_to_space(ctx: OpContext) -> HloInstruction:
    x, size = ctx.input(0), int(ctx.attr("block_size"))
    layout = layout_of(ctx, 4)
    dims = x.array_shape.dimensions
    if dims[layout.feature] % (size * size):
        ctx.fail(f"{dims[layout.feature]} channels are not a multiple of {size * size}")
    channels = dims[layout.feature] // (size * size)
    split: list[int] = []
    where: dict[int, int] = {}
    for i, d in enumerate(dims):
        where[i] = len(split)
        split.extend([size, size, channels] if i == layout.feature else [d])
    depth = where[layout.feature]
    order: list[int] = []
    for i in range(4):
        if i == layout.feature:
            order.append(depth + 2)
        else:
            order.append(where[i])
            order.extend([depth + layout.spatial.index(i)] if i in layout.spatial else [])
    result = [channels if i == layout.feature else d * size if i in layout.spatial else d for i, d in enumerate(dims)]
    return ctx.b.reshape(ctx.b.transpose(ctx.b.reshape(x, split), order), result)


@register("ExtractImagePatches")
def _extract_image_patches(ctx: OpContext) -> HloInstruction:
    """Put windows into the channels as (row, column, channel), by a convolution with a one-hot
    filter.
    """
    x = ctx.input(0)
    kind = x.array_shape.element_type
    layout = ImageLayout.of("NHWC")
    dims = x.array_shape.dimensions
    ksizes, strides, rates = ([int(v) for v in ctx.attr(a)] for a in ("ksizes", "strides", "rates"))
    spatial = spatial_windows(ctx, layout, dims[1:3], ksizes[1:3], strides, rates)
    channels = dims[3]
    count = ksizes[1] * ksizes[2]
    b = ctx.b
    # kernel [h, w, 1, channels * h * w]: output (c, k) is element k of the window of channel c
    index = array(PrimitiveType.S32, [count, channels * count])
    picks = b.compare(b.iota(index, 0), b.remainder(b.iota(index, 1), filled(ctx, b.iota(index, 1), count)), "EQ")
    kernel = b.reshape(b.convert(picks, kind), [ksizes[1], ksizes[2], 1, channels * count])
    window = Window(tuple(WindowDimension(w.window, w.stride, w.low, w.high, w.dilation) for w in spatial))
    numbers = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    made = b.convolution(x, kernel, window, numbers, feature_group_count=channels)
    head = made.array_shape.dimensions[:3]
    swapped = b.transpose(b.reshape(made, [*head, channels, count]), [0, 1, 2, 4, 3])
    return b.reshape(swapped, [*head, channels * count])

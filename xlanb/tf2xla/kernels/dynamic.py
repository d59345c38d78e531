"""Ops whose result size depends on the values of the inputs.

The result is made at its bound, and its size is set (`set-dimension-size`). Source:
tf2xla/kernels/{where_op,unique_op,dynamic_partition_op}.cc.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to, canonical_axis
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar_of
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.scattering import scatter_rows
from xlanb.tf2xla.kernels.sequences import running
from xlanb.tf2xla.registry import register

_S32, _S64 = PrimitiveType.S32, PrimitiveType.S64
_MOST_PAIRS = 1 << 24
"""Pairs of slices that Unique along an axis compares."""


def without_dynamic(
    ctx: OpContext, x: HloInstruction, dimensions: Sequence[int] | None = None, fill: float = 0
) -> HloInstruction:
    """The array at the bounds of its dynamic dimensions, with `fill` beyond their sizes."""
    b, shape = ctx.b, x.array_shape
    for d in range(shape.rank) if dimensions is None else dimensions:
        if not shape.is_dynamic_dimension(d):
            continue
        size = broadcast_to(b, b.get_dimension_size(x, d), shape.dimensions)
        x = b.set_dimension_size(x, scalar_of(ctx, _S32, shape.dimensions[d]), d)
        is_real = b.compare(b.iota(array(_S32, shape.dimensions), d), size, "LT")
        x = b.select(is_real, x, filled(ctx, x, fill))
    return x


def running_count(ctx: OpContext, mask: HloInstruction) -> HloInstruction:
    """Return the running count of true elements of pred [n], inclusive, s32 [n]."""
    return running(ctx, ctx.b.convert(mask, _S32), 0, scalar_of(ctx, _S32, 0), HloOpcode.ADD)


def count_of(ctx: OpContext, mask: HloInstruction) -> HloInstruction:
    """Return the number of true elements of pred [n], s32."""
    return ctx.b.reduce(ctx.b.convert(mask, _S32), scalar_of(ctx, _S32, 0), [0], HloOpcode.ADD)


def places_of(ctx: OpContext, mask: HloInstruction) -> HloInstruction:
    """The indices where pred [n] holds, in order, s32 [n]; zeros behind them."""
    b, n = ctx.b, mask.array_shape.dimensions[0]
    target = b.subtract(running_count(ctx, mask), broadcast_to(b, scalar_of(ctx, _S32, 1), [n]))
    outside = broadcast_to(b, scalar_of(ctx, _S32, n), [n])
    target = b.select(mask, target, outside)  # out-of-bounds indices are skipped
    zeros = broadcast_to(b, scalar_of(ctx, _S32, 0), [n])
    return scatter_rows(ctx, zeros, target, b.iota(array(_S32, [n]), 0), None)


def _flat(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.reshape(x, [x.array_shape.element_count])


@register("Where")
def _where(ctx: OpContext) -> HloInstruction:
    """Return the index vectors of nonzero elements in row-major order, s64 [count <= n, rank]."""
    b = ctx.b
    x = without_dynamic(ctx, ctx.input(0))
    dims = x.array_shape.dimensions
    mask = x
    if x.array_shape.element_type is not PrimitiveType.PRED:
        mask = b.compare(x, filled(ctx, x, 0), "NE")
    mask = _flat(ctx, mask)
    rest, columns = b.convert(places_of(ctx, mask), _S64), []
    for d in reversed(dims):
        size = filled(ctx, rest, max(1, d))
        columns.append(b.remainder(rest, size))
        rest = b.divide(rest, size)
    n = prod(dims)
    if not columns:
        made = broadcast_to(b, scalar_of(ctx, _S64, 0), [n, 0])
    else:
        made = b.concatenate([b.reshape(c, [n, 1]) for c in reversed(columns)], 1)
    return b.set_dimension_size(made, count_of(ctx, mask), 0)


@register("DynamicPartition")
def _dynamic_partition(ctx: OpContext) -> list[HloInstruction]:
    """Return the slices of `data` of partitions 0, 1, ..., each [count <= n, ...]."""
    b, data, parts = ctx.b, ctx.input(0), ctx.input(1)
    rank = parts.array_shape.rank
    dims = data.array_shape.dimensions
    if dims[:rank] != parts.array_shape.dimensions:
        ctx.fail(f"partitions {parts.shape} are no prefix of the shape of the data, {data.shape}")
    parts = _flat(ctx, without_dynamic(ctx, parts, fill=-1))
    data = without_dynamic(ctx, data)
    rows = b.reshape(data, [parts.array_shape.element_count, *dims[rank:]])
    made = []
    for number in range(int(ctx.attr("num_partitions"))):
        mask = b.compare(parts, filled(ctx, parts, number), "EQ")
        taken = gather_slices(ctx, rows, places_of(ctx, mask), 0) if rows.array_shape.dimensions[0] else rows
        made.append(b.set_dimension_size(taken, count_of(ctx, mask), 0))
    return made


@register("Unique")
def _unique(ctx: OpContext) -> list[HloInstruction]:
    """Return a vector's distinct elements in order of first occurrence, and each element's index in
    them.
    """
    x = ctx.input(0)
    if x.array_shape.rank != 1:
        ctx.fail(f"unique expects a 1D vector, not {x.shape}")
    return _unique_rows(ctx, x)


@register("UniqueV2", constants=(1,))
def _unique_along(ctx: OpContext) -> list[HloInstruction]:
    """Return the unique slices along an axis; of a vector if the axis is empty."""
    x, axes = ctx.input(0), ctx.ints(1)
    rank = x.array_shape.rank
    if len(axes) > 1 or (not axes and rank != 1):
        ctx.fail(f"unique expects a 1D vector, or one axis, not {x.shape} and axes {axes}")
    if rank == 1:
        return _unique_rows(ctx, x)
    axis = canonical_axis(axes[0], rank, ctx.op.name)
    to_front = [axis, *(d for d in range(rank) if d != axis)]
    rows, places = _unique_rows(ctx, ctx.b.transpose(x, to_front))
    back = [to_front.index(d) for d in range(rank)]
    return [ctx.b.transpose(rows, back), places]


def _unique_rows(ctx: OpContext, x: HloInstruction) -> list[HloInstruction]:
    b, kind = ctx.b, ctx.element_type("out_idx")
    n = x.array_shape.dimensions[0]
    if not n:
        return [b.set_dimension_size(x, scalar_of(ctx, _S32, 0), 0), broadcast_to(b, scalar_of(ctx, kind, 0), [0])]
    is_real, size = None, None
    if x.array_shape.is_dynamic_dimension(0):
        size = b.get_dimension_size(x, 0)
        is_real = b.compare(b.iota(array(_S32, [n]), 0), broadcast_to(b, size, [n]), "LT")
        x = without_dynamic(ctx, x)
    first = _first_of_sorted(ctx, x, is_real) if x.array_shape.rank == 1 else _first_of_rows(ctx, x, is_real)
    is_first = b.compare(first, b.iota(array(_S32, [n]), 0), "EQ")
    if is_real is not None:
        is_first = b.and_(is_first, is_real)
    rank = b.subtract(running_count(ctx, is_first), broadcast_to(b, scalar_of(ctx, _S32, 1), [n]))
    places = b.convert(gather_slices(ctx, rank, first, 0), kind)
    taken = gather_slices(ctx, x, places_of(ctx, is_first), 0)
    if size is not None:
        places = b.set_dimension_size(places, size, 0)
    return [b.set_dimension_size(taken, count_of(ctx, is_first), 0), places]


def _first_of_sorted(ctx: OpContext, x: HloInstruction, is_real: HloInstruction | None) -> HloInstruction:
    """Return for each element the index of the first equal one, by sorting; padding is sorted
    last.
    """
    b, n = ctx.b, x.array_shape.dimensions[0]
    index = b.iota(array(_S32, [n]), 0)
    keys = [x] if is_real is None else [b.convert(b.not_(is_real), _S32), x]
    values, order = _sorted(ctx, keys, index)
    one = [b.slice(v, [1], [n]) for v in values]
    before = [b.slice(v, [0], [n - 1]) for v in values]
    differs = b.compare(one[0], before[0], "NE")
    for p, q in zip(one[1:], before[1:], strict=True):
        differs = b.or_(differs, b.compare(p, q, "NE"))
    begins = b.concatenate([broadcast_to(b, scalar_of(ctx, PrimitiveType.PRED, True), [1]), differs], 0)
    places = b.select(begins, index, filled(ctx, index, 0))
    start = running(ctx, places, 0, scalar_of(ctx, _S32, 0), HloOpcode.MAXIMUM)
    first = gather_slices(ctx, order, start, 0)  # sorting is stable: a group begins with its first
    return scatter_rows(ctx, filled(ctx, index, 0), order, first, None)


def _sorted(
    ctx: OpContext, keys: Sequence[HloInstruction], index: HloInstruction
) -> tuple[list[HloInstruction], HloInstruction]:
    """Vectors sorted by the first key, equal ones by the next, and where each element was."""
    b = ctx.b
    for key in reversed(keys[1:]):  # the least of the keys first: a stable sort keeps its order
        made = b.sort([key, *(k for k in keys if k is not key), index], 0, stable=True)
        parts = [b.get_tuple_element(made, i) for i in range(len(keys) + 1)]
        keys, index = [*parts[1:-1], parts[0]], parts[-1]
    made = b.sort([keys[0], *keys[1:], index], 0, stable=True)
    parts = [b.get_tuple_element(made, i) for i in range(len(keys) + 1)]
    return parts[:-1], parts[-1]


def _first_of_rows(ctx: OpContext, x: HloInstruction, is_real: HloInstruction | None) -> HloInstruction:
    """Return for each slice along dimension 0 the index of the first equal one, comparing all
    pairs.
    """
    b, dims = ctx.b, x.array_shape.dimensions
    n, width = dims[0], prod(dims[1:])
    if n * n * max(1, width) > _MOST_PAIRS:
        ctx.fail(f"unique along an axis compares slices in pairs: {n} of {width} elements are too many")
    rows = b.reshape(x, [n, width])
    left = b.broadcast_in_dim(rows, [n, n, width], [0, 2])
    right = b.broadcast_in_dim(rows, [n, n, width], [1, 2])
    true = scalar_of(ctx, PrimitiveType.PRED, True)
    same = b.reduce(b.compare(left, right, "EQ"), true, [2], HloOpcode.AND)
    if is_real is not None:
        same = b.and_(same, b.broadcast_in_dim(is_real, [n, n], [1]))
    index = b.iota(array(_S32, [n, n]), 1)
    candidates = b.select(same, index, filled(ctx, index, n - 1))
    return b.reduce(candidates, scalar_of(ctx, _S32, n - 1), [1], HloOpcode.MINIMUM)

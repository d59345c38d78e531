"""TensorFlow's ops that are HLO by another name (tf2xla/ops/xla_ops.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.dynamic import without_dynamic
from xlanb.tf2xla.registry import register


def _starts(ctx: OpContext, indices: HloInstruction) -> list[HloInstruction]:
    count = ctx.shape(0).rank
    if indices.array_shape.dimensions != (count,):
        ctx.fail(f"the indices {indices.shape} must be a vector of {count} elements, one for each dimension")
    return [ctx.b.reshape(ctx.b.slice(indices, [i], [i + 1]), []) for i in range(count)]


@register("XlaDynamicSlice", constants=(2,))
def _dynamic_slice(ctx: OpContext) -> HloInstruction:
    return ctx.b.dynamic_slice(ctx.input(0), _starts(ctx, ctx.input(1)), ctx.ints(2))


@register("XlaDynamicUpdateSlice")
def _dynamic_update_slice(ctx: OpContext) -> HloInstruction:
    return ctx.b.dynamic_update_slice(ctx.input(0), ctx.input(1), _starts(ctx, ctx.input(2)))


@register("XlaPad", constants=(2, 3, 4))
def _pad(ctx: OpContext) -> HloInstruction:
    return ctx.b.pad(ctx.input(0), ctx.input(1), list(zip(*(ctx.per_dimension(i) for i in (2, 3, 4)), strict=True)))


@register("XlaSort", ranks="1+")
def _sort(ctx: OpContext) -> HloInstruction:
    """The last axis, smallest first."""
    x = ctx.input(0)
    return ctx.b.sort(x, max(0, x.array_shape.rank - 1))


@register("XlaKeyValueSort", ranks="1+ 1+")
def _key_value_sort(ctx: OpContext) -> Sequence[HloInstruction]:
    keys, values = ctx.inputs
    made = ctx.b.sort([keys, values], max(0, keys.array_shape.rank - 1))
    return [ctx.b.get_tuple_element(made, i) for i in range(2)]


@register("XlaReducePrecision")
def _reduce_precision(ctx: OpContext) -> HloInstruction:
    return ctx.b.reduce_precision(ctx.input(0), int(ctx.attr("exponent_bits")), int(ctx.attr("mantissa_bits")))


@register("XlaSharding", "XlaSpmdFullToShardShape", "XlaSpmdShardToFullShape")
def _sharding(ctx: OpContext) -> HloInstruction:
    """On one device the whole is the shard."""
    return ctx.input(0)


@register("XlaSetBound", constants=(1,))
def _set_bound(ctx: OpContext) -> HloInstruction:
    """The value, known to be at most the bound: sizes that depend on it are bounded."""
    made = ctx.b.convert(ctx.input(0), ctx.shape(0).element_type)
    made = ctx.b.minimum(made, ctx.b.constant(np.asarray(ctx.number(1), made.array_shape.dtype)))
    ctx.constants.set_bound(made, np.asarray(ctx.number(1), made.array_shape.dtype))
    return made


def _dimension(ctx: OpContext) -> int:
    dimension, rank = int(ctx.number(1)), ctx.shape(0).rank
    if not 0 <= dimension < rank:
        ctx.fail(f"dim_index must be in [0, {rank}), not {dimension}")
    return dimension


@register("XlaSetDynamicDimensionSize", constants=(1,))
def _set_dynamic_dimension_size(ctx: OpContext) -> HloInstruction:
    size = ctx.b.convert(ctx.input(2), PrimitiveType.S32)
    return ctx.b.set_dimension_size(ctx.input(0), ctx.b.reshape(size, []), _dimension(ctx))


@register("XlaRemoveDynamicDimensionSize", constants=(1,))
def _remove_dynamic_dimension_size(ctx: OpContext) -> HloInstruction:
    """The array at its bound."""
    x, dimension = ctx.input(0), _dimension(ctx)
    return without_dynamic(ctx, x, [dimension])


@register("XlaBroadcastHelper", constants=(2,))
def _broadcast_helper(ctx: OpContext) -> list[HloInstruction]:
    """Insert dimensions of size 1 into the value of lower rank, to align it with
    `broadcast_dims`.
    """
    both, dims = list(ctx.inputs), ctx.ints(2)
    ranks = [x.array_shape.rank for x in both]
    if ranks[0] == ranks[1]:
        return both
    low = ranks.index(min(ranks))
    if len(dims) != ranks[low] or any(not 0 <= d < max(ranks) for d in dims) or sorted(set(dims)) != dims:
        ctx.fail(f"broadcast_dims {dims} do not map {both[low].shape} to {max(ranks)} dimensions")
    shape = [1] * max(ranks)
    for place, size in zip(dims, both[low].array_shape.dimensions, strict=True):
        shape[place] = size
    both[low] = ctx.b.reshape(both[low], shape)
    return both


@register("DeviceIndex")
def _device_index(ctx: OpContext) -> HloInstruction:
    """Return the number of devices, as TensorFlow's XLA does: none is known at compile time."""
    return ctx.b.constant(np.int32(len(ctx.attr("device_names") or ())))


@register("XlaReplicaId")
def _replica_id(ctx: OpContext) -> HloInstruction:
    return ctx.b.constant(np.int32(0))


@register("XlaConcatND")
def _concat_nd(ctx: OpContext) -> HloInstruction:
    """Pieces in row-major order of a grid, put together; the paddings at the ends are cut off."""
    return concat_nd(ctx, ctx.inputs)


@register("AssignVariableXlaConcatND")
def _assign_concat_nd(ctx: OpContext) -> None:
    ctx.assign_variable(0, concat_nd(ctx, ctx.inputs[1:]))


def concat_nd(ctx: OpContext, pieces: Sequence[HloInstruction]) -> HloInstruction:
    """The whole that pieces of a grid make."""
    parts, grid = list(pieces), [int(n) for n in ctx.attr("num_concats")]
    rank = parts[0].array_shape.rank if parts else 0
    if min(grid, default=1) < 1 or len(grid) != rank or prod(grid) != len(parts):
        ctx.fail(f"num_concats {grid} does not match {len(parts)} pieces of rank {rank}")
    for axis in reversed(range(len(grid))):
        step = grid[axis]
        parts = [
            ctx.b.concatenate(parts[i : i + step], axis) if step > 1 else parts[i] for i in range(0, len(parts), step)
        ]
    whole = parts[0]
    paddings = [int(n) for n in ctx.attr("paddings") or ()] or [0] * len(grid)
    if len(paddings) != len(grid):
        ctx.fail(f"paddings must have {len(grid)} elements, one for each dimension, not {len(paddings)}")
    if not any(paddings):
        return whole
    dims = whole.array_shape.dimensions
    return ctx.b.slice(whole, [0] * len(dims), [d - p for d, p in zip(dims, paddings, strict=True)])


@register("XlaSplitND")
def _split_nd(ctx: OpContext) -> Sequence[HloInstruction]:
    return split_nd(ctx, ctx.input(0))


@register("ReadVariableXlaSplitND")
def _read_split_nd(ctx: OpContext) -> Sequence[HloInstruction]:
    return split_nd(ctx, ctx.read_variable(0))


def split_nd(ctx: OpContext, x: HloInstruction) -> list[HloInstruction]:
    """Split into a grid of equal pieces in row-major order, with zeros for the paddings at the
    ends.
    """
    grid = [int(n) for n in ctx.attr("num_splits")]
    paddings = [int(n) for n in ctx.attr("paddings") or ()] or [0] * len(grid)
    if len(grid) != x.array_shape.rank or len(paddings) != len(grid) or min(grid, default=1) < 1:
        ctx.fail(
            f"num_splits {grid} and paddings {paddings} do not match {x.shape}: expected one of each per "
            "dimension, splits of at least 1"
        )
    if any(paddings):
        zero = ctx.b.constant(np.zeros((), x.array_shape.dtype))
        x = ctx.b.pad(x, zero, [(0, p, 0) for p in paddings])
    dims = x.array_shape.dimensions
    if len(dims) != len(grid) or any(d % n for d, n in zip(dims, grid, strict=True)):
        ctx.fail(f"{x.shape} is not divided evenly by {grid}")
    sizes = [d // n for d, n in zip(dims, grid, strict=True)]
    starts = [[i * s for i, s in zip(place, sizes, strict=True)] for place in np.ndindex(*grid)]
    return [ctx.b.slice(x, s, [a + b for a, b in zip(s, sizes, strict=True)]) for s in starts]


@register("ToBool")
def _to_bool(ctx: OpContext) -> HloInstruction:
    """Convert to bool: a scalar is true if not 0, an array if it has elements."""
    x = ctx.input(0)
    if x.array_shape.rank:
        return ctx.b.constant(np.asarray(0 not in x.array_shape.dimensions))
    return ctx.b.compare(x, ctx.b.constant(np.zeros((), x.array_shape.dtype)), "NE")

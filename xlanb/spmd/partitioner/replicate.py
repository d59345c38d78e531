"""Replicate tiles by all-gathers, or by sums if few devices hold what is needed.

Follows PartitionedHlo::ReplicatePartial and Broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.collectives import all_gather_shards
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo, broadcast_hook, replicate_partial_hook
from xlanb.spmd.partitioner.utilities import (
    create_zero,
    make_binary_add,
    make_partition_offsets,
    resized,
    set_sharding,
    unique_device,
)
from xlanb.spmd.sharding_util import group_sharding_on_dims, partially_replicate_tiled_sharding_on_all_dims_except

_O = HloOpcode


@replicate_partial_hook.implement
def replicate_partial(p: PartitionedHlo, dims: Sequence[int]) -> HloInstruction:
    """Replicate along each dimension by a sum or by an all-gather.

    Uses a sum if one tile is the whole, or if there are at least twice as many tiles as elements.
    """
    shard, base = p.hlo.shape.as_array(), p.base_shape.as_array()
    sharding, b = p.sharding, p.state.b
    final, gathered = list(shard.dimensions), list(shard.dimensions)
    broadcast_dims, sum_dims, gather_dims = [], [], []
    for i in dims:
        tiles = sharding.dimension(i)
        if tiles == 1:
            continue
        size = final[i] = base.dimensions[i]
        if size == shard.dimensions[i]:
            broadcast_dims.append(i)
        elif size <= tiles // 2:
            sum_dims.append(i)
        else:
            gathered[i] = size
            gather_dims.append(i)
    result = _broadcast_within_groups(p, broadcast_dims) if broadcast_dims else p.hlo
    if not gather_dims and not sum_dims:
        return result
    result = all_gather_shards(result, sharding, gather_dims, p.state.collectives)
    if result.shape.as_array().dimensions != tuple(gathered):
        box = tuple(SliceDimension(0, size) for size in gathered)
        result = b.add(_O.SLICE, (result,), resized(shard, gathered), slice=box)
    return _sum_of_placed(p, result, sum_dims, final) if sum_dims else result


def _broadcast_within_groups(p: PartitionedHlo, dims: Sequence[int]) -> HloInstruction:
    """Broadcast from the first device of each group along `dims`, which holds everything."""
    sharding = p.sharding
    grouped = group_sharding_on_dims(sharding, [d for d in range(len(sharding.dimensions)) if d not in dims])
    first = int(grouped.sharding.tile_assignment.reshape(-1)[0])
    set_sharding(p.hlo, HloSharding.assign_device(first))
    state = p.state.per_group(grouped.device_groups)
    made = PartitionedHlo(p.hlo, p.hlo.shape, state).broadcast().hlo
    set_sharding(p.hlo, sharding)
    return set_sharding(made, None)


def _sum_of_placed(
    p: PartitionedHlo, part: HloInstruction, dims: Sequence[int], sizes: Sequence[int]
) -> HloInstruction:
    """Sum over devices, each of which places its part into zeros."""
    b, sharding, state = p.state.b, p.sharding, p.state
    shape = resized(p.hlo.shape, sizes)
    zero = create_zero(array(shape.element_type), b)
    skipped = [d for d in range(shape.rank) if d not in dims]
    set_sharding(part, sharding)
    part = PartitionedHlo(part, shape, state).pad_with_value(zero, (), skipped).hlo
    zeros = b.broadcast(zero, shape)
    kept = partially_replicate_tiled_sharding_on_all_dims_except(sharding, dims)
    offsets = make_partition_offsets(shape, kept, state.partition_id, b, dims)
    placed = b.add(_O.DYNAMIC_UPDATE_SLICE, (zeros, part, *offsets), shape)
    return state.all_reduce_along_sharding_dims(placed, sharding, dims)


@broadcast_hook.implement
def broadcast(p: PartitionedHlo) -> PartitionedHlo:
    """Sum over devices, all but one of which contribute zeros."""
    b, state = p.state.b, p.state
    shape, device = p.hlo.shape.as_array(), unique_device(p.sharding)
    source = b.constant(np.uint32(device))
    is_source = b.add(_O.COMPARE, (state.partition_id, source), array(PrimitiveType.PRED), direction="EQ")
    mask = b.broadcast(is_source, shape.with_type(PrimitiveType.PRED))
    zero = create_zero(array(shape.element_type), b)
    operand = b.add(_O.SELECT, (mask, p.hlo, b.broadcast(zero, shape)), shape)
    reduction = make_binary_add(shape.element_type, state.module)
    with state.because(None, None, p.sharding, HloSharding.replicate(), f"only device {device} holds it", weak=True):
        result = state.collectives.all_reduce(operand, reduction)
    return p.with_hlo(result, HloSharding.replicate())

"""Reshard between tilings with more and with less partial replication.

Slices in one direction and all-gathers in the other (ReshardTo/FromPartialReplicate...).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.halo_compact import exchange_halo_compact
from xlanb.spmd.partitioner.offsets import CombinedOffset, MultiplyAddDivide, OffsetCalculation
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.permute import can_reshard_with_collective_permute, reshard_with_collective_permute
from xlanb.spmd.partitioner.utilities import (
    create_zero,
    get_padded_shape_for_uneven_partitioning,
    make_partition_offsets,
    make_partitioned_shape,
    make_tiled_partition_ordinals,
    resized,
    set_sharding,
    with_devices,
)
from xlanb.spmd.sharding_util import group_sharding_on_dims, is_sub_tiling_or_equal_sharding

_O = HloOpcode


def partial_replicate_reshard_compatible_sharding(partial: HloSharding, target: HloSharding) -> HloSharding | None:
    """Return a sharding with the tiles of `target` that only splits the tiles of `partial`.

    Each tile is split among the devices that hold it. Returns None if there is no such sharding.
    """
    if not partial.replicate_on_last_tile_dim or partial.num_devices != target.num_devices:
        return None
    rank = partial.tiled_data_rank
    if rank != target.tiled_data_rank:
        return None
    factors: dict[int, int] = {}
    for d in range(rank):
        had, wanted = partial.dimension(d), target.dimension(d)
        if wanted % had:
            return None
        if wanted > had:
            factors[d] = wanted // had
    if is_sub_tiling_or_equal_sharding(array(PrimitiveType.F32, target.dimensions[:rank]), target, partial):
        return target
    shape = [*partial.dimensions[:rank], *factors.values()]
    perm: list[int] = []
    for d in range(rank):
        perm.append(d)
        if d in factors:
            perm.append(rank + list(factors).index(d))
    if target.replicate_on_last_tile_dim:
        perm.append(len(shape))
        shape.append(target.dimensions[-1])
    devices = partial.tile_assignment.reshape(shape).transpose(perm).reshape(target.dimensions)
    return with_devices(target, devices, listed=partial.listed)


def reshard_to_partial_replicate_with_all_gather(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Gather adjacent tiles; return None if the target's tiles do not consist of the source's."""
    if not target.replicate_on_last_tile_dim:
        return None
    between = partial_replicate_reshard_compatible_sharding(target, p.sharding)
    if between is None:
        return None
    if can_reshard_with_collective_permute(p.sharding, between):
        p = reshard_with_collective_permute(p, between)
    dims = [d for d in range(p.hlo.shape.as_array().rank) if between.dimension(d) // target.dimension(d) > 1]
    factors = [between.dimension(d) // target.dimension(d) for d in dims]
    base = p.base_shape.as_array()
    exchanged = _tile_to_partial_replicate_halo_exchange(p, base, between, target, dims)
    grouped = group_sharding_on_dims(between, dims, factors)
    state = p.state.per_group(grouped.device_groups)
    sharding = p.sharding
    set_sharding(exchanged, grouped.sharding)
    inner = PartitionedHlo(exchanged, make_partitioned_shape(base, target), state)
    result = inner.replicate_partial(dims)
    set_sharding(p.hlo, sharding)
    return PartitionedHlo(result, base, p.state).with_hlo(result, target)


def reshard_from_partial_replicate_with_dynamic_slice(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Slice each device's tile from what it holds; None if the target does not split the source."""
    source, b = p.sharding, p.state.b
    if not source.replicate_on_last_tile_dim:
        return None
    between = partial_replicate_reshard_compatible_sharding(source, target)
    if between is None:
        return None
    base = p.base_shape.as_array()
    dims = [d for d in range(base.rank) if between.dimension(d) > source.dimension(d)]
    padded = _pad_from_partial_replicate_shape(p, base, source, between, dims)
    shard = make_partitioned_shape(base, between).as_array()
    padded_base = resized(shard, [size * between.dimension(d) for d, size in enumerate(shard.dimensions)])
    to = make_partition_offsets(padded_base, between, p.state.partition_id, b)
    at = make_partition_offsets(padded_base, source, p.state.partition_id, b)
    offsets = [b.add(_O.SUBTRACT, (t, a)) for t, a in zip(to, at, strict=True)]
    piece = b.add(_O.DYNAMIC_SLICE, (padded, *offsets), shard, dynamic_slice_sizes=shard.dimensions)
    result = p.with_hlo(piece, between)
    if can_reshard_with_collective_permute(between, target):
        return reshard_with_collective_permute(result, target)
    return result


def _tile_to_partial_replicate_halo_exchange(
    p: PartitionedHlo, base: ArrayShape, source: HloSharding, target: HloSharding, dims: Sequence[int]
) -> HloInstruction:
    """Exchange halos first if the source's padded tiles together are larger than a target tile."""
    padded_source = get_padded_shape_for_uneven_partitioning(base, source)
    padded_target = get_padded_shape_for_uneven_partitioning(base, target)
    result = p.hlo
    if padded_target.dimensions == result.shape.as_array().dimensions:
        return result
    ordinals = make_tiled_partition_ordinals(source, p.state.partition_id, p.state.b)
    for d in dims:
        tiles = target.dimension(d)
        had, wanted = padded_source.dimensions[d] // tiles, padded_target.dimensions[d] // tiles
        if had <= wanted or tiles == 1:
            continue
        # How many elements earlier a target tile begins than the source tiles that make it up.
        left = CombinedOffset(
            _O.MULTIPLY,
            MultiplyAddDivide(0, had - wanted, 1),
            MultiplyAddDivide(1, 0, source.dimension(d) // tiles),
        )
        right = MultiplyAddDivide(0, 0, 1) - left
        result = _exchange(p, result, base, source, d, ordinals[d], left, right)
    return result


def _pad_from_partial_replicate_shape(
    p: PartitionedHlo, base: ArrayShape, source: HloSharding, target: HloSharding, dims: Sequence[int]
) -> HloInstruction:
    """Pad so that a tile of the source divides into tiles of the target."""
    padded_source = get_padded_shape_for_uneven_partitioning(base, source)
    padded_target = get_padded_shape_for_uneven_partitioning(base, target)
    result, b = p.hlo, p.state.b
    if padded_target.dimensions == result.shape.as_array().dimensions:
        return result
    ordinals = make_tiled_partition_ordinals(source, p.state.partition_id, b)
    zero = create_zero(array(result.shape.as_array().element_type), b)
    high: dict[int, int] = {}
    for d in dims:
        tiles = source.dimension(d)
        had, wanted = padded_source.dimensions[d] // tiles, padded_target.dimensions[d] // tiles
        if had >= wanted:
            continue
        if tiles == 1:
            high[d] = padded_target.dimensions[d] - padded_source.dimensions[d]
            continue
        left = MultiplyAddDivide(had - wanted, 0, 1)
        right = MultiplyAddDivide(wanted - had, wanted - had, 1)
        result = _exchange(p, result, base, source, d, ordinals[d], left, right)
    if high:
        shape = result.shape.as_array()
        padding = tuple(PaddingDimension(0, high.get(d, 0)) for d in range(shape.rank))
        sizes = [size + high.get(d, 0) for d, size in enumerate(shape.dimensions)]
        result = b.add(_O.PAD, (result, zero), resized(shape, sizes), padding=padding)
    return result


def _exchange(
    p: PartitionedHlo,
    hlo: HloInstruction,
    base: ArrayShape,
    sharding: HloSharding,
    dim: int,
    ordinal: HloInstruction,
    left: OffsetCalculation,
    right: OffsetCalculation,
) -> HloInstruction:
    with p.state.because(None, None, None, None, "halo: the tiles have other sizes, so elements move between devices"):
        return exchange_halo_compact(hlo, base, left, right, None, dim, sharding, ordinal, p.state)

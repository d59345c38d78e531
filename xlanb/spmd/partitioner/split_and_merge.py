"""Reshard by splitting a dimension in two, or by moving replication first.

Follows PartitionedHlo::TryComplexReshardHandling.
"""

from __future__ import annotations

from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import ceil_of_ratio
from xlanb.spmd.sharding_util import (
    merge_sharding_dimension,
    partially_replicate_tiled_sharding_on_dims,
    split_sharding_dimension,
    transpose_sharding,
)


def try_complex_reshard_handling(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Try three detours to `target` that avoid full replication; None if none applies."""
    source = p.sharding
    split = _split_dimension(p.base_shape.as_array(), source, target)
    if split is not None:
        return _through_split(p, target, *split)
    intermediate = _with_one_dim_replicated(source, target)
    if intermediate is not None:
        return _arrive(p.reshard(intermediate), target)
    if source.replicate_on_last_tile_dim and not target.replicate_on_last_tile_dim:
        copies = source.dimensions[-1]
        for d in range(len(target.dimensions)):
            tiles = target.dimension(d)
            if tiles != source.dimension(d) and source.dimension(d) == 1 and tiles % copies == 0:
                perm = list(range(len(source.dimensions)))
                perm[d], perm[-1] = perm[-1], perm[d]
                return _arrive(p.reshard(transpose_sharding(source, perm)), target)
    return None


def _arrive(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo | None:
    """Return `p` with sharding `target`, or None if only full replication gives it."""
    made = p.reshard_no_cache(target, allow_full_replication=False)
    return made if made.sharding == target else None


def _split_dimension(base: ArrayShape, source: HloSharding, target: HloSharding) -> tuple[int, int] | None:
    """Return the dimension to split, and how many of its tiles stay.

    Follows PatternMatchMergeOrSplitSharding: [X, Y] <-> [X*Y, 1], [Y, X] <-> [1, X*Y], or
    [X*Y] -> [X] with Y anywhere.
    """
    rank = target.tiled_data_rank
    if not source.is_tiled or not target.is_tiled or source.tiled_data_rank != rank:
        return None
    if source.has_partial_replication != target.has_partial_replication:
        return None
    if source.has_partial_replication and source.dimension(rank) != target.dimension(rank):
        return None
    to_one: list[int] = []
    to_other: list[int] = []
    for d in range(rank):
        low, high = sorted((source.dimension(d), target.dimension(d)))
        if low == high:
            continue
        if low == 1:
            to_one.append(d)
        elif high % low == 0 and ceil_of_ratio(base.dimensions[d], low) * low % high == 0:
            to_other.append(d)
    for i in to_other:
        for j in to_one:
            if source.dimension(i) * source.dimension(j) == target.dimension(i) * target.dimension(j):
                return i, min(source.dimension(i), target.dimension(i))
    for i in to_other:
        if source.dimension(i) > target.dimension(i):
            return i, target.dimension(i)
    return None


def _through_split(p: PartitionedHlo, target: HloSharding, dim: int, tiles: int) -> PartitionedHlo | None:
    before = split_sharding_dimension(p.sharding, dim, tiles)
    after = split_sharding_dimension(target, dim, tiles)
    reshaped = _split(p, dim, p.hlo.shape.as_array().dimensions[dim], before)
    resharded = reshaped.reshard_no_cache(after, allow_full_replication=False)
    if resharded.sharding != after:
        return None
    merged = _merge(resharded, dim, merge_sharding_dimension(resharded.sharding, dim))
    if merged.sharding != target:
        arrived = _arrive(merged, target)
        if arrived is None:
            return None
        merged = arrived
    return PartitionedHlo(merged.hlo, p.base_shape, merged.state)


def _split(p: PartitionedHlo, dim: int, size: int, sharding: HloSharding) -> PartitionedHlo:
    """Split dimension `dim` in two, the second with `size` elements on each device."""
    shard, base = list(p.hlo.shape.as_array().dimensions), list(p.base_shape.as_array().dimensions)
    shard.insert(dim + 1, size)
    shard[dim] //= size
    minor = size * sharding.dimension(dim + 1)
    base.insert(dim + 1, minor)
    base[dim] //= minor
    made = p.state.b.reshape(p.hlo, shard)
    return PartitionedHlo(made, p.base_shape.as_array().with_dimensions(base), p.state).with_hlo(made, sharding)


def _merge(p: PartitionedHlo, dim: int, sharding: HloSharding) -> PartitionedHlo:
    """Merge dimensions `dim` and `dim` + 1."""
    shard, base = list(p.hlo.shape.as_array().dimensions), list(p.base_shape.as_array().dimensions)
    shard[dim : dim + 2] = [shard[dim] * shard[dim + 1]]
    base[dim : dim + 2] = [base[dim] * base[dim + 1]]
    made = p.state.b.reshape(p.hlo, shard)
    return PartitionedHlo(made, p.base_shape.as_array().with_dimensions(base), p.state).with_hlo(made, sharding)


def _with_one_dim_replicated(source: HloSharding, target: HloSharding) -> HloSharding | None:
    """Replicate the first dimension whose tiles become the target's replication.

    [X, Z, Y] -> [Y, Z, X replicated]
    """
    if not target.replicate_on_last_tile_dim:
        return None
    copies = source.dimension(source.subgroup_replication_dim) if source.has_partial_replication else 1
    wanted = target.dimension(target.subgroup_replication_dim)
    for d in range(source.tiled_data_rank):
        if source.dimension(d) != 1 and source.dimension(d) * copies == wanted:
            return partially_replicate_tiled_sharding_on_dims(source, [d])
    return None

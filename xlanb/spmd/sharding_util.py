"""Derive shardings from shardings: transpose, reshape, merge, or keep some dimensions.

Follows xla/hlo/utils/hlo_sharding_util.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import Devices, HloSharding, ShardingType, as_listed
from xlanb.spmd.sharding_groups import (
    GroupedSharding,
    device_groups_are_match,
    get_grouped_replicated_sharding,
    get_manual_subgroup_sharding,
    group_sharding_on_all_dims_except,
    group_sharding_on_dims,
    group_sharding_on_replicated_dim,
    partial_replicated_group_sharding_with_assigned_device_groups,
    ungroup_sharding,
)
from xlanb.spmd.sharding_merge import (
    find_common_sharding,
    is_sharding_more_specific,
    is_sub_tiling_or_equal_sharding,
    merge_sharding,
    merge_sharding_if_compatible,
)

_REPLICATED = ShardingType.REPLICATED


def like(sharding: HloSharding, devices: Devices) -> HloSharding:
    """Return a sharding of these devices with last dimensions of the same types as `sharding`."""
    if sharding.replicate_on_last_tile_dim:
        made = HloSharding.partial_tile(devices)
    else:
        made = HloSharding.subgroup(devices, sharding.subgroup_types)
    return as_listed(made) if sharding.listed else made


def transpose_sharding(sharding: HloSharding, dimensions: Sequence[int]) -> HloSharding:
    """Return a transposed array's sharding; `dimensions` may include the subgroups."""
    if sharding.is_tile_maximal or sharding.is_manual:
        return sharding
    rank, count = sharding.tiled_data_rank, len(sharding.dimensions)
    perm = (*dimensions, *range(rank, count)) if len(dimensions) == rank else tuple(dimensions)
    devices = sharding.tile_assignment.transpose(perm)
    if sharding.replicate_on_last_tile_dim:
        return HloSharding.partial_tile(devices)
    return HloSharding.subgroup(devices, [sharding.subgroup_types[p - rank] for p in perm[rank:]])


def partially_replicate_tiled_sharding_on_dims(sharding: HloSharding, dims: Sequence[int]) -> HloSharding:
    """Turn the tiles along `dims` into replication."""
    if sharding.is_tile_maximal or sharding.is_manual:
        return sharding
    count = math.prod(sharding.dimension(d) for d in dims)
    if count == 1:
        return sharding
    if count == sharding.num_tiles() and not sharding.subgroup_types:
        return HloSharding.replicate()
    rank = sharding.tiled_data_rank
    order = sorted(range(rank), key=lambda d: d in dims)
    devices = transpose_sharding(sharding, order).tile_assignment
    tiles = [1 if d in dims else n for d, n in enumerate(sharding.dimensions)]
    if sharding.replicate_on_last_tile_dim:
        tiles[-1] *= count
        return HloSharding.partial_tile(devices.reshape(tiles))
    tiles.insert(rank, count)
    return HloSharding.subgroup(devices.reshape(tiles), (_REPLICATED, *sharding.subgroup_types))


def partially_replicate_tiled_sharding_on_all_dims_except(sharding: HloSharding, dims: Sequence[int]) -> HloSharding:
    """Turn the tiles along all other dimensions into replication."""
    if sharding.is_tile_maximal or sharding.is_manual:
        return sharding
    others = [d for d in range(sharding.tiled_data_rank) if d not in dims]
    return partially_replicate_tiled_sharding_on_dims(sharding, others)


def replicate_all_data_dims(sharding: HloSharding, data_rank: int = -1) -> HloSharding:
    """Replicate all data dimensions, keeping manual subgroups; `data_rank` may change the rank."""
    if sharding.is_manual:
        return sharding
    if not sharding.subgroup_types:
        return HloSharding.replicate()
    result = partially_replicate_tiled_sharding_on_all_dims_except(sharding, ())
    if 0 <= data_rank != result.tiled_data_rank and not result.is_tile_maximal:
        tiles = (*([1] * data_rank), *result.dimensions[result.tiled_data_rank :])
        return HloSharding.subgroup(result.tile_assignment.reshape(tiles), result.subgroup_types)
    return result


def remove_shape_dimensions(sharding: HloSharding, dims: Sequence[int]) -> HloSharding:
    """Remove dimensions with one tile."""
    if sharding.is_tile_maximal or sharding.is_manual or not dims:
        return sharding
    tiles = [n for d, n in enumerate(sharding.dimensions) if d not in dims]
    return like(sharding, sharding.tile_assignment.reshape(tiles))


def add_shape_dimensions(sharding: HloSharding, index: int, count: int = 1) -> HloSharding:
    """Insert `count` dimensions of one tile each at `index`."""
    if not sharding.is_tiled or count == 0:
        return sharding
    tiles = (*sharding.dimensions[:index], *([1] * count), *sharding.dimensions[index:])
    return like(sharding, sharding.tile_assignment.reshape(tiles))


def split_sharding_dimension(sharding: HloSharding, dimension: int, new_dim_size: int) -> HloSharding:
    """Split a tile dimension in two, the first of size `new_dim_size`."""
    tiles = list(sharding.dimensions)
    tiles[dimension : dimension + 1] = [new_dim_size, tiles[dimension] // new_dim_size]
    return like(sharding, sharding.tile_assignment.reshape(tiles))


def merge_sharding_dimension(sharding: HloSharding, dimension: int) -> HloSharding:
    """Merge a tile dimension with the next."""
    tiles = list(sharding.dimensions)
    tiles[dimension : dimension + 2] = [tiles[dimension] * tiles[dimension + 1]]
    return like(sharding, sharding.tile_assignment.reshape(tiles))


def move_and_merge_sharding_tiles(sharding: HloSharding, source_dim: int, target_dim: int) -> HloSharding:
    """Merge tiles of `source_dim` into `target_dim`, inner: [4,3,5] from 0 to 1 is [1,12,5]."""
    tiles = list(sharding.dimensions)
    tiles.insert(target_dim + 1, 1)
    perm = list(range(len(tiles)))
    source = source_dim + (0 if source_dim < target_dim else 1)
    perm[target_dim + 1], perm[source] = perm[source], perm[target_dim + 1]
    devices = sharding.tile_assignment.reshape(tiles).transpose(perm)
    merged = list(devices.shape)
    merged[target_dim : target_dim + 2] = [merged[target_dim] * merged[target_dim + 1]]
    return like(sharding, devices.reshape(merged))


def get_first_target_dim_to_move_sharding_tiles(
    shape: ArrayShape, sharding: HloSharding, source_dim: int, can_be_target_dim: Callable[[int], bool]
) -> int | None:
    """Return the first other dimension that the tiles along both divide evenly."""
    if shape.rank < 2 or shape.dimensions[source_dim] == 1:
        return None
    if not sharding.is_tiled or sharding.dimension(source_dim) == 1:
        return None
    for d in range(shape.rank):
        if d == source_dim or not can_be_target_dim(d):
            continue
        if shape.dimensions[d] % (sharding.dimension(source_dim) * sharding.dimension(d)) == 0:
            return d
    return None


def reverse_sharding(sharding: HloSharding, dimensions: Sequence[int]) -> HloSharding:
    """Return the sharding of an array reversed along `dimensions`."""
    if sharding.is_tile_maximal or not dimensions:
        return sharding
    return like(sharding, np.flip(sharding.tile_assignment, tuple(dimensions)))


def propagate_sharding_along_dims_and_replicate_others(
    source: HloSharding, source_dims: Sequence[int], target_dims: Sequence[int], target_rank: int
) -> HloSharding:
    """Map the tiles of some dimensions to another array's dimensions; replicate the rest."""
    if source.is_tile_maximal or source.is_manual:
        return source
    kept = partially_replicate_tiled_sharding_on_all_dims_except(source, source_dims)
    if kept.is_tile_maximal:
        return kept
    by_source = sorted(range(len(source_dims)), key=lambda n: source_dims[n])
    by_target = sorted(range(len(target_dims)), key=lambda n: target_dims[n])
    if by_source != by_target:
        moved = [source_dims[n] for n in by_target]
        kept = transpose_sharding(kept, [*moved, *(d for d in range(len(kept.dimensions)) if d not in moved)])
    tiles = [1] * target_rank
    for s, t in zip(source_dims, target_dims, strict=True):
        tiles[t] = source.dimension(s)
    tiles += kept.dimensions[kept.tiled_data_rank :]
    return like(kept, kept.tile_assignment.reshape(tiles))


def transpose_sharding_with_collapsed_dims(
    source: HloSharding, src_to_tgt: Sequence[int], tgt_to_src: Sequence[int]
) -> HloSharding | None:
    """Return the sharding of an array with moved, dropped or new dimensions.

    Dropped dimensions are -1 in `src_to_tgt`, new ones -1 in `tgt_to_src`. Returns None if a
    dropped dimension has several tiles.
    """
    if source.is_tile_maximal or source.is_manual:
        return source
    rank = source.tiled_data_rank
    to, back = list(src_to_tgt[:rank]), list(tgt_to_src)
    if any(t < 0 and source.dimension(d) > 1 for d, t in enumerate(to)):
        return None
    kept = [d for d in back if d >= 0]
    dropped = [d for d in range(rank) if to[d] < 0]
    devices = source.tile_assignment.transpose((*kept, *dropped, *range(rank, len(source.dimensions))))
    tiles = [source.dimension(d) if d >= 0 else 1 for d in back]
    return like(source, devices.reshape((*tiles, *source.dimensions[rank:])))


def reshape_sharding(source: ArrayShape, target: ArrayShape, sharding: HloSharding) -> HloSharding | None:
    """Return a reshaped array's sharding that moves no data, or None."""
    if sharding.is_tile_maximal or sharding.is_manual:
        return sharding
    found = _reshaped_tiles(source.dimensions, target.dimensions, sharding)
    if found is None or math.prod(found[0]) == 1:
        return None
    tiles, to_replicate = found
    kept = partially_replicate_tiled_sharding_on_dims(sharding, to_replicate)
    rank = kept.tiled_data_rank
    dims = len(tiles)
    tiles += [1 if d == kept.subgroup_replication_dim else kept.dimension(d) for d in range(rank, len(kept.dimensions))]
    types = list(kept.subgroup_types)
    copies = kept.total_num_tiles // math.prod(tiles)
    if copies > 1:
        if kept.replicate_on_last_tile_dim:
            tiles[-1] = copies
            types.append(_REPLICATED)
        elif _REPLICATED in types:
            tiles[kept.subgroup_replication_dim - rank + dims] = copies
        else:
            tiles.append(copies)
            types.append(_REPLICATED)
    return HloSharding.subgroup(kept.tile_assignment.reshape(tiles), types)


def _reshaped_tiles(
    source: Sequence[int], target: Sequence[int], sharding: HloSharding
) -> tuple[list[int], list[int]] | None:
    """Return the tiles of the target, and the source dimensions to replicate.

    Returns None if tiles do not divide a dimension that is split or merged.
    """
    tiles = [1] * len(target)
    replicated: list[int] = []
    s = t = 0
    source_left = [*source]
    target_left = [*target]
    tile_left = [sharding.dimension(d) for d in range(len(source))]
    while s < len(source) and t < len(target):
        product = 1
        while s < len(source) and tile_left[s] == 1:
            product *= source_left[s]
            s += 1
        while t < len(target) and product != 1 and product % target_left[t] == 0:
            product //= target_left[t]
            t += 1
        if s == len(source) or t == len(target) or product != 1:
            break
        size, tile = source_left[s], tile_left[s]
        if size == target_left[t]:
            if target_left[t] != target[t] and size % tile:
                tiles[t] *= math.gcd(size, tile)
                break
            tiles[t] *= tile
            s, t = s + 1, t + 1
        elif target_left[t] == 1:
            t += 1
        elif size == 1:
            if tile > 1:
                replicated.append(s)
            s += 1
        elif size % tile:
            return None
        else:
            common = math.gcd(tile, target_left[t])
            if common == 1:
                break
            source_left[s] //= common
            tile_left[s] //= common
            target_left[t] //= common
            tiles[t] *= common
    return tiles, replicated


def propagate_sharding_through_reshape(source: ArrayShape, target: ArrayShape, sharding: HloSharding) -> HloSharding:
    """Return a reshaped array's sharding with as many tiles as possible and no data movement."""
    if sharding.is_tile_maximal or sharding.is_manual:
        return sharding
    if sharding.is_manual_subgroup:
        group = group_sharding_on_dims(sharding, [sharding.subgroup_manual_dim], subgroup_manual=True)
        moved = (group.group_dims[0] + target.rank - source.rank, *group.group_dims[1:])
        inner = propagate_sharding_through_reshape(source, target, group.sharding)
        return ungroup_sharding(
            GroupedSharding(group.device_groups, moved, group.group_dim_sizes, target.rank, inner, subgroup_manual=True)
        )
    result = HloSharding.replicate()
    start = 0
    while start < source.rank:
        for end in range(source.rank, start, -1):
            merged = _reshape_dims(source, target, sharding, start, end, result)
            if merged is not None:
                result, start = merged, end
                break
        else:
            start += 1
    return result


def _reshape_dims(
    source: ArrayShape, target: ArrayShape, sharding: HloSharding, start: int, end: int, into: HloSharding
) -> HloSharding | None:
    """Merge into `into` what the tiles of dimensions [start, end) become in the target."""
    tiles = [sharding.dimension(d) if start <= d < end else 1 for d in range(source.rank)]
    reshaped = reshape_sharding(source, target, HloSharding.iota_tile(tiles))
    if reshaped is None or reshaped.is_tile_maximal:
        return None
    dims = list(reshaped.dimensions)
    copies = sharding.num_devices // math.prod(dims)
    if len(dims) == target.rank:
        dims.append(copies)
    else:
        dims[-1] *= copies
    perm = (*range(start, end), *range(start), *range(end, len(sharding.dimensions)))
    part = HloSharding.partial_tile(sharding.tile_assignment.transpose(perm).reshape(dims))
    return merge_sharding_if_compatible(part, into)


__all__ = [
    "GroupedSharding",
    "add_shape_dimensions",
    "device_groups_are_match",
    "find_common_sharding",
    "get_first_target_dim_to_move_sharding_tiles",
    "get_grouped_replicated_sharding",
    "get_manual_subgroup_sharding",
    "group_sharding_on_all_dims_except",
    "group_sharding_on_dims",
    "group_sharding_on_replicated_dim",
    "is_sharding_more_specific",
    "is_sub_tiling_or_equal_sharding",
    "like",
    "merge_sharding",
    "merge_sharding_dimension",
    "merge_sharding_if_compatible",
    "move_and_merge_sharding_tiles",
    "partial_replicated_group_sharding_with_assigned_device_groups",
    "partially_replicate_tiled_sharding_on_all_dims_except",
    "partially_replicate_tiled_sharding_on_dims",
    "propagate_sharding_along_dims_and_replicate_others",
    "propagate_sharding_through_reshape",
    "remove_shape_dimensions",
    "replicate_all_data_dims",
    "reshape_sharding",
    "reverse_sharding",
    "split_sharding_dimension",
    "transpose_sharding",
    "transpose_sharding_with_collapsed_dims",
    "ungroup_sharding",
]

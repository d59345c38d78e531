"""Split shardings into groups of devices, and join them (xla/hlo/utils/hlo_sharding_util.cc).

    {devices=[2,4]<=[8]} grouped on dimension 0
    =>  groups {0,1,2,3}, {4,5,6,7}, each with {devices=[1,4]<=[4]}

The partitioner then works within a group as if there were no other devices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.hlo_sharding import Devices, HloSharding, ShardingType, as_listed


@dataclass(frozen=True, eq=False)
class GroupedSharding:
    """A sharding split into groups of devices.

    Attributes:
        device_groups: the groups, one per row.
        group_dims: the dimensions that the groups split.
        group_dim_sizes: into how many parts.
        data_rank: the number of data dimensions.
        sharding: the sharding within each group.
        subgroup_manual: whether the groups are those of a manual subgroup.
        listed: whether XLA has the groups as a list of devices instead of an iota; replica groups
            of collectives made from them are then lists too.
    """

    device_groups: Devices
    group_dims: tuple[int, ...]
    group_dim_sizes: tuple[int, ...]
    data_rank: int
    sharding: HloSharding
    subgroup_manual: bool = False
    listed: bool = False

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return int(self.device_groups.shape[0])

    @property
    def num_devices_per_group(self) -> int:
        """Number of devices in each group."""
        return int(self.device_groups.shape[1])

    def with_sharding(self, sharding: HloSharding) -> GroupedSharding:
        """Return the same groups with another sharding within each."""
        return replace(self, sharding=sharding)


def group_sharding_on_dims(
    sharding: HloSharding,
    group_dims: Sequence[int],
    group_dim_shards: Sequence[int] | None = None,
    *,
    subgroup_manual: bool = False,
) -> GroupedSharding:
    """Group the devices that have the same position along `group_dims`.

    Of each such dimension, `group_dim_shards` tiles stay within a group.
    """
    shards = dict(zip(group_dims, group_dim_shards or [1] * len(group_dims), strict=True))
    sizes = {d: sharding.dimension(d) // n for d, n in shards.items()}
    within = [shards.get(d, sharding.dimension(d)) for d in range(len(sharding.dimensions))]
    split: list[int] = []
    place: dict[int, int] = {}
    for d, size in enumerate(within):
        if d in sizes:
            place[d] = len(split)
            split.append(sizes[d])
        split.append(size)
    first = [place[d] for d in group_dims]
    perm = (*first, *(n for n in range(len(split)) if n not in first))
    groups = sharding.tile_assignment.reshape(split).transpose(perm).reshape(math.prod(sizes.values()), -1)
    rank = len(sharding.dimensions) - (1 if sharding.replicate_on_last_tile_dim else 0)
    if sharding.is_manual_subgroup:
        rank -= len(sharding.subgroup_types)
    inner = _within_groups(sharding, within)
    sizes_of_dims = tuple(sizes[d] for d in group_dims)
    return GroupedSharding(
        groups, tuple(group_dims), sizes_of_dims, rank, inner, subgroup_manual, listed=sharding.listed
    )


def _within_groups(sharding: HloSharding, tiles: list[int]) -> HloSharding:
    """Return the sharding within a group, with devices numbered in the group's order."""
    last = sharding.replicate_on_last_tile_dim
    if math.prod(tiles) == 1 or (last and math.prod(tiles) == tiles[-1]):
        return HloSharding.replicate()
    if sharding.is_manual_subgroup:
        rank = sharding.tiled_data_rank
        kept = [n for n, t in enumerate(sharding.subgroup_types) if t is not ShardingType.MANUAL]
        tiles = [*tiles[:rank], *(tiles[rank + n] for n in kept)]
    if last and tiles[-1] == 1:
        tiles = tiles[:-1]
    if last and len(tiles) == len(sharding.dimensions):
        return HloSharding.partial_tile(np.arange(math.prod(tiles)).reshape(tiles))
    return HloSharding.iota_tile(tiles)


def group_sharding_on_all_dims_except(
    sharding: HloSharding, non_group_dims: Sequence[int], *, subgroup_manual: bool = False
) -> GroupedSharding:
    """Group on every other dimension of the tiles."""
    dims = [d for d in range(len(sharding.dimensions)) if d not in non_group_dims]
    return group_sharding_on_dims(sharding, dims, subgroup_manual=subgroup_manual)


def _prime_factors(number: int) -> list[int]:
    """Return the prime factors up to the square root; as XLA, leave out a larger last one."""
    out = []
    while number % 2 == 0:
        out.append(2)
        number //= 2
    factor = 3
    while factor <= math.sqrt(number):
        while number % factor == 0:
            out.append(factor)
            number //= factor
        factor += 2
    return out


def group_sharding_on_replicated_dim(
    sharding: HloSharding, num_groups: int, num_tiles: int, data_rank: int, replicable_dims: Sequence[int] = ()
) -> GroupedSharding:
    """Make `num_groups` groups of devices that hold, or may hold, the same tile.

    Uses replication first, then `replicable_dims`; otherwise groups all devices, without a sharding
    within.
    """
    copies = sharding.dimensions[-1] if sharding.replicate_on_last_tile_dim else 1
    if sharding.replicate_on_last_tile_dim and copies % num_groups == 0:
        return group_sharding_on_dims(sharding, [len(sharding.dimensions) - 1], [copies // num_groups])
    if sharding.is_tiled:
        most = copies * math.prod(sharding.dimension(d) for d in replicable_dims)
        if most % num_groups == 0 and num_groups % copies == 0:
            partial = _borrowed(sharding, num_groups // copies, replicable_dims)
            if partial is not None and not partial.is_replicated:
                return group_sharding_on_dims(partial, [len(partial.dimensions) - 1])
    return get_grouped_replicated_sharding(num_groups, num_tiles, data_rank)


def _borrowed(sharding: HloSharding, wanted: int, replicable_dims: Sequence[int]) -> HloSharding | None:
    """Turn the tiles of some dimensions into replication, `wanted` times as much as there is."""
    tiles = list(sharding.dimensions)
    if not sharding.replicate_on_last_tile_dim:
        tiles.append(1)
    for d in replicable_dims:
        for factor in _prime_factors(sharding.dimension(d)):
            if wanted % factor == 0:
                tiles[d] //= factor
                tiles[-1] *= factor
                wanted //= factor
                if wanted == 1:
                    return HloSharding.partial_tile(np.arange(math.prod(tiles)).reshape(tiles))
    return None


def get_grouped_replicated_sharding(num_groups: int, num_tiles: int, data_rank: int) -> GroupedSharding:
    """Group the devices in order into `num_groups` groups, each device with the whole data."""
    groups = np.arange(num_tiles).reshape(num_groups, num_tiles // num_groups)
    return GroupedSharding(groups, (data_rank,), (num_groups,), data_rank, HloSharding.replicate())


def get_manual_subgroup_sharding(sharding: HloSharding) -> GroupedSharding:
    """Group the devices that have the same position along the manual dimensions."""
    rank = sharding.tiled_data_rank
    dims = [rank + n for n, t in enumerate(sharding.subgroup_types) if t is ShardingType.MANUAL]
    grouped = group_sharding_on_dims(sharding, dims, subgroup_manual=True)
    inner = grouped.sharding
    replicated = ShardingType.REPLICATED in sharding.subgroup_types
    if not inner.is_tile_maximal and (replicated or len(inner.dimensions) > rank):
        grouped = grouped.with_sharding(HloSharding.partial_tile(inner.tile_assignment))
    return grouped


def partial_replicated_group_sharding_with_assigned_device_groups(
    sharding: HloSharding, num_shards: int, device_groups: Devices
) -> GroupedSharding | None:
    """Group on the replicated dimension with the given device groups.

    Returns None if a group holds a tile too often, or if the groups differ in their tiling.
    """
    num_groups, size = device_groups.shape
    if not sharding.replicate_on_last_tile_dim or sharding.dimensions[-1] % num_groups:
        return None
    tiles = (*sharding.dimensions[:-1], sharding.dimensions[-1] // num_groups)
    place = {int(device): index for index, device in np.ndenumerate(sharding.tile_assignment)}
    final: HloSharding | None = None
    for group in device_groups:
        tiling = np.zeros(tiles, np.int64)
        used = np.zeros(tiles[:-1], np.int64)
        for number in range(size):
            tile = place[int(group[number])][:-1]
            if used[tile] == num_shards or used[tile] == tiles[-1]:
                return None
            tiling[(*tile, used[tile])] = number
            used[tile] += 1
        made = HloSharding.partial_tile(tiling)
        if final is not None and made != final:
            return None
        final = made
    last = len(sharding.dimensions) - 1
    inner = as_listed(final or HloSharding.replicate())
    return GroupedSharding(device_groups, (last,), (sharding.dimensions[-1] // num_shards,), last, inner)


def ungroup_sharding(grouped: GroupedSharding) -> HloSharding:
    """Return the sharding over all devices from groups and the sharding within them."""
    inner, groups = grouped.sharding, grouped.device_groups
    dims = grouped.group_dims
    partial = False
    types: list[ShardingType] = []
    if inner.is_tile_maximal:
        tiles = [1] * grouped.data_rank
        if grouped.num_devices_per_group != 1 or len(tiles) in dims:
            tiles.append(grouped.num_devices_per_group)
            partial = True
        order = np.arange(math.prod(tiles))
    else:
        tiles = list(inner.dimensions)
        order = inner.tile_assignment.reshape(-1)
    if grouped.subgroup_manual:
        partial = inner.replicate_on_last_tile_dim or inner.is_replicated
        types = [ShardingType.REPLICATED] * (len(dims) + partial)
        for d in dims:
            types[d - grouped.data_rank] = ShardingType.MANUAL
            tiles.insert(d, 1)
    elif not inner.is_tile_maximal:
        partial = inner.replicate_on_last_tile_dim
        if len(tiles) in dims:
            tiles.append(1)
            partial = True
    split = (*grouped.group_dim_sizes, *tiles)
    place = {d: d + n for n, d in enumerate(sorted(dims))}
    perm = [-1] * len(split)
    for n, d in enumerate(dims):
        perm[place[d]] = n
    rest = iter(range(len(dims), len(split)))
    perm = [next(rest) if p < 0 else p for p in perm]
    for d, size in zip(dims, grouped.group_dim_sizes, strict=True):
        tiles[d] *= size
    devices = groups[:, order].reshape(split).transpose(perm).reshape(tiles)
    if grouped.subgroup_manual:
        made = HloSharding.subgroup(devices, types)
    else:
        made = HloSharding.partial_tile(devices) if partial else HloSharding.tile(devices)
    return as_listed(made) if grouped.listed or inner.listed else made


def device_groups_are_match(lhs: GroupedSharding, rhs: GroupedSharding, *, ignore_group_order: bool = False) -> bool:
    """Whether both have the same groups, in the same order unless that is ignored.

    The order within a group does not count.
    """
    if lhs.num_groups != rhs.num_groups:
        return False
    group_of = {int(d): g for g, group in enumerate(lhs.device_groups) for d in group}
    for g, group in enumerate(rhs.device_groups):
        found = {group_of.get(int(d), -1) for d in group}
        if len(found) != 1 or -1 in found or (not ignore_group_order and found != {g}):
            return False
    return True

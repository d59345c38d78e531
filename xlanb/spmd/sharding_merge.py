"""Check and merge compatible shardings: one tiles the other more finely, or a third refines both.

Follows xla/hlo/utils/hlo_sharding_util.cc.

{devices=[2,1,4]<=[8] last_tile_dim_replicate} and
{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}
=>  {devices=[2,2,2]<=[8] last_tile_dim_replicate}
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import permutations

import numpy as np

from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import Devices, HloSharding, ShardingType


def is_sub_tiling_or_equal_sharding(shape: ArrayShape, sub: HloSharding, sharding: HloSharding) -> bool:
    """Whether each device's tile in `sub` is within its tile in `sharding`."""
    if sub.is_manual or sharding.is_manual:
        return False
    if sharding.is_tile_maximal:
        return True
    if sub.is_tile_maximal:
        return False
    rank = sub.tiled_data_rank
    if not rank == sharding.tiled_data_rank == shape.rank:
        return False
    if any(a < b for a, b in zip(sub.data_tile_shape, sharding.data_tile_shape, strict=True)):
        return False
    small = _base_tile(shape, sub)
    large = _base_tile(shape, sharding)
    outer = sharding.tile_indices
    for device, index in sub.tile_indices.items():
        for d, size in enumerate(shape.dimensions):
            start, limit = small[d] * index[d], small[d] * (index[d] + 1)
            begin = large[d] * outer[device][d]
            if start < begin or (limit <= size and limit > begin + large[d]):
                return False
    return True


def _base_tile(shape: ArrayShape, sharding: HloSharding) -> list[int]:
    return [-(-size // n) for size, n in zip(shape.dimensions, sharding.data_tile_shape, strict=True)]


def is_sharding_more_specific(lhs: HloSharding, rhs: HloSharding) -> bool:
    """Whether `lhs` is more specific; for tuples, more in some leaf and less in none."""
    if lhs.is_tuple:
        pairs = list(zip(lhs.tuple_elements, rhs.tuple_elements, strict=True))
        return not any(_says_more(b, a) for a, b in pairs) and any(_says_more(a, b) for a, b in pairs)
    return _says_more(lhs, rhs)


def _says_more(lhs: HloSharding, rhs: HloSharding) -> bool:
    if lhs.is_manual:
        return rhs.is_tile_maximal
    if rhs.is_manual:
        return False
    if not rhs.is_tile_maximal:
        return lhs.num_tiles() > rhs.num_tiles()
    return not (lhs.is_replicated if rhs.is_replicated else lhs.is_tile_maximal)


def merge_sharding(
    to_merge: HloSharding, dst: HloSharding, *, may_combine_partial_sharding: bool
) -> HloSharding | None:
    """Merge `to_merge` into `dst` (MergeSharding).

    Returns `dst` itself if it is more specific, or None if neither applies.
    """
    if to_merge.is_tuple:
        pairs = zip(to_merge.tuple_elements, dst.tuple_elements, strict=True)
        merged = [merge_sharding(a, b, may_combine_partial_sharding=may_combine_partial_sharding) for a, b in pairs]
        if all(m is None for m in merged):
            return None
        return HloSharding.tuple_of(m or d for m, d in zip(merged, dst.tuple_elements, strict=True))
    both = to_merge.has_partial_replication and dst.has_partial_replication
    if may_combine_partial_sharding and both and to_merge.num_devices == dst.num_devices:
        least = max(to_merge.num_tiles(), dst.num_tiles()) + 1
        merged_one = merge_sharding_if_compatible(to_merge, dst, least)
        if merged_one is not None:
            return merged_one
    return dst if is_sharding_more_specific(dst, to_merge) else None


def find_common_sharding(shardings: Sequence[HloSharding], default: HloSharding | None = None) -> HloSharding:
    """Return the sharding that refines all others; else the default, else the first."""
    common = shardings[0]
    for sharding in shardings[1:]:
        if common == sharding:
            continue
        merged = merge_sharding_if_compatible(sharding, common, common.num_tiles())
        if merged is None:
            return default or shardings[0]
        common = merged
    return common


def merge_sharding_if_compatible(
    to_merge: HloSharding, dst: HloSharding, minimum_tiles: int | None = None
) -> HloSharding | None:
    """Return the sharding that refines both; None if there is none.

    It must have at least `minimum_tiles`, by default one more than `dst` has.
    """
    least = dst.num_tiles() + 1 if minimum_tiles is None else minimum_tiles
    if to_merge.is_tile_maximal:
        return None
    if dst.is_tile_maximal:
        return to_merge
    if not dst.has_partial_replication or dst.tiled_data_rank != to_merge.tiled_data_rank:
        return None
    if (to_merge.subgroup_manual_dim >= 0) != (dst.subgroup_manual_dim >= 0):
        return None
    plan = _plan(to_merge, dst, least)
    if plan is None:
        return None
    devices = _by_transposition(to_merge, dst, plan)
    if devices is None:
        devices = _by_membership(to_merge, dst, plan)
    if devices is None:
        return None
    types = [ShardingType.MANUAL] if to_merge.subgroup_manual_dim >= 0 else []
    if plan.replication > 1:
        types.append(ShardingType.REPLICATED)
    return HloSharding.subgroup(devices, types)


@dataclass
class _MergeSide:
    """How one side's tiles map to the merged tiles: dimensions kept, and those from replication."""

    old: list[int] = field(default_factory=list)
    new: list[tuple[int, int]] = field(default_factory=list)
    """Size, and position in the merged tiles."""
    perm: dict[int, int] = field(default_factory=dict)

    def keep(self, place: int, size: int) -> None:
        self.perm[place] = len(self.old)
        self.old.append(size)


@dataclass
class _MergePlan:
    tiles: list[int]
    replication: int
    merge: _MergeSide
    dst: _MergeSide


def _plan(to_merge: HloSharding, dst: HloSharding, least: int) -> _MergePlan | None:
    """Return the merged sharding's tiles.

    Returns None if both split a dimension differently, or if there are too few devices.
    """
    merge_side, dst_side = _MergeSide(), _MergeSide()
    tiles: list[int] = []
    for d, (a, b) in enumerate(zip(to_merge.data_tile_shape, dst.data_tile_shape, strict=True)):
        if a != b and 1 not in (a, b):
            return None
        if b in (a, 1):
            merge_side.keep(d, a)
        else:
            merge_side.new.append((b, d))
        if a in (b, 1):
            dst_side.keep(d, b)
        else:
            dst_side.new.append((a, d))
        tiles.append(max(a, b))
    devices, count = to_merge.num_devices, math.prod(tiles)
    if devices % count or count < least:
        return None
    manual = to_merge.subgroup_manual_dim
    if manual >= 0:
        size = to_merge.dimension(manual)
        if size != dst.dimension(dst.subgroup_manual_dim) or devices % (count * size):
            return None
        merge_side.keep(len(tiles), size)
        dst_side.keep(len(tiles), size)
        tiles.append(size)
        count *= size
    replication = devices // count
    if replication > 1:
        tiles.append(replication)
    return _MergePlan(tiles, replication, merge_side, dst_side)


def _arrangements(sharding: HloSharding, side: _MergeSide, replication: int, last: int) -> Iterator[Devices]:
    """Yield one side's devices with replication split into the merged tiles, in each order."""
    if not sharding.has_partial_replication or sharding.dimension(sharding.subgroup_replication_dim) == replication:
        yield sharding.tile_assignment
        return
    new = [*side.new, *([(replication, last)] if replication > 1 else [])]
    for order in permutations(range(len(new))):
        perm = dict(side.perm)
        for n, which in enumerate(order):
            perm[new[which][1]] = len(side.old) + n
        shape = (*side.old, *(new[which][0] for which in order))
        if math.prod(shape) != sharding.num_devices or len(perm) != len(shape):
            return
        yield sharding.tile_assignment.reshape(shape).transpose([perm[p] for p in sorted(perm)])


def _by_transposition(to_merge: HloSharding, dst: HloSharding, plan: _MergePlan) -> Devices | None:
    last = len(dst.dimensions) - 1
    wanted = list(_arrangements(to_merge, plan.merge, plan.replication, last))
    found: Devices | None = None
    for mine in _arrangements(dst, plan.dst, plan.replication, last):
        for theirs in wanted:
            if np.array_equal(mine, theirs):
                found = mine
    return found


def _by_membership(to_merge: HloSharding, dst: HloSharding, plan: _MergePlan) -> Devices | None:
    """Assign each merged tile the first device that both have in the enclosing tiles.

    Returns None if no device is left.
    """
    rank = to_merge.tiled_data_rank
    manual = to_merge.subgroup_manual_dim >= 0
    merge_members = _members(to_merge, rank)
    dst_members = _members(dst, rank)
    out = np.zeros(plan.tiles, np.int64)
    for index in np.ndindex(*plan.tiles):
        mine = _tile_of(to_merge, index, rank, manual=manual)
        theirs = _tile_of(dst, index, rank, manual=manual)
        common = merge_members[mine] & dst_members[theirs]
        if not common:
            return None
        device = min(common)
        merge_members[mine].remove(device)
        dst_members[theirs].remove(device)
        out[index] = device
    return out


def _tile_of(sharding: HloSharding, index: tuple[int, ...], rank: int, *, manual: bool) -> tuple[int, ...]:
    tile = tuple(0 if sharding.dimension(d) == 1 else index[d] for d in range(rank))
    return (*tile, index[rank]) if manual else tile


def _members(sharding: HloSharding, rank: int) -> dict[tuple[int, ...], set[int]]:
    """Return the devices of each tile, per manual subgroup."""
    manual = sharding.subgroup_manual_dim
    out: dict[tuple[int, ...], set[int]] = {}
    for index, device in np.ndenumerate(sharding.tile_assignment):
        tile = index[:rank] if manual < 0 else (*index[:rank], index[manual])
        out.setdefault(tile, set()).add(int(device))
    return out

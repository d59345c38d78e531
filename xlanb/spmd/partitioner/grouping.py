"""Align groups of devices, and take a group's part of an array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import Devices, HloSharding, as_listed
from xlanb.spmd.partitioner.utilities import (
    make_partition_offsets,
    make_partitioned_shape,
    pad_base_shape_before_uneven_tiled_sharding,
    resized,
    table_lookup,
)
from xlanb.spmd.sharding_groups import GroupedSharding, group_sharding_on_dims, ungroup_sharding
from xlanb.spmd.sharding_util import like

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder


def align_groups_with(
    grouped: GroupedSharding, reference: GroupedSharding, *, ignore_group_order: bool = False
) -> GroupedSharding:
    """Return the grouped sharding in the groups of `reference`.

    Devices are renumbered inside groups if the groups are the same sets.
    """
    aligned = _aligned(grouped, reference, compatible_only=False, ignore_group_order=ignore_group_order)
    return grouped if aligned is None else aligned  # it fails only if compatibility is required


def align_groups_with_if_compatible(grouped: GroupedSharding, reference: GroupedSharding) -> GroupedSharding | None:
    """`align_groups_with`, or None if the groups differ as sets.

    Also None if the order of devices differs from group to group.
    """
    return _aligned(grouped, reference, compatible_only=True, ignore_group_order=False)


def _aligned(
    grouped: GroupedSharding, reference: GroupedSharding, *, compatible_only: bool, ignore_group_order: bool
) -> GroupedSharding | None:
    if np.array_equal(grouped.device_groups, reference.device_groups) and not (grouped.listed or reference.listed):
        return grouped
    group_of = np.zeros(reference.device_groups.size, np.int64)
    place_of = np.zeros_like(group_of)
    for g, devices in enumerate(reference.device_groups):
        group_of[devices] = g
        place_of[devices] = np.arange(len(devices))
    permutation: Devices | None = None
    same_sets = True
    for g, devices in enumerate(grouped.device_groups):
        found = group_of[devices]
        if (found != found[0]).any() or (not ignore_group_order and found[0] != g):
            if compatible_only:
                return None
            same_sets = False
            break
        if permutation is None:
            permutation = place_of[devices]
        elif compatible_only and not np.array_equal(permutation, place_of[devices]):
            return None
    sharding = grouped.sharding
    if same_sets and permutation is not None and not sharding.is_tile_maximal:
        sharding = as_listed(like(sharding, permutation[sharding.tile_assignment]))
    return replace(grouped, device_groups=reference.device_groups, sharding=sharding, listed=reference.listed)


def align_sharding_on_dims(
    sharding: HloSharding, dims: Sequence[int], reference: HloSharding, reference_dims: Sequence[int]
) -> HloSharding:
    """Group the devices along some dimensions as `reference` groups them along its own."""
    grouped = group_sharding_on_dims(sharding, dims)
    return ungroup_sharding(align_groups_with(grouped, group_sharding_on_dims(reference, reference_dims)))


def create_matching_sharding_on_dims(
    target_shape: ArrayShape, source: HloSharding, target_dims: Sequence[int], source_dims: Sequence[int]
) -> HloSharding:
    """Return a sharding that splits `target_dims` as `source` splits `source_dims`.

    It replicates the rest.
    """
    if source.is_replicated:
        return HloSharding.replicate()
    tiles = [1] * target_shape.rank
    for target, dim in zip(target_dims, source_dims, strict=True):
        tiles[target] = source.dimension(dim)
    rest = source.num_devices // int(np.prod(tiles))
    devices = source.tile_assignment.reshape((*tiles, rest))
    made = HloSharding.partial_tile(devices) if rest > 1 else HloSharding.tile(devices[..., 0])
    return align_sharding_on_dims(made, target_dims, source, source_dims)


def find_matching_partitioned_dims_for_grouping(sharding: HloSharding, device_groups: Devices) -> list[int] | None:
    """Return the tile-assignment dimensions along which exactly these groups differ.

    Returns None if there are none.
    """
    groups, size = device_groups.shape
    if sharding.is_tile_maximal or groups < 2 or sharding.num_devices != device_groups.size:
        return None
    if size < 2:
        return [i for i, tiles in enumerate(sharding.dimensions) if tiles > 1]
    index = np.zeros((sharding.num_devices, len(sharding.dimensions)), np.int64)
    for at, device in np.ndenumerate(sharding.tile_assignment):
        index[device] = at
    first, second = index[device_groups[0, 0]], index[device_groups[0, 1]]
    dims = [i for i in range(len(sharding.dimensions)) if first[i] == second[i]]
    if int(np.prod([sharding.dimension(d) for d in dims])) != groups:
        return None
    places = index[device_groups][..., dims]
    return dims if bool((places == places[:, :1]).all()) else None


def get_per_group_base_shape(grouped: GroupedSharding, shape: ArrayShape) -> ArrayShape:
    """Return the shape of the part of an array that one group has."""
    dims = list(shape.dimensions)
    for dim, groups in zip(grouped.group_dims, grouped.group_dim_sizes, strict=True):
        if dim < len(dims):
            dims[dim] = -(-dims[dim] // groups)
    return resized(shape, dims)


def per_group_slice_from_replicated(
    replicated: HloInstruction,
    partition_id: HloInstruction,
    grouped: GroupedSharding,
    group_dims: Sequence[int],
    b: SpmdBuilder,
) -> HloInstruction:
    """Slice the part of each device's group from a replicated array.

    `group_dims` are the array's dimensions.
    """
    table = np.zeros(grouped.device_groups.size, np.uint32)
    for g, devices in enumerate(grouped.device_groups):
        table[devices] = g
    group = table_lookup(table, partition_id, b)
    shape = replicated.shape.as_array()
    order = np.argsort(np.asarray(group_dims), kind="stable")
    tiles = [1] * shape.rank
    for dim, size in zip(group_dims, grouped.group_dim_sizes, strict=True):
        tiles[dim] = size
    # Groups are numbered in the order of `group_dims`, which may differ from the array's order.
    numbered = np.arange(grouped.num_groups).reshape(grouped.group_dim_sizes).transpose(order)
    sharding = HloSharding.tile(numbered.reshape(tiles))
    padded = pad_base_shape_before_uneven_tiled_sharding(replicated, sharding, b)
    part = make_partitioned_shape(shape, sharding).as_array()
    offsets = make_partition_offsets(shape, sharding, group, b)
    return b.add(HloOpcode.DYNAMIC_SLICE, (padded, *offsets), part, dynamic_slice_sizes=part.dimensions)

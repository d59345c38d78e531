"""Partition a dot by groups of devices.

Each way matches some dimensions, groups the devices by them, and recurses within a group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.dot_case import DotCase, GroupedShardings, infer_dot_operand_sharding, numbers
from xlanb.spmd.partitioner.dot_dimensions import DimNums, DotOperand
from xlanb.spmd.partitioner.grouping import (
    align_groups_with,
    find_matching_partitioned_dims_for_grouping,
    get_per_group_base_shape,
    per_group_slice_from_replicated,
)
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.state import PartitioningState, create_per_group_partitioning_state
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, set_sharding, shard_count_at_dim
from xlanb.spmd.sharding_groups import (
    GroupedSharding,
    device_groups_are_match,
    group_sharding_on_dims,
    partial_replicated_group_sharding_with_assigned_device_groups,
    ungroup_sharding,
)
from xlanb.spmd.sharding_util import like, partially_replicate_tiled_sharding_on_dims, transpose_sharding

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


def _bytes(operand: PartitionedHlo) -> int:
    return int(operand.hlo.array_shape.byte_size)


# -- batch dimensions ------------------------------------------------------------------------------


def partition_by_batch(c: DotCase) -> HloInstruction | None:
    """Group the devices by batch dimensions that an operand and the output split alike."""
    counts = c.counts
    if counts.output_batch <= 1 or counts.output_batch not in (counts.lhs_batch, counts.rhs_batch):
        return None
    return group_on_batch(c)


def _dims_or_ones(operand: PartitionedHlo) -> list[int]:
    if operand.sharding.is_replicated:
        return [1] * operand.array_shape.rank
    return list(operand.sharding.dimensions)


def group_on_batch(c: DotCase) -> HloInstruction | None:
    """Group the devices by the batch dimensions; None if an operand cannot follow."""
    batch = c.dims.batch
    # These are the counts of the operands before grouping.
    _ = c.counts
    lhs_dims, rhs_dims = numbers(batch, DotOperand.LHS), numbers(batch, DotOperand.RHS)
    matching = all(
        shard_count_at_dim(c.lhs.sharding, d.lhs) == shard_count_at_dim(c.rhs.sharding, d.rhs) for d in batch
    )
    if matching and c.exact_groups:
        lhs_grouped = group_sharding_on_dims(c.lhs.sharding, lhs_dims)
        aligned = align_groups_with(group_sharding_on_dims(c.rhs.sharding, rhs_dims), lhs_grouped)
        matching = c.rhs.sharding == ungroup_sharding(aligned)
    with GroupedShardings() as held:
        inner = _both_operands_in_groups(c, held) if matching else _operands_in_groups_of_output(c, held)
        if inner is None:
            return None
        lhs, rhs, output_grouped = inner
        dot = c.recurse(
            c.among(
                c.num_partitions // output_grouped.num_groups,
                lhs=lhs,
                rhs=rhs,
                output_shape=get_per_group_base_shape(output_grouped, c.output_shape),
                output_sharding=output_grouped.sharding,
            )
        )
        return c.finished(dot, ungroup_sharding(output_grouped), "devices are grouped by batch dimensions")


def _both_operands_in_groups(
    c: DotCase, held: GroupedShardings
) -> tuple[PartitionedHlo, PartitionedHlo, GroupedSharding]:
    """Use the larger operand's groups for both operands, which split batch dimensions alike."""
    batch = c.dims.batch
    lhs, rhs = c.lhs, c.rhs
    lhs_grouped = group_sharding_on_dims(lhs.sharding, numbers(batch, DotOperand.LHS))
    rhs_grouped = group_sharding_on_dims(rhs.sharding, numbers(batch, DotOperand.RHS))
    reason = "devices are grouped by the batch dimensions of the {} (the larger operand, {} bytes per device)"
    if _bytes(lhs) > _bytes(rhs):
        rhs_grouped = align_groups_with(rhs_grouped, lhs_grouped)
        rhs = c.reshard(DotOperand.RHS, ungroup_sharding(rhs_grouped), reason.format("lhs", _bytes(lhs)))
    else:
        lhs_grouped = align_groups_with(lhs_grouped, rhs_grouped)
        lhs = c.reshard(DotOperand.LHS, ungroup_sharding(lhs_grouped), reason.format("rhs", _bytes(rhs)))
    tiles = list(c.output_sharding.dimensions)
    for dim in batch:
        tiles[dim.output] = shard_count_at_dim(lhs.sharding, dim.lhs)
    output = like(c.output_sharding, c.output_sharding.tile_assignment.reshape(tiles))
    output_grouped = align_groups_with(group_sharding_on_dims(output, numbers(batch, DotOperand.OUTPUT)), lhs_grouped)
    state = create_per_group_partitioning_state(c.state, lhs_grouped.device_groups)
    return held.in_group(lhs, lhs_grouped, state), held.in_group(rhs, rhs_grouped, state), output_grouped


def _operands_in_groups_of_output(
    c: DotCase, held: GroupedShardings
) -> tuple[PartitionedHlo, PartitionedHlo, GroupedSharding] | None:
    """Reshard each operand to the output's groups; None if one cannot be."""
    output_grouped = group_sharding_on_dims(c.output_sharding, numbers(c.dims.batch, DotOperand.OUTPUT))
    state = create_per_group_partitioning_state(c.state, output_grouped.device_groups)
    lhs = _to_output_batch(c, DotOperand.LHS, output_grouped, state, held)
    if lhs is None:
        return None
    rhs = _to_output_batch(c, DotOperand.RHS, output_grouped, state, held)
    return None if rhs is None else (lhs, rhs, output_grouped)


def _to_output_batch(
    c: DotCase, side: DotOperand, output_grouped: GroupedSharding, state: PartitioningState, held: GroupedShardings
) -> PartitionedHlo | None:
    """Split one operand along batch dimensions as the output is."""
    operand = c.lhs if side is DotOperand.LHS else c.rhs
    batch_dims = numbers(c.dims.batch, side)
    reason = "devices are grouped by the output's batch dimensions"
    if operand.sharding.is_tile_maximal:
        whole = c.reshard(side, HloSharding.replicate(), reason)
        part = per_group_slice_from_replicated(
            whole.hlo, operand.state.partition_id, output_grouped, batch_dims, operand.state.b
        )
        set_sharding(part, HloSharding.replicate())
        return PartitionedHlo(part, part.array_shape, state)
    tiles = _dims_or_ones(operand)
    for dim in c.dims.batch:
        tiles[dim.on(side)] = shard_count_at_dim(c.output_sharding, dim.output)
    if not _fit_tiles(c, side, operand.sharding, tiles):
        return None
    devices = operand.sharding.tile_assignment.reshape(tiles)
    partial = operand.array_shape.rank < len(tiles)
    reshaped = HloSharding.partial_tile(devices) if partial else HloSharding.tile(devices)
    grouped = align_groups_with(group_sharding_on_dims(reshaped, batch_dims), output_grouped)
    target = ungroup_sharding(grouped)
    if c.exact_groups and operand.sharding != target:
        return None
    return held.in_group(c.reshard(side, target, reason), grouped, state)


def _fit_tiles(c: DotCase, side: DotOperand, sharding: HloSharding, tiles: list[int]) -> bool:
    """Reduce the splits of other dimensions if `tiles` needs more devices than there are.

    Returns whether that was possible.
    """
    devices, wanted = sharding.num_devices, math.prod(tiles)
    if wanted > devices:
        if wanted % devices:
            return False
        ratio = wanted // devices
        counts = c.counts
        free, contracting, other_contracting = (
            (counts.lhs_non_contracting, counts.lhs_contracting, counts.rhs_contracting)
            if side is DotOperand.LHS
            else (counts.rhs_non_contracting, counts.rhs_contracting, counts.lhs_contracting)
        )
        if sharding.replicate_on_last_tile_dim and sharding.dimensions[-1] % ratio == 0:
            tiles[-1] //= ratio
            if tiles[-1] == 1:
                tiles.pop()
        elif ratio == free and (ratio != contracting or contracting == other_contracting):
            for dim in c.dims.non_contracting(side):
                tiles[dim.on(side)] = 1
        elif ratio == contracting:
            for dim in c.dims.contracting:
                tiles[dim.on(side)] = 1
        else:
            return False
    return math.prod(tiles) >= devices


# -- non-contracting dimensions --------------------------------------------------------------------


def partition_by_non_contracting(c: DotCase) -> HloInstruction | None:
    """Group the devices by free dimensions that one operand and the output have."""
    counts = c.counts
    lhs_may = counts.lhs_non_contracting == counts.output_lhs_non_contracting > 1
    rhs_may = counts.rhs_non_contracting == counts.output_rhs_non_contracting > 1
    reason = "devices are grouped by the {}'s non-contracting dimensions, as in the output"
    if lhs_may or rhs_may:
        # If both match, choose the one that replicates less of the other.
        rhs_copied = counts.lhs_non_contracting * _bytes(c.rhs)
        lhs_copied = counts.rhs_non_contracting * _bytes(c.lhs)
        side = DotOperand.LHS if lhs_may and (not rhs_may or rhs_copied < lhs_copied) else DotOperand.RHS
        dims = c.dims.non_contracting(side)
        if lhs_may and rhs_may:
            reason += f": gathering the rhs takes {rhs_copied} bytes, the lhs {lhs_copied}"
            c = replace(c, estimates=(("gather the rhs", rhs_copied), ("gather the lhs", lhs_copied)))
    elif counts.lhs_non_contracting > 1 and counts.output_lhs_non_contracting > 1:
        side = DotOperand.LHS
        dims = _equally_split(c, side)
    elif counts.rhs_non_contracting > 1 and counts.output_rhs_non_contracting > 1:
        side = DotOperand.RHS
        dims = _equally_split(c, side)
    else:
        return None
    return _group_on_non_contracting(c, side, dims, reason.format(side.value)) if dims else None


def _equally_split(c: DotCase, side: DotOperand) -> tuple[DimNums, ...]:
    """Return the free dimensions that an operand and the output split alike."""
    sharding = c.sharding(side)
    return tuple(
        d
        for d in c.dims.non_contracting(side)
        if 1 < shard_count_at_dim(sharding, d.on(side)) == shard_count_at_dim(c.output_sharding, d.output)
    )


def _group_on_non_contracting(
    c: DotCase, side: DotOperand, dims: Sequence[DimNums], reason: str
) -> HloInstruction | None:
    output_grouped = group_sharding_on_dims(c.output_sharding, numbers(dims, DotOperand.OUTPUT))
    matching = c.lhs if side is DotOperand.LHS else c.rhs
    matching_grouped = _grouping_of_matched_operand(c, side, dims, output_grouped)
    if c.exact_groups and matching.sharding != ungroup_sharding(matching_grouped):
        return None
    other_side = DotOperand.RHS if side is DotOperand.LHS else DotOperand.LHS
    other, other_grouped = _regrouped_other(c, side, dims, output_grouped, reason)
    if other_grouped is None:
        with c.because(other_side, other.sharding, HloSharding.replicate(), reason):
            other = other.replicate()
    matching = c.reshard(side, ungroup_sharding(matching_grouped), reason)
    state = create_per_group_partitioning_state(matching.state, matching_grouped.device_groups)
    grouped_sharding = other.sharding
    if other_grouped is not None:
        with c.because(other_side, other.sharding, _sharding_among_groups(other, other_grouped), reason):
            other_in_group = _replicated_among_groups(other, other_grouped)
        grouped_sharding = other_grouped.sharding
    else:
        other_in_group = other
    with GroupedShardings() as held:
        first = held.in_group(matching, matching_grouped, state)
        held.set(other_in_group, grouped_sharding)
        second = PartitionedHlo(other_in_group.hlo, other.base_shape, state)
        return c.recurse(
            c.among(
                c.num_partitions // matching_grouped.num_groups,
                lhs=first if side is DotOperand.LHS else second,
                rhs=second if side is DotOperand.LHS else first,
                output_shape=get_per_group_base_shape(output_grouped, c.output_shape),
                output_sharding=output_grouped.sharding,
            )
        )


def _sharding_among_groups(other: PartitionedHlo, grouped: GroupedSharding) -> HloSharding:
    """Return the other operand's sharding once each group holds what it needs."""
    hidden = [d for d in grouped.group_dims if d < other.array_shape.rank]
    target = ungroup_sharding(grouped)
    return partially_replicate_tiled_sharding_on_dims(target, hidden) if hidden else target


def _replicated_among_groups(other: PartitionedHlo, grouped: GroupedSharding) -> PartitionedHlo:
    """Reshard the other operand so that each group has the part it needs."""
    rank = other.array_shape.rank
    target = ungroup_sharding(grouped)
    if tuple(grouped.group_dims) == (rank,):
        return other.reshard(target)
    # A gather follows; if the groups have the same devices, it suffices.
    same = device_groups_are_match(
        group_sharding_on_dims(target, grouped.group_dims), grouped, ignore_group_order=False
    )
    if not other.sharding.replicate_on_last_tile_dim or not same:
        other = other.reshard(target)
    hidden = [d for d in grouped.group_dims if d < rank]
    return other.reshard(partially_replicate_tiled_sharding_on_dims(other.sharding, hidden))


def _grouping_of_matched_operand(
    c: DotCase, side: DotOperand, dims: Sequence[DimNums], output_grouped: GroupedSharding
) -> GroupedSharding:
    """Group the operand with matching free dimensions as the output is grouped."""
    sharding = c.sharding(side)
    tiles = list(sharding.dimensions)
    for dim in dims:
        tiles[dim.on(side)] = shard_count_at_dim(c.output_sharding, dim.output)
    reshaped = like(sharding, sharding.tile_assignment.reshape(tiles))
    return align_groups_with(group_sharding_on_dims(reshaped, numbers(dims, side)), output_grouped)


def _regrouped_other(
    c: DotCase, side: DotOperand, dims: Sequence[DimNums], output_grouped: GroupedSharding, reason: str
) -> tuple[PartitionedHlo, GroupedSharding | None]:
    """Return the other operand and its device groups: its own, or else those the output implies."""
    other_side = DotOperand.RHS if side is DotOperand.LHS else DotOperand.LHS
    other = c.rhs if side is DotOperand.LHS else c.lhs
    grouped = _grouping_of_other_operand(c, side, other, dims, output_grouped)
    if grouped is None and not other.sharding.is_replicated and not c.dims.conv_spatial:
        expected = infer_dot_operand_sharding(
            c.output_sharding,
            c.sharding(side),
            other_side,
            c.dims,
            consider_other_operand=True,
            may_combine_partial_sharding=True,
        )
        with c.because(other_side, other.sharding, expected, reason):
            moved = other.reshard(expected)
        grouped = _grouping_of_other_operand(c, side, moved, dims, output_grouped)
        if grouped is not None:
            other = moved
    return other, grouped


def _grouping_of_other_operand(
    c: DotCase, side: DotOperand, other: PartitionedHlo, dims: Sequence[DimNums], output_grouped: GroupedSharding
) -> GroupedSharding | None:
    """Find dimensions that group the other operand's devices as the output's groups.

    Returns None if there are none.
    """
    count = math.prod(shard_count_at_dim(c.output_sharding, d.output) for d in dims)
    sharding = other.sharding
    last = len(sharding.dimensions) - 1
    spare = sharding.replicate_on_last_tile_dim and sharding.dimensions[-1] % count == 0
    if spare:
        # Try to exchange a dimension for the replicated one before reordering the devices.
        for i in reversed(range(last + 1)):
            if sharding.dimensions[i] % count:
                continue
            order = list(range(last + 1))
            order[i], order[last] = order[last], order[i]
            candidate = sharding if i == last else transpose_sharding(sharding, order)
            found = partial_replicated_group_sharding_with_assigned_device_groups(
                candidate, candidate.dimensions[-1] // count, output_grouped.device_groups
            )
            if found is not None:
                return found
        group_dims: Sequence[int] | None = (last,)
    else:
        group_dims = _group_dims_of_other(c, side, other, count, output_grouped)
    if group_dims is None:
        return None
    if tuple(group_dims) == (last,):
        grouped = group_sharding_on_dims(sharding, group_dims, (sharding.dimensions[-1] // count,))
    elif not sharding.is_replicated:
        grouped = group_sharding_on_dims(sharding, group_dims)
    else:
        return None
    return align_groups_with(grouped, output_grouped, ignore_group_order=True)


def _group_dims_of_other(
    c: DotCase, side: DotOperand, other: PartitionedHlo, count: int, output_grouped: GroupedSharding
) -> Sequence[int] | None:
    counts = c.counts
    # As in XLA, use the dot's counts even if the operand was resharded in between.
    if side is DotOperand.LHS:
        other_contracting, other_free = counts.rhs_contracting, counts.rhs_non_contracting
        matching_contracting, output_other_free = counts.lhs_contracting, counts.output_rhs_non_contracting
    else:
        other_contracting, other_free = counts.lhs_contracting, counts.lhs_non_contracting
        matching_contracting, output_other_free = counts.rhs_contracting, counts.output_lhs_non_contracting
    other_side = DotOperand.RHS if side is DotOperand.LHS else DotOperand.LHS
    found = find_matching_partitioned_dims_for_grouping(other.sharding, output_grouped.device_groups)
    if found is not None:
        return found
    may_contracting = other_contracting == count and other_free == output_other_free
    may_free = other_free == count and matching_contracting == other_contracting
    output_bytes = make_partitioned_shape(c.output_shape, c.output_sharding).byte_size
    if may_contracting and (not may_free or _bytes(other) <= output_bytes):
        return numbers(c.dims.contracting, other_side)
    if may_free:
        return numbers(c.dims.non_contracting(other_side), other_side)
    return None

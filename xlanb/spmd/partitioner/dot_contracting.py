"""Partition a dot by its contracting dimensions.

Each group of devices computes a partial sum; the groups' sums are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import Window
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.dot_case import DotCase, GroupedShardings, numbers, sum_along_sharding_dims, transposed
from xlanb.spmd.partitioner.dot_dimensions import DimNums, DotDimensions, DotOperand
from xlanb.spmd.partitioner.grouping import align_groups_with, find_matching_partitioned_dims_for_grouping
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.state import PartitioningState, ReshardCache, create_per_group_partitioning_state
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, set_sharding, shard_count_at_dim
from xlanb.spmd.sharding_groups import GroupedSharding, group_sharding_on_dims, ungroup_sharding
from xlanb.spmd.sharding_merge import is_sub_tiling_or_equal_sharding
from xlanb.spmd.sharding_util import like, partially_replicate_tiled_sharding_on_dims

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


def partition_by_contracting(c: DotCase) -> HloInstruction | None:
    """Group the devices by the contracting dimensions that both operands split alike."""
    counts = c.counts
    if counts.lhs_contracting == counts.rhs_contracting > 1:
        dot = _group_on_contracting(c, c.dims.contracting)
        if dot is not None:
            return dot
    if counts.lhs_contracting > 1 and counts.rhs_contracting > 1:
        alike = tuple(
            d
            for d in c.dims.contracting
            if 1 < shard_count_at_dim(c.lhs.sharding, d.lhs) == shard_count_at_dim(c.rhs.sharding, d.rhs)
        )
        if alike:
            return _group_on_contracting(c, alike)
    return None


def partition_without_output_replication(c: DotCase) -> HloInstruction | None:
    """Split the output of a dot whose operands are replicated.

    Groups of devices compute the same part of the output.
    """
    replicated = c.lhs.sharding.is_replicated and c.rhs.sharding.is_replicated
    if not (replicated and c.output_sharding.replicate_on_last_tile_dim):
        return None
    grouped = group_sharding_on_dims(c.output_sharding, (c.output_shape.rank,))
    state = create_per_group_partitioning_state(c.state, grouped.device_groups)
    return c.recurse(
        c.among(
            c.output_sharding.num_tiles(),
            lhs=c.lhs.with_state(state),
            rhs=c.rhs.with_state(state),
            output_sharding=grouped.sharding,
        )
    )


def _aligned_operands(
    c: DotCase, dims: Sequence[DimNums], reason: str
) -> tuple[PartitionedHlo, PartitionedHlo, GroupedSharding, GroupedSharding] | None:
    """Reshard the smaller operand to the larger one's groups.

    Returns None if it would have to move and may not.
    """
    sides = (DotOperand.LHS, DotOperand.RHS) if _lhs_is_larger(c) else (DotOperand.RHS, DotOperand.LHS)
    larger, smaller = sides
    reference = group_sharding_on_dims(c.sharding(larger), numbers(dims, larger))
    have = c.sharding(smaller)
    tiles = list(have.dimensions)
    for dim in dims:
        tiles[dim.on(smaller)] = c.sharding(larger).dimension(dim.on(larger))
    split = like(have, have.tile_assignment.reshape(tiles))
    grouped = align_groups_with(group_sharding_on_dims(split, numbers(dims, smaller)), reference)
    target = ungroup_sharding(grouped)
    if c.exact_groups and have != target:
        return None
    moved = c.reshard(smaller, target, reason)
    if smaller is DotOperand.LHS:
        return moved, c.rhs, grouped, reference
    return c.lhs, moved, reference, grouped


def _lhs_is_larger(c: DotCase) -> bool:
    return bool(c.lhs.hlo.array_shape.byte_size > c.rhs.hlo.array_shape.byte_size)


@dataclass(frozen=True)
class _Output:
    """The output's sharding inside a group and after the sum.

    `slice_dims` are the dimensions by which the sum is sliced among the groups.
    """

    inner: HloSharding
    outer: HloSharding
    slice_dims: tuple[int, ...]
    replicated_dim_grouped: bool


def _group_on_contracting(c: DotCase, dims: Sequence[DimNums]) -> HloInstruction | None:
    """Compute partial sums in groups, and add them by an all-reduce.

    The sum is sliced if the groups split the output.
    """
    group_count = math.prod(shard_count_at_dim(c.lhs.sharding, d.lhs) for d in dims)
    reason = f"devices are grouped by contracting dimensions: {group_count} partial sums"
    aligned = _aligned_operands(c, dims, reason)
    if aligned is None:
        return None
    lhs, rhs, lhs_grouped, rhs_grouped = aligned
    lhs_dims = numbers(dims, DotOperand.LHS)
    lhs, rhs = (
        lhs.pad_with_zero_on_specified_dims(lhs_dims),
        rhs.pad_with_zero_on_specified_dims(numbers(dims, DotOperand.RHS)),
    )
    output = _output_of_groups(c, lhs_grouped, rhs_grouped, group_count)
    kept_dims = [d for d in range(c.output_shape.rank) if d not in output.slice_dims]
    inner_shape = c.output_shape
    if output.slice_dims:
        hidden = partially_replicate_tiled_sharding_on_dims(c.output_sharding, kept_dims)
        inner_shape = make_partitioned_shape(c.output_shape, hidden).as_array()
    state = lhs.state

    def partial_sum(left: PartitionedHlo, right: PartitionedHlo, window: Window) -> HloInstruction:
        """Return the dot on these parts, summed over the groups."""
        partial = c.create(left, right, window)
        with c.because(
            DotOperand.OUTPUT, ungroup_sharding(lhs_grouped), output.outer, reason, CauseKind.PARTIAL_REDUCTION
        ):
            if not output.slice_dims:
                return sum_along_sharding_dims(state, partial, ungroup_sharding(lhs_grouped), lhs_dims)
            return _sum_and_slice(partial, output, kept_dims, c.output_shape.rank, state)

    inner_state = create_per_group_partitioning_state(state, lhs_grouped.device_groups)
    with GroupedShardings() as held:
        dot = c.recurse(
            c.among(
                c.num_partitions // group_count,
                lhs=held.in_group(lhs, lhs_grouped, inner_state),
                rhs=held.in_group(rhs, rhs_grouped, inner_state),
                output_shape=inner_shape,
                output_sharding=output.inner,
                create=partial_sum,
            )
        )
        return c.finished(dot, output.outer, reason)


def _sum_and_slice(
    partial: HloInstruction, output: _Output, kept_dims: Sequence[int], rank: int, state: PartitioningState
) -> HloInstruction:
    """Sum along the dimensions that the groups split, slice, and sum along the replicated one."""
    total = sum_along_sharding_dims(state, partial, output.outer, output.slice_dims)
    # The sum is not a value of the program: cache its slices separately.
    sliced_state = replace(state, partition_id=state.collectives.partition_id(), reshard_cache=ReshardCache())
    set_sharding(total, HloSharding.replicate())
    whole = PartitionedHlo(total, total.array_shape, sliced_state)
    total = whole.reshard(partially_replicate_tiled_sharding_on_dims(output.outer, kept_dims)).hlo
    if output.replicated_dim_grouped:
        total = sum_along_sharding_dims(state, total, output.outer, [rank])
    return total


def _output_of_groups(
    c: DotCase, lhs_grouped: GroupedSharding, rhs_grouped: GroupedSharding, group_count: int
) -> _Output:
    """Find how the groups can split the output.

    Tries its replication, then matching dimensions, then each kind of dimension.
    """
    sharding = _widened_output(c, lhs_grouped, rhs_grouped, group_count)
    inner = outer = HloSharding.replicate()
    slice_dims: list[int] = []
    found = None
    spare = sharding.replicate_on_last_tile_dim and sharding.dimensions[-1] % group_count == 0
    if not spare:
        found = find_matching_partitioned_dims_for_grouping(sharding, lhs_grouped.device_groups)
    if spare:
        last = len(sharding.dimensions) - 1
        grouped = group_sharding_on_dims(sharding, (last,), (sharding.dimensions[-1] // group_count,))
        grouped = align_groups_with(grouped, lhs_grouped, ignore_group_order=True)
        inner, outer = grouped.sharding, ungroup_sharding(grouped)
    elif found is not None:
        slice_dims = list(found)
        if slice_dims:
            # Aligning could reorder the groups needlessly: they are summed anyway.
            inner, outer = group_sharding_on_dims(sharding, slice_dims).sharding, sharding
    elif not sharding.is_replicated:
        slice_dims = _slice_dims_by_kind(c, group_count)
        if slice_dims:
            grouped = align_groups_with(group_sharding_on_dims(sharding, slice_dims), lhs_grouped)
            inner, outer = grouped.sharding, ungroup_sharding(grouped)
    rank = c.output_shape.rank
    on_replicated = rank in slice_dims
    if sharding.replicate_on_last_tile_dim:
        slice_dims = [d for d in slice_dims if d != rank]
    return _Output(inner, outer, tuple(slice_dims), on_replicated)


def _slice_dims_by_kind(c: DotCase, group_count: int) -> list[int]:
    counts, dims = c.counts, c.dims
    for split, kind in (
        (counts.output_lhs_non_contracting, dims.lhs_non_contracting),
        (counts.output_rhs_non_contracting, dims.rhs_non_contracting),
        (counts.output_batch, dims.batch),
    ):
        if split == group_count:
            return numbers(kind, DotOperand.OUTPUT)
    return []


def _widened_output(
    c: DotCase, lhs_grouped: GroupedSharding, rhs_grouped: GroupedSharding, group_count: int
) -> HloSharding:
    """Return the output's sharding, or a coarser one from the only split operand's free dimensions.

    The operand's is used if the output's sharding subdivides it.
    """
    sharding = c.output_sharding
    if not sharding.is_tiled:
        return sharding
    if sharding.replicate_on_last_tile_dim and sharding.dimensions[-1] % group_count == 0:
        return sharding
    whole = lhs_grouped.sharding.is_replicated, rhs_grouped.sharding.is_replicated
    if whole not in ((True, False), (False, True)) or not c.dims.contracting:
        return sharding
    side, grouped = (DotOperand.RHS, rhs_grouped) if whole[0] else (DotOperand.LHS, lhs_grouped)
    dims: DotDimensions = c.dims
    operand = partially_replicate_tiled_sharding_on_dims(ungroup_sharding(grouped), numbers(dims.contracting, side))
    candidate = transposed(operand, dims, side, DotOperand.OUTPUT)
    if candidate is not None and is_sub_tiling_or_equal_sharding(c.output_shape, sharding, candidate):
        return candidate
    return sharding

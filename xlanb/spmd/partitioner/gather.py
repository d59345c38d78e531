"""Partition gathers in five ways, tried in the order of their estimated cost.

Follows gather_scatter_handler.cc.

explicit batch       operand, indices and output split batching dimensions alike: nothing moves
index parallel       the same for dimensions in which the indices are an iota
operand passthrough  the operand is split in dimensions that every slice covers: so is the output
trivial slices       the operand is split in indexed dimensions: each device gathers what it has,
                     masked, then all-reduce
index passthrough    the indices are split: each device gathers its part of the output from a whole
                     operand
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.collectives import all_reduce_along_sharding_dims
from xlanb.spmd.partitioner.gather_dimensions import IndexedDimensions, MatchingDims
from xlanb.spmd.partitioner.grouping import align_groups_with, get_per_group_base_shape
from xlanb.spmd.partitioner.indexed_groups import (
    IndexedGroups,
    clamp_indices,
    grouped_on_replicated,
    index_bounds,
    index_dims_by_priority,
    indices_from_shard,
    make_a_copy,
    operand_dims_by_priority,
    output_dims_by_priority,
    shardings_across_parallel_dims,
    trivial_slice_dims,
    with_whole_index_vectors,
)
from xlanb.spmd.partitioner.partition_cost import DryRun, Way, cheapest_first
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_r0, create_zero, make_binary_add, set_sharding, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    GroupedSharding,
    group_sharding_on_dims,
    is_sub_tiling_or_equal_sharding,
    merge_sharding_if_compatible,
    partially_replicate_tiled_sharding_on_dims,
    propagate_sharding_along_dims_and_replicate_others,
    ungroup_sharding,
)

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.state import PartitioningState

_O = HloOpcode
_PARALLEL = "operand and indices are split alike in corresponding dimensions: each device gathers its own slices"
_WHOLE_SLICES = (
    "the operand is split in dimensions that every slice covers completely: each device gathers its part of all slices"
)
_SPLIT_INDICES = "the indices are split: each device gathers the slices of its indices"
_TRIVIAL_SLICES = (
    "the operand is split in indexed dimensions: each device gathers the slices in its shard, for all indices"
)
_SUM = "each device has gathered the slices in its shard, and zeros for the others: the sum contains all"


@dataclass(frozen=True)
class GatherCase:
    """A gather to partition: the whole one, or within a way the rest for each group of devices.

    `output_shape`, `output_sharding` and `slice_sizes` are those of this level. `recursive` lets
    other ways split a way further.
    """

    dims: IndexedDimensions
    operand: PartitionedHlo
    indices: PartitionedHlo
    output_shape: ArrayShape
    output_sharding: HloSharding
    slice_sizes: tuple[int, ...]
    recursive: bool = True

    @property
    def source(self) -> HloInstruction:
        """The instruction of the source program."""
        return self.dims.hlo

    @property
    def b(self) -> SpmdBuilder:
        """The builder of new instructions."""
        return self.state.b

    @property
    def state(self) -> PartitioningState:
        """The partitioner's state within this level's groups of devices."""
        return self.operand.state

    def dry(self, run: DryRun) -> GatherCase:
        """Return a non-recursive copy whose operands are parameters of another module."""
        operand, indices = run.parameter(self.operand), run.parameter(self.indices)
        return replace(self, operand=operand, indices=indices, recursive=False)

    def finish(self, result: HloInstruction, sharding: HloSharding, shape: ArrayShape | None = None) -> HloInstruction:
        """Reshard the result from `sharding` to the required sharding."""
        set_sharding(result, sharding)
        partitioned = PartitionedHlo(result, shape or self.output_shape, self.operand.state)
        return partitioned.reshard(self.output_sharding).hlo

    def per_group(self, operand: PartitionedHlo, indices: PartitionedHlo, output: GroupedSharding) -> GatherCase:
        """Return the case that is left for each group."""
        shape = get_per_group_base_shape(output, self.output_shape)
        return replace(self, operand=operand, indices=indices, output_shape=shape, output_sharding=output.sharding)


def partition_gather(g: GatherCase) -> HloInstruction:
    """Partition by the cheapest applicable way.

    If none applies, gather from the whole operand with all indices, and slice the result.
    """
    if g.recursive:
        for estimate in cheapest_first(WAYS, g, _O.GATHER, g.state.options.preferred_gather_partition_methods):
            with estimate.as_cause(g):
                result = estimate.way(g)
            if result is not None:
                return result
    whole = g.b.add(
        _O.GATHER,
        (g.operand.replicate().hlo, g.indices.replicate().hlo),
        g.output_shape,
        **{**g.dims.hlo.attributes, "slice_sizes": g.slice_sizes},
    )
    return g.finish(whole, HloSharding.replicate(), whole.array_shape)


# -- parallel dimensions ---------------------------------------------------------------------------


def partition_explicit_batch(g: GatherCase) -> HloInstruction | None:
    """Split batching dimensions of the gather."""
    dims = g.dims.explicit_batch()
    return None if dims is None else _partition_parallel(g, dims, need_offset=False)


def partition_index_parallel(g: GatherCase) -> HloInstruction | None:
    """Split dimensions whose indices are an iota: slice n is in the shard that has n."""
    dims = g.dims.index_parallel()
    return None if dims is None else _partition_parallel(g, dims, need_offset=True)


def _partition_parallel(g: GatherCase, dims: MatchingDims, *, need_offset: bool) -> HloInstruction | None:
    shardings = shardings_across_parallel_dims(g.operand, g.indices, dims)
    if shardings is None:
        return None
    operand, indices = g.operand.reshard(shardings[1]), g.indices.reshard(shardings[0])
    output = g.dims.output_from_indices(indices.sharding)
    rest = partially_replicate_tiled_sharding_on_dims(operand.sharding, dims.operand)
    passed = g.dims.output_from_operand(operand.array_shape, rest, g.slice_sizes)
    if passed is not None:
        output = merge_sharding_if_compatible(passed, output) or output
    if need_offset:
        indices = indices_from_shard(g.dims, operand, indices, dims, g.b)
    with IndexedGroups(g.dims.hlo, _PARALLEL) as groups:
        indices_grouped = group_sharding_on_dims(indices.sharding, dims.indices)
        operand_grouped = align_groups_with(group_sharding_on_dims(operand.sharding, dims.operand), indices_grouped)
        output_grouped = align_groups_with(group_sharding_on_dims(output, dims.output), indices_grouped)
        inner_operand = groups.of(operand, operand_grouped, 0)
        inner_indices = groups.of(indices, indices_grouped, 1)
        result = partition_gather(g.per_group(inner_operand, inner_indices, output_grouped))
        return g.finish(result, ungroup_sharding(output_grouped))


# -- passthrough -----------------------------------------------------------------------------------


def partition_operand_passthrough(g: GatherCase) -> HloInstruction | None:
    """Split operand dimensions that every slice takes whole."""
    if g.operand.sharding.is_tile_maximal:
        return None
    output = g.dims.output_from_operand(g.operand.array_shape, g.operand.sharding, g.slice_sizes)
    if output is None:
        return None
    dims = g.dims.operand_passthrough(g.slice_sizes).operand
    sizes = tuple(
        g.operand.hlo.array_shape.dimensions[d] if d in dims else size for d, size in enumerate(g.slice_sizes)
    )
    output_dims = [d for d in range(output.tiled_data_rank) if output.dimension(d) != 1]
    output = merge_sharding_if_compatible(g.output_sharding, output) or output
    with IndexedGroups(g.dims.hlo, _WHOLE_SLICES) as groups:
        output_grouped = group_sharding_on_dims(output, output_dims)
        operand_grouped = align_groups_with(group_sharding_on_dims(g.operand.sharding, dims), output_grouped)
        indices_grouped = grouped_on_replicated(
            g.indices.sharding, g.operand.sharding, dims, g.indices.array_shape.rank, index_dims_by_priority(g.dims),
            output_grouped,
        )  # fmt: skip
        operand = groups.of(g.operand, operand_grouped, 0)
        indices = groups.of(g.indices, indices_grouped, 1)
        result = partition_gather(replace(g.per_group(operand, indices, output_grouped), slice_sizes=sizes))
        return g.finish(result, output)


def partition_index_passthrough(g: GatherCase) -> HloInstruction | None:
    """Split dimensions of the indices, and the output with them."""
    if g.indices.sharding.is_tile_maximal:
        return None
    dims = g.dims.index_passthrough()
    indices = g.indices
    wanted = propagate_sharding_along_dims_and_replicate_others(
        g.output_sharding, dims.output, dims.indices, indices.array_shape.rank
    )
    better = merge_sharding_if_compatible(wanted, indices.sharding)
    if better is not None:
        indices = indices.reshard(better)
    output = propagate_sharding_along_dims_and_replicate_others(
        indices.sharding, dims.indices, dims.output, g.dims.output_rank
    )
    if output.is_tile_maximal:
        return None
    output = merge_sharding_if_compatible(g.output_sharding, output) or output
    with IndexedGroups(g.dims.hlo, _SPLIT_INDICES) as groups:
        output_grouped = group_sharding_on_dims(output, dims.output)
        indices_grouped = align_groups_with(group_sharding_on_dims(indices.sharding, dims.indices), output_grouped)
        operand_grouped = grouped_on_replicated(
            g.operand.sharding, indices.sharding, dims.indices, g.operand.array_shape.rank,
            operand_dims_by_priority(g.dims, g.operand, g.slice_sizes), output_grouped,
        )  # fmt: skip
        operand = groups.of(g.operand, operand_grouped, 0)
        result = partition_gather(g.per_group(operand, groups.of(indices, indices_grouped, 1), output_grouped))
        return g.finish(result, output)


# -- trivial slices --------------------------------------------------------------------------------


def partition_trivial_slices(g: GatherCase) -> HloInstruction | None:
    """Gather from each shard of the operand what it has, set the rest to 0, and sum."""
    trivial = trivial_slice_dims(g.operand, g.dims.index_map, g.slice_sizes)
    if trivial is None:
        return None
    operand, b, d = g.operand, g.b, g.dims
    operand_grouped = group_sharding_on_dims(operand.sharding, trivial)
    indices_grouped, output_grouped = _groups_for_trivial_slices(g, trivial, operand_grouped)
    indices = clamp_indices(d, g.indices.reshard(ungroup_sharding(indices_grouped)), operand.array_shape, b)
    low, high = index_bounds(d, operand, indices, trivial, b)
    relative = indices.with_hlo(b.add(_O.SUBTRACT, (indices.hlo, low), indices.hlo.shape), indices.sharding)
    sharding = operand.sharding
    with IndexedGroups(d.hlo, _TRIVIAL_SLICES) as groups:
        inner_operand = groups.of(operand, operand_grouped, 0)
        inner_indices = groups.of(relative, indices_grouped, 1)
        gathered = partition_gather(g.per_group(inner_operand, inner_indices, output_grouped))
        output = ungroup_sharding(output_grouped)
        mask = _in_another_shard(indices, low, high)
        wanted = d.indices_from_output(output)
        if is_sub_tiling_or_equal_sharding(mask.array_shape, wanted, mask.sharding):
            mask = mask.reshard(wanted)  # each device slices its own part
        else:  # other groups have other masks
            inner_mask = PartitionedHlo(
                mask.hlo, inner_indices.array_shape.with_type(PrimitiveType.PRED), inner_indices.state
            )
            set_sharding(mask.hlo, indices_grouped.sharding)
            mask = inner_mask.reshard(d.indices_from_output(output_grouped.sharding))
        elsewhere = _mask_of_slices(g, mask.hlo, gathered)
        zero = create_zero(gathered.array_shape, b)
        masked = b.add(_O.SELECT, (elsewhere, zero, gathered), gathered.shape)
        add = make_binary_add(gathered.array_shape.element_type, g.state.module)
        with g.state.because(d.hlo, 0, sharding, output, _SUM, kind=CauseKind.PARTIAL_REDUCTION):
            result = all_reduce_along_sharding_dims(masked, sharding, trivial, operand.state.collectives, add)
        return g.finish(result, output)


def _groups_for_trivial_slices(
    g: GatherCase, trivial: tuple[int, ...], operand_grouped: GroupedSharding
) -> tuple[GroupedSharding, GroupedSharding]:
    """Return the groupings of indices and output.

    If one is split within groups and the other is not, both are split.
    """
    d, rank = g.dims, g.output_shape.rank

    def of_indices(sharding: HloSharding) -> GroupedSharding:
        by_priority = index_dims_by_priority(d)
        return grouped_on_replicated(
            sharding, g.operand.sharding, trivial, g.indices.array_shape.rank, by_priority, operand_grouped
        )

    def of_output(sharding: HloSharding) -> GroupedSharding:
        by_priority = output_dims_by_priority(d, rank, g.slice_sizes)
        return grouped_on_replicated(sharding, g.operand.sharding, trivial, rank, by_priority, operand_grouped)

    indices, output = of_indices(g.indices.sharding), of_output(g.output_sharding)
    if not indices.sharding.is_tile_maximal and output.sharding.is_tile_maximal:
        output = of_output(d.output_from_indices(g.indices.sharding))
    if indices.sharding.is_tile_maximal and not output.sharding.is_tile_maximal:
        indices = of_indices(d.indices_from_output(g.output_sharding))
    return indices, output


def _in_another_shard(indices: PartitionedHlo, low: HloInstruction, high: HloInstruction) -> PartitionedHlo:
    """Return which elements of the indices are outside this device's shard of the operand."""
    b = indices.state.b
    truth = indices.hlo.array_shape.with_type(PrimitiveType.PRED)
    before = b.add(_O.COMPARE, (indices.hlo, low), truth, direction="LT")
    behind = b.add(_O.COMPARE, (indices.hlo, high), truth, direction="GT")
    mask = b.add(_O.OR, (before, behind), truth)
    set_sharding(mask, indices.sharding)
    return PartitionedHlo(mask, indices.array_shape.with_type(PrimitiveType.PRED), indices.state)


def _mask_of_slices(g: GatherCase, mask: HloInstruction, gathered: HloInstruction) -> HloInstruction:
    """Broadcast the mask of indices to the shape of the gathered slices."""
    b, d = g.b, g.dims
    if d.has_index_vectors:
        no = create_r0(PrimitiveType.PRED, False, b)
        kept = [size for dim, size in enumerate(mask.array_shape.dimensions) if dim != d.index_vector_dim]
        mask = b.add(
            _O.REDUCE,
            (mask, no),
            ArrayShape(PrimitiveType.PRED, tuple(kept)),
            dimensions=(d.index_vector_dim,),
            to_apply=make_binary_add(PrimitiveType.PRED, g.state.module),
        )
    return b.broadcast(mask, gathered.array_shape.with_type(PrimitiveType.PRED), d.output_batch_dims)


WAYS: tuple[tuple[str, Way[GatherCase]], ...] = (
    ("explicit-batch", partition_explicit_batch),
    ("index-parallel", partition_index_parallel),
    ("operand-passthrough", partition_operand_passthrough),
    ("trivial-sliced-operand", partition_trivial_slices),
    ("index-passthrough", partition_index_passthrough),
)
"""The ways and their names in options, by preference at equal cost."""


@handles("gather")
def handle_gather(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a gather."""
    sharding = sharding_of(hlo)
    if sharding.has_unique_device:
        v.default_action(hlo)
        return
    operand, indices = (v.partitioned(o) for o in hlo.operands)
    if operand.hlo is indices.hlo:
        indices = make_a_copy(indices)
    dims = IndexedDimensions.of(hlo)
    sizes = tuple(hlo.attributes["slice_sizes"])
    indices = with_whole_index_vectors(dims, indices, 1)
    case = GatherCase(dims, operand, indices, hlo.array_shape, sharding, sizes)
    v.set_partitioned(hlo, partition_gather(case))

"""Partition scatters: the ways of gathers in reverse, tried in the order of their cost.

Follows gather_scatter_handler.cc.

explicit batch, index parallel  operand, indices and updates are split alike: nothing moves
operand passthrough             operand and updates are split in dimensions that every update covers
trivial slices                  the operand is split in indexed dimensions: indices outside of a
                                shard do nothing there
index passthrough               indices and updates are split: each device scatters its own into an
                                identity, then all-reduce
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.spmd.hlo_sharding import Devices, HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.collectives import (
    ReplicaGroups,
    all_reduce_along_sharding_dims,
    get_partition_groups_for_replication,
)
from xlanb.spmd.partitioner.gather_dimensions import IndexedDimensions, MatchingDims
from xlanb.spmd.partitioner.grouping import align_groups_with, get_per_group_base_shape
from xlanb.spmd.partitioner.indexed_groups import (
    IndexedGroups,
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
from xlanb.spmd.partitioner.reduction_identity import reduction_identity
from xlanb.spmd.partitioner.utilities import create_constant, set_sharding, sharding_of, table_lookup
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    GroupedSharding,
    find_common_sharding,
    group_sharding_on_dims,
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
_PARALLEL = (
    "operand, indices and updates are split alike in corresponding dimensions: each device scatters its own updates"
)
_WHOLE_SLICES = (
    "the operand is split in dimensions that every update covers completely: each device "
    "scatters its part of all updates"
)
_SPLIT_INDICES = "indices and updates are split: each device scatters its own updates"
_TRIVIAL_SLICES = (
    "the operand is split in indexed dimensions: each device scatters those updates that fall into its shard"
)
_SUM = "each device has scattered its own updates: the reduction combines them"


@dataclass(frozen=True)
class ScatterCase:
    """A scatter to partition: the whole one, or within a way the rest for each group of devices.

    See GatherCase.
    """

    dims: IndexedDimensions
    operands: tuple[PartitionedHlo, ...]
    indices: PartitionedHlo
    updates: tuple[PartitionedHlo, ...]
    output_shape: Shape
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
    def operand(self) -> PartitionedHlo:
        """The first operand; the others have its shape and sharding."""
        return self.operands[0]

    @property
    def update(self) -> PartitionedHlo:
        """The first update; the others have its shape and sharding."""
        return self.updates[0]

    @property
    def state(self) -> PartitioningState:
        """The partitioner's state within this level's groups of devices."""
        return self.operand.state

    def dry(self, run: DryRun) -> ScatterCase:
        """Return a non-recursive copy whose operands are parameters of another module."""
        return replace(
            self,
            operands=tuple(map(run.parameter, self.operands)),
            indices=run.parameter(self.indices),
            updates=tuple(map(run.parameter, self.updates)),
            recursive=False,
        )

    def finish(self, result: HloInstruction, sharding: HloSharding, shape: Shape | None = None) -> HloInstruction:
        """Reshard the result from `sharding` to the required sharding."""
        set_sharding(result, sharding.normalize_tuple(result.shape))
        partitioned = PartitionedHlo(result, shape or self.output_shape, self.state)
        return partitioned.reshard(self.output_sharding).hlo

    def within(
        self,
        operands: Sequence[PartitionedHlo],
        indices: PartitionedHlo,
        updates: Sequence[PartitionedHlo],
        output: GroupedSharding,
    ) -> ScatterCase:
        """Return the case that is left for each group."""
        return replace(
            self,
            operands=tuple(operands),
            indices=indices,
            updates=tuple(updates),
            output_shape=_per_group(output, self.output_shape),
            output_sharding=output.sharding.normalize_tuple(self.dims.hlo.shape),
        )


def _per_group(grouped: GroupedSharding, shape: Shape) -> Shape:
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(_per_group(grouped, s) for s in shape.shapes))
    return get_per_group_base_shape(grouped, shape.as_array())


def partition_scatter(s: ScatterCase) -> HloInstruction:
    """Partition by the cheapest applicable way.

    If none applies, scatter into the whole and slice the result.
    """
    if s.recursive:
        for estimate in cheapest_first(WAYS, s, _O.SCATTER, s.state.options.preferred_scatter_partition_methods):
            with estimate.as_cause(s):
                result = estimate.way(s)
            if result is not None:
                return result
    operands = [o.replicate().hlo for o in s.operands]
    updates = [u.replicate().hlo for u in s.updates]
    shapes = [o.shape for o in operands]
    whole = s.b.add(
        _O.SCATTER,
        (*operands, s.indices.replicate().hlo, *updates),
        shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes)),
        **{**s.dims.hlo.attributes, "to_apply": _cloned_computation(s)},
    )
    return s.finish(whole, HloSharding.replicate(), whole.shape)


def _cloned_computation(s: ScatterCase) -> object:
    computation = s.dims.hlo.to_apply
    return s.state.module.clone_computation(computation, f"{computation.name}.clone")


# -- parallel dimensions ---------------------------------------------------------------------------


def partition_explicit_batch(s: ScatterCase) -> HloInstruction | None:
    """Split batching dimensions of the scatter."""
    dims = s.dims.explicit_batch()
    return None if dims is None else _partition_parallel(s, dims, need_offset=False)


def partition_index_parallel(s: ScatterCase) -> HloInstruction | None:
    """Split dimensions whose indices are an iota."""
    dims = s.dims.index_parallel()
    return None if dims is None else _partition_parallel(s, dims, need_offset=True)


def _partition_parallel(s: ScatterCase, dims: MatchingDims, *, need_offset: bool) -> HloInstruction | None:
    shardings = shardings_across_parallel_dims(s.operand, s.indices, dims)
    if shardings is None:
        return None
    operands = [o.reshard(shardings[1]) for o in s.operands]
    operand, indices = operands[0], s.indices.reshard(shardings[0])
    update = s.dims.output_from_indices(indices.sharding)
    rest = partially_replicate_tiled_sharding_on_dims(operand.sharding, dims.operand)
    passed = s.dims.output_from_operand(operand.array_shape, rest, s.slice_sizes)
    if passed is not None:
        update = merge_sharding_if_compatible(passed, update) or update
    updates = [u.reshard(update) for u in s.updates]
    if need_offset:
        indices = indices_from_shard(s.dims, operand, indices, dims, s.b)
    with IndexedGroups(s.dims.hlo, _PARALLEL) as groups:
        indices_grouped = group_sharding_on_dims(indices.sharding, dims.indices)
        operand_grouped = align_groups_with(group_sharding_on_dims(operand.sharding, dims.operand), indices_grouped)
        update_grouped = align_groups_with(group_sharding_on_dims(updates[0].sharding, dims.output), indices_grouped)
        inner_operands = groups.of_each(operands, operand_grouped)
        inner_updates = groups.of_each(updates, update_grouped, len(s.operands) + 1)
        inner_indices = groups.of(indices, indices_grouped, len(s.operands))
        result = partition_scatter(s.within(inner_operands, inner_indices, inner_updates, operand_grouped))
        return s.finish(result, ungroup_sharding(operand_grouped))


# -- passthrough -----------------------------------------------------------------------------------


def partition_operand_passthrough(s: ScatterCase) -> HloInstruction | None:
    """Split operand dimensions that every update covers."""
    if s.operand.sharding.is_tile_maximal:
        return None
    update = s.dims.output_from_operand(s.operand.array_shape, s.operand.sharding, s.slice_sizes)
    if update is None:
        return None
    dims = s.dims.operand_passthrough(s.slice_sizes).operand
    sizes = tuple(
        s.operand.hlo.array_shape.dimensions[d] if d in dims else size for d, size in enumerate(s.slice_sizes)
    )
    update_dims = [d for d in range(update.tiled_data_rank) if update.dimension(d) != 1]
    update = merge_sharding_if_compatible(s.update.sharding, update) or update
    with IndexedGroups(s.dims.hlo, _WHOLE_SLICES) as groups:
        update_grouped = group_sharding_on_dims(update, update_dims)
        operand_grouped = align_groups_with(group_sharding_on_dims(s.operand.sharding, dims), update_grouped)
        indices_grouped = grouped_on_replicated(
            s.indices.sharding, s.operand.sharding, dims, s.indices.array_shape.rank, index_dims_by_priority(s.dims),
            update_grouped,
        )  # fmt: skip
        operands = groups.of_each(s.operands, operand_grouped)
        updates = groups.of_each(s.updates, update_grouped, len(s.operands) + 1)
        indices = groups.of(s.indices, indices_grouped, len(s.operands))
        inner = replace(s.within(operands, indices, updates, operand_grouped), slice_sizes=sizes)
        return s.finish(partition_scatter(inner), ungroup_sharding(operand_grouped))


def partition_index_passthrough(s: ScatterCase) -> HloInstruction | None:
    """Split indices and updates, then all-reduce.

    The first device of a group scatters into the operand, the others into the reduction's identity.
    """
    dims, indices, update = s.dims.index_passthrough(), s.indices, s.update
    wanted = propagate_sharding_along_dims_and_replicate_others(
        update.sharding, dims.output, dims.indices, indices.array_shape.rank
    )
    better = merge_sharding_if_compatible(wanted, indices.sharding)
    if better is not None:
        indices = indices.reshard(better)
    sharding = indices.sharding
    passed = propagate_sharding_along_dims_and_replicate_others(sharding, dims.indices, dims.output, s.dims.output_rank)
    if passed.is_tile_maximal:
        return None
    passed = merge_sharding_if_compatible(update.sharding, passed) or passed
    with IndexedGroups(s.dims.hlo, _SPLIT_INDICES) as groups:
        update_grouped = group_sharding_on_dims(passed, dims.output)
        operand_grouped = grouped_on_replicated(
            s.operand.sharding, sharding, dims.indices, s.operand.array_shape.rank,
            operand_dims_by_priority(s.dims, s.operand, s.slice_sizes), update_grouped,
        )  # fmt: skip
        indices_grouped = align_groups_with(group_sharding_on_dims(sharding, dims.indices), update_grouped)
        operand = groups.of(s.operand, operand_grouped, 0)
        identity = _identity(s)
        if identity is None:
            return None
        operand = _identity_but_on_first(operand, indices, identity, update_grouped)
        updates = [groups.of(update, update_grouped, 2)]
        inner = s.within([operand], groups.of(indices, indices_grouped, len(s.operands)), updates, operand_grouped)
        result = partition_scatter(inner)
        with s.state.because(s.dims.hlo, 1, sharding, None, _SUM, kind=CauseKind.PARTIAL_REDUCTION):
            result = _reduced(s, result, sharding, dims.indices, update_grouped)
        return s.finish(result, ungroup_sharding(operand_grouped))


def _reduced(
    s: ScatterCase, scattered: HloInstruction, sharding: HloSharding, dims: Sequence[int], grouped: GroupedSharding
) -> HloInstruction:
    """Reduce over the groups that have scattered their own updates.

    XLA reduces over the devices along the split dimensions of the indices. These have the same part
    of the operand if their numbers within the groups are equal. If a sharding numbers the devices
    differently, the all-reduce is over the devices that do have the same part.
    """
    to_apply, collectives = s.dims.hlo.to_apply, s.state.collectives
    alike = [tuple(column) for column in grouped.device_groups.T.tolist()]
    if set(map(frozenset, get_partition_groups_for_replication(sharding, dims).rows)) == set(map(frozenset, alike)):
        return all_reduce_along_sharding_dims(scattered, sharding, dims, collectives, to_apply)
    return collectives.all_reduce(scattered, to_apply, ReplicaGroups.listed(alike))


def _identity(s: ScatterCase) -> object | None:
    hlo = s.dims.hlo
    return reduction_identity(hlo.to_apply, hlo.array_shape.element_type) if hlo.shape.is_array else None


def _identity_but_on_first(
    operand: PartitionedHlo, indices: PartitionedHlo, identity: object, update_grouped: GroupedSharding
) -> PartitionedHlo:
    """Return the operand in the first group of devices and the identity in the others.

    The all-reduce must count the operand once.
    """
    b, shape = operand.state.b, operand.hlo.array_shape
    neutral = create_constant(shape, identity, b)
    other = b.add(_O.CONVERT, (_group_number(indices, update_grouped),), ArrayShape(PrimitiveType.PRED, ()))
    others = b.broadcast(other, shape.with_type(PrimitiveType.PRED))
    return operand.with_hlo(b.add(_O.SELECT, (others, neutral, operand.hlo), shape), operand.sharding)


def _group_number(indices: PartitionedHlo, grouped: GroupedSharding) -> HloInstruction:
    """Return a number that is 0 on exactly one of the devices that the all-reduce combines.

    XLA takes the partition's number among those with different indices. If that is 0 on none or on
    several of them, this is the number of the group.
    """
    state, sharding, groups = indices.state, indices.sharding, grouped.device_groups
    numbers = np.arange(groups.size)
    copies: Devices | None = None
    if sharding.replicate_on_last_tile_dim:
        copies = group_sharding_on_dims(sharding, (len(sharding.dimensions) - 1,)).device_groups
        numbers[copies] = np.arange(copies.shape[1])
    if not np.all(np.count_nonzero(numbers[groups] == 0, axis=0) == 1):
        numbers[groups] = np.arange(groups.shape[0]).reshape(-1, 1)
        return table_lookup(numbers.astype(np.uint32), state.partition_id, state.b)
    return state.partition_id if copies is None else state.per_group(copies).partition_id


# -- trivial slices --------------------------------------------------------------------------------


def partition_trivial_slices(s: ScatterCase) -> HloInstruction | None:
    """Scatter all updates into each shard of the operand, with indices relative to its start.

    Indices outside the shard are dropped.
    """
    trivial = trivial_slice_dims(s.operand, s.dims.index_map, s.slice_sizes)
    if trivial is None:
        return None
    b, d = s.b, s.dims
    operand_grouped = group_sharding_on_dims(s.operand.sharding, trivial)
    indices_grouped, update_grouped = _groups_for_trivial_slices(s, trivial, operand_grouped)
    indices = s.indices.reshard(ungroup_sharding(indices_grouped))
    low, _ = index_bounds(d, s.operand, indices, trivial, b)
    indices = indices.with_hlo(b.add(_O.SUBTRACT, (indices.hlo, low), indices.hlo.shape), indices.sharding)
    with IndexedGroups(d.hlo, _TRIVIAL_SLICES) as groups:
        operands = groups.of_each(s.operands, operand_grouped)
        updates = groups.of_each(s.updates, update_grouped, len(s.operands) + 1)
        inner_indices = groups.of(indices, indices_grouped, len(s.operands))
        result = partition_scatter(s.within(operands, inner_indices, updates, operand_grouped))
        return s.finish(result, ungroup_sharding(operand_grouped))


def _groups_for_trivial_slices(
    s: ScatterCase, trivial: tuple[int, ...], operand_grouped: GroupedSharding
) -> tuple[GroupedSharding, GroupedSharding]:
    """Return the groupings of indices and updates.

    If one is split within groups and the other is not, both are split.
    """
    d, rank = s.dims, s.update.array_shape.rank

    def of_indices(sharding: HloSharding) -> GroupedSharding:
        by_priority = index_dims_by_priority(d)
        return grouped_on_replicated(
            sharding, s.operand.sharding, trivial, s.indices.array_shape.rank, by_priority, operand_grouped
        )

    def of_updates(sharding: HloSharding) -> GroupedSharding:
        by_priority = output_dims_by_priority(d, rank, s.slice_sizes)
        return grouped_on_replicated(sharding, s.operand.sharding, trivial, rank, by_priority, operand_grouped)

    indices, updates = of_indices(s.indices.sharding), of_updates(s.update.sharding)
    if not indices.sharding.is_tile_maximal and updates.sharding.is_tile_maximal:
        updates = of_updates(d.output_from_indices(s.indices.sharding))
    if indices.sharding.is_tile_maximal and not updates.sharding.is_tile_maximal:
        indices = of_indices(d.indices_from_output(s.update.sharding))
    return indices, updates


WAYS: tuple[tuple[str, Way[ScatterCase]], ...] = (
    ("explicit-batch", partition_explicit_batch),
    ("index-parallel", partition_index_parallel),
    ("operand-passthrough", partition_operand_passthrough),
    ("trivial-sliced-operand", partition_trivial_slices),
    ("index-passthrough", partition_index_passthrough),
)
"""The ways and their names in options, by preference at equal cost."""


@handles("scatter")
def handle_scatter(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a scatter of one or several operands."""
    sharding = sharding_of(hlo)
    if sharding.has_unique_device:
        v.default_action(hlo)
        return
    count = len(hlo.operands) // 2
    operands = _alike([v.partitioned(o) for o in hlo.operands[:count]])
    updates = [v.partitioned(o) for o in hlo.operands[count + 1 :]]
    taken = {o.hlo for o in operands}
    updates = _alike([make_a_copy(u) if u.hlo in taken else u for u in updates])
    indices = v.partitioned(hlo.operands[count])
    if indices.hlo in taken | {u.hlo for u in updates}:
        indices = make_a_copy(indices)
    dims = IndexedDimensions.of(hlo)
    indices = _padded_out_of_bounds(with_whole_index_vectors(dims, indices, count))
    sizes = dims.slice_sizes(operands[0].array_shape, updates[0].array_shape)
    case = ScatterCase(dims, tuple(operands), indices, tuple(updates), hlo.shape, sharding, sizes)
    v.set_partitioned(hlo, partition_scatter(case))


def _alike(phlos: list[PartitionedHlo]) -> list[PartitionedHlo]:
    """Reshard all to one sharding."""
    first = phlos[0]
    if all(p.sharding == first.sharding and p.base_shape == first.base_shape for p in phlos):
        return phlos
    common = find_common_sharding([p.sharding for p in phlos])
    return [p.reshard(common) for p in phlos]


def _padded_out_of_bounds(indices: PartitionedHlo) -> PartitionedHlo:
    """Set indices in the padding of uneven shards to -1; a scatter drops out-of-bounds indices."""
    sharding = indices.sharding
    if sharding.is_tile_maximal:
        return indices
    sizes, shards = indices.array_shape.dimensions, indices.hlo.array_shape.dimensions
    if all(size == sharding.dimension(d) * shards[d] for d, size in enumerate(sizes)):
        return indices
    return indices.replicate().reshard(sharding, pad_value=-1)

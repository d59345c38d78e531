"""Common parts of partitioning gathers and scatters.

Groups of devices, index offsets, and the order of dimensions to replicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.grouping import (
    align_groups_with,
    align_sharding_on_dims,
    create_matching_sharding_on_dims,
    get_per_group_base_shape,
)
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_r0, make_partition_offsets, set_sharding
from xlanb.spmd.sharding_util import (
    GroupedSharding,
    group_sharding_on_replicated_dim,
    partially_replicate_tiled_sharding_on_dims,
    ungroup_sharding,
)

if TYPE_CHECKING:
    from types import TracebackType

    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.gather_dimensions import IndexedDimensions, MatchingDims

_O = HloOpcode
_S32 = PrimitiveType.S32


class IndexedGroups:
    """Arrays as each group of devices sees them, in a `with` block.

    When the block ends, their instructions get their shardings back. Collectives that reshard an
    operand of `hlo` into its groups have `reason` as their cause.
    """

    def __init__(self, hlo: HloInstruction, reason: str) -> None:
        self._hlo = hlo
        self._reason = reason
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def of(self, phlo: PartitionedHlo, grouped: GroupedSharding, operand: int | None = None) -> PartitionedHlo:
        """Reshard an operand of the instruction so that each group has its part, and return it."""
        target = ungroup_sharding(grouped)
        with phlo.state.because(self._hlo, operand, phlo.sharding, target, self._reason):
            phlo = phlo.reshard(target)
        state = phlo.state.per_group(grouped.device_groups)
        hlo, had = phlo.hlo, phlo.sharding
        set_sharding(hlo, grouped.sharding)
        self._stack.callback(set_sharding, hlo, had)
        return PartitionedHlo(hlo, get_per_group_base_shape(grouped, phlo.array_shape), state)

    def of_each(
        self, phlos: Iterable[PartitionedHlo], grouped: GroupedSharding, first: int = 0
    ) -> list[PartitionedHlo]:
        """Apply `of` to several arrays, operands from `first` on, each instruction once."""
        seen: dict[HloInstruction, PartitionedHlo] = {}
        found = []
        for number, phlo in enumerate(phlos):
            hlo = phlo.hlo
            if hlo not in seen:
                seen[hlo] = self.of(phlo, grouped, first + number)
            found.append(seen[hlo])
        return found


def make_a_copy(phlo: PartitionedHlo) -> PartitionedHlo:
    """Return a copy of the instruction if one instruction would need two shardings."""
    copy = phlo.state.b.add(_O.COPY, (phlo.hlo,), phlo.hlo.shape)
    return phlo.with_hlo(copy, phlo.sharding)


def with_whole_index_vectors(d: IndexedDimensions, indices: PartitionedHlo, operand: int) -> PartitionedHlo:
    """Reshard the indices so that every device has whole index vectors."""
    sharding = indices.sharding
    if sharding.is_tile_maximal or not d.has_index_vectors or sharding.dimension(d.index_vector_dim) == 1:
        return indices
    target = partially_replicate_tiled_sharding_on_dims(sharding, (d.index_vector_dim,))
    with indices.state.because(d.hlo, operand, sharding, target, "a device needs all elements of an index vector"):
        return indices.reshard(target)


# -- dimensions to replicate, by priority ----------------------------------------------------------


def trivial_slice_dims(
    operand: PartitionedHlo, index_map: Iterable[int], slice_sizes: Sequence[int]
) -> tuple[int, ...] | None:
    """Return indexed dimensions with slices of one element if any of them is split, else None."""
    sharding = operand.sharding
    if sharding.is_tile_maximal:
        return None
    dims = tuple(d for d in index_map if slice_sizes[d] == 1)
    return dims if any(sharding.dimension(d) != 1 for d in dims) else None


def operand_dims_by_priority(
    d: IndexedDimensions, operand: PartitionedHlo, slice_sizes: Sequence[int]
) -> tuple[int, ...]:
    """Return the operand's dimensions, those to replicate first at the front."""
    trivial = trivial_slice_dims(operand, d.index_map, slice_sizes) or ()
    return (*trivial, *d.operand_passthrough(slice_sizes).operand)


def index_dims_by_priority(d: IndexedDimensions) -> tuple[int, ...]:
    """Return the index dimensions, those to replicate first at the front.

    The index vector comes first, batching dimensions last.
    """
    vector = (d.index_vector_dim,) if d.has_index_vectors else ()
    others = (n for n in range(d.indices_rank) if n != d.index_vector_dim and n not in d.indices_batching)
    return (*vector, *others, *d.indices_batching)


def output_dims_by_priority(d: IndexedDimensions, rank: int, slice_sizes: Sequence[int]) -> tuple[int, ...]:
    """Return the output's dimensions, those to replicate first at the front.

    The dimensions that the operand has too come last, because it is usually larger than the
    indices.
    """
    last = d.operand_passthrough(slice_sizes).output
    return (*(n for n in range(rank) if n not in last), *last)


def grouped_on_replicated(
    sharding: HloSharding, like: HloSharding, dims: Iterable[int], rank: int, by_priority: Sequence[int],
    reference: GroupedSharding,
) -> GroupedSharding:  # fmt: skip
    """Group `sharding` into as many groups as `like` has tiles along `dims`, as in `reference`.

    The data is the same in all groups.
    """
    found = group_sharding_on_replicated_dim(sharding, like.num_tiles(dims), like.total_num_tiles, rank, by_priority)
    return align_groups_with(found, reference)


# -- parallel dimensions ---------------------------------------------------------------------------


def shardings_across_parallel_dims(
    operand: PartitionedHlo, indices: PartitionedHlo, dims: MatchingDims
) -> tuple[HloSharding, HloSharding] | None:
    """Return index and operand shardings that split the parallel dimensions alike, or None.

    Follows GatherScatterOperandsShardedAcrossParallelDims.
    """
    if len(dims.indices) != len(dims.operand):
        return None
    of_indices, of_operand = indices.sharding, operand.sharding
    index_tiles, operand_tiles = of_indices.num_tiles(dims.indices), of_operand.num_tiles(dims.operand)
    if index_tiles == operand_tiles == 1:
        return None
    if of_indices.is_replicated:
        rank = indices.hlo.array_shape
        return create_matching_sharding_on_dims(rank, of_operand, dims.indices, dims.operand), of_operand
    if of_operand.is_replicated:
        rank = operand.hlo.array_shape
        return of_indices, create_matching_sharding_on_dims(rank, of_indices, dims.operand, dims.indices)
    if index_tiles < operand_tiles:
        adjusted = _split_further(of_indices, dims.indices, of_operand, dims.operand)
        if adjusted is None:
            return None
        of_indices = adjusted
    elif index_tiles > operand_tiles:
        adjusted = _split_further(of_operand, dims.operand, of_indices, dims.indices)
        if adjusted is None:
            return None
        of_operand = adjusted
    tiles = list(of_operand.dimensions)
    for of_index, of in zip(dims.indices, dims.operand, strict=True):
        tiles[of] = of_indices.dimension(of_index)
    array = of_operand.tile_assignment.reshape(tiles)
    whole = HloSharding.partial_tile(array) if of_operand.replicate_on_last_tile_dim else HloSharding.tile(array)
    return of_indices, align_sharding_on_dims(whole, dims.operand, of_indices, dims.indices)


def _split_further(
    sharding: HloSharding, dims: Sequence[int], target: HloSharding, target_dims: Sequence[int]
) -> HloSharding | None:
    """Split `dims` of a partially replicated sharding as `target` splits its own.

    Returns None if that does not divide the replication.
    """
    if not sharding.replicate_on_last_tile_dim:
        return None
    tiles = list(sharding.dimensions)
    for dim, target_dim in zip(dims, target_dims, strict=True):
        ratio, rest = divmod(target.dimension(target_dim), sharding.dimension(dim))
        if rest or ratio == 0 or tiles[-1] % ratio:
            return None
        tiles[dim] *= ratio
        tiles[-1] //= ratio
    replicated = tiles[-1] != 1
    array = sharding.tile_assignment.reshape(tiles if replicated else tiles[:-1])
    found = HloSharding.partial_tile(array) if replicated else HloSharding.tile(array)
    return align_sharding_on_dims(found, dims, target, target_dims)


# -- indices ---------------------------------------------------------------------------------------


def index_bounds(
    d: IndexedDimensions, operand: PartitionedHlo, indices: PartitionedHlo, trivial: Sequence[int], b: SpmdBuilder
) -> tuple[HloInstruction, HloInstruction]:
    """Return the smallest and largest index in this device's shard, in the shape of the indices."""
    offsets = make_partition_offsets(operand.base_shape, operand.sharding, operand.state.partition_id, b)
    kind = indices.hlo.array_shape.element_type
    lows: list[HloInstruction] = []
    highs: list[HloInstruction] = []
    for dim in d.index_map:
        if operand.sharding.dimension(dim) == 1 or dim not in trivial:
            lows.append(create_r0(kind, 0, b))
            highs.append(create_r0(kind, operand.array_shape.dimensions[dim], b))
            continue
        offset = offsets[dim]
        if offset.array_shape.element_type is not kind:
            offset = b.add(_O.CONVERT, (offset,), ArrayShape(kind, ()))
        lows.append(offset)
        last = create_r0(kind, operand.hlo.array_shape.dimensions[dim] - 1, b)
        highs.append(b.add(_O.ADD, (offset, last), offset.shape))
    if not d.has_index_vectors:
        shape = indices.hlo.array_shape
        return b.broadcast(lows[0], shape), b.broadcast(highs[0], shape)
    for n in range(len(lows)):
        lows[n], highs[n] = b.reshape(lows[n], (1,)), b.reshape(highs[n], (1,))
    low, high = lows[0], highs[0]
    if len(lows) > 1:
        vector = ArrayShape(kind, (len(lows),))
        low = b.add(_O.CONCATENATE, lows, vector, dimensions=(0,))
        high = b.add(_O.CONCATENATE, highs, vector, dimensions=(0,))
    shape = indices.hlo.array_shape
    return b.broadcast(low, shape, (d.index_vector_dim,)), b.broadcast(high, shape, (d.index_vector_dim,))


def clamp_indices(d: IndexedDimensions, indices: PartitionedHlo, operand: ArrayShape, b: SpmdBuilder) -> PartitionedHlo:
    """Clamp indices to the operand, as a gather of the whole operand does."""
    shape = indices.hlo.array_shape
    last = [operand.dimensions[dim] - 1 for dim in d.index_map]
    if d.has_index_vectors:
        of_vector = b.constant(np.array(last, shape.element_type.dtype))
        highest = b.broadcast(of_vector, shape, (d.index_vector_dim,))
    else:
        highest = b.broadcast(create_r0(shape.element_type, last[0], b), shape)
    lowest = b.broadcast(create_r0(shape.element_type, 0, b), shape)
    clamped = b.add(_O.CLAMP, (lowest, indices.hlo, highest), shape)
    set_sharding(clamped, indices.sharding)
    return PartitionedHlo(clamped, indices.base_shape, indices.state)


def indices_from_shard(
    d: IndexedDimensions, operand: PartitionedHlo, indices: PartitionedHlo, dims: MatchingDims, b: SpmdBuilder
) -> PartitionedHlo:
    """Return indices relative to this device's shard of the operand in the parallel dimensions."""
    offsets = make_partition_offsets(operand.base_shape, operand.sharding, operand.state.partition_id, b, dims.operand)
    shape = indices.hlo.array_shape
    vectors = shape.rank > d.index_vector_dim
    starts = [b.reshape(offsets[dim], (1,)) if vectors else offsets[dim] for dim in d.index_map]
    start = starts[0]
    if vectors:
        size = indices.array_shape.dimensions[d.index_vector_dim]
        start = b.add(_O.CONCATENATE, starts, ArrayShape(_S32, (size,)), dimensions=(0,))
    if shape.element_type is not _S32:
        start = b.add(_O.CONVERT, (start,), start.array_shape.with_type(shape.element_type))
    start = b.broadcast(start, shape, (d.index_vector_dim,) if start.array_shape.rank else ())
    return indices.with_hlo(b.add(_O.SUBTRACT, (indices.hlo, start), shape), indices.sharding)

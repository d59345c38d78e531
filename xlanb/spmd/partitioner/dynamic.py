"""Partition dynamic slices and updates (HandleDynamicSlice, HandleDynamicUpdateSlice).

The sliced dimensions are whole on every device, or the update is within one shard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.partitioner.utilities import (
    create_r0,
    create_zero,
    make_partitioned_shape,
    make_tiled_partition_ordinals,
    sharding_of,
)
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import partially_replicate_tiled_sharding_on_dims

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

_O = HloOpcode
_S32 = PrimitiveType.S32
_PRED = ArrayShape(PrimitiveType.PRED, ())


@handles("dynamic-slice")
def handle_dynamic_slice(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Slice every shard alike if no split dimension is sliced."""
    sharding = sharding_of(hlo)
    sizes = hlo.attributes["dynamic_slice_sizes"]
    whole = [size == of for size, of in zip(sizes, hlo.operands[0].array_shape.dimensions, strict=True)]
    if sharding.is_tile_maximal or any(sharding.dimension(d) != 1 and not whole[d] for d in range(len(whole))):
        v.default_action(hlo)
        return
    operand = v.resharded(hlo, 0, sharding).hlo
    starts = [
        create_zero(start.array_shape, v.b) if whole[dim] else v.replicated(hlo, dim + 1).hlo
        for dim, start in enumerate(hlo.operands[1:])
    ]
    shape = make_partitioned_shape(hlo.array_shape, sharding).as_array()
    result = v.b.add(_O.DYNAMIC_SLICE, (operand, *starts), shape, dynamic_slice_sizes=shape.dimensions)
    v.set_partitioned(hlo, result)


@dataclass(frozen=True)
class DynamicUpdateSliceAnalysis:
    """The sliced dimensions of an update, and those of them that are split.

    `on_a_single_partition` is whether the update falls within one shard of each.
    """

    slice_dims: tuple[int, ...]
    partitioned_slice_dims: tuple[int, ...]
    on_a_single_partition: bool


def analyze_dynamic_update_slice(hlo: HloInstruction) -> DynamicUpdateSliceAnalysis:
    """Find how an update falls into the shards of a split array (AnalyzeDynamicUpdateSlice)."""
    sharding, sizes = sharding_of(hlo), hlo.operands[1].array_shape.dimensions
    dims = [d for d, (size, of) in enumerate(zip(sizes, hlo.array_shape.dimensions, strict=True)) if size != of]
    split = [d for d in dims if sharding.dimension(d) != 1]
    single = bool(split)
    for dim in split:
        if sizes[dim] == 1:
            continue
        index = hlo.operands[dim + 2]
        if index.opcode is not _O.CONSTANT:
            single = False
            break
        start = int(index.literal.array)
        shard = -(-hlo.array_shape.dimensions[dim] // sharding.dimension(dim))
        single = single and start // shard == (start + sizes[dim] - 1) // shard
    return DynamicUpdateSliceAnalysis(tuple(dims), tuple(split), single)


@handles("dynamic-update-slice")
def handle_dynamic_update_slice(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Update the one shard that contains the update, or replicate the sliced dimensions."""
    if sharding_of(hlo).is_tile_maximal:
        v.default_action(hlo)
        return
    sizes = hlo.operands[1].array_shape.dimensions
    starts = [
        create_zero(start.array_shape, v.b)
        if sizes[dim] == hlo.array_shape.dimensions[dim]
        else v.replicated(hlo, dim + 2).hlo
        for dim, start in enumerate(hlo.operands[2:])
    ]
    analysis = analyze_dynamic_update_slice(hlo)
    if analysis.on_a_single_partition:
        _update_one_partition(v, hlo, starts, analysis)
    else:
        _update_replicated(v, hlo, starts, analysis)


def _update_replicated(
    v: SpmdPartitioningVisitor, hlo: HloInstruction, starts: list[HloInstruction], analysis: DynamicUpdateSliceAnalysis
) -> None:
    """Replicate all arrays along the sliced dimensions."""
    had, wanted = sharding_of(hlo.operands[0]), sharding_of(hlo)
    better = had if had.num_tiles() > wanted.num_tiles() else wanted
    sharding = partially_replicate_tiled_sharding_on_dims(better, analysis.slice_dims)
    reason = (
        f"an update of dimensions {list(analysis.slice_dims)} may span several shards: they "
        "must be whole on every device"
    )
    base = v.resharded(hlo, 0, sharding, reason)
    update = v.resharded(hlo, 1, sharding, reason)
    result = v.b.add(_O.DYNAMIC_UPDATE_SLICE, (base.hlo, update.hlo, *starts), base.hlo.shape)
    v.set_partitioned(hlo, v.arrived(hlo, result, sharding, base.base_shape))


def _update_one_partition(
    v: SpmdPartitioningVisitor, hlo: HloInstruction, starts: list[HloInstruction], analysis: DynamicUpdateSliceAnalysis
) -> None:
    """Update every device's shard, and keep the result only where the update falls into it.

    As in XLA, a start out of bounds is in no shard, so that nothing is updated; the whole program
    clamps it.
    """
    b, sharding = v.b, sharding_of(hlo)
    operand = v.resharded(hlo, 0, sharding).hlo
    replicated = partially_replicate_tiled_sharding_on_dims(sharding, analysis.slice_dims)
    update = v.resharded(hlo, 1, replicated, "any device may hold the position of the update").hlo
    ordinals = make_tiled_partition_ordinals(sharding, v.state.partition_id, b)
    here = create_r0(PrimitiveType.PRED, True, b)
    for dim in analysis.partitioned_slice_dims:
        size = operand.array_shape.dimensions[dim]
        within, starts[dim] = _start_in_shard(v, starts[dim], ordinals[dim], size)
        here = b.add(_O.AND, (here, within), _PRED)
    result = b.add(_O.DYNAMIC_UPDATE_SLICE, (operand, update, *starts), operand.shape)
    mask = b.add(_O.BROADCAST, (here,), result.array_shape.with_type(PrimitiveType.PRED), dimensions=())
    v.set_partitioned(hlo, b.add(_O.SELECT, (mask, result, operand), result.shape))


def _start_in_shard(
    v: SpmdPartitioningVisitor, start: HloInstruction, ordinal: HloInstruction, size: int
) -> tuple[HloInstruction, HloInstruction]:
    """Return whether an index is in this device's shard of `size` elements, and its offset there.

    The offset is 0 if it is not.
    """
    b, kind = v.b, start.array_shape
    scalar = ArrayShape(_S32, ())
    size_hlo = create_r0(_S32, size, b)
    if kind.element_type is not _S32:
        start = b.add(_O.CONVERT, (start,), kind.with_type(_S32))
    offset = b.add(_O.MULTIPLY, (ordinal, size_hlo), scalar)
    not_before = b.add(_O.COMPARE, (start, offset), _PRED, direction="GE")
    next_ordinal = b.add(_O.ADD, (ordinal, create_r0(_S32, 1, b)), scalar)
    limit = b.add(_O.MULTIPLY, (next_ordinal, size_hlo), scalar)
    not_behind = b.add(_O.COMPARE, (start, limit), _PRED, direction="LT")
    within = b.add(_O.AND, (not_before, not_behind), _PRED)
    relative = b.add(_O.SUBTRACT, (start, offset), start.shape)
    place = b.add(_O.SELECT, (within, relative, create_r0(_S32, 0, b)), start.shape)
    if kind.element_type is not _S32:
        place = b.add(_O.CONVERT, (place,), kind)
    return within, place

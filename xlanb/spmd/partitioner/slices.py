"""Slices and pads: windows of one element, so that each shard gets what it reads from its neighbors by halo exchange (HandleSlice, HandlePad)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import PaddingDimension, SliceDimension, Window, WindowDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_zero, make_partitioned_shape, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.windows import WindowedInputShardReturnValue

_O = HloOpcode
_HALO = "each shard of the result reads elements of neighboring shards"


def reshard_data_for_slicing(
    box: Sequence[SliceDimension], operand: PartitionedHlo, target: HloSharding
) -> WindowedInputShardReturnValue | None:
    """Give each shard of the slice the elements that it reads."""
    sizes = operand.array_shape.dimensions
    window = Window(
        tuple(
            WindowDimension(1, stride=d.stride, padding_low=-d.start, padding_high=d.limit - size)
            for d, size in zip(box, sizes, strict=True)
        )
    )
    zero = create_zero(ArrayShape(operand.hlo.array_shape.element_type, ()), operand.state.b)
    return operand.reshard_as_windowed_input(window, target, zero, mask_invalid_region=False)


def slice_data_from_window_reshard(
    operand: WindowedInputShardReturnValue,
    strides: Sequence[int],
    base_shape: ArrayShape,
    target: HloSharding,
    v: SpmdPartitioningVisitor,
) -> HloInstruction:
    """Slice the shard that each device now has; the shard itself where that is all of it."""
    sizes = operand.sharded_input.array_shape.dimensions
    box = tuple(
        SliceDimension(-d.padding_low, size + d.padding_high, stride)
        for d, size, stride in zip(operand.shard_window.dimensions, sizes, strides, strict=True)
    )
    if all(d == SliceDimension(0, size) for d, size in zip(box, sizes, strict=True)):
        return operand.sharded_input
    return v.b.add(_O.SLICE, (operand.sharded_input,), make_partitioned_shape(base_shape, target), slice=box)


def _slice_in(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> HloInstruction | None:
    """Slice with operand and result both in `sharding`, then bring the result to its own; None where that can't be."""
    if sharding.is_tile_maximal:
        return None
    box = hlo.attributes["slice"]
    operand = v.resharded(hlo, 0, sharding)
    with v.state.because(hlo, 0, sharding, sharding, _HALO, kind=CauseKind.HALO):
        resharded = reshard_data_for_slicing(box, operand, sharding)
    if resharded is None:
        return None
    sliced = slice_data_from_window_reshard(resharded, [d.stride for d in box], hlo.array_shape, sharding, v)
    result = v.arrived(hlo, sliced, sharding, hlo.shape).hlo
    if result is resharded.sharded_input:  # a copy has a reshard cache of its own
        result = v.b.add(_O.COPY, (result,), result.shape)
    return result


@handles("slice")
def handle_slice(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Slice in the operand's sharding where that has more tiles, else in the result's."""
    had, wanted = sharding_of(hlo.operands[0]), sharding_of(hlo)
    for sharding in (had, wanted) if had.num_tiles() > wanted.num_tiles() else (wanted,):
        result = _slice_in(v, hlo, sharding)
        if result is not None:
            v.set_partitioned(hlo, result)
            return
    v.default_action(hlo)


def pad_shards(
    v: SpmdPartitioningVisitor,
    hlo: HloInstruction,
    operand: PartitionedHlo,
    pad_value: HloInstruction,
    padding: Sequence[PaddingDimension],
    base_shape: ArrayShape,
    sharding: HloSharding,
) -> HloInstruction | None:
    """Pad with operand and result in `sharding`; None where that can't be."""
    if sharding.is_tile_maximal:
        return None
    with v.state.because(hlo, 0, operand.sharding, sharding, _HALO, kind=CauseKind.HALO):
        resharded = _reshard_data_for_pad(pad_value, padding, operand, sharding)
    if resharded is None:
        return None
    padded = _pad_data_from_window_reshard(resharded, pad_value, v)
    if resharded.dynamic_slice_index_on_output is None:
        return padded
    shard = make_partitioned_shape(base_shape, sharding).as_array()
    return v.b.add(
        _O.DYNAMIC_SLICE,
        (padded, *resharded.dynamic_slice_index_on_output),
        shard,
        dynamic_slice_sizes=shard.dimensions,
    )


def _reshard_data_for_pad(
    pad_value: HloInstruction, padding: Sequence[PaddingDimension], operand: PartitionedHlo, target: HloSharding
) -> WindowedInputShardReturnValue | None:
    zero = pad_value.opcode is _O.CONSTANT and not pad_value.literal.array.any()
    window = Window(
        tuple(WindowDimension(1, padding_low=p.low, padding_high=p.high, base_dilation=p.interior + 1) for p in padding)
    )
    # A halo from nowhere is 0, so zeros need no mask where the shards are even.
    masked = any(
        target.dimension(dim) > 1
        and (p.low > 0 or p.high > 0 or p.interior > 0)
        and (not zero or size % target.dimension(dim) != 0)
        for dim, (p, size) in enumerate(zip(padding, operand.array_shape.dimensions, strict=True))
    )
    return operand.reshard_as_windowed_input(
        window, target, pad_value, mask_invalid_region=masked, force_mask_in_compact=True
    )


def _pad_data_from_window_reshard(
    operand: WindowedInputShardReturnValue, pad_value: HloInstruction, v: SpmdPartitioningVisitor
) -> HloInstruction:
    padding = tuple(
        PaddingDimension(d.padding_low, d.padding_high, d.base_dilation - 1) for d in operand.shard_window.dimensions
    )
    if all(p == PaddingDimension() for p in padding):
        return operand.sharded_input
    return v.b.add(_O.PAD, (operand.sharded_input, pad_value), padding=padding)


@handles("pad")
def handle_pad(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Pad the shards; the padding between two shards comes with the halo."""
    operand, value = v.partitioned(hlo.operands[0]), v.replicated(hlo, 1).hlo
    result = pad_shards(v, hlo, operand, value, hlo.attributes["padding"], hlo.array_shape, sharding_of(hlo))
    if result is None:
        v.default_action(hlo)
    else:
        v.set_partitioned(hlo, result)

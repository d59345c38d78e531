"""Partition slices and pads as windows of one element (HandleSlice, HandlePad).

Each shard gets what it reads from its neighbors by halo exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.shard_windows import (
    pad_data_from_window_reshard,
    reshard_data_for_pad,
    reshard_data_for_slicing,
    slice_data_from_window_reshard,
)
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles

if TYPE_CHECKING:
    from xlanb.hlo.attributes import PaddingDimension
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.shape import ArrayShape
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo

_O = HloOpcode
_HALO = "each shard of the result reads elements of neighboring shards"


def _slice_in(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> HloInstruction | None:
    """Slice with operand and result in `sharding`, then reshard the result; None if impossible."""
    if sharding.is_tile_maximal:
        return None
    box = hlo.attributes["slice"]
    strides = [d.stride for d in box]
    operand = v.resharded(hlo, 0, sharding)
    with v.state.because(hlo, 0, sharding, sharding, _HALO, kind=CauseKind.HALO):
        resharded = reshard_data_for_slicing(strides, [d.start for d in box], [d.limit for d in box], operand, sharding)
    if resharded is None:
        return None
    sliced = slice_data_from_window_reshard(resharded, strides, hlo.array_shape, sharding, v.b)
    result = v.arrived(hlo, sliced, sharding, hlo.shape).hlo
    if result is resharded.sharded_input:  # a copy has a reshard cache of its own
        result = v.b.add(_O.COPY, (result,), result.shape)
    return result


@handles("slice")
def handle_slice(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Slice in the sharding with more tiles, the operand's or the result's."""
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
    """Pad with operand and result in `sharding`; None if not possible."""
    if sharding.is_tile_maximal:
        return None
    with v.state.because(hlo, 0, operand.sharding, sharding, _HALO, kind=CauseKind.HALO):
        resharded = reshard_data_for_pad(pad_value, padding, operand, sharding)
    if resharded is None:
        return None
    padded = pad_data_from_window_reshard(resharded, pad_value, v.b)
    if resharded.dynamic_slice_index_on_output is None:
        return padded
    shard = make_partitioned_shape(base_shape, sharding).as_array()
    return v.b.add(
        _O.DYNAMIC_SLICE,
        (padded, *resharded.dynamic_slice_index_on_output),
        shard,
        dynamic_slice_sizes=shard.dimensions,
    )


@handles("pad")
def handle_pad(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Pad the shards; padding between two shards comes with the halo."""
    operand, value = v.partitioned(hlo.operands[0]), v.replicated(hlo, 1).hlo
    result = pad_shards(v, hlo, operand, value, hlo.attributes["padding"], hlo.array_shape, sharding_of(hlo))
    if result is None:
        v.default_action(hlo)
    else:
        v.set_partitioned(hlo, result)

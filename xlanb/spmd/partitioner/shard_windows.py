"""Slices and pads of a tiled array as windows of one element, so that halos provide the data.

Follows ReshardDataForSlicing and ReshardDataForPad.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import PaddingDimension, SliceDimension, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.builder import SpmdBuilder
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_zero, make_partitioned_shape

if TYPE_CHECKING:
    from xlanb.spmd.partitioner.windows import WindowedInputShardReturnValue

_O = HloOpcode


def reshard_data_for_slicing(
    strides: Sequence[int], starts: Sequence[int], limits: Sequence[int], p: PartitionedHlo, target: HloSharding
) -> WindowedInputShardReturnValue | None:
    """Return what this device needs of `p` for its tile of a slice with sharding `target`."""
    sizes = p.base_shape.as_array().dimensions
    window = Window(
        tuple(
            WindowDimension(1, stride, -start, limit - size)
            for stride, start, limit, size in zip(strides, starts, limits, sizes, strict=True)
        )
    )
    zero = create_zero(array(p.hlo.shape.as_array().element_type), p.state.b)
    return p.reshard_as_windowed_input(window, target, zero, mask_invalid_region=False)


def slice_data_from_window_reshard(
    made: WindowedInputShardReturnValue,
    strides: Sequence[int],
    base_shape: ArrayShape,
    target: HloSharding,
    b: SpmdBuilder,
) -> HloInstruction:
    """Slice the tile from what `reshard_data_for_slicing` returned."""
    sizes = made.sharded_input.shape.as_array().dimensions
    box = tuple(
        SliceDimension(-wd.padding_low, size + wd.padding_high, stride)
        for wd, size, stride in zip(made.shard_window.dimensions, sizes, strides, strict=True)
    )
    if all(s == SliceDimension(0, size) for s, size in zip(box, sizes, strict=True)):
        return made.sharded_input
    return b.add(_O.SLICE, (made.sharded_input,), make_partitioned_shape(base_shape, target), slice=box)


def reshard_data_for_pad(
    pad_value: HloInstruction, padding: Sequence[PaddingDimension], p: PartitionedHlo, target: HloSharding
) -> WindowedInputShardReturnValue | None:
    """Return what this device needs of `p` for its tile of a pad with sharding `target`."""
    literal = pad_value.attributes.get("literal")
    is_zero = pad_value.opcode is _O.CONSTANT and literal is not None and not literal.array.any()
    window = Window(
        tuple(WindowDimension(1, 1, d.low, d.high, base_dilation=d.interior + 1) for d in padding),
    )
    # A halo without a source is 0, so zeros need no mask if the shards are even.
    masked = any(
        target.dimension(n) > 1
        and (d.low > 0 or d.high > 0 or d.interior > 0)
        and (not is_zero or p.base_shape.as_array().dimensions[n] % target.dimension(n) != 0)
        for n, d in enumerate(padding)
    )
    return p.reshard_as_windowed_input(
        window, target, pad_value, mask_invalid_region=masked, force_mask_in_compact=True
    )


def pad_data_from_window_reshard(
    made: WindowedInputShardReturnValue, pad_value: HloInstruction, b: SpmdBuilder
) -> HloInstruction:
    """Pad what `reshard_data_for_pad` returned to the tile."""
    padding = tuple(
        PaddingDimension(wd.padding_low, wd.padding_high, wd.base_dilation - 1) for wd in made.shard_window.dimensions
    )
    if all(d == PaddingDimension() for d in padding):
        return made.sharded_input
    return b.add(_O.PAD, (made.sharded_input, pad_value), padding=padding)

"""Reverse: each shard reverses the one at the opposite place (HandleReverse)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.shape import ArrayShape
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.utilities import create_zero, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import reverse_sharding

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo


def halo_exchange_to_pad_on_left(operand: PartitionedHlo, dims: Sequence[int]) -> HloInstruction | None:
    """Move the padding of uneven shards from behind the data to before it; None where no halo exchange does that."""
    if operand.sharding.is_tile_maximal:
        return operand.hlo
    padding = [
        -size % operand.sharding.dimension(dim) if dim in dims else 0
        for dim, size in enumerate(operand.array_shape.dimensions)
    ]
    found = operand.reshard_as_windowed_input(
        Window(tuple(WindowDimension(1, padding_low=low) for low in padding)),
        operand.sharding,
        create_zero(ArrayShape(operand.array_shape.element_type, ()), operand.state.b),
        mask_invalid_region=False,
    )
    return None if found is None else found.sharded_input


@handles("reverse")
def handle_reverse(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Give each device the tile at the opposite place, with its padding on the other side, and reverse it."""
    sharding = sharding_of(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    operand = v.resharded(
        hlo, 0, reverse_sharding(sharding, hlo.dimensions), "each device reverses the tile at the opposite place"
    )
    reason = "the padding of the last shards goes to the front"
    with v.state.because(hlo, 0, sharding, sharding, reason, kind=CauseKind.HALO):
        padded = halo_exchange_to_pad_on_left(operand, hlo.dimensions)
    if padded is None:
        v.default_action(hlo)
    else:
        v.set_partitioned(hlo, v.b.clone(hlo, (padded,), padded.shape))

"""Partition a reverse: each shard reverses the one at the opposite position (HandleReverse)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.utilities import sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.partitioner.windows import halo_exchange_to_pad_on_left
from xlanb.spmd.sharding_util import reverse_sharding

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


@handles("reverse")
def handle_reverse(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Send each device the tile at the opposite position, padded in front, and reverse it."""
    sharding = sharding_of(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    operand = v.resharded(
        hlo, 0, reverse_sharding(sharding, hlo.dimensions), "each device reverses the tile at the opposite position"
    )
    reason = "the padding of the last shards moves to the front"
    with v.state.because(hlo, 0, sharding, sharding, reason, kind=CauseKind.HALO):
        padded = halo_exchange_to_pad_on_left(operand, hlo.dimensions)
    if padded is None:
        v.default_action(hlo)
    else:
        v.set_partitioned(hlo, v.b.clone(hlo, (padded,), padded.shape))

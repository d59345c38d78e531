"""Move tiles to other devices by collective-permute (ReshardWithCollectivePermute)."""

from __future__ import annotations

import numpy as np

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.sharding_util import partially_replicate_tiled_sharding_on_dims


def can_reshard_with_collective_permute(source: HloSharding, target: HloSharding) -> bool:
    """Whether both have the same tiles on different devices."""
    return (
        not source.is_tile_maximal
        and not target.is_tile_maximal
        and source.dimensions == target.dimensions
        and source.replicate_on_last_tile_dim == target.replicate_on_last_tile_dim
        and not np.array_equal(source.tile_assignment, target.tile_assignment)
    )


def reshard_with_collective_permute(p: PartitionedHlo, target: HloSharding) -> PartitionedHlo:
    """Send each device's tile to its new device; copy if all tiles are equal."""
    b, source = p.state.b, p.sharding
    repeated = sorted(b.broadcast_dims(p.hlo))
    if repeated:
        without = partially_replicate_tiled_sharding_on_dims(source, repeated)
        if without == partially_replicate_tiled_sharding_on_dims(target, repeated):
            return p.with_hlo(b.add(HloOpcode.COPY, (p.hlo,), p.hlo.shape), target)
    pairs = zip(source.tile_assignment.reshape(-1), target.tile_assignment.reshape(-1), strict=True)
    moved = p.state.collectives.collective_permute(p.hlo, [(int(s), int(t)) for s, t in pairs])
    return p.with_hlo(moved, target)

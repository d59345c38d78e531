"""Partition random number generation: every device draws its own shard.

Follows HandleRng and HandleRngGetAndUpdateState.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.errors import UnimplementedError
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, set_sharding, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import group_sharding_on_dims

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


@handles("rng")
def handle_rng(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Draw each shard on its device; draw replicated values on the first device and send them."""
    sharding = sharding_of(hlo)
    if sharding.has_unique_device:
        v.default_action(hlo)
    elif sharding.is_manual:
        v.set_partitioned(hlo, _drawn_whole(v, hlo, sharding))
    elif sharding.is_replicated:
        drawn = _drawn_whole(v, hlo, HloSharding.assign_device(0))
        v.set_partitioned(hlo, PartitionedHlo(drawn, hlo.shape, v.state).replicate())
    else:
        _draw_shards(v, hlo, sharding)


def _drawn_whole(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> HloInstruction:
    operands = [v.resharded(hlo, n, sharding).hlo for n in range(len(hlo.operands))]
    drawn = v.b.clone(hlo, operands, hlo.shape)
    set_sharding(drawn, sharding)
    return drawn


def _draw_shards(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> None:
    """Draw each shard on the first device that holds it, and send it to the others."""
    operands = [v.replicated(hlo, n).hlo for n in range(len(hlo.operands))]
    shape = make_partitioned_shape(hlo.array_shape, sharding)
    if not sharding.replicate_on_last_tile_dim:
        v.set_partitioned(hlo, v.b.clone(hlo, operands, shape))
        return
    grouped = group_sharding_on_dims(sharding, range(sharding.tiled_data_rank))
    state = v.state.per_group(grouped.device_groups)
    drawn = v.b.clone(hlo, operands, shape)
    set_sharding(drawn, HloSharding.assign_device(0))
    v.set_partitioned(hlo, PartitionedHlo(drawn, shape, state).replicate().hlo)


@handles("rng-get-and-update-state")
def handle_rng_get_and_update_state(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Keep the same state on every device.

    Raises:
        UnimplementedError: the state is split.
    """
    sharding = sharding_of(hlo)
    if sharding.has_unique_device:
        v.default_action(hlo)
        return
    if not sharding.is_replicated:
        raise UnimplementedError(f"rng-get-and-update-state cannot be partitioned:\n  {hlo}")
    state = v.b.clone(hlo, (), hlo.shape)
    v.set_partitioned(hlo, state)

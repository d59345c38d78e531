"""Values that stay terms of a sum on the devices (ConvertUnreducedSharding).

They are marked, so that no all-reduce adds them, and partitioned as if replicated.
"""

from __future__ import annotations

import math

from xlanb.errors import UnimplementedError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.spmd.hlo_sharding import HloSharding, ShardingType
from xlanb.spmd.partitioner.builder import UNREDUCED
from xlanb.spmd.partitioner.utilities import set_sharding, sharding_of


def convert_unreduced(module: HloModule) -> None:
    """Mark instructions with unreduced axes, and treat those axes as replication."""
    for computation in module.computations:
        for hlo in computation:
            sharding = sharding_of(hlo)
            leaves = [_replicated(hlo, leaf) for leaf in sharding.leaves]
            if all(new is old for new, old in zip(leaves, sharding.leaves, strict=True)):
                continue
            set_sharding(hlo, HloSharding.tuple_of(leaves) if sharding.is_tuple else leaves[0])
            marked = (*hlo.frontend_attributes, (UNREDUCED, "true"))
            computation.update(hlo, frontend_attributes=marked)


def _replicated(hlo: HloInstruction, sharding: HloSharding) -> HloSharding:
    """Return the sharding with unreduced replaced by replicated."""
    if sharding.is_unreduced:
        return HloSharding.replicate()
    if ShardingType.UNREDUCED not in sharding.subgroup_types:
        return sharding
    if sharding.is_manual_subgroup:
        raise UnimplementedError(f"a value with unreduced axes in a manual region is not supported: {hlo}")
    tiles = sharding.data_tile_shape
    devices = sharding.tile_assignment.reshape((*tiles, sharding.num_devices // math.prod(tiles)))
    return HloSharding.partial_tile(devices)


def is_unreduced(hlo: HloInstruction) -> bool:
    """Whether an instruction is marked as a term of a sum."""
    return any(name == UNREDUCED for name, _ in hlo.frontend_attributes)


def clear_marks(module: HloModule) -> None:
    """Remove the marks; parameters that had one get their shardings back."""
    for p, sharding in zip(module.entry_computation.parameters, module.spmd_parameters_shardings, strict=False):
        if is_unreduced(p):
            module.entry_computation.update(p, sharding=sharding)
    for computation in module.computations:
        for hlo in computation:
            if is_unreduced(hlo):
                rest = tuple(pair for pair in hlo.frontend_attributes if pair[0] != UNREDUCED)
                computation.update(hlo, frontend_attributes=rest)

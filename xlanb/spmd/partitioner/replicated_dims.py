"""Partition ops that need some dimensions whole: concatenate, cholesky, triangular-solve.

Follows HandleElementwiseWithDimsToReplicate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xlanb.spmd.partitioner.utilities import make_partitioned_shape, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    get_first_target_dim_to_move_sharding_tiles,
    move_and_merge_sharding_tiles,
    partially_replicate_tiled_sharding_on_dims,
)

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


def handle_elementwise_with_dims_to_replicate(
    v: SpmdPartitioningVisitor, hlo: HloInstruction, dims: Sequence[int]
) -> None:
    """Run the op with `dims` whole, then reshard the result.

    The tiles of `dims` move to other dimensions if possible; otherwise `dims` are replicated.
    """
    sharding = sharding_of(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    for dim in dims:
        target = get_first_target_dim_to_move_sharding_tiles(
            hlo.array_shape, sharding, dim, lambda other: other not in dims
        )
        if target is not None:
            sharding = move_and_merge_sharding_tiles(sharding, dim, target)
        else:
            sharding = partially_replicate_tiled_sharding_on_dims(sharding, (dim,))
    reason = (
        f"{hlo.opcode} needs whole dimensions {list(dims)}: another dimension is split instead, or they are gathered"
    )
    operands = [v.resharded(hlo, n, sharding, reason).hlo for n in range(len(hlo.operands))]
    result = v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, sharding))
    v.set_partitioned(hlo, v.arrived(hlo, result, sharding, hlo.shape))


@handles("concatenate")
def handle_concatenate(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition with the concatenated dimension whole on every shard."""
    handle_elementwise_with_dims_to_replicate(v, hlo, hlo.dimensions)


@handles("cholesky", "triangular-solve")
def handle_decomposition(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition with whole matrices on every shard."""
    rank = hlo.array_shape.rank
    handle_elementwise_with_dims_to_replicate(v, hlo, (rank - 2, rank - 1))

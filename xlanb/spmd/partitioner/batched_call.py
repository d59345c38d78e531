"""Partition library calls that treat batch elements independently.

JAX marks LAPACK calls with the number of batch dimensions.

custom-call(f32[16,8,8]), frontend_attributes={num_batch_dims="1"}
=>  custom-call(f32[4,8,8]) on each of 4 devices
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, sharding_of
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor
from xlanb.spmd.sharding_util import partially_replicate_tiled_sharding_on_all_dims_except

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

_MARK = "num_batch_dims"


def batch_dims_of(hlo: HloInstruction) -> int:
    """Return how many leading dimensions of every operand and result are batch dimensions.

    Returns 0 if the call is not marked.
    """
    found = dict(hlo.frontend_attributes).get(_MARK, "0")
    return int(found) if found.isdigit() else 0


def _on_batch(sharding: HloSharding, batch_dims: int, shape: ArrayShape) -> HloSharding:
    """Return the sharding's tiles along the batch dimensions, for an array of another rank."""
    kept = partially_replicate_tiled_sharding_on_all_dims_except(sharding, range(batch_dims))
    if kept.is_tile_maximal:
        return kept
    tiles = (*kept.dimensions[:batch_dims], *[1] * (shape.rank - batch_dims))
    copies = kept.dimensions[-1] if kept.replicate_on_last_tile_dim else 1
    return HloSharding.partial_tile(kept.tile_assignment.reshape((*tiles, copies)))


def handle_batched_call(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Split all operands and results along the batch dimensions as the first result is."""
    wanted = sharding_of(hlo)
    batch_dims = batch_dims_of(hlo)
    first = next(wanted.leaves)
    if first.is_tile_maximal or not first.is_tiled:
        v.default_action(hlo)
        return
    reason = "the call treats each batch element independently"
    operands = []
    for number, operand in enumerate(hlo.operands):
        target = _on_batch(first, batch_dims, operand.array_shape)
        operands.append(v.resharded(hlo, number, target, reason).hlo)
    leaves = [_on_batch(first, batch_dims, shape.as_array()) for _, shape in hlo.shape.leaves()]
    sharding = HloSharding.tuple_of(leaves) if hlo.shape.is_tuple else leaves[0]
    shape = make_partitioned_shape(hlo.shape, sharding)
    call = v.b.add(HloOpcode.CUSTOM_CALL, operands, shape, **_attributes(hlo.attributes, operands))
    call.backend_config = hlo.backend_config
    v.set_partitioned(hlo, v.arrived(hlo, call, sharding, hlo.shape))


def _attributes(attributes: Mapping[str, Any], operands: list[HloInstruction]) -> dict[str, Any]:
    """Return the call's attributes for parts of its operands, without output-operand aliasing."""
    kept = {name: value for name, value in attributes.items() if name != "output_to_operand_aliasing"}
    layouts = kept.get("operand_layout_constraints")
    if layouts is not None:
        kept["operand_layout_constraints"] = tuple(
            o.array_shape.with_layout(layout.layout) for o, layout in zip(operands, layouts, strict=True)
        )
    return kept

"""Partition elementwise instructions, broadcasts, transposes, iotas and constants.

None of them moves an element to another device.
"""

from __future__ import annotations

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Literal, PrimitiveType
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.utilities import (
    evenly_partitions,
    make_partitioned_shape,
    make_tiled_partition_ordinals,
)
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    partially_replicate_tiled_sharding_on_dims,
    remove_shape_dimensions,
    transpose_sharding,
)

_O = HloOpcode
_ELEMENTWISE = tuple(o.text for o in HloOpcode if o.is_elementwise)


@handles(*_ELEMENTWISE, "copy", "opt-barrier", "map")
def handle_elementwise(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Compute on operands with one common sharding and reshard the result.

    Otherwise reshard the operands to the result's sharding.
    """
    sharding = v.sharding(hlo)
    first = v.sharding(hlo.operands[0])
    if len(hlo.operands) > 1 and all(v.sharding(o) == first for o in hlo.operands[1:]):
        operands = [v.partitioned(o).hlo for o in hlo.operands]
        made = v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, first))
        v.set_partitioned(hlo, v.arrived(hlo, made, first, hlo.shape))
        return
    reason = "the program requests this sharding here (a constraint becomes a copy)" if hlo.opcode is _O.COPY else ""
    operands = [v.resharded(hlo, n, _for_operand(o, hlo, sharding), reason).hlo for n, o in enumerate(hlo.operands)]
    v.set_partitioned(hlo, v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, sharding)))


def _for_operand(operand: HloInstruction, hlo: HloInstruction, sharding: HloSharding) -> HloSharding:
    """Return the result's sharding; a scalar operand (the bounds of a clamp) is replicated."""
    before, after = operand.shape, hlo.shape
    is_scalar = isinstance(before, ArrayShape) and isinstance(after, ArrayShape) and before.rank != after.rank
    return HloSharding.replicate() if is_scalar and sharding.is_tiled else sharding


@handles("broadcast")
def handle_broadcast(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Tile the operand as the result along the dimensions that they share."""
    sharding = v.sharding(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    kept = hlo.attributes.get("dimensions", ())
    new = [d for d in range(hlo.shape.as_array().rank) if d not in kept]
    wanted = remove_shape_dimensions(partially_replicate_tiled_sharding_on_dims(sharding, new), new)
    operand = v.resharded(hlo, 0, wanted).hlo
    v.set_partitioned(hlo, v.b.clone(hlo, [operand], make_partitioned_shape(hlo.shape, sharding)))


@handles("transpose")
def handle_transpose(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Tile the operand as the result, before the transpose."""
    sharding = v.sharding(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    inverse = np.argsort(hlo.attributes["dimensions"]).tolist()
    operand = v.resharded(hlo, 0, transpose_sharding(sharding, inverse)).hlo
    v.set_partitioned(hlo, v.b.clone(hlo, [operand], make_partitioned_shape(hlo.shape, sharding)))


@handles("iota")
def handle_iota(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Add the tile's start to an iota of one tile."""
    sharding, b = v.sharding(hlo), v.b
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    dimension = hlo.attributes["iota_dimension"]
    shape = make_partitioned_shape(hlo.shape, sharding).as_array()
    iota = b.add(_O.IOTA, (), shape, iota_dimension=dimension)
    if sharding.dimension(dimension) > 1:
        ordinal = make_tiled_partition_ordinals(sharding, v.state.partition_id, b)[dimension]
        offset = b.add(_O.MULTIPLY, (ordinal, b.s32(shape.dimensions[dimension])))
        if shape.element_type is not PrimitiveType.S32:
            offset = b.add(_O.CONVERT, (offset,), array(shape.element_type))
        iota = b.add(_O.ADD, (iota, b.broadcast(offset, shape)), shape)
    v.set_partitioned(hlo, iota)


@handles("constant")
def handle_constant(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Keep a constant with one value in any tile; slice any other from the whole."""
    sharding, literal = v.sharding(hlo), hlo.attributes["literal"]
    if not isinstance(hlo.shape, ArrayShape):
        v.default_action(hlo)
        return
    values = literal.array.reshape(-1)
    same = values.size > 0 and values[:1].tobytes() * values.size == values.tobytes()
    if not sharding.is_tile_maximal and not (evenly_partitions(hlo.shape, sharding) and same):
        v.default_action(hlo)
        return
    shape = make_partitioned_shape(hlo.shape, sharding).as_array()
    part = Literal(shape, literal.array[tuple(slice(0, size) for size in shape.dimensions)])
    v.set_partitioned(hlo, v.b.add(_O.CONSTANT, (), shape, literal=part))


@handles("bitcast-convert")
def handle_bitcast_convert(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition as elementwise; a dimension that is added or removed is whole."""
    before, after = hlo.operands[0].shape.as_array(), hlo.shape.as_array()
    sharding = v.sharding(hlo)
    if before.rank == after.rank:
        handle_elementwise(v, hlo)
        return
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    extra = [min(before.rank, after.rank)]
    if before.rank > after.rank:
        wanted = partially_replicate_tiled_sharding_on_dims(v.partitioned(hlo.operands[0]).sharding, extra)
        given = remove_shape_dimensions(wanted, extra)
    else:
        given = partially_replicate_tiled_sharding_on_dims(sharding, extra)
        wanted = remove_shape_dimensions(given, extra)
    operand = v.resharded(hlo, 0, wanted).hlo
    made = v.b.clone(hlo, [operand], make_partitioned_shape(after, given))
    v.set_partitioned(hlo, v.arrived(hlo, made, given, after))

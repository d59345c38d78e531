"""Shapes, constants and offsets of one device's part, shared by all handlers.

Follows xla/service/spmd/spmd_partitioner_util.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import ShapeError, XlanbError
from xlanb.hlo.attributes import PaddingDimension
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import array, of_array
from xlanb.spmd.hlo_sharding import Devices, HloSharding, as_listed

if TYPE_CHECKING:
    from xlanb.spmd.partitioner.builder import SpmdBuilder

_O = HloOpcode
SCALAR_PRED = array(PrimitiveType.PRED)
SCALAR_S32 = array(PrimitiveType.S32)


# -- shardings and shapes --------------------------------------------------------------------------


def sharding_of(hlo: HloInstruction) -> HloSharding:
    """Return the sharding of a source or new instruction.

    Raises:
        XlanbError: it has none.
    """
    if not hlo.sharding:
        raise XlanbError(f"{hlo.name} has no sharding")
    return HloSharding.parse(hlo.sharding, hlo.shape if isinstance(hlo.shape, TupleShape) else None)


def set_sharding(hlo: HloInstruction, sharding: HloSharding | None) -> HloInstruction:
    """Set or remove an instruction's sharding."""
    hlo.parent.update(hlo, sharding="" if sharding is None else str(sharding))
    return hlo


def as_tuple(shape: Shape) -> TupleShape:
    """Return the shape as a tuple shape.

    Raises:
        ShapeError: it is not a tuple.
    """
    if not isinstance(shape, TupleShape):
        raise ShapeError(f"expected a tuple, not {shape}")
    return shape


def resized(shape: Shape, dimensions: Sequence[int]) -> ArrayShape:
    """Return the shape with other dimension sizes, in the same layout."""
    array_shape = shape.as_array()
    return ArrayShape(array_shape.element_type, tuple(dimensions), array_shape.layout)


def ceil_of_ratio(dividend: int, divisor: int) -> int:
    """Return the quotient, rounded up."""
    return -(-dividend // divisor)


def round_up_to(value: int, divisor: int) -> int:
    """Return the next multiple of `divisor`."""
    return -(-value // divisor) * divisor


def shape_size_in_bytes(shape: Shape) -> int:
    """Return the bytes of the elements, whatever the layout."""
    return shape.byte_size


def make_partitioned_shape(shape: Shape, sharding: HloSharding) -> Shape:
    """Return the shape that one device holds."""
    return sharding.tile_shape(shape)


def make_non_padded_shape_for_given_partition(shape: Shape, sharding: HloSharding, partition_id: int) -> Shape:
    """Return the unpadded shape that a device holds; an empty tuple if it holds nothing."""
    if sharding.is_tuple and isinstance(shape, TupleShape):
        return TupleShape(
            tuple(
                make_non_padded_shape_for_given_partition(e, sharding.subsharding(shape, n), partition_id)
                for n, e in enumerate(shape.shapes)
            )
        )
    if sharding.is_tile_maximal and not sharding.is_replicated and partition_id != sharding.unique_device:
        return TupleShape(())
    return sharding.tile_shape(shape, partition_id)


def evenly_partitions(shape: Shape, sharding: HloSharding) -> bool:
    """Whether no device holds padding; a sharding on one device is uneven."""
    if sharding.is_tuple and isinstance(shape, TupleShape):
        return all(evenly_partitions(e, sharding.subsharding(shape, n)) for n, e in enumerate(shape.shapes))
    if sharding.is_manual:
        return True
    if sharding.is_tile_maximal:
        return sharding.is_replicated
    if not isinstance(shape, ArrayShape):
        return True
    return all(d % t == 0 for d, t in zip(shape.dimensions, sharding.dimensions, strict=False))


def get_padded_shape_for_uneven_partitioning(base_shape: ArrayShape, sharding: HloSharding) -> ArrayShape:
    """Return the shape of all tiles together, with padding."""
    if sharding.is_tile_maximal or evenly_partitions(base_shape, sharding):
        return base_shape
    shard = sharding.tile_shape(base_shape).as_array()
    return resized(base_shape, [d * sharding.dimension(n) for n, d in enumerate(shard.dimensions)])


def unique_tiled_dim(sharding: HloSharding) -> int | None:
    """Return the only tiled dimension, or None."""
    if sharding.is_tile_maximal:
        return None
    tiled = [d for d in range(sharding.tiled_data_rank) if sharding.dimension(d) > 1]
    return tiled[0] if len(tiled) == 1 else None


def unique_device(sharding: HloSharding) -> int:
    """Return the device that holds everything.

    Raises:
        XlanbError: several devices hold it.
    """
    if sharding.unique_device is None:
        raise XlanbError(f"expected a sharding on one device, not {sharding}")
    return sharding.unique_device


def shard_count_at_dim(sharding: HloSharding, dim: int) -> int:
    """Return the number of tiles along a dimension, 1 for dimension -1."""
    return 1 if sharding.is_tile_maximal or dim == -1 else sharding.dimension(dim)


def with_devices(sharding: HloSharding, assignment: Devices, *, listed: bool | None = None) -> HloSharding:
    """Return the sharding with another tile assignment, listed in text if the original is."""
    made = HloSharding.partial_tile(assignment) if sharding.replicate_on_last_tile_dim else HloSharding.tile(assignment)
    return as_listed(made) if (sharding.listed if listed is None else listed) else made


# -- constants and tables --------------------------------------------------------------------------


def create_constant(shape: Shape, value: Any, b: SpmdBuilder) -> HloInstruction:
    """Return a scalar of any value, broadcast to a shape; for a tuple, one per leaf."""
    if isinstance(shape, TupleShape):
        return b.add(_O.TUPLE, [create_constant(e, value, b) for e in shape.shapes])
    if shape.is_token:
        return b.add(_O.AFTER_ALL)
    scalar = b.constant(np.asarray(value, shape.as_array().dtype))
    return scalar if shape.as_array().is_scalar else b.broadcast(scalar, shape.as_array())


def create_zero(shape: Shape, b: SpmdBuilder) -> HloInstruction:
    """Return zeros of a shape."""
    return create_constant(shape, 0, b)


def create_r0(element_type: PrimitiveType, value: Any, b: SpmdBuilder) -> HloInstruction:
    """Return a scalar constant of an element type."""
    return b.constant(np.asarray(value, array(element_type).dtype))


def _limit(element_type: PrimitiveType, b: SpmdBuilder, *, last: bool) -> HloInstruction:
    dtype = array(element_type).dtype
    if element_type is PrimitiveType.F32:
        return b.constant(np.float32(np.copysign(np.float32(np.nan), 1 if last else -1)))
    if element_type is PrimitiveType.PRED:
        return b.constant(np.bool_(last))
    if np.issubdtype(dtype, np.integer):
        return b.constant(np.asarray(np.iinfo(dtype).max if last else np.iinfo(dtype).min, dtype))
    return b.constant(np.asarray(np.inf if last else -np.inf, dtype))


def create_first_with_type(element_type: PrimitiveType, b: SpmdBuilder) -> HloInstruction:
    """Return the scalar that sorts before all others; for f32, NaN with its sign bit set."""
    return _limit(element_type, b, last=False)


def create_last_with_type(element_type: PrimitiveType, b: SpmdBuilder) -> HloInstruction:
    """Return the scalar that sorts after all others; for f32, NaN."""
    return _limit(element_type, b, last=True)


def make_binary_add(element_type: PrimitiveType, module: HloModule) -> HloComputation:
    """Return a computation `add` of two scalars; for predicates, their or."""
    made = module.add_computation("add")
    shape = array(element_type)
    x = made.add(_O.PARAMETER, (), shape, name="x", parameter_number=0)
    y = made.add(_O.PARAMETER, (), shape, name="y", parameter_number=1)
    made.set_root(made.add(_O.OR if element_type is PrimitiveType.PRED else _O.ADD, (x, y), shape))
    return made


def table_lookup(table: Any, ordinal: HloInstruction, b: SpmdBuilder) -> HloInstruction:
    """Look up an element of a constant vector by a scalar index."""
    values = np.asarray(table)
    constant = b.constant(values)
    element_type = of_array(values).element_type
    value = b.add(_O.DYNAMIC_SLICE, (constant, ordinal), array(element_type, [1]), dynamic_slice_sizes=(1,))
    return b.reshape(value, ())


# -- offsets ---------------------------------------------------------------------------------------


def make_partition_offsets(
    shape: Shape, sharding: HloSharding, partition_id: HloInstruction, b: SpmdBuilder, dims: Sequence[int] = ()
) -> list[HloInstruction]:
    """Return where this device's tile begins, an s32 per dimension; with `dims`, zero elsewhere."""
    array_shape = shape.as_array()
    shard = sharding.tile_shape(array_shape).as_array()
    offsets = []
    for i in range(array_shape.rank):
        if sharding.is_tile_maximal or sharding.dimension(i) == 1 or (dims and i not in dims):
            offsets.append(b.s32(0))
            continue
        table = np.zeros(sharding.num_devices, np.int32)
        along = [1] * sharding.tile_assignment.ndim
        along[i] = sharding.dimension(i)
        starts = np.arange(sharding.dimension(i), dtype=np.int32).reshape(along) * shard.dimensions[i]
        table[sharding.tile_assignment] = starts
        offsets.append(table_lookup(table, partition_id, b))
    return offsets


def make_tiled_partition_ordinals(
    sharding: HloSharding, partition_id: HloInstruction, b: SpmdBuilder
) -> list[HloInstruction]:
    """Return which tile this device holds, an s32 per dimension."""
    return make_partition_offsets(array(PrimitiveType.S32, sharding.data_tile_shape), sharding, partition_id, b)


# -- padding ---------------------------------------------------------------------------------------


def pad_to_shape(
    hlo: HloInstruction, padded_shape: ArrayShape, b: SpmdBuilder, value: Any | None = None
) -> HloInstruction:
    """Pad the end of each dimension with zero or another constant."""
    shape = hlo.shape.as_array()
    if shape.dimensions == padded_shape.dimensions:
        return hlo
    padding = create_r0(shape.element_type, 0 if value is None else value, b)
    amounts = tuple(
        PaddingDimension(0, to - size) for size, to in zip(shape.dimensions, padded_shape.dimensions, strict=True)
    )
    return b.add(_O.PAD, (hlo, padding), padded_shape, padding=amounts)


def pad_base_shape_before_uneven_tiled_sharding(
    hlo: HloInstruction, sharding: HloSharding, b: SpmdBuilder, value: Any | None = None
) -> HloInstruction:
    """Pad a whole array so that all tiles have the same size."""
    return pad_to_shape(hlo, get_padded_shape_for_uneven_partitioning(hlo.shape.as_array(), sharding), b, value)

"""Partition a top k along a split dimension: sorts whose front only is used, and TopK calls.

Each shard finds its own first k; those of all shards are gathered and sorted. The network carries k
values per shard instead of all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.hlo.attributes import SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, PrimitiveType, TupleShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import (
    create_first_with_type,
    create_r0,
    make_partitioned_shape,
    set_sharding,
    sharding_of,
)
from xlanb.spmd.sharding_util import group_sharding_on_dims, partially_replicate_tiled_sharding_on_dims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xlanb.hlo.computation import HloComputation
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.state import PartitioningState
    from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor

_O = HloOpcode
_P = PrimitiveType
_SORTED = frozenset((_P.F32, _P.BF16, _P.S32, _P.U32))
_LARGEST_S32 = 2**31 - 1


def slice_first_k(hlo: HloInstruction, dim: int, k: int, b: SpmdBuilder) -> HloInstruction:
    """Slice the first `k` elements along a dimension."""
    shape = hlo.array_shape
    dims = list(shape.dimensions)
    dims[dim] = k
    return b.add(_O.SLICE, (hlo,), shape.with_dimensions(dims), slice=tuple(SliceDimension(0, d) for d in dims))


# -- sorts whose front only is used ----------------------------------------------------------------


def top_k_of_sort(hlo: HloInstruction) -> int | None:
    """Return how many leading elements of a sort are used, if it can be partitioned as a top k.

    It must be split along the sorted dimension, with k less than a shard, and must be the expansion
    of
    TopK: keys and positions, in descending order of the keys' bits.
    """
    if hlo.opcode is not _O.SORT or len(hlo.operands) != 2 or not _is_nan_safe_gt(hlo.to_apply):
        return None
    keys, positions = hlo.operands
    dim = hlo.dimensions[0]
    if positions.opcode is not _O.IOTA or positions.attributes["iota_dimension"] != dim:
        return None
    if positions.array_shape.element_type is not _P.S32 or keys.array_shape.element_type not in _SORTED:
        return None
    k = _slice_of_users(hlo, dim)
    if k is None or not keys.sharding:
        return None
    sharding = sharding_of(keys)
    if sharding.is_tile_maximal or any(sharding.dimension(d) > 1 for d in range(keys.array_shape.rank) if d != dim):
        return None
    count = sharding.dimension(dim)
    return k if count > 1 and k < -(-keys.array_shape.dimensions[dim] // count) else None


def _slice_of_users(sort: HloInstruction, dim: int) -> int | None:
    """Return the k of the slices [0:k] along `dim` that are all of a sort's users, or None."""
    limits: set[int] = set()
    for element in sort.users:
        if element.opcode is not _O.GET_TUPLE_ELEMENT or not element.users or element.users[0].opcode is not _O.SLICE:
            return None
        box: Sequence[SliceDimension] = element.users[0].attributes["slice"]
        sizes = element.array_shape.dimensions
        if any(d.start != 0 or d.stride != 1 for d in box):
            return None
        if any(d.limit != size for n, (d, size) in enumerate(zip(box, sizes, strict=True)) if n != dim):
            return None
        limits.add(box[dim].limit)
    return limits.pop() if len(limits) == 1 else None


def _is_nan_safe_gt(c: HloComputation) -> bool:
    """Whether a comparator is a > b of its first two parameters as order-preserving integers.

    Ties may be broken by position.
    """
    root = c.root
    compare = root.operands[2] if root.opcode is _O.SELECT else root
    if compare.opcode is not _O.COMPARE or compare.attributes["direction"] != "GT":
        return False
    return any(
        all(_is_ordered_bits(side, n, kind) for n, side in enumerate(compare.operands)) for kind in (_P.F32, _P.BF16)
    )


def _is_ordered_bits(hlo: HloInstruction, number: int, kind: PrimitiveType) -> bool:
    """Whether it is select(bits < 0, INT_MAX - bits, bits) of a parameter."""
    if hlo.opcode is not _O.SELECT:
        return False
    negative, flipped, plain = hlo.operands
    if negative.opcode is not _O.COMPARE or negative.attributes["direction"] != "LT":
        return False
    if flipped.opcode is not _O.BITCAST_CONVERT or flipped.operands[0].opcode is not _O.SUBTRACT:
        return False
    largest, unsigned = flipped.operands[0].operands
    return (
        _is_bits(negative.operands[0], number, kind, _P.S32)
        and _is_scalar(negative.operands[1], 0)
        and flipped.array_shape.element_type is _P.S32
        and _is_scalar(largest, _LARGEST_S32)
        and _is_bits(unsigned, number, kind, _P.U32)
        and _is_bits(plain, number, kind, _P.S32)
    )


def _is_bits(hlo: HloInstruction, number: int, kind: PrimitiveType, into: PrimitiveType) -> bool:
    if hlo.opcode is not _O.BITCAST_CONVERT or hlo.array_shape.element_type is not into:
        return False
    source = hlo.operands[0]
    if kind is _P.BF16:
        if source.opcode is not _O.CONVERT or source.array_shape.element_type is not _P.F32:
            return False
        source = source.operands[0]
    return (
        source.opcode is _O.PARAMETER and source.parameter_number == number and source.array_shape.element_type is kind
    )


def _is_scalar(hlo: HloInstruction, value: int) -> bool:
    return hlo.opcode is _O.CONSTANT and hlo.array_shape.rank == 0 and int(hlo.literal.array) == value


# -- custom calls of TopK --------------------------------------------------------------------------


def handle_top_k(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Apply TopK to each shard, then sort all shards' values with their positions, stably.

    Follows HandleCustomCallTopK.
    """
    source = hlo.operands[0]
    if not source.sharding or not isinstance(hlo.shape, TupleShape):
        v.default_action(hlo)
        return
    sharding = sharding_of(source)
    if sharding.is_tile_maximal or not sharding.is_tiled or sharding.replicate_on_last_tile_dim:
        v.default_action(hlo)
        return
    _, count = sharding.data_tile_shape
    k = hlo.shape.shapes[0].as_array().dimensions[1]
    shard_size = -(-source.array_shape.dimensions[1] // count)
    if k >= shard_size:
        v.default_action(hlo)
        return
    _top_k_of_shards(v, hlo, sharding, k, shard_size)


def _top_k_of_shards(
    v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding, k: int, shard_size: int
) -> None:
    b, source = v.b, hlo.operands[0]
    kind = source.array_shape.element_type
    batches, count = sharding.data_tile_shape
    batch_size = source.array_shape.dimensions[0]
    operand = v.partitioned(source).pad_with_value(create_first_with_type(kind, b))
    state, gathered = _gathered_along_rows(operand, sharding)
    whole = _pair(kind, (batch_size, k * count))
    shards = make_partitioned_shape(whole, HloSharding.single_tuple(whole, sharding))
    local = b.clone(hlo, (operand.hlo,), shards)
    set_sharding(local, HloSharding.single_tuple(whole, sharding))
    values = b.get_tuple_element(local, 0)
    set_sharding(values, sharding)
    all_values = PartitionedHlo(values, whole.shapes[0].as_array(), v.state).reshard(gathered).hlo
    positions = b.get_tuple_element(local, 1)
    ordinal = b.add(_O.CONVERT, (state.partition_id,), ArrayShape(_P.S32, ()))
    start = b.add(_O.MULTIPLY, (ordinal, create_r0(_P.S32, shard_size, b)), ordinal.shape)
    starts = b.add(_O.BROADCAST, (start,), positions.shape, dimensions=())
    positions = b.add(_O.ADD, (positions, starts), positions.shape)
    set_sharding(positions, sharding)
    all_positions = PartitionedHlo(positions, whole.shapes[1].as_array(), v.state).reshard(gathered).hlo
    result = _sorted_front(v, hlo, all_values, all_positions, _pair(kind, (-(-batch_size // batches), k * count)), k)
    v.set_partitioned(hlo, v.arrived(hlo, result, HloSharding.single_tuple(result.shape, gathered), hlo.shape))


def _gathered_along_rows(operand: PartitionedHlo, sharding: HloSharding) -> tuple[PartitioningState, HloSharding]:
    """Return the state in which partition ids number a row's shards, and the whole-row sharding."""
    if sharding.dimension(0) == 1:
        return operand.state, HloSharding.replicate()
    grouped = group_sharding_on_dims(sharding, (0,))
    state = operand.state.per_group(grouped.device_groups)
    return state, partially_replicate_tiled_sharding_on_dims(sharding, (1,))


def _sorted_front(
    v: SpmdPartitioningVisitor,
    hlo: HloInstruction,
    values: HloInstruction,
    positions: HloInstruction,
    shape: TupleShape,
    k: int,
) -> HloInstruction:
    b = v.b
    comparator = _compare_value_and_index(v, values.array_shape.element_type)
    result = b.add(_O.SORT, (values, positions), shape, dimensions=(1,), is_stable=True, to_apply=comparator)
    elements = [b.add(_O.GET_TUPLE_ELEMENT, (result,), s, index=n) for n, s in enumerate(shape.shapes)]
    fronts = [slice_first_k(e, 1, k, b) for e in elements]
    return b.add(_O.TUPLE, fronts, TupleShape(tuple(f.shape for f in fronts)))


def _pair(kind: PrimitiveType, dims: tuple[int, ...]) -> TupleShape:
    return TupleShape((ArrayShape(kind, dims), ArrayShape(_P.S32, dims)))


def _compare_value_and_index(v: SpmdPartitioningVisitor, kind: PrimitiveType) -> HloComputation:
    """Compare values descending; equal values by ascending position."""
    c = v.b.module.add_computation("compare-value-and-index")
    scalar, position, truth = ArrayShape(kind, ()), ArrayShape(_P.S32, ()), ArrayShape(_P.PRED, ())
    p = [
        c.add(_O.PARAMETER, (), shape, parameter_number=n, name=f"p.{n // 2}.{('lhs', 'rhs')[n % 2]}")
        for n, shape in enumerate((scalar, scalar, position, position))
    ]
    larger = c.add(_O.COMPARE, p[:2], truth, direction="GT")
    total = "TOTALORDER" if kind.is_floating else None
    equal = c.add(_O.COMPARE, p[:2], truth, direction="EQ", type=total)
    before = c.add(_O.COMPARE, p[2:], truth, direction="LT")
    c.set_root(c.add(_O.SELECT, (equal, before, larger), truth))
    return c

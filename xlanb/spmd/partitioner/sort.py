"""Partition sorts (HandleSort).

Moves the tiles of the sorted dimension to another one by all-to-all, or gathers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, TupleShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.sorted_top import slice_first_k, top_k_of_sort
from xlanb.spmd.partitioner.utilities import (
    create_first_with_type,
    create_last_with_type,
    make_partitioned_shape,
    set_sharding,
    sharding_of,
)
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.sharding_util import (
    get_first_target_dim_to_move_sharding_tiles,
    move_and_merge_sharding_tiles,
    partially_replicate_tiled_sharding_on_dims,
)

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

_O = HloOpcode
_REASON = "sort needs a whole dimension: another dimension is split instead, or it is gathered"


@handles("sort")
def handle_sort(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Sort whole rows on every device."""
    sharding = sharding_of(hlo)
    if sharding.has_unique_device:
        operands = [
            v.partitioned(o).reshard(sharding.subsharding(hlo.shape, n)).hlo for n, o in enumerate(hlo.operands)
        ]
        v.set_partitioned(hlo, v.b.clone(hlo, operands, hlo.shape))
        return
    k = top_k_of_sort(hlo)
    if k is not None:
        _sort_for_top_k(v, hlo, k)
        return
    parts = list(sharding.leaves)
    dim, first = hlo.dimensions[0], parts[0]
    alike = all(part == first for part in parts)
    if hlo.operands[0].array_shape.rank > 1 and alike and first.is_tiled and first.dimension(dim) != 1:
        _sort_in(v, hlo, _off_dimension(hlo.operands[0].array_shape, first, dim))
    elif not alike or first.is_tile_maximal or first.dimension(dim) > 1:
        v.default_action(hlo)
    else:
        operands = [v.resharded(hlo, n, first).hlo for n in range(len(hlo.operands))]
        v.set_partitioned(hlo, v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, sharding)))


def _off_dimension(shape: ArrayShape, sharding: HloSharding, dim: int) -> HloSharding:
    """Move the tiles of `dim` to another dimension, or replicate `dim` if none can take them."""
    target = get_first_target_dim_to_move_sharding_tiles(shape, sharding, dim, lambda _: True)
    if target is not None:
        return move_and_merge_sharding_tiles(sharding, dim, target)
    return partially_replicate_tiled_sharding_on_dims(sharding, (dim,))


def _sort_in(v: SpmdPartitioningVisitor, hlo: HloInstruction, sharding: HloSharding) -> None:
    operands = [v.resharded(hlo, n, sharding, _REASON).hlo for n in range(len(hlo.operands))]
    whole = HloSharding.tuple_of([sharding] * len(operands)) if isinstance(hlo.shape, TupleShape) else sharding
    result = v.b.clone(hlo, operands, make_partitioned_shape(hlo.shape, whole))
    v.set_partitioned(hlo, v.arrived(hlo, result, whole, hlo.shape))


def _sort_for_top_k(v: SpmdPartitioningVisitor, hlo: HloInstruction, k: int) -> None:
    """Sort each shard, gather the first `k` of all shards, and sort those."""
    dim, b = hlo.dimensions[0], v.b
    values, indices = (o.array_shape for o in hlo.operands)
    sharding = sharding_of(hlo.operands[0])
    count = sharding.dimension(dim)
    of_values = v.partitioned(hlo.operands[0]).pad_with_value(create_first_with_type(values.element_type, b))
    of_indices = (
        v.partitioned(hlo.operands[1]).reshard(sharding).pad_with_value(create_last_with_type(indices.element_type, b))
    )

    def resized(size: int) -> list[ArrayShape]:
        dims = list(values.dimensions)
        dims[dim] = size
        return [ArrayShape(s.element_type, tuple(dims)) for s in (values, indices)]

    padded = TupleShape(tuple(resized(-(-values.dimensions[dim] // count) * count)))
    shards = make_partitioned_shape(padded, HloSharding.single_tuple(padded, sharding))
    local = b.clone(hlo, (of_values.hlo, of_indices.hlo), shards)
    elements = [b.get_tuple_element(local, n) for n in range(2)]
    gathered: list[HloInstruction] = []
    bases = resized(k * count)
    for element, base in zip(elements, bases, strict=True):
        front = slice_first_k(element, dim, k, b)
        set_sharding(front, sharding)
        reason = f"the first {k} elements of every shard are gathered and sorted together"
        with v.state.because(hlo, len(gathered), sharding, HloSharding.replicate(), reason):
            gathered.append(PartitionedHlo(front, base, v.state).replicate().hlo)
    final = b.add(
        _O.SORT, gathered, TupleShape(tuple(bases)), dimensions=(dim,), is_stable=hlo.attributes.get("is_stable"),
        to_apply=hlo.to_apply,
    )  # fmt: skip
    whole = HloSharding.single_tuple(final.shape, HloSharding.replicate())
    v.set_partitioned(hlo, v.arrived(hlo, final, whole, final.shape))

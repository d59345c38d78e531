"""Replace sorts by a permutation by scatters (permutation_sort_simplifier of JAX 0.12).

    p = get-tuple-element(sort(keys, iota)), index=1
    s = sort(p, values), by p
      =>  p = get-tuple-element(sort(keys, iota)), index=1
          s = tuple(iota, scatter(zeros, p, values)), values overwrite zeros

A sort with an iota operand returns a permutation. Sorting it gives the iota again, and moves each
value to the position that the permutation names.
Source: xla/hlo/transforms/expanders/permutation_sort_expander.h.
"""

from __future__ import annotations

from xlanb.hlo import regions
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class PermutationSortSimplifier(HloPass):
    """Replaces sorts whose keys are the permutation of another sort by scatters.

    Both sorts must be along the same dimension, and the replaced one must have two operands.
    """

    name = "permutation_sort_simplifier"
    triggers = frozenset((O.SORT,))

    def apply(self, module: HloModule) -> None:
        cache: regions.Cache = {}
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.SORT and _sorts_a_permutation(i):
                    c.replace(i, _scattered(i, cache))


def _sorts_a_permutation(i: HloInstruction) -> bool:
    keys = i.operands[0]
    if len(i.operands) != 2 or keys.opcode is not O.GET_TUPLE_ELEMENT or not _is_ascending(i.to_apply):
        return False
    other = keys.operands[0]
    if other.opcode is not O.SORT or other.dimensions != i.dimensions:
        return False
    positions = other.operands[keys.tuple_index]
    return (
        positions.opcode is O.IOTA
        and (positions.get("iota_dimension"),) == tuple(i.dimensions)
        and positions.array_shape.element_type.is_integral
        and _holds_all_indices(positions.array_shape)
    )


def _holds_all_indices(shape: ArrayShape) -> bool:
    """Whether an iota of this shape never wraps around, along the sorted or any other dimension."""
    t = shape.element_type
    return max(shape.dimensions) <= 1 << (t.bits - t.is_signed)


def _is_ascending(comparison: HloComputation) -> bool:
    root, (first, second, *_) = comparison.root, comparison.parameters
    return root.opcode is O.COMPARE and root.get("direction") == "LT" and root.operands == (first, second)


def _scattered(i: HloInstruction, cache: regions.Cache) -> HloInstruction:
    b, (keys, values), (along,) = Builder(i), i.operands, i.dimensions
    shape, rank = keys.array_shape, keys.array_shape.rank
    column = b.reshape(keys, (*shape.dimensions, 1))
    indices = column
    if rank > 1:
        parts = [column if n == along else b.add(O.IOTA, (), column.array_shape, iota_dimension=n) for n in range(rank)]
        indices = b.add(O.CONCATENATE, parts, shape.with_dimensions((*shape.dimensions, rank)), dimensions=(rank,))
    every = tuple(range(rank))
    result = b.add(
        O.SCATTER,
        (b.full(0, values.array_shape), indices, values),
        values.array_shape,
        update_window_dims=(),
        inserted_window_dims=every,
        scatter_dims_to_operand_dims=every,
        index_vector_dim=rank,
        unique_indices=True,
        to_apply=regions.second_of_two(i.parent.module, cache, values.array_shape.element_type),
    )
    return b.tuple((b.add(O.IOTA, (), shape, iota_dimension=along), result))

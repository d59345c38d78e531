"""Rules of operations with indices (gather, scatter, dynamic slices) and of random bits."""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.shardy.program import ShardyOp
from xlanb.spmd.shardy.rule import NO_DIM, FactorType, OpShardingRule
from xlanb.spmd.shardy.rules.registry import builder, rule_of

_O = HloOpcode
_NEED = FactorType.NEED_REPLICATION
_PASS = FactorType.PASS_THROUGH
AddFactor = Callable[[int, int, int, int, FactorType, bool], None]
"""Dimension of the input, of the indices, of the slices; size; type; blocked."""


@dataclass
class _Slices:
    """The common part of gather and scatter: how slice dimensions map to input and indices."""

    input: tuple[int, ...]
    indices: tuple[int, ...]
    slices: tuple[int, ...]
    offset_dims: tuple[int, ...]
    collapsed: tuple[int, ...]
    input_batch: tuple[int, ...]
    indices_batch: tuple[int, ...]
    index_vector_dim: int
    is_scatter: bool
    sums: bool
    """For scatter: whether devices can combine its updates too."""

    def add_factors(self, add: AddFactor) -> None:
        """Call `add` for each factor, in Shardy's order."""
        inputs = iter(d for d in range(len(self.input)) if d not in self.collapsed and d not in self.input_batch)
        position = 0
        for dim, size in enumerate(self.slices):
            if dim in self.offset_dims:
                self._add_offset(add, next(inputs), dim, size)
                continue
            index = position + (position >= self.index_vector_dim)
            position += 1
            paired = index in self.indices_batch
            batch = self.input_batch[self.indices_batch.index(index)] if paired else NO_DIM
            kind = _PASS
            if self.is_scatter and not paired:
                kind = FactorType.REDUCTION if self.sums else _NEED
            add(batch, index, dim, size, kind, False)
        for dim in self.collapsed:
            size = self.input[dim]
            gathered = _NEED if size == 1 else FactorType.REDUCTION
            add(dim, NO_DIM, NO_DIM, size, _PASS if self.is_scatter else gathered, False)
        if self.index_vector_dim < len(self.indices):
            add(NO_DIM, self.index_vector_dim, NO_DIM, self.indices[self.index_vector_dim], _NEED, False)

    def _add_offset(self, add: AddFactor, dim: int, slice_dim: int, size: int) -> None:
        whole = self.input[dim]
        if whole == size:
            add(dim, NO_DIM, slice_dim, whole, _PASS, False)
        elif self.is_scatter or size == 1:
            add(dim, NO_DIM, NO_DIM, whole, _NEED if self.is_scatter else FactorType.REDUCTION, False)
            add(NO_DIM, NO_DIM, slice_dim, size, _NEED, False)
        else:
            add(dim, NO_DIM, slice_dim, whole, _NEED, True)


@rule_of(_O.GATHER)
def gather(op: ShardyOp) -> OpShardingRule:
    """Share whole slices with the operand, and batch dimensions with the indices."""
    made = builder(op)
    hlo = op.hlo
    slices = _Slices(
        op.operands[0].dimensions,
        op.operands[1].dimensions,
        op.results[0].dimensions,
        hlo.ints("offset_dims"),
        hlo.ints("collapsed_slice_dims"),
        hlo.ints("operand_batching_dims"),
        hlo.ints("start_indices_batching_dims"),
        hlo.get("index_vector_dim"),
        is_scatter=False,
        sums=False,
    )

    def add(source: int, index: int, dim: int, size: int, kind: FactorType, blocked: bool) -> None:
        made.add_factor([source, index], [dim], size, kind, blocked=blocked)

    slices.add_factors(add)
    return made.build()


@rule_of(_O.SCATTER)
def scatter(op: ShardyOp) -> OpShardingRule:
    """As gather, with updates as slices; dimensions of updates alone are summed."""
    made = builder(op)
    hlo = op.hlo
    count = len(op.operands) // 2
    slices = _Slices(
        op.operands[0].dimensions,
        op.operands[count].dimensions,
        op.operands[-1].dimensions,
        hlo.ints("update_window_dims"),
        hlo.ints("inserted_window_dims"),
        hlo.ints("input_batching_dims"),
        hlo.ints("scatter_indices_batching_dims"),
        hlo.get("index_vector_dim"),
        is_scatter=True,
        sums=_combines_alike(hlo.to_apply, count),
    )

    def add(target: int, index: int, dim: int, size: int, kind: FactorType, blocked: bool) -> None:
        dims = [target] * count + [index] + [dim] * count
        made.add_factor(dims, [target] * len(op.results), size, kind, blocked=blocked)

    slices.add_factors(add)
    return made.build()


_COMBINERS = frozenset((_O.ADD, _O.MULTIPLY, _O.MAXIMUM, _O.MINIMUM))


def _combines_alike(computation: HloComputation, count: int) -> bool:
    """Whether it combines each value and update by the same sum, product, maximum or minimum.

    For predicates, also by and, or.
    """
    root = computation.root
    outputs = root.operands if root.opcode is _O.TUPLE else (root,)
    if len(outputs) != count or len(computation.parameters) != 2 * count or len({o.opcode for o in outputs}) != 1:
        return False
    for number, output in enumerate(outputs):
        shape = output.shape
        logical = isinstance(shape, ArrayShape) and shape.element_type is PrimitiveType.PRED
        known = output.opcode in _COMBINERS or (logical and output.opcode in (_O.AND, _O.OR))
        wanted = [computation.parameters[number], computation.parameters[number + count]]
        if not known or list(output.operands) not in (wanted, wanted[::-1]):
            return False
    return True


@rule_of(_O.DYNAMIC_SLICE)
def dynamic_slice(op: ShardyOp) -> OpShardingRule:
    """Share the dimensions that are not sliced."""
    return (
        builder(op).add_pointwise_but(op.operands[0].dimensions, op.results[0].dimensions, _NEED, blocked=True).build()
    )


@rule_of(_O.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(op: ShardyOp) -> OpShardingRule:
    """Keep operand and result split along a partially updated dimension; replicate the update."""
    made = builder(op)
    indices = op.operands[2:]
    constant = all(v.producer is not None and v.producer.opcode is _O.CONSTANT for v in indices)
    none = [NO_DIM] * len(indices)
    for dim, (size, update) in enumerate(zip(op.operands[0].dimensions, op.operands[1].dimensions, strict=True)):
        if size == update:
            made.add_common_factor(dim, size)
        else:
            made.add_factor([dim, NO_DIM, *none], [dim], size)
            made.add_factor([NO_DIM, dim, *none], [NO_DIM], update, _PASS if constant else _NEED)
    return made.build()


@rule_of(_O.RNG_BIT_GENERATOR)
def rng_bit_generator(op: ShardyOp) -> OpShardingRule:
    """Keep the state replicated; the bits are free."""
    made = builder(op)
    for dim, size in enumerate(op.operands[0].dimensions):
        made.add_factor([dim], [dim, NO_DIM], size, _NEED, blocked=True)
    for dim, size in enumerate(op.results[1].dimensions):
        made.add_factor([NO_DIM], [NO_DIM, dim], size)
    return made.build()

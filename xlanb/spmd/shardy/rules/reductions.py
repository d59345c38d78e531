"""Rules of reductions and sorts: reduce, reduce-window, select-and-scatter, sort, top-k."""

from __future__ import annotations

from xlanb.hlo.attributes import Window
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp
from xlanb.spmd.shardy.rule import NO_DIM, FactorType, OpShardingRule
from xlanb.spmd.shardy.rules.registry import builder, rule_of

_O = HloOpcode


@rule_of(_O.REDUCE)
def reduce(op: ShardyOp) -> OpShardingRule:
    """Give reduced dimensions factors of the inputs only; initial values have none."""
    count = len(op.operands) // 2
    reduced = set(op.hlo.dimensions)
    made = builder(op)
    out = 0
    for dim, size in enumerate(op.operands[0].dimensions):
        operand_dims = [dim] * count + [NO_DIM] * count
        if dim in reduced:
            made.add_factor(operand_dims, [NO_DIM] * len(op.results), size, FactorType.REDUCTION)
        else:
            made.add_factor(operand_dims, [out] * len(op.results), size)
            out += 1
    return made.build()


def _is_untouched(window: Window, dim: int) -> bool:
    """Whether the window has a single position per element in that dimension."""
    d = window.dimensions[dim]
    return d.size == 1 and d.stride == 1 and d.padding_low == 0 and d.padding_high == 0


@rule_of(_O.REDUCE_WINDOW)
def reduce_window(op: ShardyOp) -> OpShardingRule:
    """Add one factor per dimension, of the output's size; they need neighbors' elements."""
    window = op.hlo.window
    return (
        builder(op)
        .add_pointwise(
            op.results[0].dimensions,
            lambda d: FactorType.PASS_THROUGH if _is_untouched(window, d) else FactorType.PERMUTATION,
        )
        .build()
    )


@rule_of(_O.SELECT_AND_SCATTER)
def select_and_scatter(op: ShardyOp) -> OpShardingRule:
    """Share operand and result dimensions; the source is replicated along windowed ones."""
    window = op.hlo.window
    made = builder(op)
    for dim, size in enumerate(op.results[0].dimensions):
        if _is_untouched(window, dim):
            made.add_common_factor(dim, size)
            continue
        source = op.operands[1].dimensions[dim]
        made.add_factor([NO_DIM, dim, NO_DIM], [NO_DIM], source, FactorType.NEED_REPLICATION)
        made.add_factor([dim, NO_DIM, NO_DIM], [dim], size, FactorType.PERMUTATION)
    return made.build()


@rule_of(_O.SORT)
def sort(op: ShardyOp) -> OpShardingRule:
    """Replicate the sorted dimension.

    It is not propagated at all if no other dimension could take its axes.
    """
    (sorted_dim,) = op.hlo.dimensions
    shape = op.operands[0].dimensions
    alone = all(dim == sorted_dim or size == 1 for dim, size in enumerate(shape))
    made = builder(op)
    for dim, size in enumerate(shape):
        if dim == sorted_dim:
            made.add_common_factor(dim, size, FactorType.NEED_REPLICATION, blocked=alone)
        else:
            made.add_common_factor(dim, size)
    return made.build()


@rule_of(_O.TOPK)
def topk(op: ShardyOp) -> OpShardingRule:
    """Keep the dimension that shrinks whole."""
    return (
        builder(op)
        .add_pointwise_but(
            op.operands[0].dimensions, op.results[0].dimensions, FactorType.NEED_REPLICATION, blocked=True
        )
        .build()
    )

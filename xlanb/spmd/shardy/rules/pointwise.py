"""Rules of elementwise operations, and of collectives in manual computations."""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp
from xlanb.spmd.shardy.rule import FactorType, OpShardingRule, pointwise_rule
from xlanb.spmd.shardy.rules.registry import builder, dimensions, rule_of

_O = HloOpcode
ELEMENTWISE = frozenset(o for o in HloOpcode if o.kind == "elementwise") - {_O.ERF} | {_O.COPY}
"""Operations with StableHLO's elementwise trait, and select and clamp.

The first operand of select and the outer ones of clamp may be scalars.
"""

_POINTWISE = (*ELEMENTWISE, _O.ALL_REDUCE, _O.COLLECTIVE_BROADCAST, _O.COLLECTIVE_PERMUTE)


@rule_of(*_POINTWISE)
def pointwise(op: ShardyOp) -> OpShardingRule | None:
    """Share each dimension; scalar operands (of select, clamp) have no factors."""
    shape = op.results[0].dimensions
    if not op.results[0].is_array or any(d not in ((), shape) for d in dimensions([*op.operands, *op.results])):
        return None
    return pointwise_rule(dimensions(op.operands), dimensions(op.results))


@rule_of(_O.ALL_GATHER, _O.REDUCE_SCATTER)
def gather_or_scatter(op: ShardyOp) -> OpShardingRule | None:
    """Share all dimensions but the one that grows or shrinks, which each side replicates."""
    (dim,) = op.hlo.dimensions
    before, after = op.operands[0].dimensions, op.results[0].dimensions
    return (
        builder(op)
        .add_pointwise(before, where=lambda d: d != dim)
        .add_common_factor(dim, before[dim], FactorType.NEED_REPLICATION, results=False)
        .add_common_factor(dim, after[dim], FactorType.NEED_REPLICATION, operands=False)
        .build()
    )


@rule_of(_O.ALL_TO_ALL)
def all_to_all(op: ShardyOp) -> OpShardingRule | None:
    """Share all dimensions but those that are split and concatenated."""
    return gather_or_scatter(op) if op.hlo.dimensions else None

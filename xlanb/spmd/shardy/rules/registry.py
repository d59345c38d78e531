"""The table of sharding rules: opcode -> function from an operation to its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp, ShardyValue
from xlanb.spmd.shardy.rule import OpShardingRule, RuleBuilder

RuleOf = Callable[[ShardyOp], OpShardingRule | None]
"""None if shardings do not propagate through the operation."""

RULES: dict[HloOpcode, RuleOf] = {}


def rule_of(*opcodes: HloOpcode) -> Callable[[RuleOf], RuleOf]:
    """Register a function that returns these opcodes' rule."""

    def register(function: RuleOf) -> RuleOf:
        for opcode in opcodes:
            RULES[opcode] = function
        return function

    return register


def dimensions(values: Sequence[ShardyValue]) -> list[tuple[int, ...]]:
    """Return the dimensions of each value."""
    return [v.dimensions for v in values]


def builder(op: ShardyOp) -> RuleBuilder:
    """Return a builder for the operation's operands and results."""
    return RuleBuilder(dimensions(op.operands), dimensions(op.results))

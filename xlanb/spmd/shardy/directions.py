"""The order of propagation: Shardy's schedule of operations (op_priority_propagation.cc).

0  elementwise operations, reshapes, transposes and data flow edges, in both directions, if their
   operands have one use; dynamic slices forward
1  the same regardless of uses
2  all factors that need no communication; through a broadcast only to its operand
3  every factor; through a broadcast only to its operand
4  everything
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.factor_propagation import Direction
from xlanb.spmd.shardy.program import ShardyOp, ShardyValue, ValueKind
from xlanb.spmd.shardy.rules import is_elementwise, sharding_rule

LAST_PRIORITY = 4

_RESHAPING = frozenset((HloOpcode.RESHAPE, HloOpcode.TRANSPOSE))
_SLICING = frozenset((HloOpcode.DYNAMIC_SLICE, HloOpcode.DYNAMIC_UPDATE_SLICE))
_OFFLOADING = ("MoveToDevice", "MoveToHost")


def _is_pass_through(op: ShardyOp) -> bool:
    if is_elementwise(op):
        return True
    if op.kind is not ValueKind.HLO:
        return False
    return op.opcode in _RESHAPING or (
        op.opcode is HloOpcode.CUSTOM_CALL and op.hlo.get("custom_call_target") in _OFFLOADING
    )


def directions(op: ShardyOp, priority: int, use_count: Callable[[ShardyValue], int]) -> tuple[Direction, ...]:
    """Return the directions in which each factor may be propagated up to this priority."""
    rule = sharding_rule(op)
    if rule is None:
        return ()
    whole = _of_operation(op, priority, use_count)
    broadcast = op.kind is ValueKind.HLO and op.opcode is HloOpcode.BROADCAST
    mostly = Direction.BACKWARD if broadcast else Direction.BOTH
    out = []
    for factor in range(len(rule.factor_sizes)):
        direction = whole
        if priority >= 3 or (priority == 2 and rule.is_pass_through(factor)):
            direction |= mostly
        out.append(Direction.NONE if factor in rule.blocked else direction)
    return tuple(out)


def _of_operation(op: ShardyOp, priority: int, use_count: Callable[[ShardyValue], int]) -> Direction:
    """Return the direction for all of an operation's factors."""
    if priority >= LAST_PRIORITY:
        return Direction.BOTH
    slicing = op.kind is ValueKind.HLO and op.opcode in _SLICING
    if not slicing and not _is_pass_through(op):
        return Direction.NONE
    if priority == 0 and any(v.rank and use_count(v) > 1 for v in op.operands):
        return Direction.NONE
    return Direction.FORWARD if slicing else Direction.BOTH

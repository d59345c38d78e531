"""Sharding rules of HLO operations, as Shardy gives them to StableHLO's.

Follows op_sharding_rule_registry.cc.

registry       the table
pointwise      elementwise operations, constraints, collectives
shapes         reshape, broadcast, transpose, concatenate, pad, slice, ...
algebra        dot, convolution, Cholesky, triangular solve, FFT
reductions     reduce, reduce-window, select-and-scatter, sort, top-k
indexed        gather, scatter, dynamic slices, random bits
custom_calls   calls by their target
"""

from __future__ import annotations

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp, ValueKind
from xlanb.spmd.shardy.rule import OpShardingRule, parse_rule, pointwise_rule
from xlanb.spmd.shardy.rules import algebra, custom_calls, indexed, pointwise, reductions, shapes
from xlanb.spmd.shardy.rules.registry import RULES, dimensions

__all__ = ["is_elementwise", "sharding_rule"]

CUSTOM_RULE = "xla.sdy.sharding_rule"
"""The frontend attribute with a custom call's own rule."""

_FAMILIES = (algebra, custom_calls, indexed, pointwise, reductions, shapes)
"""The modules that register rules when imported."""


def sharding_rule(op: ShardyOp) -> OpShardingRule | None:
    """Return an operation's rule, cached in `op.rule`.

    Returns None if shardings do not propagate through it, or only along its data flow edges.
    """
    if op.rule is None:
        op.rule = _made(op) or ()  # an empty tuple caches that there is no rule
    return op.rule or None


def _made(op: ShardyOp) -> OpShardingRule | None:
    if op.kind is ValueKind.CONSTRAINT:
        return pointwise_rule(dimensions(op.operands), dimensions(op.results))
    if op.kind is not ValueKind.HLO or not op.results:
        return None
    if op.opcode is HloOpcode.CUSTOM_CALL:
        given = dict(op.hlo.frontend_attributes).get(CUSTOM_RULE)
        if given is not None:
            return parse_rule(given)
    make = RULES.get(op.opcode)
    return make(op) if make else None


def is_elementwise(op: ShardyOp) -> bool:
    """Whether Shardy counts the operation as elementwise in its propagation order."""
    if op.kind in (ValueKind.CONSTRAINT, ValueKind.BARRIER):
        return True
    if op.kind is not ValueKind.HLO:
        return False
    if op.opcode is HloOpcode.BITCAST_CONVERT:
        return op.operands[0].dimensions == op.results[0].dimensions
    return op.opcode in pointwise.ELEMENTWISE

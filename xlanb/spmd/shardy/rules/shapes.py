"""Rules of operations on shapes.

Reshape, broadcast, transpose, concatenate, pad, slice, reverse and bitcast-convert.
"""

from __future__ import annotations

import math

from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.shardy.program import ShardyOp, ShardyValue
from xlanb.spmd.shardy.rule import NO_DIM, FactorType, OpShardingRule, RuleBuilder
from xlanb.spmd.shardy.rules.registry import builder, rule_of

_O = HloOpcode


@rule_of(_O.BITCAST_CONVERT)
def bitcast_convert(op: ShardyOp) -> OpShardingRule:
    """Keep the dimension whole that holds the pieces of a wider element."""
    before, after = op.operands[0].dimensions, op.results[0].dimensions
    made = builder(op).add_pointwise(min(before, after, key=len))
    if len(before) < len(after):
        made.add_factor([NO_DIM], [len(after) - 1], after[-1], FactorType.NEED_REPLICATION)
    elif len(before) > len(after):
        made.add_factor([len(before) - 1], [NO_DIM], before[-1], FactorType.NEED_REPLICATION)
    return made.build()


@rule_of(_O.BROADCAST)
def broadcast(op: ShardyOp) -> OpShardingRule:
    """Make every result dimension a factor, shared with the operand dimension it comes from."""
    before, after = op.operands[0].dimensions, op.results[0].dimensions
    source = {out: dim for dim, out in enumerate(op.hlo.dimensions)}
    made = builder(op)
    for out, size in enumerate(after):
        dim = source.get(out, NO_DIM)
        if dim != NO_DIM and before[dim] == 1 and size != 1:
            made.add_factor([dim], [NO_DIM], 1)
            dim = NO_DIM
        made.add_factor([dim], [out], size)
    return made.build()


@rule_of(_O.TRANSPOSE)
def transpose(op: ShardyOp) -> OpShardingRule:
    """Return the same factors in another order."""
    before = op.operands[0].dimensions
    made = builder(op)
    for out, dim in enumerate(op.hlo.dimensions):
        made.add_factor([dim], [out], before[dim])
    return made.build()


@rule_of(_O.REVERSE)
def reverse(op: ShardyOp) -> OpShardingRule:
    """Share dimensions; devices exchange the pieces of a reversed one."""
    reversed_dims = op.hlo.dimensions
    return (
        builder(op)
        .add_pointwise(
            op.results[0].dimensions,
            lambda d: FactorType.PERMUTATION if d in reversed_dims else FactorType.PASS_THROUGH,
        )
        .build()
    )


@rule_of(_O.PAD, _O.SLICE)
def pad_or_slice(op: ShardyOp) -> OpShardingRule:
    """Keep resized dimensions split; neighbors exchange data."""
    return (
        builder(op)
        .add_pointwise_but(op.operands[0].dimensions, op.results[0].dimensions, FactorType.PERMUTATION, blocked=False)
        .build()
    )


def _before_slice(value: ShardyValue) -> ShardyValue:
    if value.producer is not None and value.producer.opcode is _O.SLICE:
        return value.producer.operands[0]
    return value


def _concatenated(op: ShardyOp) -> FactorType:
    """Return the type of the concatenated dimension's factor.

    An exchange suffices if only slices, or slices of one array and itself, are concatenated.
    """
    sliced = [_before_slice(v) is not v for v in op.operands]
    one = _before_slice(op.operands[0])
    if all(sliced) or (any(sliced) and all(_before_slice(v) is one for v in op.operands)):
        return FactorType.PERMUTATION
    return FactorType.NEED_REPLICATION


@rule_of(_O.CONCATENATE)
def concatenate(op: ShardyOp) -> OpShardingRule:
    """Share every dimension, with the result's sizes."""
    (dim,) = op.hlo.dimensions
    return (
        builder(op)
        .add_pointwise(op.results[0].dimensions, lambda d: _concatenated(op) if d == dim else FactorType.PASS_THROUGH)
        .build()
    )


@rule_of(_O.RESHAPE)
def reshape(op: ShardyOp) -> OpShardingRule | None:
    """Return the common factors of the two shapes, slowest first.

    If their sizes have no common divisor, the sides are covered separately until they meet.
    """
    before, after = op.operands[0].dimensions, op.results[0].dimensions
    return _Reshape(builder(op), before, after).build() if math.prod(before) else None


class _ShapeSide:
    """How much of one shape is covered by factors."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        self.sizes = sizes
        self.dim = 0
        self.dims_product = 1
        self.factors_product = 1

    @property
    def open(self) -> bool:
        return self.dim < len(self.sizes)

    @property
    def at_one(self) -> bool:
        return self.open and self.sizes[self.dim] == 1

    def enter(self) -> int:
        """Go to the next dimension if the last is covered; return the size left to cover."""
        if self.open and self.dims_product == self.factors_product:
            self.dims_product *= self.sizes[self.dim]
        return self.dims_product // self.factors_product

    def leave(self) -> None:
        if self.open and self.dims_product == self.factors_product:
            self.dim += 1


class _Reshape:
    """Walks both shapes at once."""

    def __init__(self, made: RuleBuilder, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        self.made = made
        self.old = _ShapeSide(before)
        self.new = _ShapeSide(after)

    def add(self, size: int, *, old: bool, new: bool) -> None:
        self.made.add_factor([self.old.dim if old else NO_DIM], [self.new.dim if new else NO_DIM], size)
        for side, has in ((self.old, old), (self.new, new)):
            if has:
                side.factors_product *= size

    def build(self) -> OpShardingRule:
        old, new = self.old, self.new
        while old.open or new.open:
            if old.at_one:
                self.add(1, old=True, new=False)
                old.dim += 1
            elif new.at_one:
                self.add(1, old=False, new=True)
                new.dim += 1
            else:
                self._step(old.enter(), new.enter())
                old.leave()
                new.leave()
        return self.made.build()

    def _step(self, next_old: int, next_new: int) -> None:
        divisor = math.gcd(next_old, next_new)
        behind = self.old.factors_product - self.new.factors_product
        if behind == 0 and divisor > 1:
            self.add(divisor, old=True, new=True)
        elif behind == 0:
            self.add(next_old, old=True, new=False)
            self.add(next_new, old=False, new=True)
        elif behind < 0:
            self.add(_catch_up(next_old, divisor, self.old, self.new), old=True, new=False)
        else:
            self.add(_catch_up(next_new, divisor, self.new, self.old), old=False, new=True)


def _catch_up(size: int, divisor: int, side: _ShapeSide, ahead: _ShapeSide) -> int:
    """Return the next factor of the side that is behind.

    It makes the sides meet if possible, and otherwise keeps the common divisor for the next step.
    """
    gap, rest = divmod(ahead.factors_product, side.factors_product)
    if rest == 0 and size % gap == 0:
        return gap
    return size // divisor if size > divisor else size

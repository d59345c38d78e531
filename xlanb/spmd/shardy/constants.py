"""Copy constants and broadcast scalars for each use before propagation, and merge them after it.

    c = broadcast(0); a = add(x, c); b = add(y, c)
    =>  c1 = broadcast(0); c2 = broadcast(0); a = add(x, c1); b = add(y, c2)

The sharding of one user then does not reach another through a constant
(shardy/dialect/sdy/transforms/import/constant_or_scalar_splitter.cc,
export/constant_or_scalar_merger.cc).
"""

from __future__ import annotations

from typing import Any

from xlanb.hlo.opcode import HloOpcode as O
from xlanb.spmd.shardy.editing import clone_op, erase, replace_uses, set_operand, set_result
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind

_PRESERVING = frozenset((O.BROADCAST, O.RESHAPE, O.SLICE, O.CONVERT, O.BITCAST_CONVERT, O.CLAMP, O.SELECT, O.COMPARE))


def split_constants(program: ShardyProgram) -> None:
    """Copy constant expressions and broadcast scalars for each use; scalars are shared."""
    for op in list(program.walk()):
        if op.kind is ValueKind.NAMED:
            for region in op.regions:
                _split(program, region)
    _split(program, program.body)


def _split(program: ShardyProgram, region: ShardyRegion) -> None:
    constants: dict[ShardyOp, None] = {}
    expansions: dict[ShardyOp, None] = {}
    copies: dict[ShardyValue, list[ShardyValue]] = {}
    _split_region(region, constants, expansions, copies)
    for group in program.groups:
        group += [c for v in list(group) for c in copies.get(v, ())]
    for op in (*expansions, *reversed(constants)):
        if not any(r.uses or r.returned for r in op.results):
            erase(op)
            for group in program.groups:
                group[:] = [v for v in group if v.producer is not op]


def _split_region(
    region: ShardyRegion,
    constants: dict[ShardyOp, None],
    expansions: dict[ShardyOp, None],
    copies: dict[ShardyValue, list[ShardyValue]],
) -> None:
    shared = (constants, expansions)
    for op in list(region.ops):
        if _is_constant(op, constants):
            constants[op] = None
        elif op.opcode is O.BROADCAST and not op.operands[0].rank:
            expansions[op] = None
        else:
            for n, value in enumerate(op.operands):
                if value.producer is not None and any(value.producer in s for s in shared):
                    set_operand(op, n, _copied(value, {}, copies))
        if op.kind is not ValueKind.NAMED:
            for inner in op.regions:
                _split_region(inner, constants, expansions, copies)
    for n, value in enumerate(region.results):
        if value.producer is not None and any(value.producer in s for s in shared):
            set_result(region, n, _copied(value, {}, copies))


def _is_constant(op: ShardyOp, constants: dict[ShardyOp, None]) -> bool:
    if op.kind is not ValueKind.HLO:
        return False
    if op.opcode in (O.CONSTANT, O.IOTA):
        return True
    if not op.operands or not (op.opcode.is_elementwise or op.opcode in _PRESERVING):
        return False
    return all(v.producer in constants for v in op.operands)


def _copied(
    value: ShardyValue, made: dict[ShardyValue, ShardyValue], copies: dict[ShardyValue, list[ShardyValue]]
) -> ShardyValue:
    """Copy the expression that defines a value, down to its scalars."""
    if not value.rank or value.producer is None:
        return value
    if value not in made:
        operands = [_copied(v, made, copies) for v in value.producer.operands]
        copy = clone_op(value.producer, operands)
        made[value] = copy.results[value.index]
        copies.setdefault(value, []).append(made[value])
    return made[value]


def merge_constants(program: ShardyProgram) -> None:
    """Merge constants and broadcast scalars with equal value and sharding within a body."""
    _merge(program.body)


def _merge(region: ShardyRegion) -> None:
    seen: dict[Any, ShardyOp] = {}
    for op in list(region.ops):
        for inner in op.regions:
            _merge(inner)
        key = _key(op)
        if key is None:
            continue
        first = seen.setdefault(key, op)
        if first is not op:
            replace_uses(op.results[0], first.results[0])
            erase(op)


def _key(op: ShardyOp) -> Any:
    """Return what must be equal for two operations to merge; None if an operation never merges."""
    if op.kind is not ValueKind.HLO:
        return None
    result = op.results[0] if op.results else None
    if op.opcode is O.CONSTANT and result is not None:
        return O.CONSTANT, result.shape, op.hlo.literal, result.sharding
    if op.opcode is O.BROADCAST and result is not None and not op.operands[0].rank:
        return O.BROADCAST, result.shape, op.operands[0], result.sharding
    return None

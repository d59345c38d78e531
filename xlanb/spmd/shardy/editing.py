"""Edit a Program: remove dead operations, replace values, copy operations."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.spmd.shardy.program import ShardyOp, ShardyRegion, ShardyValue, ValueKind


def remove_dead(region: ShardyRegion) -> None:
    """Remove operations that have no uses and no side effects."""
    for op in reversed(list(region.ops)):
        if op.hlo.has_side_effect and op.kind not in (ValueKind.CONSTRAINT, ValueKind.BARRIER):
            continue
        if any(r.uses or r.returned for r in op.results):
            for inner in op.regions:
                remove_dead(inner)
            continue
        erase(op)


def erase(op: ShardyOp) -> None:
    """Remove an operation from its region and from its operands' uses."""
    if op.region is not None:
        op.region.ops.remove(op)
    for inner in (op, *(o for r in op.regions for o in r.walk())):
        for n, value in enumerate(inner.operands):
            value.uses.remove((inner, n))
    for region in (r for o in (op, *(i for r in op.regions for i in r.walk())) for r in o.regions):
        for n, value in enumerate(region.results):
            value.returned.remove((region, n))


def captured(regions: Sequence[ShardyRegion]) -> list[ShardyValue]:
    """Return the values that bodies use and that are defined outside, in the order of first use."""
    found: dict[ShardyValue, None] = {}
    for region in regions:
        inside = {*region.arguments}
        for op in region.walk():
            inside.update(op.results)
            inside.update(a for r in op.regions for a in r.arguments)
        _capture(region, inside, found)
    return list(found)


def _capture(region: ShardyRegion, inside: set[ShardyValue], found: dict[ShardyValue, None]) -> None:
    for op in region.ops:
        for inner in op.regions:
            _capture(inner, inside, found)
        found.update((v, None) for v in op.operands if v not in inside)
    found.update((v, None) for v in region.results if v not in inside)


def replace_uses_within(regions: Sequence[ShardyRegion], old: ShardyValue, new: ShardyValue) -> None:
    """Replace a value within bodies."""
    every = [r for region in regions for r in _nested(region)]
    ops = {o for r in every for o in r.ops}
    for use in [u for u in old.uses if u[0] in ops]:
        set_operand(use[0], use[1], new)
    for at in [r for r in old.returned if r[0] in every]:
        set_result(*at, new)


def _nested(region: ShardyRegion) -> list[ShardyRegion]:
    return [region, *(n for op in region.ops for r in op.regions for n in _nested(r))]


def set_operand(op: ShardyOp, number: int, value: ShardyValue) -> None:
    """Replace an operation's operand."""
    op.operands[number].uses.remove((op, number))
    op.operands[number] = value
    value.uses.append((op, number))


def clone_op(op: ShardyOp, operands: list[ShardyValue]) -> ShardyOp:
    """Copy an operation without bodies before it, with other operands and the same shardings."""
    copy = ShardyOp(op.kind, op.opcode, op.hlo, operands, attributes=dict(op.attributes), region=op.region)
    copy.results = [ShardyValue(r.name, r.shape, copy, r.index, own_sharding=r.own_sharding) for r in op.results]
    for n, value in enumerate(operands):
        value.uses.append((copy, n))
    if op.region is not None:
        op.region.ops.insert(op.region.ops.index(op), copy)
    return copy


def replace_uses(old: ShardyValue, new: ShardyValue) -> None:
    """Replace all uses of a value."""
    for op, number in list(old.uses):
        set_operand(op, number, new)
    for region, number in list(old.returned):
        set_result(region, number, new)


def set_result(region: ShardyRegion, number: int, value: ShardyValue) -> None:
    """Replace a region's result."""
    region.results[number].returned.remove((region, number))
    region.results[number] = value
    value.returned.append((region, number))

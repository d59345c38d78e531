"""Move sharding constraints to the value that they constrain.

Follows shardy/dialect/sdy/transforms/import/apply_sharding_constraints.cc.

y = dot(a, b); z = sharding_constraint(y) {sharding s}
=>  y itself gets sharding s, unless another sharding is required of it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.editing import set_operand, set_result
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind

_CONSTRAINING = (ValueKind.CONSTRAINT, ValueKind.MANUAL)


def apply_constraints(program: ShardyProgram) -> None:
    """Assign values the closed shardings that constraints and manual computations require.

    Skips a value that has a sharding, or of which two are required.
    """
    for op in _inner_first(program):
        if op.kind is ValueKind.CONSTRAINT:
            _use_end_of_chain(op)
            sharding = op.results[0].sharding
            if sharding is not None:
                _apply(op.operands[0], sharding, lambda op=op: _moved_after(op, op.operands[0]))  # type: ignore[misc]
        elif op.kind is ValueKind.MANUAL:
            for n, sharding in enumerate(op.attributes["in_shardings"]):
                value = op.operands[n]
                _apply(value, sharding, lambda v=value, s=sharding, op=op: _constraint_after(v, s, op))  # type: ignore[misc]


def _inner_first(program: ShardyProgram) -> list[ShardyOp]:
    def walk(ops: list[ShardyOp]) -> list[ShardyOp]:
        return [o for op in ops for o in (*(i for r in op.regions for i in walk(r.ops)), op)]

    return walk(program.body.ops)


def _apply(value: ShardyValue, sharding: TensorSharding, constraint: Callable[[], ShardyOp]) -> None:
    if not value.is_array or value.sharding is not None or not sharding.is_fully_closed:
        return
    if any(_wanted_by(*use) not in (None, sharding) for use in value.uses):
        return
    if value.edge is None:
        value.sharding = sharding
        return
    # Don't constrain an array on a data flow edge itself: only users after the constraint get the
    # sharding.
    op = constraint()
    for user, number in list(value.uses):
        if user is not op:
            set_operand(user, number, op.results[0])
    for region, number in list(value.returned):
        set_result(region, number, op.results[0])
    if sharding.unreduced:  # these do not propagate
        opened = TensorSharding.fully_open(sharding.mesh, value.rank)
        value.sharding = replace(opened, unreduced=sharding.unreduced)


def _wanted_by(user: ShardyOp, number: int) -> TensorSharding | None:
    """Return the sharding that a user requires of its operand."""
    if user.kind is ValueKind.CONSTRAINT:
        return user.results[0].sharding
    if user.kind is ValueKind.MANUAL:
        wanted: TensorSharding = user.attributes["in_shardings"][number]
        return wanted
    return None


def _moved_after(op: ShardyOp, value: ShardyValue) -> ShardyOp:
    """Move the constraint to directly after the value that it constrains."""
    region = value.producer.region if value.producer is not None else _region_of_argument(op, value)
    if region is None or op.region is None:
        return op
    op.region.ops.remove(op)
    at = region.ops.index(value.producer) + 1 if value.producer is not None else 0
    region.ops.insert(at, op)
    op.region = region
    return op


def _constraint_after(value: ShardyValue, sharding: TensorSharding, like: ShardyOp) -> ShardyOp:
    """Add a constraint directly after a value."""
    made = ShardyOp(ValueKind.CONSTRAINT, like.opcode, like.hlo, [value], region=like.region)
    made.results = [ShardyValue(value.name, value.shape, made, own_sharding=sharding)]
    value.uses.append((made, 0))
    if like.region is not None:
        like.region.ops.insert(like.region.ops.index(like), made)
    return _moved_after(made, value)


def _region_of_argument(op: ShardyOp, value: ShardyValue) -> ShardyRegion | None:
    region = op.region
    while region is not None and value not in region.arguments:
        region = region.parent.region if region.parent is not None else None
    return region


def _use_end_of_chain(head: ShardyOp) -> None:
    """Make later users of a chain of constraints' first input use the chain's end."""
    value = head.operands[0]
    if value.producer is not None and value.producer.kind is ValueKind.CONSTRAINT:
        return
    if value.sharding is not None or any(u.kind in _CONSTRAINING and u is not head for u, _ in value.uses):
        return
    tail = head
    while len(tail.results[0].uses) == 1 and not tail.results[0].returned:
        user = tail.results[0].uses[0][0]
        if user.kind is not ValueKind.CONSTRAINT:
            break
        tail = user
    if tail is head or any(u.kind in _CONSTRAINING for u, _ in tail.results[0].uses) or tail.region is None:
        return
    behind = tail.region.ops[tail.region.ops.index(tail) + 1 :]
    for user, number in list(value.uses):
        if user is not head and user in behind:
            set_operand(user, number, tail.results[0])
    for region, number in list(value.returned):
        if region is tail.region and region.parent is not None:  # the program's own results keep theirs
            set_result(region, number, tail.results[0])

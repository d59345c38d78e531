"""Sharding groups: values that must have one sharding (JAX's shard_alike).

Follows Shardy's sharding_group_import.cc and sharding_group_map.cc.

group {%a [{"x"}], %b}              =>    %b has [{"x"}] too
group {%a [{"x"}], %b [{"y"}]}      =>    each keeps its own; the group consists of open constraints
                                          of them, which other users use instead
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.editing import set_operand, set_result
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind


def unify_groups(program: ShardyProgram) -> None:
    """Join groups that share a value; each value occurs once in its group."""
    joined: list[list[ShardyValue]] = []
    for group in program.groups:
        members = dict.fromkeys(group)
        overlapping = [g for g in joined if any(v in members for v in g)]
        if not overlapping:
            joined.append(list(members))
            continue
        first, *others = overlapping
        for more in (*others, list(members)):
            first += [v for v in more if v not in first]
        joined = [g for g in joined if g not in others]
    program.groups = joined


def share_shardings(program: ShardyProgram) -> None:
    """Give all values of a group their common sharding.

    If they have several, replace the group's values by open constraints of them.
    """
    for group in program.groups:
        given = [v.sharding for v in group if v.sharding is not None and not _is_open_and_empty(v.sharding)]
        if not given or len(group) == 1:
            continue
        if all(s == given[0] for s in given):
            for value in group:
                value.sharding = given[0]
        else:
            group[:] = [_opened(program, value, given[0].mesh) for value in group]


def _is_open_and_empty(sharding: TensorSharding) -> bool:
    return all(not d.axes and not d.is_closed for d in sharding.dims)


def _opened(program: ShardyProgram, value: ShardyValue, mesh: str) -> ShardyValue:
    """Add a constraint with open dimensions directly after the value, for all its users."""
    like = _instruction_at(program, value)
    if like is None:
        return value
    region, place = _behind(program.body, value)
    made = ShardyOp(ValueKind.CONSTRAINT, HloOpcode.COPY, like, [value], region=region)
    made.results = [
        ShardyValue(value.name, value.shape, made, own_sharding=TensorSharding.fully_open(mesh, value.rank))
    ]
    for user, number in list(value.uses):
        set_operand(user, number, made.results[0])
    for at, number in list(value.returned):
        set_result(at, number, made.results[0])
    value.uses.append((made, 0))
    region.ops.insert(place, made)
    return made.results[0]


def _instruction_at(program: ShardyProgram, value: ShardyValue) -> HloInstruction | None:
    """Return an instruction for the constraint's metadata, or None in an empty program."""
    if value.producer is not None:
        return value.producer.hlo
    return next((op.hlo for op in (*(u for u, _ in value.uses), *program.walk())), None)


def _behind(region: ShardyRegion, value: ShardyValue) -> tuple[ShardyRegion, int]:
    """Return a value's region and the position directly after its definition."""
    if value.producer is not None and value.producer.region is not None:
        home = value.producer.region
        return home, home.ops.index(value.producer) + 1
    inner = (r for op in region.walk() for r in op.regions)
    return next((r for r in (region, *inner) if value in r.arguments), region), 0

"""Sharding groups: values that must have one sharding (shard_alike of JAX; sharding_group_import.cc and sharding_group_map.cc of Shardy).

group {%a [{"x"}], %b}              =>    %b has [{"x"}] too
group {%a [{"x"}], %b [{"y"}]}      =>    each keeps its own; the group is of constraints of them that are open, and that others use instead
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.editing import set_operand, set_result
from xlanb.spmd.shardy.program import ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind


def unify_groups(program: ShardyProgram) -> None:
    """Join groups that have a value in common; each value stands in its group once."""
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
    """Give all of a group the one sharding that its values have; where they have several, let open constraints of them be the group."""
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
    """A constraint right behind the value that leaves every dimension open, for all its users."""
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
    """An instruction whose metadata the constraint can have; None in a program without any."""
    if value.producer is not None:
        return value.producer.hlo
    return next((op.hlo for op in (*(u for u, _ in value.uses), *program.walk())), None)


def _behind(region: ShardyRegion, value: ShardyValue) -> tuple[ShardyRegion, int]:
    """The region of a value, and the place in it directly behind its definition."""
    if value.producer is not None and value.producer.region is not None:
        home = value.producer.region
        return home, home.ops.index(value.producer) + 1
    inner = (r for op in region.walk() for r in op.regions)
    return next((r for r in (region, *inner) if value in r.arguments), region), 0

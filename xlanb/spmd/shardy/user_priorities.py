"""User priorities of dimensions: later ones are hidden until their turn.

Follows Shardy's user_priority_propagation.cc.

[{"a"}, {"b"}p1]
=>  priority 0: [{"a"}, {}] replicated={"b"}
=>  priority 1: [{"a"}, {"b"}], extended as propagated by then
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from xlanb.spmd.sdy import AxisRef, DimensionSharding, TensorSharding
from xlanb.spmd.shardy.axes import in_mesh_order
from xlanb.spmd.shardy.program import ShardyProgram, ShardyValue

Reference = tuple[ShardyValue | int, TensorSharding]
"""A value, or a program result's number, with the sharding that the user gave it."""


def initialize(program: ShardyProgram) -> dict[int, list[Reference]]:
    """Hide dimensions of priority above 0; return the shardings to admit at each such priority."""
    later: dict[int, list[Reference]] = defaultdict(list)
    for place, sharding in _shardings(program):
        for priority in {d.priority for d in sharding.dims if d.priority}:
            later[priority].append((place, sharding))
        if any(d.priority is not None for d in sharding.dims):
            _set(program, place, _hidden(program, sharding))
    return later


def admit(program: ShardyProgram, references: list[Reference], priority: int) -> None:
    """Admit the user's dimensions of this priority."""
    for place, original in references:
        _set(program, place, _admitted(_get(program, place), original, priority))


def _shardings(program: ShardyProgram) -> list[Reference]:
    """Return values with their own sharding (no targets of edges), and program results."""
    values = [(v, v.own_sharding) for v in program.values() if v.edge is None and v.own_sharding is not None]
    return [*values, *((n, s) for n, s in enumerate(program.result_shardings) if s is not None)]


def _get(program: ShardyProgram, place: ShardyValue | int) -> TensorSharding:
    sharding = program.result_shardings[place] if isinstance(place, int) else place.sharding
    if sharding is None:
        raise AssertionError("internal error: a sharding with priorities was lost")
    return sharding


def _set(program: ShardyProgram, place: ShardyValue | int, sharding: TensorSharding) -> None:
    if isinstance(place, int):
        program.result_shardings[place] = sharding
    else:
        place.sharding = sharding


def _hidden(program: ShardyProgram, sharding: TensorSharding) -> TensorSharding:
    dims: list[DimensionSharding] = []
    replicated: list[AxisRef] = list(sharding.replicated)
    for dim in sharding.dims:
        if dim.priority:
            replicated += dim.axes
            dims.append(DimensionSharding())
        else:
            dims.append(replace(dim, priority=None))
    ordered = in_mesh_order(replicated, program.mesh_of(sharding))
    return replace(sharding, dims=tuple(dims), replicated=ordered)


def _admitted(current: TensorSharding, original: TensorSharding, priority: int) -> TensorSharding:
    dims = list(current.dims)
    seen: set[AxisRef] = set()
    for number, dim in enumerate(original.dims):
        if (dim.priority or 0) == priority:
            dims[number] = replace(dim, priority=None)
            seen.update(dim.axes)
    replicated = tuple(a for a in current.replicated if a not in seen)
    return replace(current, dims=tuple(dims), replicated=replicated)

"""Routines called with arguments: what becomes a parameter, and what selects another routine."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.codegen import jit
from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.routines import shared
from xlanb.codegen.types import DOUBLE, FLOAT, PTR, Type


@dataclass(frozen=True)
class Pair:
    """Two arrays."""

    first: Pointer
    second: Pointer


@shared("test.copy")
def copy(f: Function, pair: Pair, n: Ix, to: int | None = None) -> None:
    """Copy n elements."""
    with f.loop(n) as k:
        pair.second[f.add(k, to or 0)] = pair.first[k]


def module_of(calls: list[tuple[Type, object]]) -> ModuleBuilder:
    """A module that calls the routine with each type and number."""
    module = ModuleBuilder("m", jit.host())
    parameters = [Parameter(PTR, "a"), Parameter(PTR, "b")]
    f = module.function("f", parameters, "", "")
    a, b = map(f.argument, parameters)
    for element, n in calls:
        copy(f, Pair(Pointer(a, element), Pointer(b, element)), n)  # type: ignore[arg-type]
    return module


def test_values_are_parameters_and_types_make_other_routines() -> None:
    module = module_of([(FLOAT, 3), (FLOAT, 5), (DOUBLE, 5)])
    caller, *routines = module.functions
    assert [len(r.parameters) for r in routines] == [3, 3]
    assert [str(p.type) for p in routines[0].parameters] == ["ptr", "ptr", "i64"]
    calls = [line.split("@")[1].split("(")[0] for line in caller.body if "call void" in line]
    assert calls == [routines[0].name, routines[0].name, routines[1].name]
    assert all(r.shared and r.ready for r in routines)


def test_the_same_routine_has_the_same_name_in_every_module() -> None:
    first, second = (module_of(calls).functions[1:] for calls in ([(FLOAT, 1), (DOUBLE, 1)], [(DOUBLE, 2)]))
    assert second[0].name == first[1].name
    assert second[0].body == first[1].body


def test_an_argument_that_is_no_value_is_part_of_the_body() -> None:
    module = ModuleBuilder("m", jit.host())
    parameters = [Parameter(PTR, "a"), Parameter(PTR, "b")]
    f = module.function("f", parameters, "", "")
    pair = Pair(*(Pointer(f.argument(p), FLOAT) for p in parameters))
    copy(f, pair, 4)
    copy(f, pair, 4, None)
    copy(f, pair, 4, 7)
    bodies = ["\n".join(r.body) for r in module.functions[1:]]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] != bodies[2]
    assert len(module.functions[3].parameters) == 4

"""Routines that do not depend on a program's shapes: sizes and strides are parameters, or words of a table.

One of the same name and body serves all programs of a process: it is compiled and linked once, as those of a library for linear algebra are compiled once and for all. A table is a
constant of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.module import ModuleBuilder, Target

ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
_MADE: WeakKeyDictionary[ModuleBuilder, dict[object, str]] = WeakKeyDictionary()
_BODIES: dict[tuple[Target, object], tuple[list[str], dict[str, str]]] = {}
"""The lines and declarations of each routine that this process has written."""


def routine(
    module: ModuleBuilder, key: object, name: str, emit: Callable[[Function], None], parameters: Sequence[Parameter]
) -> str:
    """The name of a routine of a module; `emit(f)` writes its body when it is first asked for. `key` and the target say all that the body depends on."""
    made = _MADE.setdefault(module, {})
    if key not in made:
        f = Function(module, module.unique(f"xlanb.{name}"), parameters, ATTRIBUTES, None, "internal")
        module.functions.append(f)
        f.ready = f.shared = True
        _write(f, key, emit)
        made[key] = f.name
    return made[key]


def _write(f: Function, key: object, emit: Callable[[Function], None]) -> None:
    """The body of a routine, as another module had it before; it has no debug locations."""
    known = _BODIES.get((f.target, key))
    if known is None:
        before = f.module.declarations
        f.module.declarations = {}
        emit(f)
        known = _BODIES[f.target, key] = f.body, f.module.declarations
        f.module.declarations = before
    lines, declarations = known
    f.replace_body(lines)
    f.module.declarations.update(declarations)

"""Routines that do not depend on a program's shapes: what they have to know of sizes and strides they read from a table of i64 at %p.

A routine is `void name(ptr a, ptr b, ptr c, ptr p)`. One of the same name and body serves all programs of a process: it is compiled and linked once (see xlanb.cpu.library),
as those of a library for linear algebra are compiled once and for all. A table is a constant of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from weakref import WeakKeyDictionary

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
ROUTINE = ("ptr noalias readonly %a", "ptr noalias readonly %b", "ptr noalias %c", "ptr noalias readonly %p")
_MADE: WeakKeyDictionary[ModuleBuilder, dict[object, str]] = WeakKeyDictionary()
_BODIES: dict[tuple[Target, object], tuple[list[str], dict[str, str]]] = {}
"""The lines and declarations of each routine that this process has written."""


def routine(
    module: ModuleBuilder,
    key: object,
    name: str,
    emit: Callable[[Function], None],
    parameters: Sequence[str] = ROUTINE,
) -> str:
    """The name of a routine of a module; `emit(f)` writes its body when it is first asked for. `key` and the target say all that the body depends on."""
    made = _MADE.setdefault(module, {})
    if key not in made:
        f = Function(module, module.unique(f"xlanb.{name}"), list(parameters), ATTRIBUTES, None, "internal")
        module.functions.append(f)  # type: ignore[arg-type]
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
    f.body, declarations = known
    f.module.declarations.update(declarations)


def table(module: ModuleBuilder, words: Sequence[int | str]) -> str:
    """A constant of a module, one for all that want the same: so many words of 64 bits, numbers or addresses of functions (with their @)."""
    made = _MADE.setdefault(module, {})
    key = ("table", *words)
    if key not in made:
        made[key] = "@" + module.unique("table")
        runs = [(kind, list(run)) for kind, run in groupby(words, lambda w: isinstance(w, str))]
        parts = [p for are_pointers, run in runs for p in (_pointers(run) if are_pointers else [_numbers(run)])]
        kind, text = ", ".join(k for k, _ in parts), ", ".join(f"{k} {v}" for k, v in parts)
        kind, text = parts[0] if len(parts) == 1 else (f"{{ {kind} }}", f"{{ {text} }}")
        module.globals[made[key][1:]] = f"{made[key]} = private constant {kind} {text}, align 8"
    return made[key]


def _pointers(names: Sequence[int | str]) -> list[tuple[str, str]]:
    return [("ptr", str(name)) for name in names]


def _numbers(words: Sequence[int | str]) -> tuple[str, str]:
    return f"[{len(words)} x i64]", f"[{', '.join([f'i64 {w}' for w in words])}]"


def word(f: Function, at: int, pointer: str = "%p") -> str:
    """Word `at` of the table at a pointer."""
    return f.let(f"load i64, ptr {field(f, at, pointer)}")


def field(f: Function, at: int, pointer: str = "%p") -> str:
    """The address of word `at` of a table."""
    return f.let(f"getelementptr inbounds i64, ptr {pointer}, i64 {at}") if at else pointer


def moved(f: Function, pointer: str, offset: str) -> str:
    """An address so many bytes further."""
    return f.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def types_text(*types: PrimitiveType) -> str:
    """Element types as part of a routine's name, one where all are the same."""
    names = [str(t).lower() for t in types]
    return names[0] if len(set(names)) == 1 else ".".join(names)

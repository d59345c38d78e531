"""Routines that do not depend on a program's shapes.

Sizes and strides are parameters, or words of a table. A routine with the same name and body serves
all programs of a process: it is compiled and linked once, like those of a linear algebra library. A
table is a constant of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import groupby
from typing import Any, Concatenate, ParamSpec

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.outlining import OutlinedBody
from xlanb.codegen.types import I64, PTR, Type
from xlanb.codegen.values import Value

ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
_BODIES: dict[tuple[CodegenTarget, object], OutlinedBody] = {}
"""The body of each routine emitted in this process."""


def routine(
    module: ModuleBuilder, key: object, name: str, emit: Callable[[Function], None], parameters: Sequence[Parameter]
) -> str:
    """The name of a routine of a module; `emit(f)` emits its body on first use.

    `key` and the target must determine the body.
    """
    made = module.made
    if key not in made:
        f = Function(module, module.unique(f"xlanb.{name}"), parameters, ATTRIBUTES, None, "internal")
        module.functions.append(f)
        f.ready = True
        _write(f, key, emit)
        made[key] = f.name
    return made[key]


def _write(f: Function, key: object, emit: Callable[[Function], None]) -> None:
    """Emit the body of a routine, or reuse another module's; it has no debug locations."""
    known = _BODIES.get((f.target, key))
    if known is None:
        before = f.module.declarations
        f.module.declarations = {}
        emit(f)
        known = _BODIES[f.target, key] = OutlinedBody(f.body, f.module.declarations, f.symbols)
        f.module.declarations = before
    f.replace_body(known)
    f.module.declarations.update(known.declarations)


_P = ParamSpec("_P")


def shared(
    name: str,
) -> Callable[[Callable[Concatenate[Function, _P], None]], Callable[Concatenate[Function, _P], None]]:
    """Turn a function that emits a body into a routine: calling it emits a call.

    The values in its arguments (indices, values, dataclasses that contain them) become parameters.
    Their types and all other arguments, such as types and flags, are part of the routine's name.
    """

    def decorate(body: Callable[Concatenate[Function, _P], None]) -> Callable[Concatenate[Function, _P], None]:
        def call(f: Function, /, *given: _P.args, **_: _P.kwargs) -> None:
            arguments = [f.value(a) if type(a) is int else a for a in given]
            values: list[Value] = []
            fixed: list[str] = []
            for a in arguments:
                _split(a, values, fixed)
            parameters = [Parameter(v.type, f"p{k}") for k, v in enumerate(values)]

            def emit(g: Function) -> None:
                own = map(g.argument, parameters)
                body(g, *(_rebuilt(a, own) for a in arguments))  # type: ignore[call-arg]

            full = ".".join((name, *fixed))
            f.call_own(routine(f.module, full, full, emit, parameters), *values)

        return call

    return decorate


@cache
def _fields(kind: Any) -> tuple[str, ...] | None:
    """The names of a dataclass's fields; None for any other type."""
    return tuple(part.name for part in fields(kind)) if is_dataclass(kind) and kind is not Type else None


def _split(argument: object, values: list[Value], fixed: list[str]) -> None:
    """Append an argument's values to `values`, their types and the rest, as text, to `fixed`."""
    if isinstance(argument, Value):
        values.append(argument)
        fixed.append({PTR: "p", I64: "i"}.get(argument.type, argument.type.mangled))
        return
    kind: Any = type(argument)
    names = _fields(kind)
    if names is None:
        fixed.append(argument.mangled if isinstance(argument, Type) else str(argument))
        return
    for name in names:
        _split(getattr(argument, name), values, fixed)


def _rebuilt(argument: Any, values: Iterator[Value]) -> Any:
    """An argument with its values replaced."""
    if isinstance(argument, Value):
        return next(values)
    kind: Any = type(argument)
    names = _fields(kind)
    if names is None:
        return argument
    return kind(*(_rebuilt(getattr(argument, name), values) for name in names))


def table(module: ModuleBuilder, words: Sequence[int | str]) -> Callable[[Function], Value]:
    """A constant of 64-bit words (numbers, or function names with @), shared in the module.

    Returns its address in a function.
    """
    made = module.made
    key = ("table", *words)
    if key not in made:
        made[key] = name = module.unique("table")
        fields: list[tuple[str, str]] = []
        for are_names, run in groupby(words, lambda w: isinstance(w, str)):
            if are_names:
                fields += [("ptr", str(name)) for name in run]
            else:
                numbers = [f"i64 {w}" for w in run]
                fields.append((f"[{len(numbers)} x i64]", f"[{', '.join(numbers)}]"))
        kind, text = ", ".join(k for k, _ in fields), ", ".join(f"{k} {v}" for k, v in fields)
        kind, text = fields[0] if len(fields) == 1 else (f"{{ {kind} }}", f"{{ {text} }}")
        module.globals[name] = f"@{name} = private constant {kind} {text}, align 8"
        module.contents[name] = tuple(words)
        module.named_by[name] = [w[1:] for w in words if isinstance(w, str)]
    return lambda f: f.symbol(made[key])


def word(pointer: Value, at: int) -> Value:
    """Word `at` of a table."""
    return Pointer(pointer, I64)[at]

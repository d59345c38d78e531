"""Functions that are not kernels: they return values, return early, and call one another by name.

    module = native.module("bridge", target)
    count = module.variable("count", I64)

    @module.define("next", I64, step=I64)
    def following(f: Function, step: Value) -> Value:
        return count(f).add(step)

`following(f, step)` then calls it in another function of the module.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.places import Place
from xlanb.codegen.types import I8, PTR, VOID, Type
from xlanb.codegen.values import Value
from xlanb.lazy_dataclass import dataclass

Body = Callable[..., Value | None]


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A function of a module; calling it in another function of the module emits the call."""

    name: str
    result: Type

    def __call__(self, f: Function, *arguments: Value) -> Value:
        given = ", ".join(repr(a) for a in arguments)
        text = f"call {self.result.text} {f.symbol(self.name).text}({given})"
        if self.result is VOID:
            f.write(text)
            return f.poison(VOID)
        return f.let(self.result, text)

    def address(self, f: Function) -> Value:
        """The address of its code."""
        return f.symbol(self.name)


class NativeModule:
    """A module of such functions."""

    def __init__(self, name: str, target: CodegenTarget) -> None:
        self._builder = ModuleBuilder(name, target)
        self.target = target

    def define(
        self, name: str, result: Type, *, exported: bool = False, **parameters: Type
    ) -> Callable[[Body], NativeFunction]:
        """Define a function; the body gets the function and the parameters' values.

        It returns the result.
        """

        def write(body: Body) -> NativeFunction:
            given = [Parameter(type_, p) for p, type_ in parameters.items()]
            linkage = "" if exported else "internal"
            f = Function(self._builder, name, given, "nounwind", None, linkage)
            self._builder.functions.append(f)
            f.result = result
            value = body(f, *(f.argument(p) for p in given))
            if value is not None:
                f.give(value)
            return NativeFunction(name, result)

        return write

    def variable(
        self, name: str, type_: Type, count: int = 1, *, first: int = 0, exported: bool = False, external: bool = False
    ) -> NativeVariable:
        """Define a variable of the process, zero except for its first value.

        With more than one word, it is an array aligned to a cache line. An `external` one is
        defined in another module.
        """
        words = [f"{type_.text} {'null' if type_ is PTR else k}" for k in (first, *[0] * (count - 1))]
        kind, initial = (
            (f"[{count} x {type_.text}]", f"[{', '.join(words)}]") if count > 1 else (type_.text, words[0].split()[1])
        )
        linkage = "external " if external else "" if exported else "internal "
        content = kind if external else f"{kind} {initial}"
        self._builder.globals[name] = f"@{name} = {linkage}global {content}, align {64 if count > 1 else 8}"
        return NativeVariable(name, type_)

    def external(self, name: str) -> NativeVariable:
        """An external symbol of which only the address is used."""
        return self.variable(name, I8, external=True)

    def text(self) -> str:
        """The module as LLVM IR."""
        return self._builder.text()


@dataclass(frozen=True, slots=True)
class NativeVariable:
    """A variable of a module; calling it with a function returns the place to access."""

    name: str
    type: Type

    def __call__(self, f: Function) -> Place:
        return Place(self.address(f), self.type)

    def address(self, f: Function) -> Value:
        """The address of the variable."""
        return f.symbol(self.name)


def stack(f: Function, size: int) -> Value:
    """Stack memory of the given size in bytes, aligned to a cache line."""
    return f.alloca(I8, size)


def null(f: Function) -> Value:
    """The null pointer."""
    return f.const(PTR, 0)

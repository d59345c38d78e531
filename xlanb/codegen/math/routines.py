"""Out-of-line functions for code that a kernel would otherwise inline many times.

Each has about thirty lines.

    %v7 = call <32 x float> @xlanb.sin.v32f32(<32 x float> %v6)

A kernel with two hundred sines compiles in a quarter of the time, and is only a few nanoseconds per
vector slower. Kernels with few uses inline the code, and so do programs to be read (with debug
locations), where each line belongs to its HLO instruction. Functions of scalars are called only in
much larger kernels: the call costs them more, and only long blocks of them are slow to compile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.values import Value

MANY = 6
"""Uses of a function in a kernel from which on it is called."""
_MANY_SCALARS = 64
"""The same for scalar code."""
_ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'


def is_called(name: str, arguments: Sequence[Value]) -> bool:
    """Whether a function is called instead of inlined for arguments of this type."""
    uses = arguments[0].function.uses.get(name, 0)
    return uses >= (MANY if arguments[0].type.lanes else _MANY_SCALARS)


def call(name: str, write: Callable[..., Value], arguments: Sequence[Value]) -> Value:
    """Call a function with arguments of one type; `write(*values)` emits its body on first use."""
    f, type_ = arguments[0].function, arguments[0].type
    symbol = f"xlanb.{name}.{type_.mangled}"
    if symbol not in f.module.declarations:
        f.module.declarations[symbol] = _text(
            f, symbol, write, [Parameter(type_, f"a{k}") for k in range(len(arguments))]
        )
    f.symbols.add(symbol)
    return f.pure(type_, f"call {type_.text} @{symbol}({', '.join(repr(a) for a in arguments)})", *arguments)


def _text(f: Function, symbol: str, write: Callable[..., Value], parameters: Sequence[Parameter]) -> str:
    """The whole definition. It is not in the module's list: each unit has its own copy."""
    g = Function(f.module, symbol, parameters, _ATTRIBUTES, None, "internal")
    with g.vectorized(parameters[0].type.lanes):
        made = write(*(g.argument(p) for p in parameters))
    f.module.named_by[symbol] = g.symbols
    head = f"define internal {made.type.text} @{symbol}({', '.join(map(str, parameters))}) {_ATTRIBUTES} {{"
    return "\n".join([head, "entry:", *g.body, f"  ret {made!r}", "}"])

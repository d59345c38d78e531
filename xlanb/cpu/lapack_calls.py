"""What machine code calls in place of a LAPACK or BLAS routine: a function that keeps the thread in the routine until it returns.

A thread that computes may be stopped anywhere by a signal (see xlanb.cpu.guard), but not within a library that holds
locks and buffers of its own. What was asked meanwhile takes effect when the routine returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import I64, PTR, VOID
from xlanb.cpu import guard, jit, lapack
from xlanb.cpu.bridge import bridge
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units

_MODE = 3
"""The word of a thread's record that says whether it may be stopped."""
_CODE: list[jit.LoadedCode] = []
"""The functions live as long as the process: programs of any age call them."""


def symbols(names: Sequence[str]) -> dict[str, int]:
    """The addresses behind those of the symbols that are routines of LAPACK or BLAS."""
    return {name: entry(name.removeprefix(lapack.PREFIX)) for name in names if name.startswith(lapack.PREFIX)}


@cache
def entry(routine: str) -> int:
    """The address of the function that calls a routine."""
    target = jit.host()
    module = ModuleBuilder(routine, target)
    parameters = [Parameter(PTR, f"a{k}") for k in range(lapack.parameter_count(routine))]
    f = Function(module, f"enter.{routine}", parameters, "nounwind", None, "")
    module.functions.append(f)
    record = f.call(PTR, guard.RECORD)
    mode = Pointer(record, I64).by(_MODE)
    before = mode[0]
    mode[0] = f.const(I64, 0)
    f.call(VOID, f"{lapack.PREFIX}{routine}", *(f.argument(p) for p in parameters))
    mode[0] = before
    f.call(VOID, guard.CHECK, record)
    called = {f"{lapack.PREFIX}{routine}": lapack.address(routine)}
    objects = compile_units([Unit(module.text(), ready=True, weight=0)], target)
    code = jit.LoadedCode(objects, [f.name], called | bridge().symbols(guard.RECORD, guard.CHECK))
    _CODE.append(code)
    return code.address(f.name)


__all__ = ["entry", "symbols"]

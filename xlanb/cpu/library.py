"""Link objects: a program's, and shared routines.

Routines are compiled and linked once per process (see codegen.routines).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.target import Target
from xlanb.cpu import lapack_calls
from xlanb.cpu.codegen.program import Program
from xlanb.cpu.codegen.steps import STEPS, image
from xlanb.cpu.objects import Ahead, compile_units
from xlanb.cpu.runtime import bridge as bridges
from xlanb.cpu.runtime import pool
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.guard import HOST

_ROUTINES: dict[tuple[Target, str], tuple[jit.LoadedCode, int]] = {}
"""Code and address of each routine, by target and IR; never unloaded."""


def symbols(declared: Iterable[str]) -> dict[str, int]:
    """Addresses of functions of this process: polling functions and those in `declared`.

    They may be the pool, calls of Python objects, and LAPACK and BLAS routines.
    """
    names = list(declared)
    found = bridge().symbols(ATTENTION, CHECK, *(name for name in names if name == HOST))
    if PARALLEL in names:
        found[PARALLEL] = pool.address()
    return found | lapack_calls.symbols(names)


class ProgramCode:
    """A loaded program: the function `run(args, results, temp, table)`.

    `table` is the table of its steps, or 0 if the program has code for them.
    """

    def __init__(self, run: int, table: int, kept: Any) -> None:
        self.run = run
        self.table = table
        self._kept = kept

    def __call__(self, args: Any, results: Any, temp: Any) -> None:
        """Run it with the addresses of argument and result tables and arena; releases the GIL."""
        _RUN(self.run)(args, results, temp, self.table)


_RUN = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)


def load(
    program: Program, symbols: Callable[[], Mapping[str, int]], kept: Any = None, ahead: Ahead | None = None
) -> ProgramCode:
    """Load a program; `symbols` returns what LoadedCode takes, and `kept` is as there.

    `ahead` has modules that were compiled while the program was emitted.

    The symbols of a process's first program take a while; meanwhile another thread compiles.

    Raises:
        CompilationError: LLVM rejects the IR, or a symbol is missing.
    """
    given: dict[str, int] = {}
    units, steps = program.parts()
    target = program.target
    own = [u for u in units if not u.shared]
    routines = [u for u in units if u.shared]
    missing = [u for u in routines if (target, u.text) not in _ROUTINES]
    is_first = not bridges.is_loaded()
    meanwhile = (lambda: given.update(symbols())) if is_first else None
    made = iter(compile_units([*own, *missing], target, meanwhile, ahead))
    if not is_first:
        given.update(symbols())
    objects = [next(made) for _ in own]
    if missing:
        code = jit.LoadedCode(list(made), [u.shared for u in missing], bridge().symbols(ATTENTION, CHECK))
        for u in missing:
            _ROUTINES.setdefault((target, u.text), (code, code.address(u.shared)))
    found = {u.shared: _ROUTINES[target, u.text] for u in routines}
    addresses = {**{name: address for name, (_, address) in found.items()}, **given}
    used = [code for code, _ in found.values()]
    if steps is None:
        code = jit.LoadedCode(objects, ["run"], addresses, (kept, used))
        return ProgramCode(code.address("run"), 0, code)
    kernels = [name for name in dict.fromkeys(steps.functions) if name not in addresses]
    loaded = jit.LoadedCode(objects, kernels, addresses, (kept, used)) if kernels else None
    if loaded is not None:
        addresses |= {name: loaded.address(name) for name in kernels}
    table, memory = image(steps, program.module.contents, addresses)
    return ProgramCode(addresses[STEPS], table, (memory, loaded, kept, used))

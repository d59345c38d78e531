"""Objects put together: those of a program, and the routines that it shares with others, which are compiled and linked once in a process (see codegen.routines)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xlanb.codegen import jit
from xlanb.codegen.function import PARALLEL
from xlanb.codegen.polling import ATTENTION, CHECK
from xlanb.codegen.target import Target
from xlanb.cpu import lapack_calls
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import pool
from xlanb.cpu.runtime.bridge import bridge
from xlanb.cpu.runtime.guard import HOST

_ROUTINES: dict[tuple[Target, str], tuple[jit.LoadedCode, int]] = {}
"""Code and address of each routine by its target and its IR; they stay, as those of any library do."""
_FIXED: dict[tuple[Target, str], bytes] = {}
"""The objects of the modules that any program may have."""


def symbols(declared: Iterable[str]) -> dict[str, int]:
    """The addresses of functions of this process: what programs poll with and, of the declared ones, the pool, the call of Python objects, and routines of LAPACK and BLAS."""
    names = list(declared)
    found = bridge().symbols(ATTENTION, CHECK, *(name for name in names if name == HOST))
    if PARALLEL in names:
        found[PARALLEL] = pool.address()
    return found | lapack_calls.symbols(names)


def load(units: Sequence[Unit], target: Target, symbols: Mapping[str, int], kept: Any = None) -> jit.LoadedCode:
    """A program's modules as code that is ready to run from `run`; `symbols` and `kept` as in LoadedCode.

    Raises:
        CompilationError: LLVM refuses the IR, or a symbol is missing.
    """
    own = [u for u in units if not u.shared]
    routines = [u for u in units if u.shared]
    missing = [u for u in routines if (target, u.text) not in _ROUTINES]
    fixed = {u: _FIXED[target, u.text] for u in own if (target, u.text) in _FIXED}
    made = iter(compile_units([*(u for u in own if u not in fixed), *missing], target))
    objects = [fixed[u] if u in fixed else next(made) for u in own]
    _FIXED.update({(target, u.text): data for u, data in zip(own, objects, strict=True) if u.everywhere})
    if missing:
        code = jit.LoadedCode(list(made), [u.shared for u in missing], bridge().symbols(ATTENTION, CHECK))
        for u in missing:
            _ROUTINES.setdefault((target, u.text), (code, code.address(u.shared)))
    found = {u.shared: _ROUTINES[target, u.text] for u in routines}
    addresses = {name: address for name, (_, address) in found.items()}
    used = [code for code, _ in found.values()]
    return jit.LoadedCode(objects, ["run"], {**addresses, **symbols}, (kept, used))

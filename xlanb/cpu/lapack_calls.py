"""What machine code calls as a LAPACK or BLAS routine: the routine, or a function that runs it on one thread.

A routine under the prefix SERIAL runs on one thread: OpenBLAS's own threads are off while such a call lasts, in the
whole process, as threadpoolctl does it. For small matrices, and where xlanb's threads share a batch, they would wait
for one another most of the time, a hundred times as long as the work takes if the machine is busy.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from importlib import import_module

import numpy as np

from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.types import I32, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu import jit, lapack
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.lapack import PREFIX, SERIAL
from xlanb.cpu.objects import compile_units

_CODE: list[jit.LoadedCode] = []
"""The functions live as long as the process: programs of any age call them."""
LIMIT = np.zeros(4, np.int32)
"""A lock, how many calls on one thread there are, OpenBLAS's threads before the first of them."""
GET, SET = "openblas.get", "openblas.set"


def symbols(names: Sequence[str]) -> dict[str, int]:
    """The addresses behind those of the symbols that are routines of LAPACK or BLAS."""
    return {name: entry(name) for name in names if name.startswith(PREFIX)}


@cache
def entry(symbol: str) -> int:
    """The address of the routine behind a symbol, or of the function that calls it on one thread."""
    routine, target = symbol.removeprefix(SERIAL).removeprefix(PREFIX), jit.host()
    limits = openblas() if symbol.startswith(SERIAL) else {}
    if not limits:
        return lapack.address(routine)
    module = ModuleBuilder(routine, target)
    parameters = [Parameter(PTR, f"a{k}") for k in range(lapack.parameter_count(routine))]
    f = Function(module, f"enter.{routine}", parameters, "nounwind", None, "")
    module.functions.append(f)
    called = {symbol: lapack.address(routine)}
    _enter(f)
    f.call(VOID, symbol, *(f.argument(p) for p in parameters))
    _leave(f)
    objects = compile_units([Unit(module.text(), ready=True, weight=0)], target)
    code = jit.LoadedCode(objects, [f.name], called | limits)
    _CODE.append(code)
    return code.address(f.name)


@cache
def openblas() -> dict[str, int]:
    """The functions that say and set how many threads SciPy's OpenBLAS has; none if SciPy has another BLAS."""
    library = ctypes.CDLL(import_module("scipy.linalg.cython_blas").__file__)
    for prefix in ("scipy_openblas", "openblas"):
        names = {GET: f"{prefix}_get_num_threads", SET: f"{prefix}_set_num_threads"}
        if all(hasattr(library, name) for name in names.values()):
            # a thread that held the lock while another forked is not in the child
            os.register_at_fork(after_in_child=lambda: LIMIT.fill(0))
            return {k: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for k, name in names.items()}
    return {}


def _state(f: Function) -> Pointer:
    return Pointer(f.let(PTR, f"inttoptr i64 {LIMIT.ctypes.data} to ptr"), I32)


def _locked(f: Function) -> Pointer:
    """Take the lock, which is held for some nanoseconds at a time."""
    state = _state(f)
    with f.rounds([]) as loop:
        held = f.let(I32, f"atomicrmw xchg {state.base!r}, i32 1 acquire")
        loop.again = held.differs(0)
    return state


def _release(f: Function, lock: Value) -> None:
    f.write(f"store atomic i32 0, {lock!r} release, align 4")


def _enter(f: Function) -> None:
    """Turn OpenBLAS's threads off, in the first of several calls."""
    state = _locked(f)
    with f.when(state[1].equals(0)):
        state[2] = f.call(I32, GET)
        f.call(VOID, SET, f.const(I32, 1))
    state[1] = state[1] + 1
    _release(f, state.base)


def _leave(f: Function) -> None:
    """Turn them on again, in the last of several calls."""
    state = _locked(f)
    state[1] = state[1] - 1
    with f.when(state[1].equals(0)):
        f.call(VOID, SET, state[2])
    _release(f, state.base)


__all__ = ["GET", "LIMIT", "entry", "openblas", "symbols"]

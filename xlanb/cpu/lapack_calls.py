"""The functions that machine code calls as LAPACK or BLAS routines: the routine, or a wrapper that
runs it on one thread.

A routine under the prefix SERIAL runs on one thread: OpenBLAS's own threads are off while such a call lasts, in the
whole process, as threadpoolctl does it. For small matrices, and where xlanb's threads share a batch, they would wait
for one another most of the time, a hundred times as long as the work takes if the machine is busy.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module

import numpy as np

from xlanb.codegen import jit
from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.native import NativeModule, NativeVariable
from xlanb.codegen.types import I32, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu import lapack
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
    module, name = NativeModule(routine, target), f"enter.{routine}"
    state = module.variable("state", I32, external=True)

    @module.define(name, VOID, exported=True, **{f"a{k}": PTR for k in range(lapack.parameter_count(routine))})
    def enter(f: Function, *arguments: Value) -> None:
        _enter(f, state)
        f.call(VOID, symbol, *arguments)
        _leave(f, state)

    objects = compile_units([Unit(module.text(), ready=True, weight=0)], target)
    called = {symbol: lapack.address(routine), state.name: LIMIT.ctypes.data}
    code = jit.LoadedCode(objects, [name], called | limits)
    _CODE.append(code)
    return code.address(name)


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


@contextmanager
def _locked(f: Function, state: NativeVariable) -> Iterator[Pointer]:
    """The state under its lock, which is held for some nanoseconds at a time."""
    with f.rounds([]) as loop:
        loop.again = state(f).exchange(1, "acquire").differs(0)
    yield Pointer(state.address(f), I32)
    state(f).store(0, "release")


def _enter(f: Function, state: NativeVariable) -> None:
    """Turn OpenBLAS's threads off, in the first of several calls."""
    with _locked(f, state) as words:
        with f.when(words[1].equals(0)):
            words[2] = f.call(I32, GET)
            f.call(VOID, SET, f.const(I32, 1))
        words[1] = words[1] + 1


def _leave(f: Function, state: NativeVariable) -> None:
    """Turn them on again, in the last of several calls."""
    with _locked(f, state) as words:
        words[1] = words[1] - 1
        with f.when(words[1].equals(0)):
            f.call(VOID, SET, words[2])


__all__ = ["GET", "LIMIT", "entry", "openblas", "symbols"]

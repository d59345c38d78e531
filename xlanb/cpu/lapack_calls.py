"""The functions that machine code calls as LAPACK or BLAS routines, some on one thread only.

A routine with the prefix SERIAL runs on one thread: OpenBLAS's threads are disabled in the whole
process during the call, as threadpoolctl does it. For small matrices, and if xlanb's threads share
a batch, OpenBLAS's threads would mostly wait for one another, up to a hundred times as long as the
work takes on a busy machine.
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
"""A lock, the number of single-threaded calls, OpenBLAS's thread count before the first."""
GET, SET = "openblas.get", "openblas.set"


def symbols(names: Sequence[str]) -> dict[str, int]:
    """The addresses of those symbols that are LAPACK or BLAS routines."""
    return {name: entry(name) for name in names if name.startswith(PREFIX)}


@cache
def entry(symbol: str) -> int:
    """The address of the routine of a symbol, or of a function that calls it on one thread."""
    if not symbol.startswith(SERIAL):
        return lapack.address(symbol.removeprefix(PREFIX))
    routine, count = symbol.removeprefix(SERIAL).split(".")
    limits, target = openblas(), jit.host()
    if not limits:
        return lapack.address(routine)
    module, name = NativeModule(routine, target), f"enter.{routine}"
    state = module.variable("state", I32, external=True)

    @module.define(name, VOID, exported=True, **{f"a{k}": PTR for k in range(int(count))})
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
    """The functions that get and set OpenBLAS's thread count; empty if SciPy has another BLAS."""
    library = lapack.library() or ctypes.CDLL(import_module("scipy.linalg.cython_blas").__file__)
    for prefix in ("scipy_openblas", "openblas"):
        names = {GET: f"{prefix}_get_num_threads", SET: f"{prefix}_set_num_threads"}
        if all(hasattr(library, name) for name in names.values()):
            # a thread that held the lock while another forked is not in the child
            os.register_at_fork(after_in_child=lambda: LIMIT.fill(0))
            return {k: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for k, name in names.items()}
    return {}


@contextmanager
def _locked(f: Function, state: NativeVariable) -> Iterator[Pointer]:
    """The state under its lock, held for nanoseconds at a time."""
    with f.rounds([]) as loop:
        loop.again = state(f).exchange(1, "acquire").differs(0)
    yield Pointer(state.address(f), I32)
    state(f).store(0, "release")


def _enter(f: Function, state: NativeVariable) -> None:
    """Disable OpenBLAS's threads at the first of several calls."""
    with _locked(f, state) as words:
        with f.when(words[1].equals(0)):
            words[2] = f.call(I32, GET)
            f.call(VOID, SET, f.const(I32, 1))
        words[1] = words[1] + 1


def _leave(f: Function, state: NativeVariable) -> None:
    """Enable them again at the last of several calls."""
    with _locked(f, state) as words:
        words[1] = words[1] - 1
        with f.when(words[1].equals(0)):
            f.call(VOID, SET, words[2])


__all__ = ["GET", "LIMIT", "entry", "openblas", "symbols"]

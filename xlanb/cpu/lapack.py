"""SciPy's LAPACK: the addresses of its routines, which machine code calls as Fortran does, and the workspace that they want."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib import import_module

import numpy as np

PREFIX = "lapack."
"""Symbols of the routines begin with it: lapack.dgeev."""


@cache
def address(routine: str) -> int:
    """The address of a routine, as "dgeev"; each argument of it is a pointer.

    Raises:
        KeyError: SciPy has none of this name.
    """
    capsule = import_module("scipy.linalg.cython_lapack").__pyx_capi__[routine]
    name, pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, name(capsule)))


def symbols(names: Sequence[str]) -> dict[str, int]:
    """The addresses behind those of the symbols that are routines of LAPACK's."""
    return {name: address(name.removeprefix(PREFIX)) for name in names if name.startswith(PREFIX)}


@lru_cache(maxsize=1024)
def workspace(routine: str, arguments: tuple[int | str | None, ...], at: int, dtype: str) -> int:
    """The elements of workspace that a routine wants: `arguments` are its integers and letters, None where it has an array; the workspace is argument `at`, its size the one behind it."""
    room = np.zeros(4, dtype)
    given: list[ctypes.c_void_p] = []
    kept = []
    for n, value in enumerate(arguments):
        value = -1 if n == at + 1 else value
        held = ctypes.c_char(value.encode()) if isinstance(value, str) else ctypes.c_int32(value or 0)
        kept.append(held)
        is_array = value is None
        where = room.ctypes.data if is_array and n == at else ctypes.addressof(_NOTHING if is_array else held)
        given.append(ctypes.c_void_p(where))
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(address(routine))(*given)
    return max(int(room[0].real), 1)


_NOTHING = (ctypes.c_double * 16)()

__all__ = ["PREFIX", "address", "symbols", "workspace"]

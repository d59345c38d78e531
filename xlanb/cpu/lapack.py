"""LAPACK and BLAS by SciPy: the addresses of their routines, which machine code calls as Fortran does, and the workspace that they want.

SciPy gives them as the capsules of scipy.linalg.cython_lapack and scipy.linalg.cython_blas. A call of one cannot be
interrupted: a signal or a cancellation takes effect when it returns (seconds for matrices of some thousand rows).
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

PREFIX = "lapack."
"""Symbols of the routines begin with it: lapack.dgeev."""
SERIAL = "lapack.serial."
"""Symbols of single-threaded variants: lapack.serial.dgeev (see xlanb.cpu.lapack_calls)."""
_MODULES = ("scipy.linalg.cython_lapack", "scipy.linalg.cython_blas")


@cache
def address(routine: str) -> int:
    """The address of a routine of LAPACK or BLAS, as "dgeev" or "dtrsm"; each argument of it is a pointer.

    Raises:
        KeyError: SciPy has none of this name.
    """
    capsule = _capsule(routine)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, _c_type(capsule)))


def parameter_count(routine: str) -> int:
    """How many arguments a routine takes."""
    return _c_type(_capsule(routine)).count(b",") + 1


def _capsule(routine: str) -> Any:
    for name in _MODULES:
        capsules = import_module(name).__pyx_capi__
        if routine in capsules:
            return capsules[routine]
    raise KeyError(f"neither {' nor '.join(_MODULES)} has a routine {routine}")


def _c_type(capsule: Any) -> bytes:
    """The type of the function behind a capsule, as C has it: the capsule's name."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(name(capsule))


@lru_cache(maxsize=1024)
def workspace(routine: str, arguments: tuple[int | str | None, ...], at: int, dtype: str) -> int:
    """The elements of workspace that a routine wants: `arguments` are its integers and letters, None where it has an array; the workspace is argument `at`, its size the one behind it."""
    given: list[ctypes.c_void_p] = []
    kept: list[object] = []
    for n, value in enumerate(arguments):
        value = -1 if n == at + 1 else value
        # each array is memory of its own: a query sets the first element of workspaces, and info
        held = (
            np.zeros(4, dtype)
            if value is None
            else np.frombuffer(bytearray(value.encode()), np.uint8)
            if isinstance(value, str)
            else np.array([value], np.int32)
        )
        kept.append(held)
        given.append(ctypes.c_void_p(held.ctypes.data))
    room: Any = kept[at]
    ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(given))(address(routine))(*given)
    return max(int(room[0].real), 1)


__all__ = ["PREFIX", "SERIAL", "address", "parameter_count", "workspace"]

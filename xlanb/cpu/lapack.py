"""Addresses of SciPy's LAPACK and BLAS routines, and queries of their workspace sizes.

Machine code calls them as Fortran does. SciPy exports them as capsules in
scipy.linalg.cython_lapack and scipy.linalg.cython_blas. A call cannot be interrupted: a signal or a
cancellation takes effect when it returns (seconds for matrices of some thousand rows).
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from importlib import import_module
from typing import Any

import numpy as np

PREFIX = "lapack."
"""The prefix of the routines' symbols, as in lapack.dgeev."""
SERIAL = "lapack.serial."
"""The prefix of single-threaded variants, as in lapack.serial.dgeev (see lapack_calls)."""
_MODULES = ("scipy.linalg.cython_lapack", "scipy.linalg.cython_blas")


@cache
def address(routine: str) -> int:
    """The address of a LAPACK or BLAS routine such as "dgeev"; all its arguments are pointers.

    Raises:
        KeyError: SciPy has no routine of this name.
    """
    capsule = _capsule(routine)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, _c_type(capsule)))


def parameter_count(routine: str) -> int:
    """The number of arguments of a routine."""
    return _c_type(_capsule(routine)).count(b",") + 1


def _capsule(routine: str) -> Any:
    for name in _MODULES:
        capsules = import_module(name).__pyx_capi__
        if routine in capsules:
            return capsules[routine]
    raise KeyError(f"neither {' nor '.join(_MODULES)} has a routine {routine}")


def _c_type(capsule: Any) -> bytes:
    """The C type of the function behind a capsule, which is the capsule's name."""
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return bytes(name(capsule))


@lru_cache(maxsize=1024)
def workspace(routine: str, arguments: tuple[int | str | None, ...], at: int, dtype: str) -> int:
    """The number of workspace elements that a routine needs.

    `arguments` are its integers and letters, None for arrays. The workspace is argument `at`, its
    size the next one.
    """
    given: list[ctypes.c_void_p] = []
    kept: list[object] = []
    for n, value in enumerate(arguments):
        value = -1 if n == at + 1 else value
        # separate memory for each array: a query writes the first element of workspaces, and info
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

"""Addresses of SciPy's LAPACK and BLAS routines, and queries of their workspace sizes.

Machine code calls them as Fortran does. They are found in the OpenBLAS of SciPy's wheels, which
takes 3 ms to load; importing scipy.linalg takes 170. For a SciPy with another library they are the
capsules of scipy.linalg.cython_lapack and scipy.linalg.cython_blas. A call cannot be interrupted: a
signal or a cancellation takes effect when it returns (seconds for matrices of some thousand rows).
"""

from __future__ import annotations

import ctypes
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from xlanb.lazy_logging import logger

_LOG = logger("xlanb.cpu")
PREFIX = "lapack."
"""The prefix of the routines' symbols, as in lapack.dgeev."""
SERIAL = "lapack.serial."
"""The prefix of single-threaded variants, as in lapack.serial.dgeev.14 of 14 arguments (see
lapack_calls).
"""
_MODULES = ("scipy.linalg.cython_lapack", "scipy.linalg.cython_blas")
_WHEEL = "scipy_"
"""The prefix of routines in the OpenBLAS of SciPy's wheels."""


@cache
def address(routine: str) -> int:
    """The address of a LAPACK or BLAS routine such as "dgeev"; all its arguments are pointers.

    Raises:
        KeyError: SciPy has no routine of this name.
    """
    found = getattr(library(), f"{_WHEEL}{routine}_", None)
    if found is not None:
        return ctypes.cast(found, ctypes.c_void_p).value or 0
    capsule = _capsule(routine)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, _c_type(capsule)))


@cache
def library() -> ctypes.CDLL | None:
    """SciPy's extension module of LAPACK with the libraries that it loads.

    It is not imported. None if it is not where SciPy's wheels have it, or cannot be loaded alone.
    """
    spec = find_spec("scipy")
    for folder in (spec and spec.submodule_search_locations) or ():
        for suffix in EXTENSION_SUFFIXES:
            path = Path(folder, "linalg", f"cython_lapack{suffix}")
            if path.is_file():
                try:
                    return ctypes.CDLL(str(path))
                except OSError as error:
                    _LOG.info("SciPy's LAPACK is imported: %s", error)
    return None


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


__all__ = ["PREFIX", "SERIAL", "address", "library", "workspace"]

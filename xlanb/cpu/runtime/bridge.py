"""The native code that is loaded once per process, and the tables that it reads.

Invariants
- Ownership: there is one `Bridge` per process, as records of threads and the pool's state are
  shared. It lives until the process ends, since entries may be called during interpreter shutdown,
  and the watcher runs in its code. A table belongs to the object that runs the program, which keeps
  it at its address.
- Fields of an ndarray are read at their offsets in NumPy's C API; `reads_arrays` says whether the
  offsets are right, and no entry is made otherwise.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from xlanb.codegen import jit
from xlanb.codegen.native import NativeModule
from xlanb.codegen.target import Target
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.cpu.runtime import entry, freed_memory, guard, result_memory
from xlanb.cpu.runtime.layouts import EntryLayout, PyArrayObject, TableLayout
from xlanb.errors import CancelledError

_LOCK = threading.RLock()
_NEW_FROM_DESCR = 94
"""The index of PyArray_NewFromDescr in NumPy's function table."""
_API = (
    "PyTuple_GetItem PyTuple_New PyTuple_SetItem PyLong_AsVoidPtr PyLong_FromVoidPtr PyObject_Vectorcall "
    "PyEval_SaveThread PyEval_RestoreThread "
    "PyGILState_Ensure PyGILState_Release PyErr_CheckSignals PyErr_SetObject PyErr_NoMemory PyErr_Clear "
    "Py_IncRef Py_DecRef PyTraceMalloc_Track"
).split()


def text(target: Target) -> str:
    """The LLVM IR of the native code."""
    m = NativeModule("xlanb.bridge", target)
    guarded = guard.write(m)
    entry.write(m, guarded, *result_memory.write(m))
    return m.text()


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Bridge:
    """The loaded functions; one per process (`bridge()`)."""

    def __init__(self) -> None:
        target = jit.host()
        memory = result_memory.ResultMemory()
        symbols = {name: _address(getattr(ctypes.pythonapi, name)) for name in _API}
        symbols |= {
            "ndarray": id(np.ndarray),
            "new_array": _numpy_function(_NEW_FROM_DESCR),
            "handler": id(memory.capsule),
            "cancelled_error": id(CancelledError),
        }
        objects = compile_units([Unit(text(target), ready=True, weight=0, everywhere=True)], target)
        own = {name: f"xlanb.memory.{name}" for name in result_memory.FUNCTIONS}
        exports = [entry.CALL, entry.ENTRY, freed_memory.LIMIT, freed_memory.IDLE, *guard.SYMBOLS, *own.values()]
        self.code = jit.LoadedCode(objects, exports, symbols)
        memory.connect({name: self.code.address(symbol) for name, symbol in own.items()})
        self.memory = memory
        self.code.function(freed_memory.LIMIT, 1)(freed_memory.limit())
        # It is called with the GIL held: an exception that a signal handler has set is raised when
        # the call returns.
        self.call = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(self.code.address(entry.CALL))
        self.cancel = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.code.address(guard.CANCEL))
        self.reads_arrays = _fields_are_where_expected()
        self._method = _MethodDef(b"call", self.code.address(entry.ENTRY), 0x80, None)  # METH_FASTCALL
        self._new_function = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
        )(_address(ctypes.pythonapi.PyCMethod_New))

    def entry(self, unusual: Callable[..., Any], address: int, table: Any, message: str) -> Callable[..., Any]:
        """A function that runs the program of a table (see layouts.py) at `address`.

        Arguments that do not fit go to `unusual`. `message` is that of the CancelledError.
        """
        made: Callable[..., Any] = self._new_function(
            ctypes.addressof(self._method), (unusual, address, table, message), None, None
        )
        return made

    def symbols(self, *names: str) -> dict[str, int]:
        """The addresses of symbols that other modules refer to (`guard.SYMBOLS`), by name."""
        return {name: self.code.address(name) for name in names}


@cache
def bridge() -> Bridge:
    """The bridge of this process.

    There must be only one: records of threads and the pool's state are shared.
    """
    with _LOCK:
        return _bridge()


def is_loaded() -> bool:
    """Whether there is one already."""
    return bool(_bridge.cache_info().currsize)


@cache
def _bridge() -> Bridge:
    made = Bridge()
    # Entries may be called even during interpreter shutdown; the watcher runs until the process
    # ends.
    for kept in (made, made.code):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    begin, forked = (made.code.function(name, 1) for name in (guard.BEGIN, guard.FORKED))
    begin(threading.main_thread().ident)
    os.register_at_fork(after_in_child=lambda: forked(threading.main_thread().ident))
    return made


_WORD = 8
CANCELLATION_AT, RUNNING_WORD = TableLayout.cancelled.offset, TableLayout.running.offset // _WORD
"""The byte offset of a table's `Cancellation`, and the word that counts its executions."""
_FREE_ARENA = TableLayout.free_arena.offset // _WORD
Array = tuple["np.dtype[Any]", tuple[int, ...], tuple[int, ...] | None]
"""An array's dtype, its dimensions and, if it is not row-major, its strides."""


def table(run: int, steps: int, temp: int, arrays: Sequence[Array], results: int, flags: int) -> Any:
    """The table of a program, which must be kept alive and not moved.

    `steps` is the table of its steps (or 0); `arrays` are its arguments, then its `results`
    results.
    """
    head, each = ctypes.sizeof(TableLayout) // _WORD, ctypes.sizeof(EntryLayout) // _WORD
    words = head + each * len(arrays)
    sizes = [d for _, dims, strides in arrays for d in (*dims, *(strides or ()))]
    memory = np.zeros(words + len(sizes), np.int64)
    base = memory.ctypes.data
    memory[:head] = run, steps, len(arrays) - results, results, temp, flags, 0, 0, 0
    memory[words:] = sizes
    at = words
    for k, (dtype, dims, strides) in enumerate(arrays):
        beyond = at + len(dims)
        size = math.prod(dims) * dtype.itemsize
        place = base + _WORD * beyond if strides else 0
        memory[head + each * k : head + each * (k + 1)] = (
            id(dtype),
            len(dims),
            base + _WORD * at,
            place,
            result_memory.large(size),
        )
        at = beyond + len(strides or ())
    return memory


def free_arena(memory: Any) -> None:
    """Free the arena that a table keeps."""
    address, memory[_FREE_ARENA] = int(memory[_FREE_ARENA]), 0
    if address:
        _free(address)


_free = ctypes.CDLL(None).free if sys.platform != "win32" else ctypes.cdll.msvcrt.free
_free.argtypes = [ctypes.c_void_p]
_free.restype = None


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _numpy_function(place: int) -> int:
    """The address of a function of NumPy's C API."""
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    functions = get(np._core._multiarray_umath._ARRAY_API, None)  # type: ignore[attr-defined]  # noqa: SLF001 - where import_array() finds it
    return int(ctypes.c_void_p.from_address(functions + 8 * place).value or 0)


def _fields_are_where_expected() -> bool:
    """Whether an ndarray's fields are where `PyArrayObject` has them.

    That requires a 64-bit CPython whose objects begin with a reference count and a type.
    """
    if sys.implementation.name != "cpython" or _is_free_threaded() or object.__basicsize__ != 16:
        return False
    probe = np.zeros((2, 3, 5), np.float32)
    seen = PyArrayObject.from_address(id(probe))
    if (seen.ob_type, seen.data, seen.nd) != (id(np.ndarray), probe.ctypes.data, probe.ndim):
        return False
    return (
        tuple((ctypes.c_int64 * 3).from_address(seen.dimensions)) == probe.shape
        and seen.descr == id(probe.dtype)
        and seen.flags == probe.flags.num
        and np.ndarray.__basicsize__ >= ctypes.sizeof(PyArrayObject)
        and result_memory.is_handler(seen.mem_handler or 0)
    )


def _is_free_threaded() -> bool:
    """Whether this is a build of CPython without the GIL."""
    if not hasattr(sys, "_is_gil_enabled"):  # older than 3.13
        return False
    import sysconfig  # reading its variables takes milliseconds

    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))

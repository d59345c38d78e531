"""Between Python and compiled programs, in LLVM IR that is loaded once: calls.

`xlanb.call(run, args, results, temp, extra, word)` runs a program without the GIL, and gives why it ended (see xlanb.cpu.guard, which stands in the same module). `xlanb.entry` is the C
function behind an executable's calls: it checks the arguments against a table, makes the results and runs the program; whatever is unusual, a lack of memory too, it hands to a
Python function that explains or copies.

The fields of an ndarray are read where NumPy's C API has them since 1.7 (`PyArrayObject_fields`); `Bridge` looks whether they are there before any call relies on it.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
import sysconfig
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from xlanb.cpu import guard, jit, result_memory
from xlanb.cpu.codegen.units import Unit
from xlanb.cpu.objects import compile_units
from xlanb.errors import CancelledError

_LOCK = threading.RLock()
_NEW_FROM_DESCR = 94
"""The place of PyArray_NewFromDescr in NumPy's table of functions."""
_READABLE = 0x101
"""NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED."""
_ARENA_HUGE = 4 << 20
"""Bytes from which on an arena asks for large pages."""

_TEXT = """
@ndarray = external global i8
@cancelled_error = external global i8
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare i32 @PyErr_CheckSignals()
declare void @PyErr_SetObject(ptr, ptr)
declare ptr @PyErr_NoMemory()
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @posix_memalign(ptr, i64, i64)
declare void @free(ptr)
{declare_advice}

define i32 @xlanb.call(ptr %run, ptr %args, ptr %results, ptr %temp, ptr %extra, ptr %word) {{
  %state = call ptr @PyEval_SaveThread()
  %status = call i32 @xlanb.guard(ptr %run, ptr %args, ptr %results, ptr %temp, ptr %extra, ptr %word)
  call void @PyEval_RestoreThread(ptr %state)
  ret i32 %status
}}

define internal ptr @arena(i64 %size) {{
entry:
  %place = alloca ptr
  %huge = icmp uge i64 %size, {huge}
  %alignment = select i1 %huge, i64 2097152, i64 64
  %failed = call i32 @posix_memalign(ptr %place, i64 %alignment, i64 %size)
  %bad = icmp ne i32 %failed, 0
  br i1 %bad, label %none, label %good
none:
  ret ptr null
good:
  %memory = load ptr, ptr %place
  br i1 %huge, label %advise, label %end
advise:
  {advice}
  br label %end
end:
  ret ptr %memory
}}

; self: (the Python function for what is unusual, the address of the table, the table, the message of one that is cancelled).
; The table, in words: run, arguments, results, bytes of the arena, flags, an arena that is free, how often it was cancelled and how many executions there are (see
; xlanb.cpu.guard), then for each array its dtype, rank, where its dimensions are, where its strides are (0: row-major; results only), and its bytes where it is large
; (0: small).
define ptr @xlanb.entry(ptr %self, ptr %given, i64 %count) {{
entry:
  %number = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %table = call ptr @PyLong_AsVoidPtr(ptr %number)
  %n.at = getelementptr i64, ptr %table, i64 1
  %n = load i64, ptr %n.at
  %r.at = getelementptr i64, ptr %table, i64 2
  %r = load i64, ptr %r.at
  %specs = getelementptr i64, ptr %table, i64 8
  %n1 = add i64 %n, 1
  %r1 = add i64 %r, 1
  %args = alloca ptr, i64 %n1
  %results = alloca ptr, i64 %r1
  %objects = alloca ptr, i64 %r1
  %right = icmp eq i64 %n, %count
  br i1 %right, label %arguments, label %slow
slow:
  %unusual = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %other = call ptr @PyObject_Vectorcall(ptr %unusual, ptr %given, i64 %count, ptr null)
  ret ptr %other

arguments:
  %k = phi i64 [ 0, %entry ], [ %k.next, %accept ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %check, label %place
check:
  %p.at = getelementptr ptr, ptr %given, i64 %k
  %p = load ptr, ptr %p.at
  %type.at = getelementptr i8, ptr %p, i64 8
  %type = load ptr, ptr %type.at
  %is.array = icmp eq ptr %type, @ndarray
  br i1 %is.array, label %fields, label %slow
fields:
  %spec.n = mul i64 %k, 5
  %spec = getelementptr i64, ptr %specs, i64 %spec.n
  %want = load ptr, ptr %spec
  %descr.at = getelementptr i8, ptr %p, i64 56
  %descr = load ptr, ptr %descr.at
  %same.descr = icmp eq ptr %want, %descr
  %rank.at = getelementptr i64, ptr %spec, i64 1
  %rank = load i64, ptr %rank.at
  %nd.at = getelementptr i8, ptr %p, i64 24
  %nd = load i32, ptr %nd.at
  %nd64 = sext i32 %nd to i64
  %same.rank = icmp eq i64 %rank, %nd64
  %flags.at = getelementptr i8, ptr %p, i64 64
  %flags = load i32, ptr %flags.at
  %flags.m = and i32 %flags, {readable}
  %usable = icmp eq i32 %flags.m, {readable}
  %ok1 = and i1 %same.descr, %same.rank
  %ok = and i1 %ok1, %usable
  br i1 %ok, label %dimensions, label %slow
dimensions:
  %dims.at = getelementptr i64, ptr %spec, i64 2
  %dims = load ptr, ptr %dims.at
  %shape.at = getelementptr i8, ptr %p, i64 32
  %shape = load ptr, ptr %shape.at
  br label %dimension
dimension:
  %d = phi i64 [ 0, %dimensions ], [ %d.next, %compare ]
  %d.more = icmp ult i64 %d, %rank
  br i1 %d.more, label %compare, label %accept
compare:
  %a.at = getelementptr i64, ptr %dims, i64 %d
  %a = load i64, ptr %a.at
  %b.at = getelementptr i64, ptr %shape, i64 %d
  %b = load i64, ptr %b.at
  %d.next = add i64 %d, 1
  %equal = icmp eq i64 %a, %b
  br i1 %equal, label %dimension, label %slow
accept:
  %data.at = getelementptr i8, ptr %p, i64 16
  %data = load ptr, ptr %data.at
  %arg.at = getelementptr ptr, ptr %args, i64 %k
  store ptr %data, ptr %arg.at
  %k.next = add i64 %k, 1
  br label %arguments

place:
  %page.place = call i64 @xlanb.place(ptr %specs, ptr %args, i64 %n)
  br label %outputs
outputs:
  %j = phi i64 [ 0, %place ], [ %j.next, %made ]
  %j.more = icmp ult i64 %j, %r
  br i1 %j.more, label %make, label %memory
make:
  %j.n = add i64 %n, %j
  %j.spec = mul i64 %j.n, 5
  %out = getelementptr i64, ptr %specs, i64 %j.spec
  %object = call ptr @xlanb.result(ptr %out, i64 %page.place)
  %object.at = getelementptr ptr, ptr %objects, i64 %j
  store ptr %object, ptr %object.at
  %failed = icmp eq ptr %object, null
  br i1 %failed, label %drop, label %made
made:
  %out.data.at = getelementptr i8, ptr %object, i64 16
  %out.data = load ptr, ptr %out.data.at
  %result.at = getelementptr ptr, ptr %results, i64 %j
  store ptr %out.data, ptr %result.at
  %j.next = add i64 %j, 1
  br label %outputs

memory:
  %temp.at = getelementptr i64, ptr %table, i64 3
  %size = load i64, ptr %temp.at
  %free.at = getelementptr i64, ptr %table, i64 5
  %needed = icmp ne i64 %size, 0
  br i1 %needed, label %take, label %ready
take:
  %taken.n = atomicrmw xchg ptr %free.at, i64 0 acq_rel
  %taken = inttoptr i64 %taken.n to ptr
  %found = icmp ne i64 %taken.n, 0
  br i1 %found, label %ready, label %fresh
fresh:
  %new = call ptr @arena(i64 %size)
  %got = icmp ne ptr %new, null
  br i1 %got, label %ready, label %no.memory
no.memory:
  br label %drop
ready:
  %temp = phi ptr [ null, %memory ], [ %taken, %take ], [ %new, %fresh ]
  %run = load ptr, ptr %table
  %options.at = getelementptr i64, ptr %table, i64 4
  %options = load i64, ptr %options.at
  %long.n = and i64 %options, 1
  %long = icmp ne i64 %long.n, 0
  br i1 %long, label %released, label %held
released:
  %state = call ptr @PyEval_SaveThread()
  %word = getelementptr i64, ptr %table, i64 6
  %left = call i32 @xlanb.guard(ptr %run, ptr %args, ptr %results, ptr %temp, ptr null, ptr %word)
  call void @PyEval_RestoreThread(ptr %state)
  br label %ran
held:
  call void %run(ptr %args, ptr %results, ptr %temp)
  br label %ran
ran:
  %status = phi i32 [ 0, %held ], [ %left, %released ]
  br i1 %needed, label %keep, label %result
keep:
  %temp.n = ptrtoint ptr %temp to i64
  %before.n = atomicrmw xchg ptr %free.at, i64 %temp.n acq_rel
  %before = inttoptr i64 %before.n to ptr
  call void @free(ptr %before)
  br label %result
result:
  %well = icmp eq i32 %status, {ok}
  br i1 %well, label %give, label %error
error:
  %is.cancelled = icmp eq i32 %status, {cancelled}
  br i1 %is.cancelled, label %tell, label %perhaps
tell:
  %message = call ptr @PyTuple_GetItem(ptr %self, i64 3)
  call void @PyErr_SetObject(ptr @cancelled_error, ptr %message)
  br label %drop
perhaps:
  %is.raised = icmp eq i32 %status, {raised}
  br i1 %is.raised, label %drop, label %no.memory
give:
  %tuple.n = and i64 %options, 2
  %is.tuple = icmp ne i64 %tuple.n, 0
  br i1 %is.tuple, label %pack, label %single
single:
  %one = load ptr, ptr %objects
  ret ptr %one
pack:
  %tuple = call ptr @PyTuple_New(i64 %r)
  %no.tuple = icmp eq ptr %tuple, null
  br i1 %no.tuple, label %drop, label %items
items:
  %m = phi i64 [ 0, %pack ], [ %m.next, %item ]
  %m.more = icmp ult i64 %m, %r
  br i1 %m.more, label %item, label %packed
item:
  %item.at = getelementptr ptr, ptr %objects, i64 %m
  %one.item = load ptr, ptr %item.at
  %set.item = call i32 @PyTuple_SetItem(ptr %tuple, i64 %m, ptr %one.item)
  %m.next = add i64 %m, 1
  br label %items
packed:
  ret ptr %tuple

drop:
  %count.made = phi i64 [ %j, %make ], [ %r, %no.memory ], [ %r, %tell ], [ %r, %perhaps ], [ %r, %pack ]
  %no.room = phi i1 [ true, %make ], [ true, %no.memory ], [ false, %tell ], [ false, %perhaps ], [ false, %pack ]
  br label %dropping
dropping:
  %q = phi i64 [ 0, %drop ], [ %q.next, %one.less ]
  %q.more = icmp ult i64 %q, %count.made
  br i1 %q.more, label %one.less, label %dropped
one.less:
  %q.at = getelementptr ptr, ptr %objects, i64 %q
  %q.object = load ptr, ptr %q.at
  call void @Py_DecRef(ptr %q.object)
  %q.next = add i64 %q, 1
  br label %dropping
dropped:
  br i1 %no.room, label %explain, label %raise
explain:
  call void @PyErr_Clear()
  br label %slow
raise:
  ret ptr null
}}
"""

_GUARD = (guard.GUARD, guard.CANCEL, guard.HOST, guard.CHECK, guard.RECORD, guard.BEGIN, guard.FORKED)
_API = (
    "PyTuple_GetItem PyTuple_New PyTuple_SetItem PyLong_AsVoidPtr PyLong_FromVoidPtr PyObject_Vectorcall PyEval_SaveThread PyEval_RestoreThread "
    "PyGILState_Ensure PyGILState_Release PyErr_CheckSignals PyErr_SetObject PyErr_NoMemory PyErr_Clear Py_IncRef Py_DecRef PyTraceMalloc_Track"
).split()


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


class Bridge:
    """The loaded functions; one for the process (`bridge()`)."""

    def __init__(self) -> None:
        target = jit.host()
        head = f'target datalayout = "{target.data_layout}"\ntarget triple = "{target.triple}"\n'
        text = _TEXT.format(
            readable=_READABLE,
            huge=_ARENA_HUGE,
            ok=guard.OK,
            cancelled=guard.CANCELLED,
            raised=guard.RAISED,
            declare_advice="declare i32 @madvise(ptr, i64, i32)" if "linux" in target.triple else "",
            advice="%a = call i32 @madvise(ptr %memory, i64 %size, i32 14)" if "linux" in target.triple else "",
        )
        text += result_memory.text(
            "%a = call i32 @madvise(ptr %page, i64 %all, i32 14)" if "linux" in target.triple else ""
        )
        memory = result_memory.Memory()
        symbols = {name: _address(getattr(ctypes.pythonapi, name)) for name in _API}
        symbols |= {
            "ndarray": id(np.ndarray),
            "new_array": _numpy_function(_NEW_FROM_DESCR),
            "handler": id(memory.capsule),
            "cancelled_error": id(CancelledError),
        }
        objects = compile_units([Unit(head + guard.text(target) + text, ready=True, weight=0, everywhere=True)], target)
        own = {name: f"xlanb.memory.{name}" for name in result_memory.FUNCTIONS}
        self.code = jit.LoadedCode(objects, ["xlanb.call", "xlanb.entry", *_GUARD, *own.values()], symbols)
        memory.connect({name: self.code.address(symbol) for name, symbol in own.items()})
        self.memory = memory
        # It is called with the GIL held: an exception that a signal handler has set is raised when the call returns.
        self.call = ctypes.PYFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 6)(self.code.address("xlanb.call"))
        self.cancel = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(self.code.address(guard.CANCEL))
        self.reads_arrays = _fields_are_where_expected()
        self._method = _MethodDef(b"call", self.code.address("xlanb.entry"), 0x80, None)  # METH_FASTCALL
        self._new_function = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p
        )(_address(ctypes.pythonapi.PyCMethod_New))

    def entry(self, unusual: Callable[..., Any], address: int, table: Any, message: str) -> Callable[..., Any]:
        """A function that runs the program of a table (see `_TEXT`) that lies at `address`; `unusual` gets the arguments that do not fit at once.

        `message` is that of the CancelledError.
        """
        made: Callable[..., Any] = self._new_function(
            ctypes.addressof(self._method), (unusual, address, table, message), None, None
        )
        return made

    def symbols(self, *names: str) -> dict[str, int]:
        """The addresses of functions of xlanb.cpu.guard, by their names."""
        return {name: self.code.address(name) for name in names}


@cache
def bridge() -> Bridge:
    """The bridge of this process: records of threads and the pool's state are shared, so there must be one."""
    with _LOCK:
        return _bridge()


@cache
def _bridge() -> Bridge:
    made = Bridge()
    # Entries may be called as long as the interpreter lives, its clearing up included, and the watcher runs as long as the process.
    for kept in (made, made.code):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    begin, forked = (made.code.function(name, 1) for name in (guard.BEGIN, guard.FORKED))
    begin(threading.main_thread().ident)
    os.register_at_fork(after_in_child=lambda: forked(threading.main_thread().ident))
    return made


_HEAD = 8
"""Words of a table before its arrays."""
CANCEL_WORD, RUNNING_WORD = 6, 7
"""The words of a table that are counted up to cancel, and that count its executions."""
Entry = tuple["np.dtype[Any]", tuple[int, ...], tuple[int, ...] | None]
"""An array's dtype, its dimensions and, where it is not row-major, its strides."""


def table(run: int, temp: int, arrays: Sequence[Entry], results: int, flags: int) -> Any:
    """The table of a program, to be kept alive and in place; `arrays` are its arguments and then its `results` results.

    Flags: 1 without the GIL, 2 the result is a tuple.
    """
    words = _HEAD + 5 * len(arrays)
    sizes = [d for _, dims, strides in arrays for d in (*dims, *(strides or ()))]
    memory = np.zeros(words + len(sizes), np.int64)
    base = memory.ctypes.data
    memory[:_HEAD] = run, len(arrays) - results, results, temp, flags, 0, 0, 0
    memory[words:] = sizes
    at = words
    for k, (dtype, dims, strides) in enumerate(arrays):
        beyond = at + len(dims)
        size = math.prod(dims) * dtype.itemsize
        place = base + 8 * beyond if strides else 0
        memory[_HEAD + 5 * k : _HEAD + 5 * k + 5] = (
            id(dtype),
            len(dims),
            base + 8 * at,
            place,
            result_memory.large(size),
        )
        at = beyond + len(strides or ())
    return memory


def free_arena(memory: Any) -> None:
    """Give back what a table keeps."""
    address, memory[5] = int(memory[5]), 0
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
    """Whether an ndarray's fields are where `_TEXT` reads them: a 64-bit CPython whose objects begin with a count and a type."""
    if (
        sys.implementation.name != "cpython"
        or sysconfig.get_config_var("Py_GIL_DISABLED")
        or object.__basicsize__ != 16
    ):
        return False
    probe = np.zeros((2, 3, 5), np.float32)
    at = id(probe)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(at + offset).value

    dims = (ctypes.c_int64 * 3).from_address(word(32))
    return (
        word(8) == id(np.ndarray)
        and word(16) == probe.ctypes.data
        and ctypes.c_int32.from_address(at + 24).value == 3
        and tuple(dims) == probe.shape
        and word(56) == id(probe.dtype)
        and ctypes.c_int32.from_address(at + 64).value == probe.flags.num
        and np.ndarray.__basicsize__ >= result_memory.HANDLER_AT + 8
        and result_memory.is_handler(word(result_memory.HANDLER_AT))
    )

"""Allocate large results aligned to cache lines, without 4K aliasing with large arguments.

NumPy's own memory begins at any multiple of 16 bytes, so that stores of whole vectors would cross
two lines. A large result is a normal array: it owns its memory, which comes from an allocator of
ours (`PyDataMem_Handler`, NEP 49). Small results are left to NumPy, which caches freed memory.

Invariants
- Ownership: memory from `take` belongs to one ndarray (or one PJRT buffer) until `free`; the
  sixteen bytes before it hold the block's address and the size. Blocks come from freed_memory.py.
- Threads: the allocator's functions may run in any thread, with or without the GIL; they access
  only the memory itself. `xlanb.result` runs with the GIL.
- Signals: none of this polls; every function runs to its end.
"""

from __future__ import annotations

import ctypes
from typing import Any

from xlanb.codegen.function import Function
from xlanb.codegen.native import NativeFunction, NativeModule, null
from xlanb.codegen.places import Fields, displaced
from xlanb.codegen.types import I32, I64, PTR, VOID
from xlanb.codegen.values import Value
from xlanb.cpu.runtime import freed_memory, system
from xlanb.cpu.runtime.layouts import ENTRY_BYTES, EntryLayout, PyArrayObject
from xlanb.cpu.runtime.system import is_null

LARGE = 16384
"""Bytes from which on xlanb allocates a result; that takes about 50 ns more."""
_PAGE = 4096
_APART = 512
"""Bytes that results should keep from what is read, modulo a page.

A load waits for an earlier store whose address is equal modulo a page.
"""
_HUGE = 4 << 20
"""Bytes from which on huge pages are used, as NumPy does."""
_NAME = b"xlanb"
_CAPSULE = ctypes.c_char_p(b"mem_handler")  # a capsule keeps no copy of its name
_TRACE_DOMAIN = 389047
"""NumPy's tracemalloc domain."""
_CARRAY, _OWNDATA = 0x501, 4
"""NPY_ARRAY_CARRAY and NPY_ARRAY_OWNDATA."""


class _Header(ctypes.Structure):
    """Stored before the memory: the block's address, and the requested size."""

    _fields_ = (("raw", ctypes.c_void_p), ("size", ctypes.c_int64))


_EXTRA = _PAGE + ctypes.sizeof(_Header)
"""Bytes of a block beyond those of the result: for any place in a page, and the header."""


def _header(memory: Value) -> Fields:
    return Fields(displaced(memory, -ctypes.sizeof(_Header)), _Header)


def write(m: NativeModule) -> tuple[NativeFunction, NativeFunction]:
    """Emit the functions; return `xlanb.place` and `xlanb.result`."""
    take_block, give_block = freed_memory.write(m)
    take = _write_take(m, take_block)
    free = _write_allocator(m, take, give_block)
    return _write_place(m), _write_result(m, take, free)


def _write_take(m: NativeModule, take_block: NativeFunction) -> NativeFunction:
    @m.define("result.take", PTR, size=I64, place=I64)
    def take(f: Function, size: Value, place: Value) -> Value:
        """Allocate memory at an address that is `place` modulo the page size, or null."""
        whole = size + _EXTRA
        with f.when(~whole.ugt(size)):
            f.give(null(f))
        raw = take_block(f, whole)
        with f.when(is_null(raw)):
            f.give(null(f))
        behind = displaced(raw, ctypes.sizeof(_Header))
        skipped = (place - behind.cast("ptrtoint", I64)) & (_PAGE - 1)
        memory = displaced(behind, skipped)
        header = _header(memory)
        header["raw"].store(raw)
        header["size"].store(size)
        with f.when(size.uge(_HUGE)):
            system.advise_huge(f, displaced(memory, -place), whole)
        return memory

    return take


def _write_allocator(m: NativeModule, take: NativeFunction, give_block: NativeFunction) -> NativeFunction:
    """Emit the functions of the allocator, which take a context first; return `free`."""

    @m.define("xlanb.memory.malloc", PTR, exported=True, context=PTR, size=I64)
    def malloc(f: Function, _context: Value, size: Value) -> Value:
        return take(f, size, f.const(I64, 0))

    @m.define("xlanb.memory.calloc", PTR, exported=True, context=PTR, count=I64, each=I64)
    def calloc(f: Function, _context: Value, count: Value, each: Value) -> Value:
        size = count * each
        with f.when(each.differs(0)), f.when(size.udiv(each).differs(count)):  # beyond 64 bits
            f.give(null(f))
        memory = take(f, size, f.const(I64, 0))
        with f.when(~is_null(memory)):
            f.fill_zero(memory, size, align=16)
        return memory

    @m.define("xlanb.memory.free", VOID, exported=True, context=PTR, memory=PTR, size=I64)
    def free(f: Function, _context: Value, memory: Value, _size: Value) -> None:
        with f.when(~is_null(memory)):
            header = _header(memory)
            give_block(f, header["raw"].load(), header["size"].load() + _EXTRA)

    @m.define("xlanb.memory.realloc", PTR, exported=True, context=PTR, memory=PTR, size=I64)
    def realloc(f: Function, context: Value, memory: Value, size: Value) -> Value:
        new = take(f, size, f.const(I64, 0))
        with f.when(is_null(memory) | is_null(new)):
            f.give(new)
        before = _header(memory)["size"].load()
        f.move(new, memory, before.umin(size))
        free(f, context, memory, before)
        return new

    return free


def _write_place(m: NativeModule) -> NativeFunction:
    @m.define("xlanb.place", I64, entries=PTR, arguments=PTR, count=I64)
    def place(f: Function, entries: Value, arguments: Value, count: Value) -> Value:
        """The offset in a page at which results of these arguments should begin.

        It is not within `_APART` bytes after the start of a large argument.
        """
        with f.carried(count, [f.const(I64, 0)], guarded=True) as loop:
            large = Fields(displaced(entries, f.mul(loop.index, ENTRY_BYTES)), EntryLayout)["large"].load()
            argument = system.element(arguments, loop.index, I64).load()
            bit = f.const(I64, 1) << ((argument + _APART).udiv(_APART) & (_PAGE // _APART - 1))
            loop.next = [loop.values[0] | large.differs(0).select(bit, 0)]
        free = (loop.values[0] & 255) ^ 255
        first = f.call(I64, "llvm.cttz.i64", free, system.no(f))
        return (first & (_PAGE // _APART - 1)) * _APART

    return place


def _write_result(m: NativeModule, take: NativeFunction, free: NativeFunction) -> NativeFunction:
    ndarray, handler = m.external("ndarray"), m.external("handler")

    @m.define("xlanb.result", PTR, at=PTR, place=I64)
    def result(f: Function, at: Value, place: Value) -> Value:
        """A new array that matches an `EntryLayout`; null if there is no memory.

        Then no exception, or MemoryError, is set.
        """
        entry = Fields(at, EntryLayout)
        descr, size = entry["dtype"].load(), entry["large"].load()

        def made(memory: Value, flags: int) -> Value:
            f.call(VOID, "Py_IncRef", descr)
            nd, dims, strides = entry["rank"].load().trunc(I32), entry["dimensions"].load(), entry["strides"].load()
            base = null(f)
            return f.call(
                PTR, "new_array", ndarray.address(f), descr, nd, dims, strides, memory, f.const(I32, flags), base
            )

        with f.when(size.equals(0)):
            f.give(made(null(f), 0))
        memory = take(f, size, place)
        with f.when(is_null(memory)):
            f.give(f.call(PTR, "PyErr_NoMemory"))
        array = made(memory, _CARRAY)
        with f.when(is_null(array)):
            free(f, null(f), memory, size)
            f.give(null(f))
        f.call(VOID, "Py_IncRef", handler.address(f))
        fields = Fields(array, PyArrayObject)
        fields["mem_handler"].store(handler.address(f))
        fields["flags"].store(fields["flags"].load() | _OWNDATA)
        f.call(I32, "PyTraceMalloc_Track", f.const(I32, _TRACE_DOMAIN), memory, size)
        return array

    return result


def large(size: int) -> int:
    """The entry of the bridge's table for an array of this many bytes.

    It is the size if xlanb allocates its memory, 0 if NumPy does (which also rejects impossible
    sizes).
    """
    return size if LARGE <= size < 1 << 62 else 0


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`: its functions take a context first."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        ("malloc", ctypes.c_void_p),
        ("calloc", ctypes.c_void_p),
        ("realloc", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
    )


FUNCTIONS = ("malloc", "calloc", "realloc", "free")


class ResultMemory:
    """The allocator of large results, after `connect` has set the addresses of its functions."""

    def __init__(self) -> None:
        self._handler = _Handler(name=_NAME, version=1)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule: Any = make(ctypes.addressof(self._handler), _CAPSULE, None)

    def connect(self, addresses: dict[str, int]) -> None:
        """Set the addresses of `FUNCTIONS`."""
        for name in FUNCTIONS:
            setattr(self._handler, name, addresses[name])

    def address(self, name: str) -> int:
        """The address of one of `FUNCTIONS`."""
        return int(getattr(self._handler, name))


def is_handler(address: int) -> bool:
    """Whether an allocator's capsule is at an address, which may be another object or 0."""
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
    return bool(address and valid(address, _CAPSULE))

"""Memory of results, in LLVM IR that is part of the bridge: large results lie where the code that fills them has it best.

That is at a cache line (NumPy's own memory begins at any multiple of 16 bytes, so that stores of whole vectors meet two lines), and not a little behind a large
argument in a page. A large result is an array like any other: it owns its memory, which an allocator of ours gives and takes (`PyDataMem_Handler`, NEP 49; arrays name
theirs in a field since NumPy 1.22). Small results are left to NumPy, which keeps what it freed.
"""

from __future__ import annotations

import ctypes
from typing import Any

LARGE = 16384
"""Bytes from which on a result's memory is ours: taking it costs some 50 ns more."""
_PAGE = 4096
_APART = 512
"""Bytes: a load waits for a store before it whose address is the same modulo a page, so that results had better not be written as little ahead of what is read."""
_HUGE = 4 << 20
"""Bytes from which on large pages are asked for, as NumPy does."""
HANDLER_AT = 88
"""Where an ndarray names the allocator of its memory."""
_NAME = b"xlanb"
_CAPSULE = ctypes.c_char_p(b"mem_handler")  # a capsule keeps no copy of its name
_TRACE_DOMAIN = 389047
"""NumPy's domain of tracemalloc."""

TEXT = """
@handler = external global i8
declare ptr @malloc(i64)
declare i32 @PyTraceMalloc_Track(i32, ptr, i64)

; Memory of so many bytes at an address that is `place` modulo the size of a page. Before it stand what malloc gave, and its size.
define internal ptr @result.take(i64 %size, i64 %place) {{
entry:
  %all = add i64 %size, {room}
  %enough = icmp ugt i64 %all, %size
  br i1 %enough, label %ask, label %none
ask:
  %raw = call ptr @malloc(i64 %all)
  %got = icmp ne ptr %raw, null
  br i1 %got, label %good, label %none
none:
  ret ptr null
good:
  %behind = getelementptr i8, ptr %raw, i64 16
  %at = ptrtoint ptr %behind to i64
  %missing = sub i64 %place, %at
  %skipped = and i64 %missing, {within}
  %memory = getelementptr i8, ptr %behind, i64 %skipped
  %raw.at = getelementptr i8, ptr %memory, i64 -16
  store ptr %raw, ptr %raw.at
  %size.at = getelementptr i8, ptr %memory, i64 -8
  store i64 %size, ptr %size.at
  %huge = icmp uge i64 %size, {huge}
  br i1 %huge, label %advise, label %end
advise:
  %page.n = sub i64 0, %place
  %page = getelementptr i8, ptr %memory, i64 %page.n
  {advice}
  br label %end
end:
  ret ptr %memory
}}

define ptr @xlanb.memory.malloc(ptr %context, i64 %size) {{
  %memory = call ptr @result.take(i64 %size, i64 0)
  ret ptr %memory
}}

define ptr @xlanb.memory.calloc(ptr %context, i64 %count, i64 %each) {{
entry:
  %both = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %count, i64 %each)
  %size = extractvalue {{ i64, i1 }} %both, 0
  %beyond = extractvalue {{ i64, i1 }} %both, 1
  br i1 %beyond, label %none, label %ask
ask:
  %memory = call ptr @result.take(i64 %size, i64 0)
  %got = icmp ne ptr %memory, null
  br i1 %got, label %clear, label %none
clear:
  call void @llvm.memset.p0.i64(ptr %memory, i8 0, i64 %size, i1 false)
  ret ptr %memory
none:
  ret ptr null
}}
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @xlanb.memory.realloc(ptr %context, ptr %memory, i64 %size) {{
entry:
  %moved = call ptr @result.take(i64 %size, i64 0)
  %nothing = icmp eq ptr %memory, null
  %failed = icmp eq ptr %moved, null
  %leave = or i1 %nothing, %failed
  br i1 %leave, label %end, label %move
move:
  %size.at = getelementptr i8, ptr %memory, i64 -8
  %before = load i64, ptr %size.at
  %both = call i64 @llvm.umin.i64(i64 %before, i64 %size)
  call void @llvm.memcpy.p0.p0.i64(ptr %moved, ptr %memory, i64 %both, i1 false)
  call void @xlanb.memory.free(ptr %context, ptr %memory, i64 %before)
  br label %end
end:
  ret ptr %moved
}}
declare i64 @llvm.umin.i64(i64, i64)

define void @xlanb.memory.free(ptr %context, ptr %memory, i64 %size) {{
entry:
  %some = icmp ne ptr %memory, null
  br i1 %some, label %give, label %end
give:
  %raw.at = getelementptr i8, ptr %memory, i64 -16
  %raw = load ptr, ptr %raw.at
  call void @free(ptr %raw)
  br label %end
end:
  ret void
}}

; Where in a page results should begin that are computed from so many arguments at these addresses: nowhere within {apart} bytes behind the begin of a large one.
; `specs` are five words for each of them, the last its bytes where it is large.
define i64 @xlanb.place(ptr %specs, ptr %arguments, i64 %count) {{
entry:
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %one ]
  %taken = phi i64 [ 0, %entry ], [ %more, %one ]
  %left = icmp ult i64 %k, %count
  br i1 %left, label %one, label %end
one:
  %spec.n = mul i64 %k, 5
  %bytes.n = add i64 %spec.n, 4
  %bytes.at = getelementptr i64, ptr %specs, i64 %bytes.n
  %bytes = load i64, ptr %bytes.at
  %large = icmp ne i64 %bytes, 0
  %argument.at = getelementptr i64, ptr %arguments, i64 %k
  %argument = load i64, ptr %argument.at
  %up = add i64 %argument, {apart}
  %slot = udiv i64 %up, {apart}
  %number = and i64 %slot, 7
  %bit = shl i64 1, %number
  %counts = select i1 %large, i64 %bit, i64 0
  %more = or i64 %taken, %counts
  %next = add i64 %k, 1
  br label %head
end:
  %ends = and i64 %taken, 255
  %free = xor i64 %ends, 255
  %first = call i64 @llvm.cttz.i64(i64 %free, i1 false)
  %chosen = and i64 %first, 7
  %place = mul i64 %chosen, {apart}
  ret i64 %place
}}
declare i64 @llvm.cttz.i64(i64, i1)

; A new array: its dtype, rank, where its dimensions are, where its strides are (0: row-major), and its bytes where its memory is ours (0: NumPy's).
define ptr @xlanb.result(ptr %spec, i64 %place) {{
entry:
  %descr = load ptr, ptr %spec
  %rank.at = getelementptr i64, ptr %spec, i64 1
  %rank = load i64, ptr %rank.at
  %nd = trunc i64 %rank to i32
  %dims.at = getelementptr i64, ptr %spec, i64 2
  %dims = load ptr, ptr %dims.at
  %strides.at = getelementptr i64, ptr %spec, i64 3
  %strides = load ptr, ptr %strides.at
  %bytes.at = getelementptr i64, ptr %spec, i64 4
  %bytes = load i64, ptr %bytes.at
  %ours = icmp ne i64 %bytes, 0
  br i1 %ours, label %take, label %numpy
numpy:
  call void @Py_IncRef(ptr %descr)
  %plain = call ptr @new_array(ptr @ndarray, ptr %descr, i32 %nd, ptr %dims, ptr %strides, ptr null, i32 0, ptr null)
  ret ptr %plain
take:
  %memory = call ptr @result.take(i64 %bytes, i64 %place)
  %got = icmp ne ptr %memory, null
  br i1 %got, label %make, label %none
none:
  %nothing = call ptr @PyErr_NoMemory()
  ret ptr null
make:
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @new_array(ptr @ndarray, ptr %descr, i32 %nd, ptr %dims, ptr %strides, ptr %memory, i32 {writeable}, ptr null)
  %made = icmp ne ptr %array, null
  br i1 %made, label %own, label %drop
drop:
  call void @xlanb.memory.free(ptr null, ptr %memory, i64 %bytes)
  ret ptr null
own:
  call void @Py_IncRef(ptr @handler)
  %handler.at = getelementptr i8, ptr %array, i64 {handler}
  store ptr @handler, ptr %handler.at
  %flags.at = getelementptr i8, ptr %array, i64 64
  %flags = load i32, ptr %flags.at
  %owned = or i32 %flags, 4
  store i32 %owned, ptr %flags.at
  %traced = call i32 @PyTraceMalloc_Track(i32 {domain}, ptr %memory, i64 %bytes)
  ret ptr %array
}}
"""


def text(advice: str) -> str:
    """The IR; `advice` asks for large pages for `%all` bytes from `%page` on (empty where there is none)."""
    return TEXT.format(
        room=_PAGE + 16,
        within=_PAGE - 1,
        apart=_APART,
        huge=_HUGE,
        handler=HANDLER_AT,
        domain=_TRACE_DOMAIN,
        writeable=0x501,  # NPY_ARRAY_CARRAY
        advice=advice,
    )


def large(size: int) -> int:
    """What the bridge's table has of an array of so many bytes: these where its memory is ours, 0 where it is NumPy's (which also refuses what no memory could hold)."""
    return size if LARGE <= size < 1 << 62 else 0


class _Handler(ctypes.Structure):
    """`PyDataMem_Handler`: functions that take a context first."""

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


class Memory:
    """The allocator of large results, once `connect` has told it where its functions are."""

    def __init__(self) -> None:
        self._handler = _Handler(name=_NAME, version=1)
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule: Any = make(ctypes.addressof(self._handler), _CAPSULE, None)

    def connect(self, addresses: dict[str, int]) -> None:
        """The addresses of `FUNCTIONS`."""
        for name in FUNCTIONS:
            setattr(self._handler, name, addresses[name])

    def address(self, name: str) -> int:
        """The address of one of `FUNCTIONS`."""
        return int(getattr(self._handler, name))


def is_handler(address: int) -> bool:
    """Whether an allocator's capsule is at an address where some object, or nothing (0), is."""
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.c_void_p, ctypes.c_char_p]
    return bool(address and valid(address, _CAPSULE))

"""Functions of the C library and Python that native code uses, and small helpers.

Invariants: a function of Python's C API is called only with the GIL; `no_signals` is for creating a
thread, which inherits the mask.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.native import stack
from xlanb.codegen.places import Fields, Place, word_at
from xlanb.codegen.target import FUTEX
from xlanb.codegen.types import I1, I8, I32, I64, PTR, VOID, Type
from xlanb.codegen.values import Value
from xlanb.cpu.runtime.layouts import TimeSpec

_MASK_BYTES = 128
"""Bytes, enough for any system's sigset_t."""
_FREE, _HUGE_PAGES = 8, 14
"""MADV_FREE and MADV_HUGEPAGE."""
_PAGE = 4096
MONOTONIC, MONOTONIC_COARSE = 1, 6
"""Linux clocks: one with nanosecond resolution, and a cheaper one with ticks of milliseconds."""
FUTEX_WAIT, FUTEX_WAKE = 128, 129
"""Operations of the futex, private to the process."""


def is_null(pointer: Value) -> Value:
    """i1: whether a pointer is null."""
    return pointer.equals(0)


def no(f: Function) -> Value:
    """The i1 false."""
    return f.const(I1, False)


def yes(f: Function) -> Value:
    """The i1 true."""
    return f.const(I1, True)


def element(array: Value, index: Ix, type_: Type) -> Place:
    """An element of an array of words."""
    return word_at(array, index, type_)


def advise_huge(f: Function, address: Value, size: Value) -> None:
    """Request huge pages if the system supports it."""
    if "linux" in f.target.triple:
        f.call(I32, "madvise", address, size, f.const(I32, _HUGE_PAGES))


def advise_free(f: Function, block: Value, size: Value, kept: int) -> None:
    """Let the system reclaim the pages of a block, except for its first `kept` bytes."""
    if "linux" in f.target.triple:
        begin = block.cast("ptrtoint", I64)
        first = (begin + (kept + _PAGE - 1)) & -_PAGE
        length = ((begin + size) & -_PAGE) - first
        f.call(I32, "madvise", first.cast("inttoptr", PTR), length, f.const(I32, _FREE))


def yield_thread(f: Function) -> None:
    """Let another thread run."""
    f.call(I32, "sched_yield")


def pause(f: Function) -> None:
    """Hint to the processor that the thread spins."""
    arch = f.target.triple.split("-", maxsplit=1)[0]
    if arch == "x86_64":
        f.call(VOID, "llvm.x86.sse2.pause")
    elif arch == "aarch64":
        f.call(VOID, "llvm.aarch64.hint", f.const(I32, 1))


def now(f: Function, clock: int = MONOTONIC) -> Value:
    """i64: nanoseconds of one of the system's clocks."""
    time = Fields(f.alloca(I64, 2), TimeSpec)
    f.call(I32, "clock_gettime", f.const(I32, clock), time.base)
    return time["seconds"].load() * 1_000_000_000 + time["nanoseconds"].load()


def futex(f: Function, word: Value, operation: int, value: Value, timeout: Value) -> None:
    """The futex system call: wait while a 32-bit word has this value, or wake waiters.

    `timeout` may be null.
    """
    number = FUTEX[f.target.triple.split("-", maxsplit=1)[0]]
    given = (f.const(I64, number), word, f.const(I64, operation), value.zext(I64), timeout, f.const(PTR, 0))
    f.call(I64, "syscall", *given, f.const(I64, 0))


def processor(f: Function) -> Value:
    """i32: the processor that this thread runs on."""
    return f.call(I32, "sched_getcpu")


def thread(f: Function) -> Value:
    """The current thread."""
    return f.call(I64, "pthread_self")


@contextmanager
def no_signals(f: Function) -> Iterator[None]:
    """Block all signals for this thread, and for threads that it creates."""
    set_mask = f.const(I32, 3 if "darwin" in f.target.triple or "macos" in f.target.triple else 2)  # SIG_SETMASK
    all_, before = stack(f, _MASK_BYTES), stack(f, _MASK_BYTES)
    f.call(VOID, "llvm.memset.p0.i64", all_, f.const(I8, -1), f.const(I64, _MASK_BYTES), no(f))
    f.call(I32, "pthread_sigmask", set_mask, all_, before)
    yield
    f.call(I32, "pthread_sigmask", set_mask, before, f.const(PTR, 0))


def start_thread(f: Function, code: Value, argument: Value) -> Value:
    """Create a detached thread; i1: whether it succeeded."""
    place = Place(f.alloca(PTR), PTR)
    made = f.call(I32, "pthread_create", place.address, f.const(PTR, 0), code, argument).equals(0)
    with f.when(made):
        f.call(I32, "pthread_detach", place.load())
    return made

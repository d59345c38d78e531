"""Loops that several threads may share: `with parallel(e, count, nanoseconds=...) as i`.

What is written within becomes a function of its own with the kernel's pointers and (i64 %lo, i64 %hi, i64 %slot); the pool runs it over parts of 0..count. So only
the kernel's parameters, constants and what is made within may be used within; nothing that is made within may be used after. Rounds must not depend on one another.
Which parts there are depends on `count` and the number of threads that the program was compiled for alone, so results do not depend on who takes which part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import Ix

WORTH = 25_000
"""Nanoseconds of work from which on it pays to wake a thread."""

_SMALLEST = 8_000
"""Nanoseconds of the smallest part that is worth claiming, beyond one for each thread."""
_PER_THREAD = 8


def is_parallel(e: Elemental, count: Ix, nanoseconds: float) -> bool:
    """Whether `parallel` would make a function of its own."""
    if e.f.target.threads < 2 or e.f.slot != 0:
        return False
    return not isinstance(count, int) or (count > 1 and count * nanoseconds >= WORTH)


@contextmanager
def parallel(e: Elemental, count: Ix, *, nanoseconds: float) -> Iterator[Ix]:
    """A loop over 0..count, each round some `nanoseconds` of work (an estimate for one thread): gives the counter.

    `e.f.slot` is the number of the thread within (below `e.f.target.threads`), for scratch of its own (`Kernel.own_scratch`). Where the work is small, or this is already
    the part of one thread, it is a plain loop. An unknown `count` must be at least 1.
    """
    with parts(e, count, nanoseconds=nanoseconds) as (low, high), e.f.loop(high, low) as i:
        yield i


@contextmanager
def parts(e: Elemental, count: Ix, *, nanoseconds: float) -> Iterator[tuple[Ix, Ix]]:
    """As `parallel`, for those who write the loop themselves: gives the bounds low < high of the part; 0 and `count` where there is one part."""
    if not is_parallel(e, count, nanoseconds):
        yield 0, count
        return
    with e.f.outline(count, chunks(e, count, nanoseconds)) as bounds:
        yield bounds


def chunks(e: Elemental, count: Ix, nanoseconds: float) -> Ix:
    """How many parts: some more than threads, so that one who comes late does less, but none of them tiny; as many for each thread where none is late."""
    threads = e.f.target.threads
    if not isinstance(count, int):
        return e.f.call("i64", "llvm.umin.i64", ("i64", count), ("i64", str(_PER_THREAD * threads)))
    worth = int(count * nanoseconds / _SMALLEST)
    return min(count, threads * max(1, min(_PER_THREAD, worth // threads)))

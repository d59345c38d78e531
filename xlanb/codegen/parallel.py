"""Loops that several threads may share: `with parallel(f, count, nanoseconds=...) as i`.

What is written within becomes a function of its own with the kernel's pointers and (i64 %lo, i64 %hi, i64 %slot); the pool runs it over parts of 0..count. So only the kernel's parameters,
constants and what is made within may be used within; nothing that is made within may be used after. Rounds must not depend on one another. Which parts there are depends on `count` and
the number of threads that the program was compiled for alone, so results do not depend on who takes which part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.plan import time_text


def is_shared(f: Function, count: Ix, nanoseconds: float) -> bool:
    """Whether `parallel` would make a function of its own."""
    if f.target.threads < 2 or f.slot != 0:
        return False
    return not isinstance(count, int) or (count > 1 and count * nanoseconds >= f.target.costs.wake_ns)


@contextmanager
def parallel(f: Function, count: Ix, *, nanoseconds: float) -> Iterator[Ix]:
    """A loop over 0..count, each round some `nanoseconds` of work (an estimate for one thread): gives the counter.

    `f.slot` is the number of the thread within (below `f.target.threads`), for scratch of its own. Where the work is small, or this is already the part of one thread, it is a plain
    loop. An unknown `count` must be at least 1.
    """
    with parts(f, count, nanoseconds=nanoseconds) as (low, high), f.loop(high, low) as i:
        yield i


@contextmanager
def parts(f: Function, count: Ix, *, nanoseconds: float) -> Iterator[tuple[Ix, Ix]]:
    """Like `parallel`, for callers that write the loop themselves: yields the bounds low < high of
    the part; 0 and `count` if there is one part.
    """
    shared = is_shared(f, count, nanoseconds)
    note(f, count, nanoseconds, shared=shared)
    if not shared:
        yield 0, count
        return
    with f.outline(count, chunks(f, count, nanoseconds)) as bounds:
        yield bounds


def note(f: Function, count: Ix, nanoseconds: float, *, shared: bool) -> None:
    """Record how many threads are used, and why."""
    if not f.module.debug or f.slot != 0 or f.target.threads < 2 or not nanoseconds:
        return
    made, work = "number of parts chosen at run time", "work known at run time"
    if isinstance(count, int):
        made, work = f"{chunks(f, count, nanoseconds)} parts", f"{time_text(count * nanoseconds)} of work"
    why = f"{work}, waking a thread pays off from {time_text(f.target.costs.wake_ns)}"
    f.decided("threads", made if shared else "one", why)


def chunks(f: Function, count: Ix, nanoseconds: float) -> Ix:
    """The number of parts: a few per thread for load balancing, but no tiny ones; the same number
    for each thread if all run at the same speed.
    """
    threads, costs = f.target.threads, f.target.costs
    if not isinstance(count, int):
        return count.umin(costs.parts_per_thread * threads)
    worth = int(count * nanoseconds / costs.part_ns)
    return min(count, threads * max(1, min(costs.parts_per_thread, worth // threads)))

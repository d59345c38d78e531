"""Loops that several threads may share: `with parallel(f, count, nanoseconds=...) as i`.

The enclosed code becomes a function with the kernel's pointers and (i64 %lo, i64 %hi, i64 %slot);
the pool runs it over parts of 0..count. So it may use only the kernel's parameters, constants and
its own values, and its values must not be used afterwards. Iterations must be independent. The
parts depend only on `count` and the number of threads that the program was compiled for, so that
results do not depend on which thread runs which part.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.plan import time_text


def is_shared(f: Function, count: Ix, nanoseconds: float) -> bool:
    """Whether `parallel` would outline the loop."""
    if f.target.threads < 2 or f.slot != 0:
        return False
    return not isinstance(count, int) or (count > 1 and count * nanoseconds >= wake_ns(f))


def wake_ns(f: Function) -> float:
    """The least nanoseconds of work that justify a second thread in this function."""
    costs = f.target.costs
    return costs.repeated_wake_ns if f.repeats else costs.wake_ns


@contextmanager
def parallel(f: Function, count: Ix, *, nanoseconds: float) -> Iterator[Ix]:
    """Loop over 0..count; an iteration takes about `nanoseconds` on one thread.

    Yields the counter. `f.slot` is the number of the thread inside (below `f.target.threads`), for
    per-thread scratch memory. If the work is small, or this is already one thread's part, it is a
    plain loop. An unknown `count` must be at least 1.
    """
    with parts(f, count, nanoseconds=nanoseconds) as (low, high), f.loop(high, low) as i:
        yield i


@contextmanager
def parts(f: Function, count: Ix, *, nanoseconds: float) -> Iterator[tuple[Ix, Ix]]:
    """Like `parallel`, but the caller emits the loop: yields the part's bounds, low < high.

    They are 0 and `count` if there is one part.
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
    why = f"{work}, waking a thread pays off from {time_text(wake_ns(f))}"
    f.decided("threads", made if shared else "one", why)


def chunks(f: Function, count: Ix, nanoseconds: float) -> Ix:
    """The number of parts: a few per thread for load balancing, but no tiny ones.

    Each thread gets the same number if all run at the same speed.
    """
    threads, costs = f.target.threads, f.target.costs
    if not isinstance(count, int):
        return count.umin(costs.parts_per_thread * threads)
    if count * nanoseconds < costs.wake_ns:
        return min(count, threads, max(2, int(count * nanoseconds / costs.repeated_part_ns)))
    worth = int(count * nanoseconds / costs.part_ns)
    return min(count, threads * max(1, min(costs.parts_per_thread, worth // threads)))

"""The limit on threads, for users: `xlanb.set_threads` and `xlanb.get_threads`."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from xlanb.codegen import cpus
from xlanb.cpu.runtime import pool
from xlanb.errors import ArgumentError, ArgumentTypeError


def set_threads(count: SupportsIndex | None) -> None:
    """Limit the number of threads that compiled programs use at a time, including the calling one.

    The limit applies from the next call on, also to programs that were compiled before; running
    calls are not affected. Results do not change by a bit. A program never uses more threads than
    the highest limit that was in effect before it was compiled: to use more threads than there are
    CPUs, raise the limit before compiling.

    Args:
        count: 1 to 64, which may exceed the CPUs; more than 64 is 64. None: the limit of the
            environment again (see `get_threads`).

    Raises:
        ArgumentError: `count` is neither None nor a whole number of at least 1.
        FlagError: XLANB_THREADS is not a whole number.
    """
    expected = f"set_threads: expected a whole number of at least 1, or None, got {count!r}"
    try:
        asked = 0 if count is None else index(count)
    except TypeError:
        raise ArgumentTypeError(expected) from None
    if count is not None and asked < 1:
        raise ArgumentError(expected)
    cpus.ask_for(min(asked, cpus.MAX_THREADS))
    pool.update_limit()


def get_threads() -> int:
    """Return how many threads a compiled program may use now.

    The number is that of `set_threads`; else XLANB_THREADS, if it is set and not 0 (its former
    name, XLANB_NUM_THREADS, is accepted too); else the CPUs that the calling thread may run on
    (`os.sched_getaffinity`), or fewer if the process's control groups have a CPU quota: quota
    divided by period, rounded up (cgroup v2's `cpu.max`, v1's `cpu.cfs_quota_us` and
    `cpu.cfs_period_us`). Affinity and quotas may change while programs run: calls use values that
    are at most a tenth of a second old. XLANB_THREADS is read when a program is compiled.

    Raises:
        FlagError: XLANB_THREADS is not a whole number.
    """
    return cpus.thread_count()

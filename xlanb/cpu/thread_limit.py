"""The limit on threads, for users: `xlanb.set_threads` and `xlanb.get_threads`."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from xlanb.codegen import cpus
from xlanb.cpu.runtime import pool
from xlanb.errors import ArgumentError, ArgumentTypeError


def set_threads(count: SupportsIndex | None) -> None:
    """Limit the number of threads that compiled programs use at a time, including the calling one.

    It holds from the next call on, for programs that were compiled before too: one that runs goes
    on as it began. Results do not change by a bit. A program uses no more threads than the highest
    limit that there had been when it was compiled, so raise the limit before compiling to use more
    threads than there are CPUs.

    Args:
        count: 1 to 64, more than there are CPUs as well; more than 64 is 64. None: the limit of the
            environment again (see `get_threads`).

    Raises:
        ArgumentError: `count` is neither None nor a whole number of at least 1.
        FlagError: XLANB_THREADS is no whole number.
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
    """How many threads a compiled program may use at this moment.

    The number is that of `set_threads`; else XLANB_THREADS, where that is set and not 0 (its former
    name, XLANB_NUM_THREADS, is understood too); else the CPUs that the calling thread may run on
    (`os.sched_getaffinity`), or fewer where the process's control groups have a CPU quota: quota
    divided by period, rounded up (cgroup v2's `cpu.max`, v1's `cpu.cfs_quota_us` and
    `cpu.cfs_period_us`). Affinity and quotas may change while programs run: calls go by what they
    were a tenth of a second before. XLANB_THREADS is read when a program is compiled.

    Raises:
        FlagError: XLANB_THREADS is no whole number.
    """
    return cpus.thread_count()

"""How many threads programs may use: the limit that was asked for, or else the CPUs of this process.

A limit that is asked for (`xlanb.set_threads`, else XLANB_THREADS) is taken as it is. Otherwise it
is the number of CPUs that the process may run on, or fewer where its control groups (cgroup v1 and
v2) grant it less time than that: the quota divided by the period, rounded up.

A program's code is written for a number of threads: the highest limit that there has been when it
is compiled. While it runs it uses at most as many as the limit then allows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from xlanb.debug_options import environment_number

MAX_THREADS = 64
"""No program uses more threads."""
VARIABLES = ("XLANB_THREADS", "XLANB_NUM_THREADS")
"""Environment variables that limit threads; the first that is set counts."""


_AGE = 0.1
"""Seconds for which quotas are taken as they were read; the pool of threads looks as often."""
_PLACES_AGE = 5.0
"""Seconds for which a process is taken to be in the control groups that it was in: to find their files takes ten times as long as to read them."""


class _State:
    asked = 0
    """What `set_threads` was called with; 0: nothing."""
    highest = 1
    """The highest limit so far."""
    granted: int | None = None
    """The least of the quotas when they were last read."""
    read_at = float("-inf")
    """When that was, in seconds of the monotonic clock."""
    places: Sequence[Quota] = ()
    """Where quotas stood when they were last looked for."""
    found_at = float("-inf")
    """When that was."""


def ask_for(count: int) -> None:
    """Set the limit; 0: none is asked for any more."""
    _State.asked = count


def asked_threads() -> int:
    """The limit that the program or the environment asks for; 0 where there is none.

    Raises:
        FlagError: a variable of the environment is no whole number.
    """
    if _State.asked:
        return _State.asked
    found = (environment_number(name, 0) for name in VARIABLES)
    return min(next((n for n in found if n), 0), MAX_THREADS)


def thread_count() -> int:
    """The limit at this moment: what is asked for, or else the CPUs that this process may use.

    Raises:
        FlagError: a variable of the environment is no whole number.
    """
    return asked_threads() or min(available_cpus(), MAX_THREADS)


def code_threads() -> int:
    """For how many threads code is written: the highest limit so far.

    Raises:
        FlagError: a variable of the environment is no whole number.
    """
    _State.highest = max(_State.highest, thread_count())
    return _State.highest


def available_cpus() -> int:
    """The CPUs that this process may run on, or fewer where its control groups have a quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    granted = _granted()
    return count if granted is None else max(1, min(count, granted))


def _granted() -> int | None:
    """The least of the quotas; a compilation asks several times, so they are read each 0.1 s at most."""
    now = time.monotonic()
    if now - _State.read_at >= _AGE:
        if now - _State.found_at >= _PLACES_AGE:
            _State.places, _State.found_at = quotas(), now
        _State.granted = min((n for q in _State.places if (n := q.cpus()) is not None), default=None)
        _State.read_at = now
    return _State.granted


# -- control groups ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quota:
    """Where a control group's quota stands.

    `period` is empty for cgroup v2, whose file `cpu.max` has both: "max 100000" or
    "150000 100000", in microseconds. cgroup v1 has a file for each; a quota of -1 is none.
    Source: the Linux kernel's documentation of the CPU controllers.
    """

    quota: str
    period: str = ""

    def cpus(self) -> int | None:
        """The CPUs that it is worth, rounded up; None where there is no limit, or none that can be read."""
        try:
            words = Path(self.quota).read_text().split()
            words += Path(self.period).read_text().split() if self.period else []
            quota, period = (int(w) for w in words[:2])
        except (OSError, ValueError):
            return None
        return max(1, -(-quota // period)) if quota > 0 and period > 0 else None


def quotas(root: str = "/") -> list[Quota]:
    """The quotas that this process is under: of its control group and of those around it.

    `root` is the folder in which /proc and the mounts are looked for.
    """
    found: list[Quota] = []
    with suppress(OSError, ValueError):
        groups = _groups((Path(root) / "proc/self/cgroup").read_text())
        for line in (Path(root) / "proc/self/mountinfo").read_text().splitlines():
            head, _, kind = line.partition(" - ")
            mounted, place = head.split()[3:5]
            type_, _, options = kind.split()[:3]
            v2 = type_ == "cgroup2"
            controller = "" if v2 else "cpu"
            if controller in groups and (v2 or (type_ == "cgroup" and "cpu" in options.split(","))):
                found += _along(Path(root) / place.lstrip("/"), mounted, groups[controller], v2=v2)
    return found


def _groups(text: str) -> dict[str, str]:
    """The path of this process's group by controller; "" is cgroup v2's."""
    rows = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {controller: path for _, controllers, path in rows for controller in controllers.split(",")}


def _along(mount: Path, mounted: str, group: str, *, v2: bool) -> list[Quota]:
    """The quota files of a group and of those around it, as far as the mount shows them.

    In a container the mount shows the container's own group (`mounted`) at its top.
    """
    path = PurePosixPath(group)
    inside = path.relative_to(mounted) if path.is_relative_to(mounted) else PurePosixPath()
    folders = [mount / inside, *((mount / p) for p in inside.parents)] if inside.parts else [mount]
    names = ("cpu.max",) if v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return [Quota(*(str(f / n) for n in names)) for f in folders if (f / names[0]).is_file()]

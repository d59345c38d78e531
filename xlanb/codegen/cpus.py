"""How many threads programs may use: the requested limit, otherwise this process's CPUs.

A requested limit (`xlanb.set_threads`, else XLANB_THREADS) is used as it is. Otherwise the limit is
the number of CPUs that the process may run on, or fewer if its control groups (cgroup v1 and v2)
grant it less time: the quota divided by the period, rounded up.

A program is compiled for a number of threads: the highest limit so far. When it runs, it uses at
most as many as the limit then allows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from xlanb.debug_options import environment_number
from xlanb.lazy_dataclass import dataclass

MAX_THREADS = 64
"""The most threads of any program."""
VARIABLES = ("XLANB_THREADS", "XLANB_NUM_THREADS")
"""Environment variables that limit threads; the first one that is set is used."""


_AGE = 0.1
"""Seconds for which read quotas are valid; the thread pool checks as often."""
_PLACES_AGE = 5.0
"""Seconds for which a process's control groups are valid.

Finding their files takes ten times as long as reading them.
"""


class _ThreadLimits:
    asked = 0
    """The argument of `set_threads`; 0: none."""
    highest = 1
    """The highest limit so far."""
    granted: int | None = None
    """The least of the quotas when they were last read."""
    read_at = float("-inf")
    """The time of that, in seconds of the monotonic clock."""
    places: Sequence[Quota] = ()
    """The quota files when they were last looked up."""
    found_at = float("-inf")
    """The time of that."""


def ask_for(count: int) -> None:
    """Set the limit; 0 removes it."""
    _ThreadLimits.asked = count


def asked_threads() -> int:
    """The limit requested by the program or the environment; 0 if there is none.

    Raises:
        FlagError: An environment variable is not a whole number.
    """
    if _ThreadLimits.asked:
        return _ThreadLimits.asked
    found = (environment_number(name, 0) for name in VARIABLES)
    return min(next((n for n in found if n), 0), MAX_THREADS)


def thread_count() -> int:
    """The current limit: the requested one, or the CPUs that this process may use.

    Raises:
        FlagError: An environment variable is not a whole number.
    """
    return asked_threads() or min(available_cpus(), MAX_THREADS)


def code_threads() -> int:
    """The number of threads for which code is emitted: the highest limit so far.

    Raises:
        FlagError: An environment variable is not a whole number.
    """
    _ThreadLimits.highest = max(_ThreadLimits.highest, thread_count())
    return _ThreadLimits.highest


def available_cpus() -> int:
    """The CPUs that this process may run on, or fewer if its control groups have a quota."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    granted = _granted()
    return count if granted is None else max(1, min(count, granted))


def _granted() -> int | None:
    """The least of the quotas, cached for 0.1 s as a compilation needs it several times."""
    now = time.monotonic()
    if now - _ThreadLimits.read_at >= _AGE:
        if now - _ThreadLimits.found_at >= _PLACES_AGE:
            _ThreadLimits.places, _ThreadLimits.found_at = quotas(), now
        _ThreadLimits.granted = min((n for q in _ThreadLimits.places if (n := q.cpus()) is not None), default=None)
        _ThreadLimits.read_at = now
    return _ThreadLimits.granted


# -- control groups --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quota:
    """The files of a control group's quota.

    `period` is empty for cgroup v2, whose file `cpu.max` has both: "max 100000" or "150000 100000",
    in microseconds. cgroup v1 has a file for each; a quota of -1 is none. Source: the Linux
    kernel's documentation of the CPU controllers.
    """

    quota: str
    period: str = ""

    def cpus(self) -> int | None:
        """The CPUs that it grants, rounded up; None if there is no limit or it cannot be read."""
        try:
            words = Path(self.quota).read_text().split()
            words += Path(self.period).read_text().split() if self.period else []
            quota, period = (int(w) for w in words[:2])
        except (OSError, ValueError):
            return None
        return max(1, -(-quota // period)) if quota > 0 and period > 0 else None


def quotas(root: str = "/") -> list[Quota]:
    """The quotas that apply to this process: of its control group and its ancestors.

    `root` is the folder that contains /proc and the mounts.
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
                found += _quota_files(Path(root) / place.lstrip("/"), mounted, groups[controller], v2=v2)
    return found


def _groups(text: str) -> dict[str, str]:
    """The path of this process's group by controller; "" is cgroup v2."""
    rows = (line.split(":", 2) for line in text.splitlines() if line.count(":") >= 2)
    return {controller: path for _, controllers, path in rows for controller in controllers.split(",")}


def _quota_files(mount: Path, mounted: str, group: str, *, v2: bool) -> list[Quota]:
    """The quota files of a group and its ancestors, as far as the mount shows them.

    In a container the mount shows the container's own group (`mounted`) at its top.
    """
    path = PurePosixPath(group)
    inside = path.relative_to(mounted) if path.is_relative_to(mounted) else PurePosixPath()
    folders = [mount / inside, *((mount / p) for p in inside.parents)] if inside.parts else [mount]
    names = ("cpu.max",) if v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    return [Quota(*(str(f / n) for n in names)) for f in folders if (f / names[0]).is_file()]

"""Group LLO dumps by compilation; several may dump into one directory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xlanb.dump.tpu.names import TOP_LEVEL

if TYPE_CHECKING:
    from xlanb.dump.reader import DumpFile

_MEMORY_SPACE = "memory-space-assignment"


def compilations(files: Iterable[DumpFile]) -> list[list[DumpFile]]:
    """Return the LLO dumps of a directory, grouped by compilation, in order of their beginning.

    A compilation begins with its top level program, whose dumps share a timestamp; its other
    programs follow before the next begins. The files of memory space assignment are written first,
    with their own timestamp. Concurrent compilations are not separated.
    """
    listed = sorted(files, key=lambda f: (f.name.timestamp or 0, f.name.kernel, f.name.sequence or -1))
    starts = sorted({_time(f) for f in listed if f.name.kernel == TOP_LEVEL and not _is_assignment(f)})
    if not starts:
        return [listed] if listed else []
    groups: list[list[DumpFile]] = [[] for _ in starts]
    for f in listed:
        at = bisect_left(starts, _time(f)) if _is_assignment(f) else bisect_right(starts, _time(f)) - 1
        groups[min(max(at, 0), len(starts) - 1)].append(f)
    return groups


def _time(f: DumpFile) -> int:
    return f.name.timestamp or 0


def _is_assignment(f: DumpFile) -> bool:
    return f.name.label.startswith(_MEMORY_SPACE)

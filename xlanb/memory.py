"""Available memory, and the error when there is not enough."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from xlanb.errors import OutOfMemoryError

ADDRESSABLE: Final = 1 << 62
"""The size limit in bytes of arrays and arenas: offsets are signed 64-bit integers."""
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size_text(count: int) -> str:
    """Format bytes for a reader: `2.5 GiB`; beyond 2^80 as a power of ten."""
    if count >= 1 << 80:
        return f"about 10^{len(str(count)) - 1} bytes"
    unit = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / 1024**unit:,.1f} {_UNITS[unit]}" if unit else f"{count} bytes"


def available_bytes() -> int | None:
    """Bytes that this process can still allocate: the system's available memory, or the rest of its
    address space limit; None if unknown.
    """
    found = [n for n in (_left_in_system(), _left_of_limit()) if n is not None]
    return min(found, default=None)


def out_of_memory(what: str, wanted: int) -> OutOfMemoryError:
    """Return the error for `what`, e.g. "result 0, f32[8]", with the bytes wanted and available."""
    left = available_bytes()
    there = "" if left is None else f"; {size_text(left)} are available"
    return OutOfMemoryError(f"out of memory for {what}: {size_text(wanted)} requested{there}", wanted)


def check_addressable(what: str, wanted: int) -> None:
    """Raise if a size exceeds the address space.

    Raises:
        OutOfMemoryError: `what` wants ADDRESSABLE bytes or more.
    """
    if wanted >= ADDRESSABLE:
        raise OutOfMemoryError(f"{what} takes {size_text(wanted)}, more than can be addressed", wanted)


def _left_in_system() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _left_of_limit() -> int | None:
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return None
        used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return None
    return max(limit - used, 0)

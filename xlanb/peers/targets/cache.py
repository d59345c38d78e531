"""Compilations on disk, one folder each, keyed by program, target, flags and compiler versions.

They are in the folder XLANB_CACHE_DIR, by default in the user's cache folder; if XLANB_CACHE_DIR is
empty, nothing is kept. When their total exceeds XLANB_CACHE_BYTES (by default 4 GiB), the least
recently used ones are removed. A small program takes some 10 MB for a GPU and 30 MB for a TPU,
whose LLO is gzipped from 90 MB of text.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from xlanb.debug_options import environment_number
from xlanb.files import own_folder

_FORMAT = "xlanb-target-2"
_DEFAULT_BYTES = 4 << 30
PART = "part-"
"""Prefix of the folder of a running compilation."""
_ABANDONED_S = 24 * 3600
_COMPRESSED = ".gz"
_LEVEL = 1
"""The gzip level: 1 shrinks LLO to a quarter at 90 MB/s; the best, to a fifth in three times as
long.
"""


def cache_folder() -> Path | None:
    """The folder of all compilations; None if caching is off, or other users may write to it.

    Raises:
        FlagError: XLANB_CACHE_BYTES is no whole number.
    """
    named = os.environ.get("XLANB_CACHE_DIR")
    if named == "" or _limit() == 0:
        return None
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's raises where there is none
    folder = (Path(named) if named else Path(home) / "xlanb") / "targets"
    return folder if folder.is_absolute() and not own_folder(folder) else None


def key_of(*parts: bytes | str) -> str:
    """The name of a compilation's folder."""
    made = hashlib.sha256(_FORMAT.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        made.update(len(data).to_bytes(8, "little"))
        made.update(data)
    return made.hexdigest()[:32]


def found(folder: Path, key: str) -> Path | None:
    """Return the folder of a cached compilation, and mark it as recently used."""
    kept = folder / key
    if not (kept / "answer.json").is_file():
        return None
    with suppress(OSError):
        os.utime(kept)
    return kept


def keep(folder: Path, key: str, made: Path) -> Path:
    """Move a compilation into the cache and return its place; another process's result is kept."""
    kept = folder / key
    try:
        made.rename(kept)
    except OSError:
        if not (kept / "answer.json").is_file():
            return made  # another disk, or a full one: it is not moved
        shutil.rmtree(made, ignore_errors=True)
    _trim(folder, kept)
    return kept


def compress(folder: Path) -> None:
    """Gzip all files below a folder in place; files that cannot be written are unchanged."""
    files = [f for f in folder.rglob("*") if f.is_file() and f.suffix != _COMPRESSED and f.stat().st_size]
    with ThreadPoolExecutor() as pool:  # zlib computes without the interpreter's lock
        list(pool.map(_gzip, files))


def _gzip(file: Path) -> None:
    packed = file.with_name(file.name + _COMPRESSED)
    try:
        packed.write_bytes(gzip.compress(file.read_bytes(), _LEVEL, mtime=0))
    except OSError:  # the disk is full, or the name too long with its ending
        with suppress(OSError):
            packed.unlink()
    else:
        file.unlink()


def _limit() -> int:
    return environment_number("XLANB_CACHE_BYTES", _DEFAULT_BYTES)


def _trim(folder: Path, newest: Path) -> None:
    """Remove the oldest compilations until the rest is within the limit; the newest stays."""
    entries = []
    for entry in folder.iterdir():
        with suppress(OSError):  # another process may have removed it
            age = entry.stat().st_mtime
            if not entry.name.startswith(PART) or age < time.time() - _ABANDONED_S:
                entries.append((age, _bytes(entry), entry))
    total = sum(size for _, size, _ in entries)
    for _, size, entry in sorted(entries):
        if total <= _limit():
            return
        if entry != newest:
            shutil.rmtree(entry, ignore_errors=True)
            total -= size


def _bytes(folder: Path) -> int:
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())

"""Object code on disk: of routines, which do not depend on programs, in the user's cache folder; of everything where XLANB_CACHE_DIR names a folder; of nothing where that is empty.

The name of an entry is a hash of the IR, the machine and the versions; its content starts with a digest of the rest, so that a torn or changed file is a miss. Entries are
written under another name and moved, so that processes may share a folder. What lies there is machine code that will be run: a folder that is another user's, or that others may
write to, is left alone. The oldest entries go where there are more than so many bytes: XLANB_CACHE_BYTES, or else 1 GiB, of routines alone 32 MiB.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import llvmlite

from xlanb.cpu.target import Target

_MAGIC = b"xlanb-object-1\n"
_DIGEST = hashlib.sha256().digest_size
_DEFAULT_BYTES = 1 << 30
_ROUTINE_BYTES = 1 << 25
_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def _limit(otherwise: int) -> int:
    asked = os.environ.get("XLANB_CACHE_BYTES", "")
    return int(asked) if asked.isdigit() else otherwise


def _is_own(folder: Path) -> bool:
    """Whether a folder is the user's, and nobody else may write there; one that is not there is made."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = folder.stat()
    except OSError:
        return False
    return not hasattr(os, "geteuid") or (state.st_uid == os.geteuid() and not state.st_mode & _OF_OTHERS)


class ObjectCache:
    """A folder of object files for one target."""

    def __init__(self, folder: Path, target: Target, limit: int = _DEFAULT_BYTES) -> None:
        self.folder = folder
        self.limit = limit
        self._about = repr((llvmlite.__version__, target.triple, target.cpu, target.features)).encode()

    @staticmethod
    def of_environment(target: Target) -> ObjectCache | None:
        """The cache that XLANB_CACHE_DIR names; None where it is not set."""
        folder = os.environ.get("XLANB_CACHE_DIR")
        if not folder:
            return None
        return ObjectCache(Path(folder), target, _limit(_DEFAULT_BYTES))

    @staticmethod
    def of_routines(target: Target) -> ObjectCache | None:
        """The cache of what programs share; None where XLANB_CACHE_DIR is empty, or where there is no folder that is the user's alone."""
        if os.environ.get("XLANB_CACHE_DIR") == "":
            return None
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's raises where there is none
        folder = Path(home) / "xlanb" / "routines"
        if not folder.is_absolute() or not _is_own(folder):
            return None
        return ObjectCache(folder, target, _limit(_ROUTINE_BYTES))

    def _path(self, text: str, *, ready: bool) -> Path:
        key = hashlib.sha256(b"\0".join((_MAGIC, self._about, b"ready" if ready else b"passes", text.encode())))
        return self.folder / f"{key.hexdigest()}.o"

    def get(self, text: str, *, ready: bool) -> bytes | None:
        """The object code of some IR; None where there is none, or where the file is not what was written."""
        path = self._path(text, ready=ready)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        head, data = content[: len(_MAGIC) + _DIGEST], content[len(_MAGIC) + _DIGEST :]
        if head != _MAGIC + hashlib.sha256(data).digest():
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # the entries that were not used for the longest time go first
        return data

    def put(self, text: str, data: bytes, *, ready: bool) -> None:
        """Keep object code; where the disk does not take it, it is not kept."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=".part")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(data).digest() + data)
                Path(name).replace(self._path(text, ready=ready))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            self._trim()

    def _trim(self) -> None:
        """Remove the oldest entries until the rest is within the limit."""
        entries = []
        for path in self.folder.glob("*.o"):
            with suppress(OSError):  # another process may have removed it
                state = path.stat()
                entries.append((state.st_mtime, state.st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries):
            if total <= self.limit:
                return
            with suppress(OSError):
                path.unlink()
            total -= size

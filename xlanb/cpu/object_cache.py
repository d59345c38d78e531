"""Object code on disk: routines in the user's cache directory; everything if XLANB_CACHE_DIR names
a directory; nothing if it is empty.

The name of an entry is a hash of the IR, the machine and the versions; its content starts with a digest of that name and the rest, so that a torn, changed or renamed file is a
miss. Entries are written under another name and moved, so that processes may share a folder. The oldest go where there are more than so many bytes: XLANB_CACHE_BYTES, or else
1 GiB, of routines alone 32 MiB.

What lies there is machine code that will be run. What is promised: only code that this user wrote is run. A folder that is another user's, or that others may write to, is left alone,
with a warning where XLANB_CACHE_DIR names it; an entry is read only where the opened file is a regular one that is this user's and that nobody else may write, so neither a link
nor a folder that somebody puts in another's place brings foreign code in. The digest is no signature: it does not protect from this user's own processes.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
from contextlib import suppress
from pathlib import Path

from xlanb.codegen import llvm
from xlanb.codegen.target import Target
from xlanb.debug_options import environment_number
from xlanb.files import is_own, own_folder, replace_file

_LOG = logging.getLogger("xlanb.cpu")
_MAGIC = b"xlanb-object-2\n"
_DIGEST = hashlib.sha256().digest_size
_DEFAULT_BYTES = 1 << 30
_ROUTINE_BYTES = 1 << 25


def _limit(otherwise: int) -> int:
    return environment_number("XLANB_CACHE_BYTES", otherwise)


def environment_folder() -> Path | None:
    """The directory that XLANB_CACHE_DIR names; None if it is unset or writable by other users,
    which is logged once.
    """
    named = os.environ.get("XLANB_CACHE_DIR")
    if not named:
        return None
    objection = own_folder(Path(named))
    if objection and named not in _told:
        _told.add(named)
        _LOG.warning("XLANB_CACHE_DIR: nothing is kept in %s; %s", named, objection)
    return None if objection else Path(named)


_told: set[str] = set()
"""Folders that were warned of."""


def _read_own(path: Path) -> bytes | None:
    """The content of a regular file that is the user's alone; None where it is not, or not there."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(handle)
        return file.read() if stat.S_ISREG(state.st_mode) and is_own(state) else None


def _entry(name: str, data: bytes) -> bytes:
    """The content of the entry with this name."""
    return _MAGIC + hashlib.sha256(name.encode() + data).digest() + data


def _kind(*, ready: bool) -> bytes:
    """The kind of an object file, by whether LLVM's passes had run over the IR."""
    return b"ready" if ready else b"passes"


class ObjectCache:
    """A folder of object files for one target, and of what else is made for it, each entry by its kind and its text."""

    def __init__(self, folder: Path, target: Target, limit: int = _DEFAULT_BYTES) -> None:
        self.folder = folder
        self.limit = limit
        self._about = repr((llvm.version(), target.triple, target.cpu, target.features)).encode()

    @staticmethod
    def of_environment(target: Target) -> ObjectCache | None:
        """The cache that XLANB_CACHE_DIR names; None where there is no such folder, or one that others may write to.

        Raises:
            FlagError: XLANB_CACHE_BYTES is no whole number.
        """
        folder = environment_folder()
        return None if folder is None else ObjectCache(folder, target, _limit(_DEFAULT_BYTES))

    @staticmethod
    def of_routines(target: Target) -> ObjectCache | None:
        """The cache of what programs share; None where XLANB_CACHE_DIR is empty, or where there is no folder that is the user's alone."""
        if os.environ.get("XLANB_CACHE_DIR") == "":
            return None
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's raises where there is none
        folder = Path(home) / "xlanb" / "routines"
        if not folder.is_absolute() or own_folder(folder):
            return None
        return ObjectCache(folder, target, _limit(_ROUTINE_BYTES))

    def get(self, text: str, *, ready: bool) -> bytes | None:
        """The object code of some IR; None where there is none, or where the file is not what was written."""
        return self.read(_kind(ready=ready), text)

    def put(self, text: str, data: bytes, *, ready: bool) -> None:
        """Keep object code; where the disk does not take it, it is not kept."""
        self.write(_kind(ready=ready), text, data)

    def _path(self, kind: bytes, text: str) -> Path:
        key = hashlib.sha256(b"\0".join((_MAGIC, self._about, kind, text.encode(errors="surrogatepass"))))
        return self.folder / f"{key.hexdigest()}.o"

    def read(self, kind: bytes, text: str) -> bytes | None:
        """The entry of a kind that was made of a text; None where there is none, or where the file is not what was written."""
        path = self._path(kind, text)
        content = _read_own(path)
        if content is None:
            return None
        data = content[len(_MAGIC) + _DIGEST :]
        if content != _entry(path.name, data):
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # the entries that were not used for the longest time go first
        return data

    def write(self, kind: bytes, text: str, data: bytes) -> None:
        """Keep an entry; where the disk does not take it, it is not kept."""
        with suppress(OSError):
            path = self._path(kind, text)
            replace_file(path, _entry(path.name, data))
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

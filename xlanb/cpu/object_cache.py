"""Object code on disk: shared routines in the user's cache directory, or all in XLANB_CACHE_DIR.

If XLANB_CACHE_DIR is empty, nothing is stored.

The name of an entry is a hash of the IR, the machine and the versions. Its content starts with a
digest of that name and the rest, so that a torn, changed or renamed file is a miss. Entries are
written under another name and renamed, so that processes may share a folder. The oldest entries are
removed beyond a number of bytes: XLANB_CACHE_BYTES, by default 1 GiB, for routines alone 32 MiB.

The entries are machine code that will be run. The guarantee: only code that this user wrote is run.
A folder that belongs to another user, or that others may write to, is not used (with a warning if
XLANB_CACHE_DIR names it). An entry is read only if the opened file is a regular one that belongs to
this user and that nobody else may write, so that neither a link nor a replaced folder brings in
foreign code. The digest is no signature: it does not protect from this user's own processes.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from xlanb.codegen import llvm
from xlanb.codegen.target import Target
from xlanb.debug_options import environment_number
from xlanb.digests import blake2b
from xlanb.files import is_own, own_folder, replace_file
from xlanb.lazy_logging import logger

_LOG = logger("xlanb.cpu")
_MAGIC = b"xlanb-object-3\n"
_DIGEST = 32
_DEFAULT_BYTES = 1 << 30
_ROUTINE_BYTES = 1 << 25


def _limit(otherwise: int) -> int:
    return environment_number("XLANB_CACHE_BYTES", otherwise)


def environment_folder() -> Path | None:
    """The directory that XLANB_CACHE_DIR names; None if it is unset or writable by other users.

    The latter is logged once.
    """
    named = os.environ.get("XLANB_CACHE_DIR")
    if not named:
        return None
    objection = own_folder(Path(named))
    if objection and named not in _warned:
        _warned.add(named)
        _LOG.warning("XLANB_CACHE_DIR: nothing is kept in %s; %s", named, objection)
    return None if objection else Path(named)


_warned: set[str] = set()
"""Folders that have been warned about."""


def _read_own(path: Path) -> bytes | None:
    """The content of a regular file that only the user may write; None otherwise."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return None
    with os.fdopen(handle, "rb") as file:
        state = os.fstat(handle)
        return file.read() if stat.S_ISREG(state.st_mode) and is_own(state) else None


def _entry(name: str, data: bytes) -> bytes:
    """The content of the entry with this name."""
    return _MAGIC + blake2b(name.encode() + data, digest_size=_DIGEST).digest() + data


def _kind(*, ready: bool) -> bytes:
    """The kind of an object file, by whether its IR needed LLVM's passes."""
    return b"ready" if ready else b"passes"


class ObjectCache:
    """A folder of object files and other data for one target, by kind and text."""

    def __init__(self, folder: Path, target: Target, limit: int = _DEFAULT_BYTES) -> None:
        self.folder = folder
        self.limit = limit
        self._about = repr((llvm.version(), target.triple, target.cpu, target.features)).encode()

    @staticmethod
    def of_environment(target: Target) -> ObjectCache | None:
        """The cache that XLANB_CACHE_DIR names; None if unset or writable by others.

        Raises:
            FlagError: XLANB_CACHE_BYTES is not a whole number.
        """
        folder = environment_folder()
        return None if folder is None else ObjectCache(folder, target, _limit(_DEFAULT_BYTES))

    @staticmethod
    def of_routines(target: Target) -> ObjectCache | None:
        """The cache of shared routines.

        None if XLANB_CACHE_DIR is empty, or if there is no folder that only the user may write to.
        """
        if os.environ.get("XLANB_CACHE_DIR") == "":
            return None
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - Path's raises if there is none
        folder = Path(home) / "xlanb" / "routines"
        if not folder.is_absolute() or own_folder(folder):
            return None
        return ObjectCache(folder, target, _limit(_ROUTINE_BYTES))

    def get(self, text: str, *, ready: bool) -> bytes | None:
        """The object code of some IR; None if there is none or the file is not what was written."""
        return self.read(_kind(ready=ready), text)

    def put(self, text: str, data: bytes, *, ready: bool) -> None:
        """Store object code; ignore disk errors."""
        self.write(_kind(ready=ready), text, data)

    def _path(self, kind: bytes, text: str) -> Path:
        content = b"\0".join((_MAGIC, self._about, kind, text.encode(errors="surrogatepass")))
        return self.folder / f"{blake2b(content, digest_size=_DIGEST).hexdigest()}.o"

    def read(self, kind: bytes, text: str) -> bytes | None:
        """The entry of a kind for a text; None if there is none or the file is not as written."""
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
            os.utime(path)  # the least recently used entries go first
        return data

    def write(self, kind: bytes, text: str, data: bytes) -> None:
        """Store an entry; ignore disk errors."""
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

"""Read untrusted files up to a limit and without blocking; write files atomically."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from pathlib import Path
from typing import BinaryIO

from xlanb.errors import ArgumentError


def at_home(path: Path) -> Path:
    """Replace `~` and `~user` in a path; return it unchanged if there is no such user."""
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def is_folder(path: Path) -> bool:
    """Whether this directory exists. False for invalid names: too long or with a null character."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_file(path: Path) -> bool:
    """Whether there is such a regular file; as `is_folder`."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def path_to_write(path: str | os.PathLike[str]) -> Path:
    """The path of a file to write.

    Raises:
        ArgumentError: no file can have this name.
    """
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"{os.fspath(path)!r}: no file can have this name: character {error.start} is half of a surrogate pair"
        ) from error
    if b"\0" in encoded:
        raise ArgumentError(f"{os.fspath(path)!r}: no file can have this name: it contains a null character")
    return Path(path)


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        OSError: it cannot be read, or it is a pipe, device or directory. Opening one might block,
            and reading it might never end.
    """
    # Without O_NONBLOCK, opening a pipe blocks until its other end is open.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    file = os.fdopen(handle, "rb")
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return file


def read_regular(path: Path, limit: int) -> bytes:
    """Read up to `limit` + 1 bytes of a regular file, so that a caller can detect a longer one.

    Raises:
        OSError: as `open_regular`.
    """
    with open_regular(path) as file:
        return file.read(limit + 1)


class TemporaryFolder:
    """A temporary folder that is deleted when this object is, or when Python exits."""

    def __init__(self, path: Path) -> None:
        import shutil

        self.path = path
        self._end = weakref.finalize(self, shutil.rmtree, path, ignore_errors=True)

    def remove(self) -> None:
        """Remove it now."""
        self._end()

    def keep(self) -> None:
        """Keep the folder."""
        self._end.detach()


_OF_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def is_own(state: os.stat_result) -> bool:
    """Whether a file or folder belongs to the user, and no other user may write to it."""
    return not hasattr(os, "geteuid") or (state.st_uid == os.geteuid() and not state.st_mode & _OF_OTHERS)


def own_folder(folder: Path) -> str:
    """Make a folder accessible to this user only; return "", or why it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        state = folder.stat()
    except OSError as error:
        return f"it cannot be used ({error}): choose another folder"
    return (
        ""
        if is_own(state)
        else f"it is writable by other users: restrict it (chmod 700 {folder}), or choose another folder"
    )


def replace_file(path: Path, content: bytes) -> None:
    """Write a file atomically: readers see the old content or all of the new.

    A missing folder is created, accessible to this user only.

    Raises:
        OSError: the disk refuses the write; no partial file is left.
    """
    import tempfile  # with shutil it takes longer to import than most files to read

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise

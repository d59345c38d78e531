"""Reading files of which nothing is known: never more than a limit, and never what blocks."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file, up to `limit` + 1 bytes, so that a caller sees that there are more.

    Raises:
        OSError: it cannot be read, or is a pipe, a device, a directory: opening one might wait for ever.
    """
    # Without O_NONBLOCK, opening a pipe waits for its other end before anything can be asked about it.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        return file.read(limit + 1)

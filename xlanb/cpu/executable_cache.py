"""Executables on disk: a program compiled before starts without passes and without LLVM.

They are stored if XLANB_CACHE_DIR names a folder, next to the object files, under the same rules
(see object_cache): only code that this user wrote is run, and the oldest entries are removed. An
entry is found by the module's text, the options, the machine (its features and number of threads)
and a stamp of this package's sources, so that another version compiles anew. A compiled text has an
entry too, which points to the executable of its module, so that the text need not be parsed again.

Not stored: programs of several devices, programs that call functions of the process, and results of
custom pipelines or passes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xlanb.cpu import pipelines
from xlanb.cpu.object_cache import ObjectCache
from xlanb.cpu.saved import content
from xlanb.lazy_logging import logger

if TYPE_CHECKING:
    from xlanb.codegen.target import Target
    from xlanb.cpu.compiler import CompileOptions
    from xlanb.cpu.executable import Executable

_LOG = logger("xlanb.cpu")
_KIND, _TEXT = b"executable", b"text"


class ExecutableCache:
    """The executables in the folder XLANB_CACHE_DIR, for one target and compile options."""

    def __init__(self, disk: ObjectCache, target: Target, options: CompileOptions) -> None:
        self._disk = disk
        self._about = f"{stamp()}\n{target.threads}\n{options}\n"

    @staticmethod
    def of_environment(target: Target, options: CompileOptions) -> ExecutableCache | None:
        """The cache; None if the environment names none, or if a pass is not known by name.

        Raises:
            FlagError: XLANB_CACHE_BYTES is not a whole number.
        """
        if not isinstance(options.pipeline, str) or pipelines.joined():
            return None
        disk = ObjectCache.of_environment(target)
        return None if disk is None else ExecutableCache(disk, target, options)

    def get(self, text: str) -> bytes | None:
        """The file content of the executable of a module with this text (see saved.read).

        None if there is none.
        """
        return self._get(_digest(text))

    def put(self, text: str, exe: Executable) -> None:
        """Store the executable of a module with this text, if it can be stored."""
        if exe.device_count == 1 and not exe.program.host:
            self._disk.write(_KIND, self._about + _digest(text), content(exe))

    def get_of(self, words: str) -> bytes | None:
        """The same for a module parsed from these words before; None if it was not."""
        name = self._disk.read(_TEXT, self._about + words)
        return self._get(name.decode()) if name is not None else None

    def put_words(self, words: str, text: str) -> None:
        """Record that these words yield the module with this text."""
        if self._disk.read(_KIND, self._about + _digest(text)) is not None:
            self._disk.write(_TEXT, self._about + words, _digest(text).encode())

    def _get(self, digest: str) -> bytes | None:
        found = self._disk.read(_KIND, self._about + digest)
        _LOG.debug("%s in the cache of executables", "not found" if found is None else "found")
        return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


@cache
def stamp() -> str:
    """A digest of the names, sizes and times of this package's sources."""
    root = Path(__file__).parents[1]
    return hashlib.sha256("".join(sorted(_sources(str(root), ""))).encode()).hexdigest()


def _sources(folder: str, below: str) -> Iterator[str]:
    """Yield a line for each source in a folder and its subfolders."""
    with os.scandir(folder) as entries:  # four times as fast as Path.rglob
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                yield f"{below}{entry.name}\0{state.st_size}\0{state.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path, f"{below}{entry.name}/")

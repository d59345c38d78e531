"""Executables on disk: a program that was compiled before starts without passes and without LLVM.

They are kept where XLANB_CACHE_DIR names a folder, beside the object files, under the same rules (see object_cache): only
what this user wrote is run, and the oldest entries go. An entry is found by the module's text, the options, the machine
(its features and number of threads) and a stamp of the sources of this package, so that another version compiles anew.
A text that was compiled has an entry too, which says where the executable of its module is: it need not be read again.

Not kept: programs of several devices, those that call functions of the process, and what a pipeline or a pass of the
user's own made.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xlanb.cpu import pipelines
from xlanb.cpu.object_cache import ObjectCache
from xlanb.cpu.saved import content

if TYPE_CHECKING:
    from xlanb.codegen.target import Target
    from xlanb.cpu.compiler import CompileOptions
    from xlanb.cpu.executable import Executable

_LOG = logging.getLogger("xlanb.cpu")
_KIND, _TEXT = b"executable", b"text"


class ExecutableCache:
    """The executables in the folder that XLANB_CACHE_DIR names, for one target and the options of a compilation."""

    def __init__(self, disk: ObjectCache, target: Target, options: CompileOptions) -> None:
        self._disk = disk
        self._about = f"{stamp()}\n{target.threads}\n{options}\n"

    @staticmethod
    def of_environment(target: Target, options: CompileOptions) -> ExecutableCache | None:
        """The cache; None where the environment names none, or where the options' passes are not known by name.

        Raises:
            FlagError: XLANB_CACHE_BYTES is no whole number.
        """
        if not isinstance(options.pipeline, str) or pipelines.joined():
            return None
        disk = ObjectCache.of_environment(target)
        return None if disk is None else ExecutableCache(disk, target, options)

    def get(self, text: str) -> bytes | None:
        """The content of the file of the executable of a module with this text (see saved.read); None where there is none."""
        return self._get(_digest(text))

    def put(self, text: str, exe: Executable) -> None:
        """Keep the executable of a module with this text, where it can be kept."""
        if exe.device_count == 1 and not exe.program.host:
            self._disk.write(_KIND, self._about + _digest(text), content(exe))

    def get_of(self, words: str) -> bytes | None:
        """The same of a module that was read of these words before; None where they were not."""
        name = self._disk.read(_TEXT, self._about + words)
        return self._get(name.decode()) if name is not None else None

    def put_words(self, words: str, text: str) -> None:
        """Keep which module's executable is that of these words: the one with this text."""
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
    """A line for each source in a folder and those in it."""
    with os.scandir(folder) as entries:  # a quarter of the time that Path.rglob takes
        for entry in entries:
            if entry.name.endswith(".py"):
                state = entry.stat()
                yield f"{below}{entry.name}\0{state.st_size}\0{state.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _sources(entry.path, f"{below}{entry.name}/")

"""Executables on disk: a program that was compiled before starts without passes and without LLVM.

They are kept where XLANB_CACHE_DIR names a folder, beside the object files, under the same rules (see object_cache): only
what this user wrote is run, and the oldest entries go. An entry is found by the module's text, the options, the machine
(its features and number of threads) and a stamp of the sources of this package, so that another version compiles anew.

Not kept: programs of several devices, those that call functions of the process, and what a pipeline or a pass of the
user's own made.
"""

from __future__ import annotations

import hashlib
import logging
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
_KIND = b"executable"


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
        found = self._disk.read(_KIND, self._about + text)
        _LOG.debug("%s in the cache of executables", "not found" if found is None else "found")
        return found

    def put(self, text: str, exe: Executable) -> None:
        """Keep the executable of a module with this text, where it can be kept."""
        if exe.device_count == 1 and not exe.program.host:
            self._disk.write(_KIND, self._about + text, content(exe))


@cache
def stamp() -> str:
    """A digest of the names, sizes and times of this package's sources."""
    root = Path(__file__).parents[1]
    found = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        state = path.stat()
        found.update(f"{path.relative_to(root)}\0{state.st_size}\0{state.st_mtime_ns}\n".encode())
    return found.hexdigest()

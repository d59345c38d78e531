"""Logs under the logger `xlanb`, with the lines and the levels of TensorFlow's own.

Each line has the level of TensorFlow's VLOG and the name of the TensorFlow file that writes it. It
goes to Python's logging as INFO (VLOG 1) or DEBUG (VLOG 2 and more), where the user may filter it.
It goes to stderr too, as in TensorFlow, if the verbosity is high enough:
`--vmodule=xla_compiler=2,hlo_*=1` (flag or TF_CPP_VMODULE) sets it for some files,
TF_CPP_MIN_VLOG_LEVEL or TF_CPP_MAX_VLOG_LEVEL for all. A pattern of `--vmodule` is a file name
without its extension, with * and ?.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from xlanb.debug_options import current
from xlanb.lazy_logging import logger

if TYPE_CHECKING:
    import logging

ROOT = logger("xlanb")
MODULES_VARIABLE = "TF_CPP_VMODULE"
LEVEL_VARIABLES = ("TF_CPP_MIN_VLOG_LEVEL", "TF_CPP_MAX_VLOG_LEVEL")
_INFO, _DEBUG = 20, 10
"""Levels of `logging`, which is imported when something is logged."""


class VLog:
    """Log the lines of one of TensorFlow's files: `VLog("runtime", "xla_compiler")` is
    xlanb.runtime.
    """

    def __init__(self, room: str, module: str) -> None:
        self.module = module
        self.logger = logger(f"xlanb.{room}")

    def is_on(self, level: int) -> bool:
        """Whether a line of this level goes anywhere: make none that does not."""
        return self._is_enabled(_python_level(level)) or verbosity(self.module) >= level

    def _is_enabled(self, level: int) -> bool:
        """Whether a logger takes a level; none does if nobody has imported `logging`."""
        return "logging" in sys.modules and self.logger.isEnabledFor(level)

    def vlog(self, level: int, text: str, *args: object) -> None:
        """Log a line; `args` fill `text` as logging has it."""
        python_level = _python_level(level)
        if self._is_enabled(python_level):
            self.logger.log(python_level, text, *args, stacklevel=2)
        elif verbosity(self.module) >= level:
            record = self.logger.makeRecord(self.logger.name, python_level, self.module, 0, text, args, None)
            if self.logger.hasHandlers():
                self.logger.handle(record)
            else:
                record.name = self.module
                sys.stderr.write(_formatter().format(record) + "\n")


@cache
def _formatter() -> logging.Formatter:
    import logging

    return logging.Formatter("%(asctime)s.%(msecs)03d: I %(name)s] %(message)s", "%Y-%m-%d %H:%M:%S")


def _python_level(level: int) -> int:
    return _INFO if level <= 1 else _DEBUG


def verbosity(module: str) -> int:
    """The VLOG level in force for one of TensorFlow's files, 0 by default.

    Raises:
        FlagError: the environment holds a bad flag.
    """
    texts = (*current().vmodule, *os.environ.get(MODULES_VARIABLE, "").split(","))
    levels = tuple(os.environ.get(v, "") for v in LEVEL_VARIABLES)
    return _verbosity(module, texts, levels)


@lru_cache(maxsize=512)
def _verbosity(module: str, modules: Sequence[str], levels: Sequence[str]) -> int:
    for text in modules:
        pattern, _, level = text.strip().rpartition("=")
        if pattern and level.isdecimal() and fnmatchcase(module, pattern):
            return int(level)
    return max((int(level) for level in levels if level.isdecimal()), default=0)

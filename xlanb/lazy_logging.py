"""Loggers that import `logging` when they are first used.

Most compilations log nothing, and the import takes longer than many passes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from xlanb.late_object import LateObject

if TYPE_CHECKING:
    from logging import Logger

_METHODS = ("debug", "error", "handle", "hasHandlers", "info", "isEnabledFor", "log", "makeRecord", "warning")
"""The methods used here. `getLogger`, which takes a lock of all loggers, is called only once."""


def logger(name: str) -> Logger:
    """The logger of this name, as `logging.getLogger` returns it."""
    return cast("Logger", LateObject(lambda: import_module("logging").getLogger(name), _METHODS, f"logger({name!r})"))

"""Loggers that import `logging` when they are first used.

Most compilations log nothing, and the import takes longer than many passes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from logging import Logger


def logger(name: str) -> Logger:
    """The logger of this name, as `logging.getLogger` returns it."""
    return cast("Logger", _Logger(name))


class _Logger:
    """A logger; once one of its methods has been used, it has that method as a member.

    So `getLogger`, which takes a lock of all loggers, is not called again.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        value = getattr(import_module("logging").getLogger(self._name), name)
        if callable(value):
            setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"logger({self._name!r})"

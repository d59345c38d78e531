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
    """A logger's members, looked up when they are used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module("logging").getLogger(self._name), name)

    def __repr__(self) -> str:
        return f"logger({self._name!r})"

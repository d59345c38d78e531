"""Registries that import the files which fill them when something is first missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LateRegistry(dict[K, V]):
    """A table to which files add entries when they are imported.

    If an entry is missing, `load` is called with its key; it imports the files that may add it. So
    no file need be imported beforehand, and no lookup can miss what a file would have added.
    """

    __slots__ = ("_load",)

    def __init__(self, load: Callable[[K], object]) -> None:
        super().__init__()
        self._load = load

    def __contains__(self, key: object) -> bool:
        return self.get(key) is not None

    def __missing__(self, key: K) -> V:
        found: V | None = self.get(key)
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        """The entry of a key, or `default`."""
        found = super().get(key)
        if found is None:
            self._load(key)
            found = super().get(key, default)
        return found

"""Stand-ins for objects that are made when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


class LateObject:
    """What `make` returns; once a member of it is used, its `methods` are members of this one."""

    def __init__(self, make: Callable[[], Any], methods: Iterable[str], text: str) -> None:
        self._make, self._methods, self._text = make, methods, text

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        made = self._make()
        for method in self._methods:
            setattr(self, method, getattr(made, method))
        return getattr(made, name)

    def __repr__(self) -> str:
        return self._text

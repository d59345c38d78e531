"""Regular expressions that are compiled when they are first used.

Importing the compiler would else compile a hundred of them, a tenth of the time of the imports; a
compilation needs a third.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The compiled expression, as `re.compile` returns it.

    Raises:
        re.error: The expression is invalid; raised at the first use.
    """
    return cast("re.Pattern[AnyStr]", _Pattern(text, flags))


class _Pattern:
    """An expression; once it is compiled, it has the methods as members."""

    def __init__(self, text: Any, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)
        compiled = re.compile(self._text, self._flags)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)

    def __repr__(self) -> str:
        return f"pattern({self._text!r})"

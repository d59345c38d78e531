"""Regular expressions that are compiled when they are first used.

Importing the compiler would else compile a hundred of them, a tenth of the time of the imports; a
compilation needs a third.
"""

from __future__ import annotations

import re
from typing import AnyStr, cast

from xlanb.late_object import LateObject

_METHODS = ("finditer", "findall", "fullmatch", "match", "search", "split", "sub", "subn")


def pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The compiled expression, as `re.compile` returns it.

    Raises:
        re.error: The expression is invalid; raised at the first use.
    """
    return cast("re.Pattern[AnyStr]", LateObject(lambda: re.compile(text, flags), _METHODS, f"pattern({text!r})"))

"""Why a pass without rules does what it does: a function that makes one kind of change bears the reason, and every edit made in it says the reason and the place.

@reason("a result under the layout that is asked for")
def relayout(...): ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

from xlanb.tracing import because

_PACKAGE = Path(__file__).parent.parent.parent
_P = ParamSpec("_P")
_R = TypeVar("_R")


def reason(rule: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let the edits made in the decorated function, no generator, be caused by `rule`; the function's place in the source is the rule's."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        code = function.__code__
        where = f"{Path(code.co_filename).relative_to(_PACKAGE).as_posix()}:{code.co_firstlineno}"

        @wraps(function)
        def caused(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with because(rule=rule, where=where):
                return function(*args, **kwargs)

        return caused

    return decorate

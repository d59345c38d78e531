"""Reasons for the edits of a pass without rules.

A decorated function makes one kind of change. Every edit made in it records the reason and the
place.

@reason("a result under the layout that is asked for")
def relayout(...): ...
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from xlanb.tracing import because
from xlanb.transforms.purpose import place_of

_P = ParamSpec("_P")
_R = TypeVar("_R")


def reason(rule: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Record `rule` as the cause of edits made in the decorated function, at its source location.

    The function must not be a generator.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        where = place_of(function)

        @wraps(function)
        def caused(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            with because(rule=rule, where=where):
                return function(*args, **kwargs)

        return caused

    return decorate

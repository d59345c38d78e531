"""Values of context variables within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_Value = TypeVar("_Value")


@contextmanager
def bound(variable: ContextVar[_Value], value: _Value) -> Iterator[_Value]:
    """Set a context variable until the block ends.

    The old value is restored, rather than the token of `set`: an interrupt between `set` and the
    assignment of its token would keep the new value for ever.
    """
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        variable.set(before)

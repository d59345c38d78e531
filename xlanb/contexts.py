"""Values of context variables within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

_Value = TypeVar("_Value")


@contextmanager
def bound(variable: ContextVar[_Value], value: _Value) -> Iterator[_Value]:
    """Give a context variable this value until the block ends.

    The value before is put back, and not a token that `set` gives: an interrupt between `set` and the assignment of its token would leave the new value for ever.
    """
    before = variable.get()
    try:
        variable.set(value)
        yield value
    finally:
        variable.set(before)

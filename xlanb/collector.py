"""Python's garbage collector while passes run, and while a trace is read and written for the step view.

Passes make many objects that stay: instructions, snapshots, events. The collector looks at all young ones after every 700, and at everything there is whenever what is new has grown to a
quarter of it: of a compilation that is watched this was a third of the time, and found nothing. While passes run it looks more rarely; what becomes garbage waits a little longer.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_YOUNG = 50_000
"""Number of allocations between two collections of the youngest generation."""

_lock = RLock()  # a signal's handler may compile as well
_running: set[object] = set()
"""A token for each active block."""
_before: list[tuple[int, int, int]] = []
"""The thresholds to restore, last; empty if xlanb has not changed them."""


@contextmanager
def seldom() -> Iterator[None]:
    """Let the collector look more rarely until the block ends, the last one of those that run at once; a collector that was turned off or is as patient already stays as it is.

    A block that an interrupt ends between its last two steps leaves the thresholds to the next one.
    """
    token = object()
    try:
        with _lock:
            _running.add(token)
            _raise()
        yield
    finally:
        with _lock:
            _running.discard(token)
            if not _running:
                _go_back()


def _raise() -> None:
    now = gc.get_threshold()
    if 0 < now[0] < _YOUNG:
        _before[:] = [now]
        gc.set_threshold(_YOUNG, *now[1:])


def _go_back() -> None:
    # whoever set other thresholds in between meant it
    if _before and gc.get_threshold() == (_YOUNG, *_before[0][1:]):
        gc.set_threshold(*_before[0])
    _before.clear()

"""Raise the thresholds of Python's garbage collector while passes run and traces are converted.

The step view reads and writes traces. Passes create many long-lived objects: instructions,
snapshots, events. By default Python collects the youngest generation after every 700 allocations,
and all of them whenever the new objects amount to a quarter of the old. In an observed compilation
this took a third of the time and freed nothing. While passes run, collections are rarer; garbage is
freed a little later.

What many allocations have left at the end of a block counts as old without a visit. A collection
would visit it, find most of it alive, and call it old as well.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

from xlanb.tracing import is_observed

_YOUNG = 200_000
"""Number of allocations between two collections of the youngest generation."""
_MIDDLE = 100
"""Young collections between two collections of the middle generation."""

_MANY = 10_000
"""Objects of a block from which on they are not visited at its end."""
_UNVISITED = 200_000
"""Number of unvisited objects after which they are compared with all objects."""
_RECORDED = 4
"""An observed block allocates so many times what an unobserved one does. The rest are records,
without cycles: measured on a training step of 3,300 instructions (180,000 objects, else 46,000)."""

_lock = RLock()  # a signal's handler may compile as well
_running: set[object] = set()
"""A token for each active block."""
_before: list[tuple[int, int, int]] = []
"""The thresholds to restore, last; empty if xlanb has not changed them."""
_others_freeze = False
"""Whether somebody else has frozen objects; to count them takes longer the more they are."""
_unvisited = 0
"""Objects that were called old without a visit since the last full collection of `_age`."""


@contextmanager
def raised_gc_thresholds() -> Iterator[None]:
    """Raise the thresholds until the block ends (of concurrent blocks, the last one).

    Does nothing if collection is off or the thresholds are higher already.

    If an interrupt hits the last steps of a block, the thresholds stay raised until the next block
    ends.
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
                if gc.get_count()[0] >= _MANY:
                    _age()
                _go_back()


@contextmanager
def importing() -> Iterator[None]:
    """Raise the thresholds during imports, whose objects then count as old without a visit to each.

    They live as long as the process.
    """
    with raised_gc_thresholds():
        yield
        _call_old()


def _age() -> None:
    """Call the objects of a block old, or collect all if a quarter of them was never visited."""
    global _unvisited  # noqa: PLW0603 - under the lock
    if not gc.isenabled() or not _before:
        return
    _unvisited += gc.get_count()[0] // (_RECORDED if is_observed() else 1)
    if _unvisited >= _UNVISITED and 4 * _unvisited >= len(gc.get_objects()):
        _unvisited = 0
        gc.collect()
    else:
        _call_old()


def _call_old() -> None:
    global _others_freeze  # noqa: PLW0603 - any thread finds the same
    _others_freeze = _others_freeze or gc.get_freeze_count() > 0  # before a fork, for instance
    if not _others_freeze:
        gc.freeze()
        gc.unfreeze()  # to the oldest generation


def _raise() -> None:
    now = gc.get_threshold()
    if 0 < now[0] < _YOUNG:
        _before[:] = [now]
        gc.set_threshold(_YOUNG, max(_MIDDLE, now[1]), now[2])


def _go_back() -> None:
    # whoever set other thresholds in between meant it
    if _before and gc.get_threshold() == (_YOUNG, max(_MIDDLE, _before[0][1]), _before[0][2]):
        gc.set_threshold(*_before[0])
    _before.clear()

"""Raise the thresholds of Python's garbage collector while passes run and traces are converted.

The step view reads and writes traces. Passes create many long-lived objects: instructions,
snapshots, events. By default Python collects the youngest generation after every 700 allocations,
and all of them whenever the new objects amount to a quarter of the old. In an observed compilation
this took a third of the time and freed nothing. While passes run, collections are rarer; garbage is
freed a little later.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

_YOUNG = 50_000
"""Number of allocations between two collections of the youngest generation."""
_MIDDLE = 100
"""Young collections between two collections of the middle generation."""
_YOUNG_KEPT = 1_000_000
"""The same as _YOUNG while nearly all allocated objects are kept."""
_MANY_MOVED = 1_000_000
"""From this many moved objects on, the oldest generation may be collected."""

_lock = RLock()  # a signal's handler may compile as well
_running: set[object] = set()
"""A token for each active block."""
_before: list[tuple[int, int, int]] = []
"""The thresholds to restore, last; empty if xlanb has not changed them."""
_raised: list[tuple[int, int, int]] = []
"""The thresholds that xlanb has set."""
_moved = {"objects": 0, "full collections": 0}
"""Objects moved to the oldest generation since its last collection, and the number of those."""


@contextmanager
def raised_gc_thresholds(*, kept: bool = False) -> Iterator[None]:
    """Raise the thresholds until the block ends (of concurrent blocks, the last one).

    Does nothing if collection is off or the thresholds are higher already. If the last block is
    `kept`, what it allocates stays alive: the collector does not visit it at the end.

    If an interrupt hits the last steps of a block, the thresholds stay raised until the next block
    ends.
    """
    token = object()
    try:
        with _lock:
            _running.add(token)
            _raise(_YOUNG_KEPT if kept else _YOUNG)
        yield
    finally:
        with _lock:
            _running.discard(token)
            if not _running:
                if kept and _before:
                    _move_to_oldest()
                _go_back()


def _raise(young: int) -> None:
    now = gc.get_threshold()
    if 0 < now[0] < young:
        if not (_before and _raised == [now]):
            _before[:] = [now]
        _raised[:] = [(young, max(_MIDDLE, now[1]), now[2])]
        gc.set_threshold(*_raised[0])


def _go_back() -> None:
    # whoever set other thresholds in between meant it
    if _before and _raised == [gc.get_threshold()]:
        gc.set_threshold(*_before[0])
    _before.clear()


def _move_to_oldest() -> None:
    """Move all objects to the oldest generation, without visiting them.

    Python collects that generation when a quarter of it is new, but does not count these objects.
    So it is collected here if they are that many. Objects that the program froze stay frozen.
    """
    if not gc.isenabled() or gc.get_freeze_count():
        return
    collections = gc.get_stats()[2]["collections"]
    if collections != _moved["full collections"]:
        _moved.update({"objects": 0, "full collections": collections})
    _moved["objects"] += gc.get_count()[0]
    if _moved["objects"] > _MANY_MOVED and 4 * _moved["objects"] > len(gc.get_objects(generation=2)):
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()

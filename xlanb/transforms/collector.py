"""Python's garbage collector while passes run.

Passes make many objects that stay: instructions, snapshots, events. The collector looks at all young ones after every 700, and at everything there is whenever what is new has grown to a
quarter of it: of a compilation that is watched this was a third of the time, and found nothing. While passes run it looks more rarely; what becomes garbage waits a little longer.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_YOUNG = 50_000
"""Objects made between two looks at the young ones."""

_lock = Lock()
_running = 0
_before = (0, 0, 0)


@contextmanager
def seldom() -> Iterator[None]:
    """Let the collector look more rarely until the block ends, the last one of those that run at once; a collector that was turned off or is as patient already stays as it is."""
    global _running, _before  # noqa: PLW0603 - the collector is the process's, and so is what is known of it
    with _lock:
        _running += 1
        if _running == 1:
            _before = gc.get_threshold()
            if 0 < _before[0] < _YOUNG:
                gc.set_threshold(_YOUNG, *_before[1:])
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            # whoever set it in between meant it
            if _running == 0 and gc.get_threshold() == (_YOUNG, *_before[1:]):
                gc.set_threshold(*_before)

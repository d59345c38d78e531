"""Do work once for many threads: the first one does it, the others wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field
from typing import Any, Final, Generic, TypeVar

from xlanb.lazy_dataclass import dataclass
from xlanb.threads import Latch

_LONGEST_PAUSE: Final = 1.0  # seconds that others wait for manually stepped work
_Key = TypeVar("_Key", bound=Hashable)
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class Pending:
    """Work in progress.

    `thread` does it (0: a background thread); `paused_at` is when a stepped computation paused (0:
    it runs).
    """

    thread: int
    done: Latch = field(default_factory=Latch)
    paused_at: float = 0.0

    @property
    def stands_still(self) -> bool:
        """Whether it is stepped manually, and there has been no step for a while."""
        return bool(self.paused_at) and time.monotonic() - self.paused_at > _LONGEST_PAUSE


class Claims(Generic[_Key]):
    """The work in progress, by key; `lock` guards `pending` and the stored results."""

    def __init__(self, lock: AbstractContextManager[Any]) -> None:
        self.pending: dict[_Key, Pending] = {}
        self._lock = lock

    @contextmanager
    def claim(self, key: _Key, find: Callable[[], _T | None]) -> Iterator[_T | Pending]:
        """Enter a block in which only this thread does the work of a key.

        Yields `find()` if another thread has done it in the meantime. `find` is called with the
        lock held. A thread does not wait for itself, nor for work that is stepped manually and has
        stalled: then it works too.
        """
        found = self._claimed(key, find)
        try:
            yield found
        finally:
            if isinstance(found, Pending):
                with self._lock:
                    if self.pending.get(key) is found:
                        del self.pending[key]
                found.done.set()

    def _claimed(self, key: _Key, find: Callable[[], _T | None]) -> _T | Pending:
        own = threading.get_ident()
        while True:
            with self._lock:
                made = find()
                if made is not None:
                    return made
                other = self.pending.get(key)
                if other is None or other.thread == own or other.stands_still:
                    claim = self.pending[key] = Pending(own)
                    return claim
            other.done.wait(0.05)


def watched(pending: Pending, stages: Generator[Any, None, _T]) -> Generator[Any, None, _T]:
    """The stages of claimed work; records pauses between them."""
    while True:
        try:
            stage = next(stages)
        except StopIteration as end:
            made: _T = end.value
            return made
        pending.paused_at = time.monotonic()
        yield stage
        pending.paused_at = 0.0

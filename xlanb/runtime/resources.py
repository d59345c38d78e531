"""The resources of a session besides its variables: queues, iterators, lookup tables.

Their changes are permanent, even if the run fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.errors import CancelledError, XlanbError
from xlanb.threads import Monitor


class OutOfRangeError(XlanbError):
    """There are no more elements: the end of a data set, or of a closed queue."""


class DeadlineExceededError(XlanbError):
    """A run waited too long."""


class Resources:
    """Resources of one session by container and name.

    The lock of `monitor` guards all of them; changes of a queue must notify it.
    """

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}
        self.monitor = Monitor()
        self.is_closed = False

    def get(self, key: str, make: Callable[[], Any]) -> Any:
        """The resource of that name, created if there is none.

        Raises:
            CancelledError: The session was closed.
        """
        with self.monitor.lock:
            if self.is_closed:
                raise CancelledError(f"the session was closed while a run was using {key!r}")
            if key not in self._held:
                self._held[key] = make()
            return self._held[key]

    def close(self) -> None:
        """Delete all resources; waiting threads are notified."""
        with self.monitor.lock:
            self.is_closed = True
            self._held.clear()
            self.monitor.notify()

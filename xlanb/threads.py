"""Threads that help one that a signal may interrupt."""

from __future__ import annotations

import _thread
import atexit
import os
import threading
from collections.abc import Callable

SIGNALS_S = 0.1
"""Seconds after which a wait in the main thread lets Python look for signals."""

_ACTIVE: set[Helper] = set()
"""Helpers that may still work, other than daemons: the process waits for them before it ends."""


class Helper:
    """A thread for some work, which must not raise.

    An interrupt may come at any moment of `start`, `wait` and `stop`, and `wait` and `stop` may be called
    again after it. `threading.Thread` cannot be used for that:

    - An interrupt while `Thread.start` waits for the new thread can leave the lock of its event taken; the
      new thread then waits for that lock for ever, and the process never ends.
    - Before Python 3.13 an interrupted `Thread.join` takes the thread for one that has ended.
    - A wait without a limit may miss a signal that comes after Python looked for signals, but before the
      system's call sleeps.

    A process that ends waits for helpers that have begun their work, except for daemons.
    """

    def __init__(self, work: Callable[[], object], *, daemon: bool = False) -> None:
        self._work, self._is_daemon = work, daemon
        self._claim: dict[str, str] = {}
        """Whether `_run` or `stop` came first: no interrupt splits `setdefault`, and it answers alike each time."""
        self._ending = threading.Lock()
        self._ending.acquire()
        self._has_ended = False

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: there can be no more threads.
        """
        if not self._is_daemon:
            _ACTIVE.add(self)
        try:
            _thread.start_new_thread(self._run, ())
        except RuntimeError:
            _ACTIVE.discard(self)
            raise

    def _run(self) -> None:
        if self._claim.setdefault("by", "run") == "run":
            try:
                self._work()
            finally:
                self._has_ended = True
                self._ending.release()
        _ACTIVE.discard(self)

    def wait(self) -> None:
        """Wait until the work of a thread that was started has ended."""
        while not self._has_ended:
            self._ending.acquire(timeout=SIGNALS_S)  # taken by one waiter, for good: the others look again

    def stop(self) -> None:
        """Wait until the work has ended; what has not begun never will."""
        if self._claim.setdefault("by", "stop") == "run":
            self.wait()
        _ACTIVE.discard(self)


def active() -> list[Helper]:
    """The helpers that were started and have not ended, other than daemons."""
    return list(_ACTIVE)


@atexit.register
def _stop_all() -> None:
    for h in active():
        h.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ACTIVE.clear)  # a fork has none of these threads

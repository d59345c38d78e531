"""Threads that help one that a signal may interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable

SIGNALS_S = 0.1
"""Seconds after which a wait in the main thread lets Python look for signals."""


class Helper:
    """A thread for some work, which must not raise.

    `wait` may be called again after an interrupt. `threading.Thread.join` may not before Python 3.13: once interrupted it takes the thread for one that has ended. Nor does an
    interrupt of `Thread.start` tell whether the thread runs. And a wait without a limit may miss a signal: one that comes after Python looked for signals, but before the
    system's call sleeps, does not wake it.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._begun, self._ending = threading.Lock(), threading.Lock()
        self._ending.acquire()
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        """Start the thread.

        Raises:
            RuntimeError: there can be no more threads.
        """
        self._thread.start()

    def _run(self) -> None:
        if self._begun.acquire(blocking=False):
            try:
                self._work()
            finally:
                self._has_ended = True
                self._ending.release()

    def wait(self) -> None:
        """Wait until the work of a thread that was started has ended."""
        while not self._has_ended:
            self._ending.acquire(timeout=SIGNALS_S)  # taken by one waiter, for good: the others look again

    def stop(self) -> None:
        """Wait until the work has ended; what has not begun never will."""
        if not self._begun.acquire(blocking=False):
            self.wait()

"""Threads that help one that a signal may interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Helper:
    """A thread for some work, which must not raise.

    `wait` may be called again after an interrupt. `threading.Thread.join` may not before Python 3.13: once interrupted it takes the thread for one that has ended. Nor does an
    interrupt of `Thread.start` tell whether the thread runs.
    """

    def __init__(self, work: Callable[[], object], name: str) -> None:
        self._work = work
        self._begun, self._unfinished = threading.Lock(), threading.Lock()
        self._unfinished.acquire()
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
                self._unfinished.release()

    def wait(self) -> None:
        """Wait until the work of a thread that was started has ended."""
        with self._unfinished:
            pass

    def stop(self) -> None:
        """Wait until the work has ended; what has not begun never will."""
        if not self._begun.acquire(blocking=False):
            self.wait()

"""Threads that help one that a signal may interrupt."""

from __future__ import annotations

import _thread
import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar, overload

_T = TypeVar("_T")
SIGNALS_S = 0.1
"""Seconds after which a wait in the main thread lets Python look for signals."""

HAS_THREADS = sys.platform not in {"emscripten", "wasi"}
"""Whether a thread can be started: not in a browser."""
_ACTIVE: set[Helper] = set()
"""Helpers that may still work, other than daemons: the process waits for them before it ends."""


class Latch:
    """An event that is set once, for good.

    An interrupt may come at any moment of `wait` and `set`: the other threads continue after
    SIGNALS_S seconds at most. `threading.Event` is unsuitable: its lock is taken by a Python
    method, and an interrupt at the end of that method leaves it taken. Any thread that sets the
    event or waits for it then hangs for ever.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._keys = [None]
        """One, for the first call of `set`: no interrupt splits `pop`."""
        self._shut = threading.Lock()
        self._shut.acquire()

    def set(self) -> None:
        """Let go on whoever waits, now and later."""
        self._is_set = True
        try:
            self._keys.pop()
        except IndexError:
            return
        self._shut.release()

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set, at most so many seconds; whether it is."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self._is_set:
            left = SIGNALS_S if end is None else min(SIGNALS_S, end - time.monotonic())
            if left <= 0:
                break
            if self._shut.acquire(timeout=left):
                self._shut.release()
        return self._is_set


class Monitor:
    """A lock, and a way to wait for changes that other threads make while they hold it.

    An interrupt may come at any moment and leaves the lock free, unlike that of a
    `threading.Condition`, which Python methods take and release. Hold `lock` by `with` only.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._next: Latch | None = None
        """Set at the next change, where somebody waits for it."""

    def notify(self) -> None:
        """Say that something has changed; with the lock held."""
        changed, self._next = self._next, None
        if changed is not None:
            changed.set()

    @overload
    def attempt(self, act: Callable[[], _T | None], timeout: None = None) -> _T: ...

    @overload
    def attempt(self, act: Callable[[], _T | None], timeout: float | None) -> _T | None: ...

    def attempt(self, act: Callable[[], _T | None], timeout: float | None = None) -> _T | None:
        """Call `act` with the lock held, again after each change and every SIGNALS_S, until not
        None.

        Returns:
            The result of `act`; None after `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            with self.lock:
                found = act()
                if found is not None:
                    return found
                changed = self._next = self._next or Latch()
            left = SIGNALS_S if end is None else min(SIGNALS_S, end - time.monotonic())
            if left <= 0:
                return None
            changed.wait(left)


class Helper:
    """A thread for some work, which must not raise.

    An interrupt may come at any moment of `start`, `wait` and `stop`, and `wait` and `stop` may be
    called again after it. `threading.Thread` is unsuitable:

    - An interrupt while `Thread.start` waits for the new thread can leave the lock of its event
      taken; the new thread then waits for that lock for ever, and the process never ends.
    - Before Python 3.13 an interrupted `Thread.join` treats the thread as ended.
    - A wait without a limit may miss a signal that comes after Python looked for signals, but
      before the system's call sleeps.

    At exit, the process waits for helpers that have begun their work, except for daemons.
    """

    def __init__(self, work: Callable[[], object], *, daemon: bool = False) -> None:
        self._work, self._is_daemon = work, daemon
        self._claim: dict[str, str] = {}
        """Whether `_run` or `stop` came first; `setdefault` is atomic under interrupts."""
        self._begun, self._ended = Latch(), Latch()

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

    def begin(self) -> None:
        """Start the thread, and wait until it runs.

        Else a caller that goes on in Python holds the lock of the interpreter for milliseconds.

        Raises:
            RuntimeError: there can be no more threads.
        """
        self.start()
        self._begun.wait()

    def _run(self) -> None:
        self._begun.set()
        if self._claim.setdefault("by", "run") == "run":
            try:
                self._work()
            finally:
                self._ended.set()
        _ACTIVE.discard(self)

    def wait(self) -> None:
        """Wait until the work of a thread that was started has ended."""
        self._ended.wait()

    def stop(self) -> None:
        """Wait until the work has ended; work that has not begun is cancelled."""
        if self._claim.setdefault("by", "stop") == "run":
            self.wait()
        _ACTIVE.discard(self)


def start_threads(threads: Sequence[threading.Thread]) -> None:
    """Start threads of the threading module; an interrupt is raised only after all of them run.

    Raises:
        RuntimeError: no more threads can be started, or one was started before.
    """
    failed: list[RuntimeError] = []

    def start_all() -> None:
        try:
            for t in threads:
                t.start()
        except RuntimeError as error:
            failed.append(error)

    helper = Helper(start_all)
    try:
        helper.start()
        helper.wait()
    except BaseException:
        helper.stop()
        raise
    if failed:
        raise failed[0]


def active() -> list[Helper]:
    """The helpers that were started and have not ended, other than daemons."""
    return list(_ACTIVE)


@atexit.register
def _stop_all() -> None:
    for h in active():
        h.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ACTIVE.clear)  # a fork has none of these threads

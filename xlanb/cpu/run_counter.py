"""Count the runs of a compiled program and their time, only while requested."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any


class RunCounter:
    """Executions of a program since `begin`: their number, and their total wall seconds.

    Both are words in memory at `address` (executions, then nanoseconds) to which machine code adds.
    `on_end` are called when the last user ends; holders of the address must drop it then.
    """

    def __init__(self) -> None:
        self._words = (ctypes.c_int64 * 2)()
        self.address = ctypes.addressof(self._words)
        self.on_end: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._users = 0

    @property
    def runs(self) -> int:
        """The number of executions."""
        return self._words[0]

    @property
    def seconds(self) -> float:
        """Total wall seconds of all executions."""
        return self._words[1] / 1e9

    @property
    def is_on(self) -> bool:
        """Whether counting is requested."""
        return self._users > 0

    def begin(self) -> None:
        """Add a user of the counter."""
        with self._lock:
            self._users += 1

    def end(self) -> None:
        """Remove a user; the last one stops the counting."""
        with self._lock:
            self._users -= 1
            ended, self.on_end = (self.on_end, []) if not self._users else ([], self.on_end)
        for call in ended:
            call()

    def timed(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """A function whose calls are counted."""

        def counted(*args: Any, **named: Any) -> Any:
            start = time.perf_counter_ns()
            try:
                return call(*args, **named)
            finally:
                self.add(time.perf_counter_ns() - start)

        return counted

    def add(self, nanoseconds: int) -> None:
        """Add one execution."""
        with self._lock:
            self._words[0] += 1
            self._words[1] += nanoseconds

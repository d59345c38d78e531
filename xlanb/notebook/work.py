"""Run long work in slices on the kernel's event loop, so that cells and messages are served."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SLICE_SECONDS = 0.1
_PAUSE_SECONDS = 0.002
"""Seconds that are enough for the event loop to read a message."""


class SlicedWork:
    """Steps of an iterator, run in slices of about `SLICE_SECONDS`.

    `on_step` is called after each step, `on_pause` after each slice, `on_end` once at the end, with
    the exception that ended the work, if any. On a running event loop, the first slice runs at once
    and the others alternate with the loop's other tasks; otherwise all run at once. During a slice
    in the main thread an interrupt of the kernel raises KeyboardInterrupt in the work. `cancel`
    never interrupts a step.
    """

    def __init__(
        self,
        steps: Iterator[Any],
        *,
        on_step: Callable[[Any], None],
        on_pause: Callable[[], None],
        on_end: Callable[[BaseException | None], None],
    ) -> None:
        self._steps = steps
        self._on_step, self._on_pause, self._on_end = on_step, on_pause, on_end
        self._task: asyncio.Task[None] | None = None
        self.is_cancelled = False
        self.is_done = False

    def start(self, delay: float | None = None) -> None:
        """Run the first slice, if given after `delay` seconds; run the rest later on the event
        loop.

        Without a running loop, run all at once.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            while self._slice():
                self._on_pause()
            return
        if delay is not None:
            loop.call_later(delay, self.start)
        elif self._slice():
            self._task = loop.create_task(self._rest())

    def cancel(self) -> None:
        """Stop after the step that is running."""
        self.is_cancelled = True

    async def _rest(self) -> None:
        while True:
            self._on_pause()
            await asyncio.sleep(_PAUSE_SECONDS)
            if not self._slice():
                return

    def _slice(self) -> bool:
        """Run some steps; whether any are left. What ends the work is handed to `on_end`."""
        until = time.monotonic() + SLICE_SECONDS
        try:
            with _interruptible():
                while not self.is_cancelled:
                    self._on_step(next(self._steps))
                    if time.monotonic() >= until:
                        return True
        except StopIteration:
            self._end(None)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - handed on to whoever began the work
            self._end(error)
        else:
            self._end(None)
        return False

    def _end(self, error: BaseException | None) -> None:
        self.is_done = True
        self._on_end(error)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have an interrupt raise KeyboardInterrupt: between the cells a kernel ignores it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)

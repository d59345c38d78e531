"""Infeed and outfeed: values that a running program exchanges with the host, in order.

These are in addition to its arguments and results.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import numpy as np

from xlanb.boundary import let_pass
from xlanb.errors import CancelledError, FeedError
from xlanb.evaluator.values import TOKEN, Array, Value, describe, mismatch
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_logging import logger
from xlanb.shape import Shape, TupleShape
from xlanb.threads import Monitor

_LOG = logger("xlanb.feeds")
_SAY_AFTER = 1.0
"""Seconds of waiting before a message is logged."""


class RaisedError(Exception):
    """An error raised by a user's function that a program calls.

    It passes through the interpreter unchanged; the original error is raised at the end.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error
        let_pass(error)
        let_pass(self)


class Feeds:
    """Two FIFO queues between a program and its caller, for any number of threads.

    As XLA's XfeedManager on the CPU. A queue holds arrays; a tuple is added as its leaves, so
    values that are added together may be taken separately, and vice versa. Values taken from the
    outfeed have the structure that the program gave them.
    """

    def __init__(self) -> None:
        self._monitor = Monitor()
        self._in: deque[Array] = deque()
        self._out: deque[Value] = deque()
        self._cancelled = 0

    # -- the host's side ---------------------------------------------------------------------------

    def infeed(self, *values: Any) -> None:
        """Provide copies of arrays, or (nested) tuples of them, to a program in this order."""
        leaves = [np.array(leaf) for leaf in _leaves(values)]
        with self._monitor.lock:
            self._in.extend(leaves)
            self._monitor.notify()

    def outfeed(self, timeout: float | None = 0.0) -> Value:
        """The next value that a program has provided.

        Waits for at most `timeout` seconds, forever if None (a signal interrupts).

        Raises:
            FeedError: there is no value.
        """
        taken = self._monitor.attempt(lambda: (self._out.popleft(),) if self._out else None, timeout)
        if taken is None:
            waited = f" after {timeout:g} s" if timeout else ""
            raise FeedError(f"the outfeed is empty{waited}")
        return taken[0]

    def __len__(self) -> int:
        """The number of values that `outfeed` can return."""
        return len(self._out)

    @property
    def pending(self) -> int:
        """The number of arrays that no program has taken yet."""
        return len(self._in)

    def cancel(self) -> None:
        """Make all threads that wait for data raise."""
        with self._monitor.lock:
            self._cancelled += 1
            self._monitor.notify()

    # -- the program's side ------------------------------------------------------------------------

    def take(self, i: HloInstruction, shape: Shape) -> Value:
        """The host's next value for an infeed of a shape; waits for it.

        Raises:
            FeedError: the next value has another shape, or no other thread runs that could provide
                one.
            RaisedError: with a CancelledError, if `cancel` was called.
        """
        if isinstance(shape, TupleShape):
            return tuple(self.take(i, s) for s in shape.shapes)
        if shape.is_token:
            return TOKEN
        value = self._next(i, shape)
        if mismatch(value, shape):
            raise FeedError(f"the infeed provides {describe(value)}, but {shape.text(layout=False)} was expected")
        return value

    def give(self, value: Value) -> None:
        """Add a copy of a value to the outfeed."""
        copy = _copied(value)
        with self._monitor.lock:
            self._out.append(copy)
            self._monitor.notify()

    def _next(self, i: HloInstruction, shape: Shape) -> Array:
        """The next array; waits for it."""
        began, since, said = self._cancelled, time.monotonic(), False
        what = f"{i.name} waits for {shape.text(layout=False)}"

        def taken() -> tuple[Array] | None:
            nonlocal said
            if self._in:
                return (self._in.popleft(),)
            if self._cancelled != began:
                raise RaisedError(CancelledError(f"cancelled while {what}"))
            if threading.active_count() == 1:
                raise FeedError(
                    f"{what}, and no other thread could provide it: call infeed(...) before, or in another thread"
                )
            if not said and time.monotonic() - since > _SAY_AFTER:
                _LOG.warning("%s: provide it with infeed(...)", what)
                said = True
            return None

        try:
            return self._monitor.attempt(taken)[0]
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(f"{what}: provide it with infeed(...), before the call or in another thread")
            raise


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in _leaves(v)]
    return [value]


def _copied(value: Value) -> Value:
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    return TOKEN if value is TOKEN else np.array(value)

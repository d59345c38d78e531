"""Infeed and outfeed: values that a running program receives from and sends to the host, in order,
besides its arguments and results.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import Any

import numpy as np

from xlanb.boundary import let_pass
from xlanb.errors import CancelledError, FeedError
from xlanb.evaluator.values import TOKEN, Array, Value, describe, mismatch
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import Shape, TupleShape
from xlanb.threads import Monitor

_LOG = logging.getLogger("xlanb.feeds")
_SAY_AFTER = 1.0
"""Seconds of waiting before a message is logged."""


class RaisedError(Exception):
    """An error of a function of the user's that a program calls: it travels through the interpreter as it is, to be raised as itself at the end."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error
        let_pass(error)
        let_pass(self)


class Feeds:
    """Two queues between a program and whoever runs it, both first in first out, for any number of threads (XLA's XfeedManager on the CPU).

    A queue holds arrays: a tuple stands for its leaves, one after the other, so that what is given at once may be taken at several times and the other way round. What is
    taken out of the outfeed has the structure that the program gave it.
    """

    def __init__(self) -> None:
        self._monitor = Monitor()
        self._in: deque[Array] = deque()
        self._out: deque[Value] = deque()
        self._cancelled = 0

    # -- the host's side ----------------------------------------------------------------------------------------

    def infeed(self, *values: Any) -> None:
        """Give a program arrays, or (nested) tuples of them, copied; it takes them in this order."""
        leaves = [np.array(leaf) for leaf in _leaves(values)]
        with self._monitor.lock:
            self._in.extend(leaves)
            self._monitor.notify()

    def outfeed(self, timeout: float | None = 0.0) -> Value:
        """The next value that a program has provided; waits for at most `timeout` seconds, forever
        if None (a signal interrupts).

        Raises:
            FeedError: there is nothing.
        """
        taken = self._monitor.attempt(lambda: (self._out.popleft(),) if self._out else None, timeout)
        if taken is None:
            waited = f" after {timeout:g} s" if timeout else ""
            raise FeedError(f"the outfeed is empty{waited}")
        return taken[0]

    def __len__(self) -> int:
        """How many values `outfeed` has."""
        return len(self._out)

    @property
    def pending(self) -> int:
        """How many arrays no program has taken yet."""
        return len(self._in)

    def cancel(self) -> None:
        """Whoever waits for data waits no longer."""
        with self._monitor.lock:
            self._cancelled += 1
            self._monitor.notify()

    # -- the program's side -------------------------------------------------------------------------------------

    def take(self, i: HloInstruction, shape: Shape) -> Value:
        """What the host gives next for an infeed of a shape; waits for it.

        Raises:
            FeedError: what comes next is something else, or no other thread runs that could give anything.
            RaisedError: of a CancelledError: `cancel` was called.
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
        """Put a value into the outfeed; it is copied."""
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

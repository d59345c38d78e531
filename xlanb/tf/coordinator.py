"""tf.train.Coordinator and QueueRunner: threads of a program that stop together.

Source: python/training/{coordinator,queue_runner_impl}.py.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from xlanb.errors import GraphError
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.default_session import get_default_session
from xlanb.tf.errors import OutOfRangeError
from xlanb.threads import Latch, start_threads

QUEUE_RUNNERS = "queue_runners"
_LOOK = 0.01
"""Seconds between two looks whether threads are alive."""


class Coordinator:
    """Stop several threads together, and re-raise the first error of any of them."""

    def __init__(self, clean_stop_exception_types: tuple[type[BaseException], ...] | None = None) -> None:
        self._clean = clean_stop_exception_types or (OutOfRangeError,)
        self._stop = Latch()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop; an error given here is raised by `join`."""
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if (
                error is not None
                and self._error is None
                and not self._stop.is_set()
                and not isinstance(error, self._clean)
            ):
                self._error = error
            self._stop.set()

    def clear_stop(self) -> None:
        """Clear a stop request."""
        with self._lock:
            if self._stop.is_set():
                self._stop = Latch()
            self._error = None

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds until a stop is requested; return whether it was."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A block whose errors request all threads to stop."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - handed on by join, whatever it is
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """Let `join` wait for a thread."""
        self._threads.append(thread)

    def join(
        self,
        threads: Sequence[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all threads are done, and raise the first error of any of them.

        Raises:
            GraphError: threads still run `stop_grace_period_secs` after the stop request, unless
                `ignore_live_threads`.
        """
        waiting = list(dict.fromkeys([*self._threads, *(threads or ())]))
        while _alive(waiting) and not self._stop.wait(_LOOK):
            pass
        end = time.monotonic() + stop_grace_period_secs
        while _alive(waiting) and time.monotonic() < end:
            time.sleep(_LOOK)
        self._threads = []
        if self._error is not None:
            raise self._error
        alive = [t.name for t in _alive(waiting)]
        if alive and not ignore_live_threads:
            raise GraphError(f"Coordinator stopped with threads still running: {' '.join(alive)}")

    @property
    def joined(self) -> bool:
        """Whether no thread is left to wait for."""
        return not self._threads

    def raise_requested_exception(self) -> None:
        """Raise the error that a thread stopped with, if any."""
        if self._error is not None:
            raise self._error


def _alive(threads: Sequence[threading.Thread]) -> list[threading.Thread]:
    """Return the running threads.

    After an interrupt in `join`, `is_alive` may be False too early.
    """
    every = set(threading.enumerate())
    return [t for t in threads if t in every]


class LooperThread(threading.Thread):
    """A thread that calls a function every so many seconds until the coordinator stops it."""

    def __init__(
        self, coord: Coordinator, timer_interval_secs: float | None, target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:  # fmt: skip
        super().__init__(daemon=True)
        self._coord, self._interval = coord, timer_interval_secs
        self._call, self._args, self._kwargs = target, tuple(args or ()), dict(kwargs or {})
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Start such a thread."""
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        start_threads([thread])
        return thread

    def run_loop(self) -> None:
        """One call."""
        if self._call is not None:
            self._call(*self._args, **self._kwargs)

    def run(self) -> None:
        """Call until stopped."""
        with self._coord.stop_on_exception():
            while not self._coord.should_stop():
                self.run_loop()
                if self._interval and self._coord.wait_for_stop(self._interval):
                    return


class QueueRunner:
    """Threads that run a queue's enqueue operations until the coordinator stops them."""

    def __init__(
        self, queue: Any = None, enqueue_ops: Sequence[Any] | None = None, close_op: Any = None, cancel_op: Any = None
    ) -> None:
        self.queue = queue
        self.enqueue_ops = list(enqueue_ops or ())
        self.close_op, self.cancel_op = close_op, cancel_op

    @property
    def name(self) -> str:
        """The queue's name."""
        return str(getattr(self.queue, "name", "queue"))

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Make one thread per operation; they end when the coordinator stops or the queue is
        exhausted.
        """
        threads = [threading.Thread(target=self._run, args=(sess, op, coord), daemon=daemon) for op in self.enqueue_ops]
        for t in threads:
            if coord is not None:
                coord.register_thread(t)
        if start:
            start_threads(threads)
        return threads

    def _run(self, sess: Any, op: Any, coord: Coordinator | None) -> None:
        try:
            while coord is None or not coord.should_stop():
                sess.run(op)
        except OutOfRangeError:
            if self.close_op is not None:
                sess.run(self.close_op)
        except Exception:
            if coord is None:
                raise
            coord.request_stop(sys.exc_info())


def add_queue_runner(qr: QueueRunner, collection: str = QUEUE_RUNNERS) -> None:
    """Have `start_queue_runners` start it."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all of the graph's queue runners; none if the program feeds its
    inputs.
    """
    session = sess if sess is not None else get_default_session()
    if session is None:
        raise GraphError(
            "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass "
            "sess=sess"
        )
    runners = session.graph.get_collection(collection)
    return [t for qr in runners for t in qr.create_threads(session, coord, daemon, start)]

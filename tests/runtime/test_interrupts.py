"""Interrupts of threads that wait for queues or for another thread's compilation."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import pytest

from tests.interrupting import interrupts
from xlanb import tf
from xlanb.errors import FeedError
from xlanb.evaluator import Feeds
from xlanb.evaluator import feeds as feeds_module
from xlanb.runtime import claims
from xlanb.runtime.claims import Claims, Pending
from xlanb.runtime.host import queues
from xlanb.threads import Helper, Latch

_THREADS = (Latch.wait.__code__.co_filename, threading.__file__)


def _done(work: object) -> bool:
    """Whether another thread completes some work within seconds."""
    assert callable(work)
    ended: list[bool] = []
    Helper(lambda: (work(), ended.append(True)), daemon=True).start()
    end = time.monotonic() + 10
    while not ended and time.monotonic() < end:
        time.sleep(0.001)
    return bool(ended)


def test_an_interrupt_of_a_wait_for_a_queue_leaves_it_to_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "PATIENCE", 0.02)
    queue = tf.FIFOQueue(1000, tf.float32, [[]])
    put, taken = queue.enqueue([1.0]), queue.dequeue()
    moments = 0

    def take_two() -> None:
        session.run(put)
        session.run(taken)
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(taken)

    with tf.Session() as session:
        for came in interrupts(take_two, (queues.__file__, *_THREADS)):
            assert came
            moments += 1
            assert _done(lambda: session.run(put)), "the queue is locked"
            while session.run(queue.size()):
                session.run(taken)
    assert moments > 20


def test_an_interrupt_of_a_wait_for_an_outfeed_leaves_it_to_the_others() -> None:
    feeds, moments = Feeds(), 0

    def take() -> None:
        with suppress(FeedError):
            feeds.outfeed(0.002)

    for came in interrupts(take, (feeds_module.__file__, *_THREADS)):
        assert came
        moments += 1
        assert _done(lambda: feeds.infeed(1.0)), "the feeds are locked"
    assert moments > 5


def test_an_interrupt_of_a_wait_for_what_another_thread_makes_does_not_stop_it() -> None:
    made: list[int] = []
    lock = threading.Lock()

    def make() -> None:
        with table.claim("key", lambda: None) as claim:
            assert isinstance(claim, Pending)
            begun.set()
            time.sleep(0.003)
            made.append(1)

    def wait() -> None:
        Helper(make, daemon=True).start()
        begun.wait(10)
        with table.claim("key", lambda: made[0] if made else None) as found:
            assert found == 1

    moments = 0
    table: Claims[str] = Claims(lock)
    begun = Latch()
    for came in interrupts(wait, (claims.__file__, threading.__file__)):
        assert came
        moments += 1
        end = time.monotonic() + 10
        while begun.is_set() and table.pending:
            assert time.monotonic() < end, "the other thread waits for ever"
            time.sleep(0.001)
        table, begun = Claims(lock), Latch()
        made.clear()
    assert moments >= 3

"""Threads of programs under interrupts: none is half started, or mistaken for an ended one."""

from __future__ import annotations

import threading
import time

from tests.interrupting import interrupts
from xlanb import tf
from xlanb.tf import coordinator
from xlanb.threads import Latch

_FILES = (coordinator.__file__, Latch.wait.__code__.co_filename, threading.__file__)


def test_an_interrupted_join_leaves_threads_to_the_next():
    release, moments = Latch(), 0
    thread = threading.Thread(target=release.wait, daemon=True)
    thread.start()

    def join() -> None:
        coord = tf.train.Coordinator()
        coord.request_stop()
        coord.join([thread], stop_grace_period_secs=0.02, ignore_live_threads=True)

    for came in interrupts(join, _FILES):
        assert came
        moments += 1
        assert thread.is_alive(), "the thread counts as one that has ended"
    assert moments > 10
    release.set()
    thread.join(10)


def test_an_interrupt_while_queue_runners_start_leaves_none_half_started():
    queue = tf.FIFOQueue(4, tf.float32, [[]])
    runner = tf.train.QueueRunner(queue, [queue.enqueue([1.0])] * 2)
    moments = 0
    with tf.Session() as session:

        def begin() -> None:
            nonlocal coord
            coord = tf.train.Coordinator()
            runner.create_threads(session, coord, daemon=True, start=True)

        coord = tf.train.Coordinator()
        before = set(threading.enumerate())
        interrupted = interrupts(begin, _FILES)
        while next(interrupted, None):
            moments += 1
            coord.request_stop()
            session.run(queue.size())
            end = time.monotonic() + 10
            while set(threading.enumerate()) - before:
                assert time.monotonic() < end, "a thread is left"
                if session.run(queue.size()):
                    session.run(queue.dequeue())
                time.sleep(0.001)
    assert moments > 10


def test_a_coordinator_that_was_cleared_can_be_stopped_again():
    coord = tf.train.Coordinator()
    coord.request_stop()
    assert coord.wait_for_stop()
    coord.clear_stop()
    assert not coord.should_stop()
    assert not coord.wait_for_stop(0.01)
    waiting = threading.Thread(target=coord.wait_for_stop)
    waiting.start()
    coord.clear_stop()
    coord.request_stop()
    waiting.join(10)
    assert not waiting.is_alive()

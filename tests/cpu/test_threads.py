"""A thread that helps one that a signal may interrupt."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time

import pytest

from xlanb.cpu.threads import Helper


def test_wait_returns_when_the_work_has_ended_and_may_be_called_again():
    done = []
    helper = Helper(lambda: done.append(True), "test")
    helper.start()
    helper.wait()
    helper.wait()
    helper.stop()
    assert done == [True]


def test_a_signal_that_does_not_wake_the_waiting_thread_interrupts_it_still():
    # interrupt_main notes a signal and wakes nobody, as one that comes just before the wait begins to sleep.
    begun, release, ended, main = threading.Event(), threading.Event(), [], threading.get_ident()

    def work():
        begun.set()
        release.wait(60)
        ended.append(True)

    def interrupt():
        begun.wait(60)
        while sys._current_frames()[main].f_code is not Helper.wait.__code__ and not release.is_set():
            time.sleep(0.001)
        _thread.interrupt_main()

    def start_and_wait():
        sender.start()
        helper.wait()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    helper, sender = Helper(work, "test"), threading.Thread(target=interrupt)
    try:
        helper.start()
        with pytest.raises(KeyboardInterrupt):
            start_and_wait()
        assert not ended
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()
        sender.join()
    helper.wait()


def test_what_was_stopped_before_it_began_is_never_done():
    done = []
    helper = Helper(lambda: done.append(True), "test")
    helper.stop()
    helper.start()
    helper._thread.join()
    assert done == []

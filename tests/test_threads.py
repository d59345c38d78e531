"""A thread that helps one that a signal may interrupt."""

from __future__ import annotations

import _thread
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.interrupting import interrupts
from xlanb.threads import Helper, Latch, Monitor, active, start_threads


def test_wait_returns_when_the_work_has_ended_and_may_be_called_again():
    done = []
    helper = Helper(lambda: done.append(True))
    helper.start()
    helper.wait()
    helper.wait()
    helper.stop()
    assert done == [True]


def test_a_caller_may_wait_for_the_beginning_only():
    begun, go_on = [], Latch()
    helper = Helper(lambda: (begun.append(True), go_on.wait(60)))
    helper.begin()
    assert active() == [helper]
    go_on.set()
    helper.wait()
    assert begun == [True]


def test_a_signal_that_does_not_wake_the_waiting_thread_interrupts_it_still():
    # interrupt_main sets a signal and wakes no thread, like a signal just before the wait sleeps.
    begun, release, ended, main = threading.Event(), threading.Event(), [], threading.get_ident()

    def work():
        begun.set()
        release.wait(60)
        ended.append(True)

    def interrupt():
        begun.wait(60)
        while sys._current_frames()[main].f_code is not Latch.wait.__code__ and not release.is_set():
            time.sleep(0.001)
        _thread.interrupt_main()

    def start_and_wait():
        sender.start()
        helper.wait()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    helper, sender = Helper(work), threading.Thread(target=interrupt)
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
    helper = Helper(lambda: done.append(True))
    helper.stop()
    helper.start()
    _end_of(helper)
    assert done == []


def test_an_interrupt_at_any_step_leaves_no_thread_behind():
    for method in ("start", "stop", "wait"):
        steps = 0
        while _interrupt(method, steps):
            steps += 1
        assert steps >= 2, f"{method} was hardly interrupted"
    assert not active()


def _interrupt(method: str, step: int) -> bool:
    """Interrupt a method of a new helper at a step; return whether it has that many steps."""
    helper, left = Helper(lambda: None), step

    def trace(frame, event, _arg):
        nonlocal left
        if event == "call" and frame.f_code.co_filename not in (Helper.start.__code__.co_filename, threading.__file__):
            return None
        left -= 1
        if left < 0:
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    if method != "start":
        helper.start()
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        getattr(helper, method)()
    except KeyboardInterrupt:
        return True
    else:
        return False
    finally:
        sys.settrace(before)
        helper.stop()
        _end_of(helper)


def _end_of(helper: Helper) -> None:
    end = time.monotonic() + 60
    while helper in active():
        assert time.monotonic() < end, "the thread has not ended"
        time.sleep(0.001)


def test_a_process_waits_for_its_helpers_before_it_ends():
    program = """
import threading, time
from xlanb.threads import Helper
begun = threading.Event()
Helper(lambda: (begun.set(), time.sleep(0.5), print("done", flush=True))DAEMON).start()
begun.wait()
"""
    for daemon, printed in (("", "done\n"), (", daemon=True", "")):
        command = [sys.executable, "-c", program.replace("DAEMON", daemon)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert (done.stdout, done.stderr) == (printed, "")


_FILES = (Latch.wait.__code__.co_filename, threading.__file__)


def test_a_latch_stays_set():
    latch = Latch()
    assert not latch.is_set()
    assert not latch.wait(0.0)
    assert not latch.wait(0.01)
    latch.set()
    latch.set()
    assert latch.is_set()
    assert latch.wait(0.0)
    assert latch.wait()


def test_every_waiter_of_a_latch_goes_on():
    latch, gone = Latch(), []
    waiters = [Helper(lambda: gone.append(latch.wait(60))) for _ in range(8)]
    for w in waiters:
        w.start()
    time.sleep(0.05)
    latch.set()
    for w in waiters:
        w.wait()
    assert gone == [True] * 8


def test_an_interrupt_of_a_wait_for_a_latch_stops_nobody_else():
    def wait():
        latch.wait(0.001)

    count = 0
    latch = Latch()
    for came in interrupts(wait, _FILES):
        assert came
        count += 1
        setter = Helper(latch.set, daemon=True)
        setter.start()
        setter.wait()
        assert latch.wait(5)
        latch = Latch()
    assert count >= 4


def test_an_interrupt_of_an_attempt_leaves_the_lock_of_a_monitor_free():
    monitor, count = Monitor(), 0

    def change():
        with monitor.lock:
            monitor.notify()
        ended.append(True)

    for came in interrupts(lambda: monitor.attempt(lambda: None, 0.001), _FILES):
        assert came
        count += 1
        ended = []
        helper = Helper(change, daemon=True)
        helper.start()
        end = time.monotonic() + 10
        while not ended:
            assert time.monotonic() < end, "the lock is taken"
            time.sleep(0.001)
    assert count >= 6


def test_an_attempt_is_made_again_after_a_change():
    monitor, values = Monitor(), []

    def give():
        time.sleep(0.02)
        with monitor.lock:
            values.append(7)
            monitor.notify()

    helper = Helper(give)
    helper.start()
    assert monitor.attempt(lambda: values[-1] if values else None, 60) == 7
    helper.wait()
    assert monitor.attempt(lambda: None, 0.0) is None


def test_threads_that_an_interrupt_finds_half_started_work_all_the_same():
    count = 0
    begun = []

    def start_some():
        begun.clear()
        threads[:] = [threading.Thread(target=lambda: begun.append(True)) for _ in range(3)]
        start_threads(threads)

    threads: list[threading.Thread] = []
    for came in interrupts(start_some, _FILES):
        assert came
        count += 1
        for t in threads:
            if t.ident is not None:
                t.join(10)
                assert not t.is_alive()
        assert len(begun) in (0, len(threads))
    assert count >= 6


def test_a_thread_that_cannot_be_started_raises():
    thread = threading.Thread(target=lambda: None)
    start_threads([thread])
    thread.join()
    with pytest.raises(RuntimeError, match="only be started once"):
        start_threads([thread])

"""An interrupt at any moment of a run on threads: it comes out, and no device's thread is left waiting."""

from __future__ import annotations

import _thread
import gc
import threading
import time
from collections.abc import Callable

import pytest

from tests.interrupting import interrupts
from xlanb.errors import DeviceError
from xlanb.evaluator.participant import Participant
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.spmd.devices import threads
from xlanb.spmd.devices.threads import run_on_threads
from xlanb.threads import Latch

_FILES = (threads.__file__, Latch.wait.__code__.co_filename, threading.__file__)
_GRID = DeviceGrid(1, 3)


def _slow(here: Participant) -> int:
    time.sleep(0.002)
    return here.device


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < end, what
        gc.collect()
        time.sleep(0.001)


def test_an_interrupt_at_any_moment_leaves_no_device_waiting() -> None:
    run_on_threads(_slow, _GRID)
    before, moments = _thread._count(), 0
    for came in interrupts(lambda: run_on_threads(_slow, _GRID), _FILES):
        assert came
        moments += 1
        assert run_on_threads(_slow, _GRID) == [0, 1, 2]
    assert moments > 20
    _until(lambda: _thread._count() <= before, "threads of devices are left")


def test_the_threads_of_a_run_that_fails_end() -> None:
    def fail(_here: Participant) -> None:
        raise ValueError("no")

    run_on_threads(_slow, _GRID)
    before = _thread._count()
    for _ in range(3):
        with pytest.raises(DeviceError):
            run_on_threads(fail, _GRID)
    assert run_on_threads(_slow, _GRID) == [0, 1, 2]
    _until(lambda: _thread._count() <= before, "threads of devices are left")

"""Interrupts during a run on threads: they propagate, and no device's thread is left waiting."""

from __future__ import annotations

import _thread
import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import xlanb
from tests.interrupting import interrupts
from xlanb.errors import CancelledError, DeviceError
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


_ENDLESS = """HloModule endless, replica_count=2

add {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT r = s32[] add(a, b)
}

body {
  n = s32[] parameter(0)
  ROOT r = s32[] all-reduce(n), replica_groups={{0,1}}, to_apply=add
}

condition {
  n = s32[] parameter(0)
  four = s32[] constant(4)
  ROOT r = pred[] compare(n, four), direction=LT
}

ENTRY main {
  n = s32[] parameter(0)
  ROOT w = s32[] while(n), condition=condition, body=body
}
"""


def test_a_cancelled_run_on_devices_says_that_it_was_cancelled() -> None:
    exe = xlanb.compile(_ENDLESS)
    timer = threading.Timer(0.2, exe.cancel)
    timer.start()
    with pytest.raises(CancelledError):
        exe.run_shards([[np.int32(0)], [np.int32(0)]])
    timer.join()
    assert [int(r) for r in exe.run_shards([[np.int32(1)], [np.int32(1)]])] == [4, 4]

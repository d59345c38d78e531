"""The campaign's bombs: they can be read, and a late reaction to a signal is found."""

from __future__ import annotations

import contextlib
import signal
import time
from random import Random

import numpy as np
import pytest

from tests.fuzz import bomb_check, worker
from tests.fuzz.bombs import bombs
from tests.fuzz.kinds import kinds
from xlanb.hlo import parse


@pytest.mark.parametrize("part", ["wide-reduce", "wide-concatenate", "stencils", "doubling-maps", "nested-loops"])
def test_programs_that_are_meant_to_be_read_are(part):
    text = dict(bombs(Random(1)))[part]
    parse(text).verify()


def test_a_late_answer_to_a_signal_is_a_find(monkeypatch):
    def late(*_):
        until = time.monotonic() + 0.4
        while time.monotonic() < until:
            with contextlib.suppress(BaseException):  # like a long call that defers a signal
                time.sleep(0.4)

    monkeypatch.setattr(bomb_check, "_RUN_SECONDS", 0.1)
    monkeypatch.setattr(bomb_check, "INTERRUPT_SECONDS", 0.1)
    monkeypatch.setattr(bomb_check.xlanb, "evaluate", late)
    text = "HloModule m\nENTRY e { p = f32[4] parameter(0) ROOT r = f32[4] tanh(p) }\n"
    find = worker.judge(kinds()["bomb"], text, np.random.default_rng(0))
    assert find is not None
    assert find.startswith("late: evaluate ended")
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)

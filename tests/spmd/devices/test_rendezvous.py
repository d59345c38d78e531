"""No device waits for one that cannot arrive.

Each injected fault ends in an error that says which device waits where.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from xlanb.errors import DeviceError, EvaluationError
from xlanb.evaluator.participant import Participant
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.spmd.devices.rendezvous import Rendezvous
from xlanb.spmd.devices.threads import ThreadParticipant, run_on_threads

FOUR = DeviceGrid(1, 4)
ALL = (0, 1, 2, 3)


def meet(here: Participant, name: str = "all-reduce.1", group: tuple[int, ...] = ALL) -> Any:
    assert isinstance(here, ThreadParticipant)
    return here.rendezvous.meet(here.device, name, group, here.device, lambda values: [sum(values)] * len(values))[0]


def failure(work: Callable[[Participant], Any], timeout: float = 10.0) -> tuple[DeviceError, float]:
    began = time.monotonic()
    with pytest.raises(DeviceError) as caught:
        run_on_threads(work, FOUR, timeout=timeout)
    return caught.value, time.monotonic() - began


def test_all_members_get_what_the_last_computes():
    assert run_on_threads(meet, FOUR) == [6, 6, 6, 6]
    assert run_on_threads(lambda p: meet(p, group=(0, 1) if p.device < 2 else (2, 3)), FOUR) == [1, 1, 5, 5]


def test_groups_meet_again_and_again():
    assert run_on_threads(lambda p: [meet(p) for _ in range(100)], FOUR) == [[6] * 100] * 4


def test_a_device_that_fails_frees_the_others_at_once():
    def work(here: Participant) -> None:
        if here.device == 2:
            meet(here, "first", (2,))
            raise EvaluationError("out of luck")
        meet(here)

    error, seconds = failure(work)
    assert seconds < 2
    assert "device 2 of 4 failed after first: out of luck" in str(error)
    assert isinstance(error.__cause__, EvaluationError)


def test_a_device_that_ends_early_frees_the_others_at_once():
    error, seconds = failure(lambda p: None if p.device == 3 else meet(p))
    assert seconds < 2
    assert "device 3 ended without reaching all-reduce.1" in str(error)


def test_devices_that_wait_for_each_other_are_freed_at_once():
    error, seconds = failure(lambda p: meet(p, "here" if p.device % 2 else "there"))
    assert seconds < 2
    assert "deadlock" in str(error)
    assert "devices 0, 2: waiting at there for devices 1, 3" in str(error)


def test_a_late_device_is_waited_for_no_longer_than_the_timeout():
    freed = threading.Event()

    def work(here: Participant) -> None:
        if here.device == 1:
            freed.wait(8)
        meet(here)

    error, seconds = failure(work, timeout=0.3)
    freed.set()
    assert seconds < 3
    assert "device 1, last seen at its beginning, did not arrive within 0.3 s, while devices 0, 2-3 waited" in str(
        error
    )


def test_an_error_in_the_computation_of_the_result_is_everybodys():
    def work(here: Participant) -> None:
        assert isinstance(here, ThreadParticipant)
        here.rendezvous.meet(here.device, "r", ALL, 0, lambda values: [values[9]])

    error, _ = failure(work)
    assert isinstance(error.__cause__, IndexError)


def test_messages_are_taken_in_the_order_in_which_they_were_sent():
    def work(here: Participant) -> Any:
        assert isinstance(here, ThreadParticipant)
        if here.device == 0:
            for k in range(3):
                here.rendezvous.post(0, 1, 7, k)
        return [here.rendezvous.take(1, "recv", 0, 7) for _ in range(3)] if here.device == 1 else None

    for _ in range(20):
        assert run_on_threads(work, FOUR)[1] == [0, 1, 2]


def test_who_waits_for_a_message_that_nobody_sends_is_freed():
    def work(here: Participant) -> None:
        assert isinstance(here, ThreadParticipant)
        if here.device == 1:
            here.rendezvous.take(1, "recv.5", 0, 7)

    error, seconds = failure(work)
    assert seconds < 2
    assert "device 0 ended without reaching recv.5" in str(error)


def test_an_interrupt_frees_all():
    ended = []

    def work(here: Participant) -> None:
        try:
            if here.device == 0:
                time.sleep(0.2)
                _thread.interrupt_main()
                time.sleep(0.2)
                meet(here)
            meet(here)
        finally:
            ended.append(here.device)

    with pytest.raises(KeyboardInterrupt):
        run_on_threads(work, FOUR)
    deadline = time.monotonic() + 2
    while len(ended) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert sorted(ended) == [0, 1, 2, 3]


def test_a_rendezvous_that_was_aborted_takes_nobody_in():
    rendezvous = Rendezvous(2)
    rendezvous.abort(DeviceError("stopped"))
    with pytest.raises(DeviceError, match="stopped"):
        rendezvous.meet(0, "r", (0, 1), 1, lambda values: values)
    with pytest.raises(DeviceError, match="stopped"):
        rendezvous.post(0, 1, 1, 1)


def test_runs_may_be_nested():
    def work(here: Participant) -> Any:
        return sum(run_on_threads(meet, FOUR)) + meet(here)

    assert run_on_threads(work, FOUR) == [30] * 4


def test_who_waits_in_vain_is_told_of_a_run_in_one_thread_too():
    error = Rendezvous(4).stuck({0: ("r", ALL), 1: ("r", ALL)})
    assert "devices 2-3 ended without reaching r, where devices 0-1 waited" in str(error)
    error = Rendezvous(4).stuck({d: ("r" if d else "s", ALL) for d in ALL})
    assert "deadlock: all devices wait for each other; device 0: waiting at s for devices 1-3" in str(error)

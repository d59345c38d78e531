"""Virtual devices: one thread of this process per device, synchronized by a Rendezvous."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from xlanb.evaluator.participant import Meaning, Participant, running_on
from xlanb.evaluator.values import Value
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.hlo.instruction import HloInstruction
from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.devices.rendezvous import TIMEOUT, Rendezvous
from xlanb.threads import Helper, Latch

T = TypeVar("T")

_GRACE: Final = 0.25
"""Seconds to wait for the devices of a failed run to end before leaving them behind."""


class Visit(NamedTuple):
    """One collective on one device; times are seconds since the run began.

    `came` is when the device arrived, `complete` when the last of its group did, and `ended` when
    the device continued.
    """

    device: int
    collective: str
    opcode: str
    came: float
    complete: float
    ended: float


def meeting_key(i: HloInstruction) -> Hashable:
    """Return the key by which devices recognize the same collective.

    It contains the channel, as in XLA, because copies of a computation have other names; without a
    channel, the shape.
    """
    channel = i.get("channel_id")
    return (i.opcode, channel) if channel is not None else (i.opcode, i.shape)


class ThreadParticipant(Participant):
    """A device that runs in a thread."""

    def __init__(
        self, device: int, grid: DeviceGrid, rendezvous: Rendezvous, visits: list[Visit] | None = None
    ) -> None:
        super().__init__(device, grid)
        self.rendezvous = rendezvous
        self._visits = visits
        self._began = time.perf_counter()

    def meet(self, i: HloInstruction, group: tuple[int, ...], value: Value, meaning: Meaning) -> Value:
        """See Participant."""
        if self._visits is None:
            return self.rendezvous.meet(self.device, i.name, group, value, meaning, meeting_key(i))[0]
        came = time.perf_counter()
        result, complete = self.rendezvous.meet(self.device, i.name, group, value, meaning, meeting_key(i))
        times = (t - self._began for t in (came, complete, time.perf_counter()))
        self._visits.append(Visit(self.device, i.name, i.opcode.text, *times))
        return result

    def send(self, i: HloInstruction, target: int, channel: int, value: Value) -> None:
        """See Participant."""
        self.rendezvous.post(self.device, target, channel, value)

    def receive(self, i: HloInstruction, source: int, channel: int) -> Value:
        """See Participant."""
        return self.rendezvous.take(self.device, i.name, source, channel)


@dataclass
class _CrewJob:
    """A run of a crew: a function of the participant, and the result of each device's call."""

    work: Callable[[Participant], Any]
    participants: list[ThreadParticipant]
    context: contextvars.Context
    results: list[Any] = field(default_factory=list)
    left: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: Latch = field(default_factory=Latch)

    def perform(self, device: int) -> None:
        """Run one device to its end."""
        here = self.participants[device]
        try:
            with running_on(here):
                self.results[device] = self.work(here)
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that asked, as the failure of the run
            here.rendezvous.fail(device, error)
        else:
            here.rendezvous.leave(device)
        with self.lock:
            self.left -= 1
            if not self.left:
                self.done.set()


class _Crew:
    """A thread per device that waits for runs; the threads end once this object is deleted."""

    def __init__(self, count: int) -> None:
        self._queues: list[queue.SimpleQueue[_CrewJob | None]] = [queue.SimpleQueue() for _ in range(count)]
        weakref.finalize(self, _dismiss, self._queues).atexit = False
        for device, tasks in enumerate(self._queues):
            Helper(partial(self._serve, device, tasks), daemon=True).start()

    @staticmethod
    def _serve(device: int, tasks: queue.SimpleQueue[_CrewJob | None]) -> None:
        while (run := tasks.get()) is not None:
            run.context.copy().run(run.perform, device)
            del run

    def begin(self, run: _CrewJob) -> None:
        """Start the run on every thread."""
        for tasks in self._queues:
            tasks.put(run)


def _dismiss(queues: Sequence[queue.SimpleQueue[_CrewJob | None]]) -> None:
    for tasks in queues:
        tasks.put(None)


_FREE: Final[dict[int, list[_Crew]]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FREE.clear)  # a fork has none of these threads


@contextmanager
def _crew(count: int) -> Iterator[_Crew]:
    """Return a crew of this many threads, reused by later runs.

    A crew is not reused after a failure, when one of its threads may never end.
    """
    try:
        crew = _FREE.setdefault(count, []).pop()
    except IndexError:
        crew = _Crew(count)
    yield crew
    _FREE[count].append(crew)


def run_on_threads(
    work: Callable[[Participant], T],
    grid: DeviceGrid,
    *,
    timeout: float = TIMEOUT,
    visits: list[Visit] | None = None,
    cancel: Callable[[], object] = lambda: None,
) -> list[T]:
    """Call a function once per device, each in its own thread; return the results in device order.

    Args:
        work: called with the participant, which is also `participant.current()` during the call.
        grid: the replicas and partitions.
        timeout: see Rendezvous.
        visits: receives a record of each collective on each device.
        cancel: stops what devices are computing; called when the run cannot continue.

    Raises:
        DeviceError: a device fails, is late, or would wait forever.
        KeyboardInterrupt: or any other exception that a signal handler raises during the run; the
            devices are released and stopped.
    """
    rendezvous = Rendezvous(grid.count, timeout)
    participants = [ThreadParticipant(d, grid, rendezvous, visits) for d in range(grid.count)]
    run = _CrewJob(work, participants, contextvars.copy_context(), [None] * grid.count, grid.count)
    with _crew(grid.count) as crew:
        try:
            crew.begin(run)
            while not run.done.wait(_GRACE) and rendezvous.failure is None:
                pass
        except BaseException as error:
            rendezvous.abort(error)
            cancel()
            run.done.wait(_GRACE)
            raise
        if rendezvous.failure is not None:
            cancel()
            run.done.wait(_GRACE)
            raise rendezvous.failure
    return run.results

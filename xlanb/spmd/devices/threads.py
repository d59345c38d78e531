"""Virtual devices: a thread of this process for each, which meet in a Rendezvous."""

from __future__ import annotations

import contextvars
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from xlanb.evaluator.participant import Meaning, Participant, running_on
from xlanb.evaluator.values import Value
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.hlo.instruction import HloInstruction
from xlanb.spmd.devices.rendezvous import TIMEOUT, Rendezvous
from xlanb.threads import Helper, Latch

T = TypeVar("T")

_GRACE: Final = 0.25
"""Seconds that the caller of a run that has failed gives the devices to end before it goes on without them."""


class Visit(NamedTuple):
    """One collective on one device, in seconds since the run began: when the device came, when the last of its group did, when it went on."""

    device: int
    collective: str
    opcode: str
    came: float
    complete: float
    ended: float


def meeting_key(i: HloInstruction) -> Hashable:
    """By what devices know that they come to the same collective: the channel, as in XLA, for copies of a computation have other names; without one what it looks like."""
    channel = i.get("channel_id")
    return (i.opcode, channel) if channel is not None else (i.opcode, i.shape)


class ThreadParticipant(Participant):
    """A device that is a thread."""

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
class _Run:
    """What a crew works on: a function of the participant, and what each device's call gave."""

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
    """Threads that wait for a run, one per device; they end after their current run once this
    object is deleted.
    """

    def __init__(self, count: int) -> None:
        self._queues: list[queue.SimpleQueue[_Run | None]] = [queue.SimpleQueue() for _ in range(count)]
        weakref.finalize(self, _dismiss, self._queues).atexit = False
        for device, tasks in enumerate(self._queues):
            Helper(partial(self._serve, device, tasks), daemon=True).start()

    @staticmethod
    def _serve(device: int, tasks: queue.SimpleQueue[_Run | None]) -> None:
        while (run := tasks.get()) is not None:
            run.context.copy().run(run.perform, device)
            del run

    def begin(self, run: _Run) -> None:
        """Let every thread begin."""
        for tasks in self._queues:
            tasks.put(run)


def _dismiss(queues: Sequence[queue.SimpleQueue[_Run | None]]) -> None:
    for tasks in queues:
        tasks.put(None)


_FREE: Final[dict[int, list[_Crew]]] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FREE.clear)  # a fork has none of these threads


@contextmanager
def _crew(count: int) -> Iterator[_Crew]:
    """Threads for this many devices, reused by later runs; not after a failure, when one of them
    may never end.
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
    """Call a function once for each device, in a thread for each, and give the results in the order of the devices.

    Args:
        work: called with the participant, which is `participant.current()` meanwhile.
        grid: how many devices there are.
        timeout: see Rendezvous.
        visits: takes a record of each collective on each device.
        cancel: stops what devices are computing; called when the run cannot go on.

    Raises:
        DeviceError: a device fails, is late or waits for ever.
        KeyboardInterrupt: or what else a signal's handler raises meanwhile; the devices are freed and stopped.
    """
    rendezvous = Rendezvous(grid.count, timeout)
    participants = [ThreadParticipant(d, grid, rendezvous, visits) for d in range(grid.count)]
    run = _Run(work, participants, contextvars.copy_context(), [None] * grid.count, grid.count)
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

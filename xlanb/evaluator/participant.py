"""Participant: the interface by which a program on one device communicates with the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from xlanb.contexts import bound
from xlanb.evaluator.values import Value
from xlanb.hlo.device_groups import DeviceGrid
from xlanb.hlo.instruction import HloInstruction

Meaning = Callable[[Sequence[Value]], Sequence[Value]]
"""Computes the results of a collective for each member of a group, from the operands of each."""


class Participant(ABC):
    """One of the devices that a module runs on."""

    def __init__(self, device: int, grid: DeviceGrid) -> None:
        self.device = device
        self.grid = grid

    @abstractmethod
    def meet(self, i: HloInstruction, group: tuple[int, ...], value: Value, meaning: Meaning) -> Value:
        """This device's part of a collective's result; waits for all members of the group.

        Raises:
            DeviceError: another member cannot take part, or is too late.
        """

    @abstractmethod
    def send(self, i: HloInstruction, target: int, channel: int, value: Value) -> None:
        """Send a value to another device without waiting for it to receive."""

    @abstractmethod
    def receive(self, i: HloInstruction, source: int, channel: int) -> Value:
        """The next value that another device sends over a channel; waits for it.

        Raises:
            DeviceError: the other device cannot send, or is too late.
        """


_CURRENT: Final[ContextVar[Participant | None]] = ContextVar("xlanb.participant", default=None)


def current() -> Participant | None:
    """The device that this thread runs; None if the program runs on one device."""
    return _CURRENT.get()


@contextmanager
def running_on(participant: Participant) -> Iterator[None]:
    """Run the block on one of several devices."""
    with bound(_CURRENT, participant):
        yield

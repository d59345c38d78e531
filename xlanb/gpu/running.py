"""Run a launch sequence, as the host does: on a device or on the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xlanb.gpu.launches import Conditional, CopyLaunch, Fill, KernelLaunch, Launch, LibraryCall, MemoryRange, While
from xlanb.shape import PrimitiveType


class Machine(Protocol):
    """Holds a run's memory and runs launches on it."""

    def launch(self, kernel: KernelLaunch) -> None:
        """Run a kernel."""

    def copy(self, target: MemoryRange, source: MemoryRange) -> None:
        """Copy bytes."""

    def fill(self, target: MemoryRange, byte: int) -> None:
        """Set all bytes of a memory range."""

    def call(self, call: LibraryCall) -> None:
        """Compute an instruction by a library."""

    def read(self, place: MemoryRange) -> bytes:
        """Return a memory range's bytes, after all earlier launches are done."""


def run(launches: Sequence[Launch], machine: Machine) -> None:
    """Run a launch sequence in order; the host reads conditions and indices as needed."""
    for launch in launches:
        if isinstance(launch, KernelLaunch):
            machine.launch(launch)
        elif isinstance(launch, CopyLaunch):
            machine.copy(launch.target, launch.source)
        elif isinstance(launch, Fill):
            machine.fill(launch.target, launch.byte)
        elif isinstance(launch, LibraryCall):
            machine.call(launch)
        elif isinstance(launch, While):
            run(launch.condition, machine)
            while machine.read(launch.predicate)[0]:
                run(launch.body, machine)
                run(launch.condition, machine)
        else:
            run(launch.branches[_branch(launch, machine.read(launch.index))], machine)


def _branch(launch: Conditional, index: bytes) -> int:
    """Return the branch number: true of a pred is the first, an out-of-range number the last."""
    if launch.type is PrimitiveType.PRED:
        return 0 if index[0] else 1
    number, last = int.from_bytes(index[:4], "little", signed=True), len(launch.branches) - 1
    return number if 0 <= number <= last else last

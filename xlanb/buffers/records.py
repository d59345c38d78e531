"""What buffer assignment decided, frozen: allocations, the values in them, and when each lives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BufferValue:
    """One value in an allocation (XLA's HloValue / LogicalBuffer).

    Bytes `offset` to `offset + size` of its allocation hold the value that `instruction` defines at ShapeIndex `index`, from program position `start` to
    `end`, both included.
    """

    instruction: str
    index: tuple[int, ...]
    shape: str
    offset: int
    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """One block of memory; `kind` is "parameter", "constant", "output" (maybe-live-out), "temp" or "thread-local"; sizes in bytes."""

    index: int
    kind: str
    size: int
    values: tuple[BufferValue, ...] = ()
    parameter_number: int | None = None
    parameter_index: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferAssignmentRecord:
    """All allocations of a module; `sequence` is the program order that `start` and `end` of values count in.

    `peak_bytes` is the most that live values of the temp allocations need at one time.
    """

    module: str
    sequence: tuple[str, ...]
    allocations: tuple[BufferAllocation, ...]
    peak_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        """Bytes of all allocations."""
        return sum(a.size for a in self.allocations)

    @property
    def temp_bytes(self) -> int:
        """Bytes of the temp allocations (XLA's temp_size)."""
        return sum(a.size for a in self.allocations if a.kind == "temp")

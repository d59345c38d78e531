"""Frozen results of buffer assignment: allocations, the values in them, and their live ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.display import Displayable, Plottable
from xlanb.frames import framed
from xlanb.hlo.records import InstructionRecord
from xlanb.stage import size_text

if TYPE_CHECKING:
    from xlanb.frames.frame import Frame


@dataclass(frozen=True, slots=True)
class BufferValue:
    """One value in an allocation (XLA's HloValue / LogicalBuffer).

    Bytes `offset` to `offset + size` of its allocation hold the value that `instruction` defines at ShapeIndex `index`, from program position `start` to
    `end`, both included. `number` is its own in the module; `is_phi` says that it is one of several values by the way that the program takes (a loop's state, a conditional's
    result). `positions` are the places that hold it ("tuple.1 {0}"), `uses` those that read it ("add.2, operand 0"), `source` the instruction.
    """

    instruction: str
    index: tuple[int, ...]
    shape: str
    offset: int
    size: int
    start: int
    end: int
    number: int = 0
    is_phi: bool = False
    positions: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    source: InstructionRecord | None = None

    @property
    def place(self) -> str:
        """The instruction and, of a tuple's leaf, its index, as XLA writes it: "while.3{1}"."""
        return self.instruction + ("{" + ",".join(map(str, self.index)) + "}" if self.index else "")


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """One block of memory; `kind` is "parameter", "constant", "output" (maybe-live-out), "temp" or "thread-local"; sizes in bytes.

    `shape` is that of the parameter or result whose memory it is; `scratch` what kernels need besides operands and results while they run.
    """

    index: int
    kind: str
    size: int
    values: tuple[BufferValue, ...] = ()
    parameter_number: int | None = None
    parameter_index: tuple[int, ...] = ()
    shape: str = ""
    scratch: tuple[BufferValue, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferAssignmentRecord(Displayable, Plottable):
    """All allocations of a module; `sequence` is the program order that `start` and `end` of values count in.

    `peak_bytes` is the most that live values and scratch of the temp allocations need at one time.
    """

    module: str
    sequence: tuple[str, ...]
    allocations: tuple[BufferAllocation, ...]
    peak_bytes: int = 0

    def to_dataframe(self) -> Frame:
        """One row per value, the largest first: allocation and its kind, value, shape, offset, bytes, from which position of the program to which it lives."""
        held = [
            (a, v, what) for a in self.allocations for vs, what in ((a.values, ""), (a.scratch, " scratch")) for v in vs
        ]
        rows = [
            (a.index, a.kind, v.place + what, v.shape, v.offset, v.size, v.start, v.end)
            for a, v, what in sorted(held, key=lambda h: -h[1].size)
        ]
        return framed(rows, ["allocation", "kind", "value", "shape", "offset", "bytes", "start", "end"])

    @property
    def total_bytes(self) -> int:
        """Bytes of all allocations."""
        return sum(a.size for a in self.allocations)

    @property
    def temp_bytes(self) -> int:
        """Bytes of the temp allocations (XLA's temp_size)."""
        return self.bytes_of("temp")

    @property
    def scratch_bytes(self) -> int:
        """The most bytes of scratch that one kernel needs: they run one after another."""
        return max((v.size for a in self.allocations for v in a.scratch), default=0)

    def bytes_of(self, kind: str) -> int:
        """Bytes of the allocations of a kind."""
        return sum(a.size for a in self.allocations if a.kind == kind)


@size_text.register
def _assignment_size(record: BufferAssignmentRecord) -> str:
    return f"{len(record.allocations)} allocations, {record.temp_bytes:,} bytes of temporaries"


def live_bytes(record: BufferAssignmentRecord) -> list[int]:
    """Bytes of temp memory in use at each position of the program order; values that share their bytes count once."""
    steps = len(record.sequence)
    change = [0] * (steps + 1)
    for allocation in record.allocations:
        if allocation.kind != "temp":
            continue
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for v in (*allocation.values, *allocation.scratch):
            spans.setdefault((v.offset, v.size), []).append((v.start, v.end))
        for (_, size), lives in spans.items():
            for start, end in _joined(lives):
                change[max(0, min(start, steps))] += size
                change[max(0, min(end + 1, steps))] -= size
    total, out = 0, []
    for c in change[:steps]:
        total += c
        out.append(total)
    return out


def _joined(lives: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans of time, those that meet as one."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(lives):
        if out and start <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out

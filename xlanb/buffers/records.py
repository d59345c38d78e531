"""Frozen results of buffer assignment: allocations, their values, and live ranges."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlanb.display import Displayable, Plottable
from xlanb.frames import framed
from xlanb.hlo.records import InstructionRecord
from xlanb.lazy_dataclass import dataclass
from xlanb.stage import size_text

if TYPE_CHECKING:
    from xlanb.frames.frame import Frame


@dataclass(frozen=True, slots=True)
class BufferValue:
    """One value in an allocation (XLA's HloValue / LogicalBuffer).

    Attributes:
        instruction: the instruction that defines it.
        index: the ShapeIndex in the instruction's result.
        offset: its first byte in the allocation.
        size: its bytes.
        start: the first program position at which it is live.
        end: the last one, included.
        number: its number in the module.
        is_phi: it depends on the path taken (a loop's state, a conditional's result).
        positions: the instructions that hold it ("tuple.1 {0}").
        uses: the operands that read it ("add.2, operand 0").
        source: the instruction's record.
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
        """The instruction, and the index of a tuple's leaf, as XLA prints them: "while.3{1}"."""
        return self.instruction + ("{" + ",".join(map(str, self.index)) + "}" if self.index else "")


@dataclass(frozen=True, slots=True)
class BufferAllocation:
    """One block of memory; sizes are in bytes.

    `kind` is "parameter", "constant", "output" (maybe-live-out), "temp" or "thread-local". `shape`
    is that of the parameter or result in it. `scratch` is what kernels need in addition to operands
    and results while they run.
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
    """All allocations of a module.

    `sequence` is the program order that `start` and `end` of values refer to. `peak_bytes` is the
    most that live values and scratch of the temp allocations need at one time.
    """

    module: str
    sequence: tuple[str, ...]
    allocations: tuple[BufferAllocation, ...]
    peak_bytes: int = 0

    def to_dataframe(self) -> Frame:
        """One row per value, largest first.

        Columns: allocation, its kind, value, shape, offset, bytes, first and last program position.
        """
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
        """The most scratch bytes of one kernel: kernels run one after another."""
        return max((v.size for a in self.allocations for v in a.scratch), default=0)

    def bytes_of(self, kind: str) -> int:
        """Bytes of the allocations of a kind."""
        return sum(a.size for a in self.allocations if a.kind == kind)


@size_text.register
def _assignment_size(record: BufferAssignmentRecord) -> str:
    return f"{len(record.allocations)} allocations, {record.temp_bytes:,} bytes of temporaries"


def live_bytes(record: BufferAssignmentRecord) -> list[int]:
    """Bytes of temp memory in use at each position; values that share memory count once."""
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
    """Spans of positions, with adjacent ones merged."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(lives):
        if out and start <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out

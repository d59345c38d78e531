"""Read results of memory space assignment: which buffers are in fast memory, and when.

The fast memory is VMEM, or CMEM of a v4. bufferinfo has every buffer that could be there, allocinfo
the intervals of the schedule for which one is, and scheduleinfo the schedule that both refer to:

    buffer_id,buffer_name,alt_mem_benefit,size,definition_time,use_times,use_names,is_scoped
    499,"<499 fusion.39>",4.6898e-09,524288,24,"25;27","fusion.32, operand 2;fusion.38, operand 1",0
    buffer_id,size,offset,start_time,end_time
    499,524288,1769472,24,46
    time,instruction_name
    24,fusion.39
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from xlanb.display import Displayable
from xlanb.errors import DumpError
from xlanb.stage import size_text

MAX_ROWS: Final = 500_000

_NAME = re.compile(r"<\d+ (?P<name>.+?)(?P<index>\{[\d,]*\})?>")


@dataclass(frozen=True, slots=True)
class FastStretch:
    """A buffer's interval in the fast memory.

    It occupies bytes [offset, offset + size) from schedule position `start` to `end`, inclusive.
    """

    offset: int
    size: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SpaceBuffer:
    """A buffer: `number` in the dump, the defining instruction, the leaf's index, bytes.

    `benefit` is XLA's estimate of seconds gained per byte and use in the fast memory, `defined` the
    position of its definition, and `uses` are pairs of position and use ("fusion.32, operand 2").
    `fast` are its intervals in the fast memory; otherwise it is in HBM.
    """

    number: int
    instruction: str
    index: str
    size: int
    benefit: float
    defined: int
    uses: tuple[tuple[int, str], ...]
    is_scoped: bool
    fast: tuple[FastStretch, ...] = ()

    @property
    def place(self) -> str:
        """The instruction and the leaf's index, as XLA writes them: "fusion.78{1}"."""
        return self.instruction + (self.index if self.index != "{}" else "")

    @property
    def last(self) -> int:
        """The position of its last use."""
        return max((at for at, _ in self.uses), default=self.defined)

    @property
    def slow(self) -> tuple[tuple[int, int], ...]:
        """Yield the intervals (first, last) of its life in which it is only in HBM."""
        out, at = [], self.defined
        for s in sorted(self.fast, key=lambda s: s.start):
            if s.start > at:
                out.append((at, s.start - 1))
            at = max(at, s.end + 1)
        return (*out, (at, self.last)) if at <= self.last else tuple(out)


@dataclass(frozen=True, repr=False)
class MemorySpaceRecord(Displayable):
    """The schedule and buffers of a module that memory space assignment considered.

    Buffers with the largest benefit come first.
    """

    module: str
    schedule: tuple[str, ...]
    buffers: tuple[SpaceBuffer, ...]
    space: str = "VMEM"
    capacity: int = 0
    """Bytes of fast memory per core, 0 if the chip is unknown."""

    @cached_property
    def fast_bytes(self) -> tuple[int, ...]:
        """Bytes of fast memory in use at each schedule position."""
        return tuple(self._over((s.start, s.end, s.size) for b in self.buffers for s in b.fast))

    @cached_property
    def slow_bytes(self) -> tuple[int, ...]:
        """Bytes of buffers that are only in HBM at each schedule position."""
        return tuple(self._over((start, end, b.size) for b in self.buffers for start, end in b.slow))

    @property
    def extent(self) -> int:
        """Bytes from the start of the fast memory to the end of the highest buffer."""
        return max((s.offset + s.size for b in self.buffers for s in b.fast), default=0)

    def _over(self, spans: Iterator[tuple[int, int, int]]) -> Iterator[int]:
        steps = len(self.schedule)
        change = [0] * (steps + 1)
        for start, end, size in spans:
            change[min(start, steps)] += size
            change[min(end + 1, steps)] -= size
        total = 0
        for c in change[:steps]:
            total += c
            yield total

    def __str__(self) -> str:
        peak = max(self.fast_bytes, default=0)
        lines = [f"memory space assignment of {self.module}: {peak:,} bytes of {self.space} in use at most"]
        for b in self.buffers:
            where = ", ".join(f"{self.space} at {s.offset:,} from {s.start} to {s.end}" for s in b.fast) or "HBM"
            lines.append(f"  {b.place} {b.size:,} bytes, defined {b.defined}, last used {b.last}: {where}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        placed = sum(bool(b.fast) for b in self.buffers)
        return f"<MemorySpaceRecord {self.module}: {placed} of {len(self.buffers)} buffers in {self.space}>"


@size_text.register
def _record_size(record: MemorySpaceRecord) -> str:
    placed = sum(bool(b.fast) for b in record.buffers)
    peak = max(record.fast_bytes, default=0)
    return f"{placed} of {len(record.buffers)} buffers in {record.space}, {peak:,} bytes at most"


def parse_memory_space(
    module: str,
    texts: tuple[str, str, str],
    *,
    space: str = "VMEM",
    capacity: int = 0,
    prefetched: tuple[str, ...] = (),
) -> MemorySpaceRecord:
    """Parse the texts of bufferinfo, allocinfo and scheduleinfo.

    `space` is the fast memory that was assigned, of `capacity` bytes. bufferinfo omits what is
    fetched for the next run at the end of this one (cross-program prefetch): `prefetched` names
    these parameters.

    Raises:
        DumpError: one of them is not the expected table; the message names the line.
    """
    buffers, allocations, schedule = texts
    names = tuple(row[1] for row in _rows(schedule, "time,instruction_name", 2))
    stretches: dict[int, list[FastStretch]] = {}
    for row in _rows(allocations, "buffer_id,size,offset,start_time,end_time", 5):
        number, (size, offset, start, end) = _identity(row), (_whole(v, row) for v in row[1:])
        stretches.setdefault(number, []).append(FastStretch(offset, size, start, end))
    found = [_buffer(row, stretches) for row in _rows(buffers, "buffer_id,buffer_name,alt_mem_benefit,size", 8)]
    known = {b.number for b in found}
    rest = [n for n in stretches if n not in known]
    given = prefetched if len(prefetched) == len(rest) == 1 else ()
    found += [_unlisted(n, stretches[n], given[0] if given else "") for n in rest]
    return MemorySpaceRecord(module, names, tuple(found), space, capacity)


def _unlisted(number: int, stretches: list[FastStretch], parameter: str) -> SpaceBuffer:
    """Return a buffer that is only in allocinfo."""
    fast = tuple(_joined(stretches))
    name = parameter or f"buffer {number}"
    return SpaceBuffer(
        number, name, "", fast[0].size, 0.0, fast[0].start, ((fast[-1].end, ""),), is_scoped=False, fast=fast
    )


def _buffer(row: list[str], stretches: dict[int, list[FastStretch]]) -> SpaceBuffer:
    number = _identity(row)
    named = _NAME.fullmatch(row[1])
    name, index = (named["name"], named["index"] or "") if named is not None else (row[1], "")
    times = [_whole(t, row) for t in row[5].split(";") if t]
    uses = row[6].split(";") if row[6] else []
    fast = tuple(_joined(stretches.get(number, [])))
    pairs = tuple(zip(times, [*uses, *[""] * len(times)], strict=False))
    return SpaceBuffer(
        number, name, index, _whole(row[3], row), _real(row[2], row), _whole(row[4], row), pairs, row[7] == "1", fast
    )


def _joined(stretches: list[FastStretch]) -> Iterator[FastStretch]:
    """Yield intervals in order, joining adjacent ones at the same place."""
    current: FastStretch | None = None
    for s in sorted(stretches, key=lambda s: (s.start, s.end)):
        if current is not None and (s.offset, s.size) == (current.offset, current.size) and s.start <= current.end + 1:
            current = FastStretch(s.offset, s.size, current.start, max(current.end, s.end))
            continue
        if current is not None:
            yield current
        current = s
    if current is not None:
        yield current


def _rows(text: str, heading: str, width: int) -> Iterator[list[str]]:
    """Yield a table's rows below its heading."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith(heading):
        raise DumpError(
            f"not a memory space assignment table: expected the heading {heading!r}, the text begins {text[:80]!r}"
        )
    if len(lines) > MAX_ROWS:
        raise DumpError(f"the memory space assignment has {len(lines):,} rows, more than the limit of {MAX_ROWS:,}")
    reader = csv.reader(lines[1:])
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise DumpError(f"line {reader.line_num + 1} of memory space assignment cannot be read: {error}") from error
        if not row:
            continue
        if len(row) != width:
            raise DumpError(
                f"line {reader.line_num + 1} of memory space assignment: expected {width} columns, got {len(row)}"
            )
        yield row


def _identity(row: list[str]) -> int:
    """Return a buffer's number; XLA's reserved ones are negative."""
    sign = -1 if row[0].startswith("-") else 1
    return sign * _whole(row[0].removeprefix("-"), row)


def _whole(text: str, row: list[str]) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise DumpError(
            f"memory space assignment: expected a number, got {text[:40]!r} in the row: {','.join(row)[:120]!r}"
        )
    return int(text)


def _real(text: str, row: list[str]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DumpError(
            f"memory space assignment: expected a number, got {text[:40]!r} in the row: {','.join(row)[:120]!r}"
        )
    return value

"""XLA's buffer assignment report, read back: allocations, the values in them and, where a report of live ranges is there, when each lives.

    allocation 1: size 16384, output shape is |f32[2,32,64]|, maybe-live-out:
     value: <58 fusion.2 @0> (size=16384,offset=0): f32[2,4,32,16]{3,2,1,0}

Source of the forms: BufferAssignment::ToString and HloLiveRange::ToString.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue
from xlanb.errors import DumpError

_ALLOCATION = re.compile(r"^\s*allocation (?P<index>\d+):?\s*(?:0x\w+,\s*)?size (?P<size>\d+)(?P<rest>.*)$")
_VALUE = re.compile(
    r"^\s*value:\s*<(?P<id>\d+) (?P<name>\S+?)(?P<index>\{[\d,]*\})?(?: \([^)]*\))? @-?\d+>\s*"
    r"\(size=(?P<size>\d+),offset=(?P<offset>\d+)\):\s*(?P<shape>.*)$"
)
_PARAMETER = re.compile(r"\bparameter (\d+)\b(?:.*\bShapeIndex \{([\d,]*)\})?")
_SEQUENCE = re.compile(r"^\s*(\d+):(\S+)$")
_RANGE = re.compile(r"^\s*(\S+?)\{([\d,]*)\}:(\d+)-(\d+)$")


@dataclass
class LiveRanges:
    """A report of live ranges: the program order by instruction, and when each buffer (name, ShapeIndex) lives, first and last position."""

    sequence: list[str] = field(default_factory=list)
    ranges: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = field(default_factory=dict)


def parse_live_ranges(text: str) -> LiveRanges:
    """The sequence and the ranges of an HloLiveRange report; other lines are passed over."""
    found = LiveRanges()
    part = ""
    for line in text.splitlines():
        word = line.strip()
        if word in ("InstructionSequence:", "BufferLiveRange:"):
            part = word
        elif part == "InstructionSequence:" and (m := _SEQUENCE.match(line)):
            found.sequence.append(m[2])
        elif part == "BufferLiveRange:":
            m = _RANGE.match(line)
            if m is None:
                part = ""
            else:
                found.ranges[m[1], _index(m[2])] = (int(m[3]), int(m[4]))
    return found


def parse_buffer_assignment(text: str, module: str, live: str = "") -> BufferAssignmentRecord:
    """The record of a buffer assignment report of `module`; `live` is the text of its live-range report, if there is one.

    Where neither report tells when a value lives, `start` and `end` are those of the whole program, and the peak is that of all values at once.

    Raises:
        DumpError: there is no allocation in the text.
    """
    ranges = parse_live_ranges(live or text)
    last = max(len(ranges.sequence) - 1, 0)
    heads: list[re.Match[str]] = []
    values: list[list[BufferValue]] = []
    for line in text.splitlines():
        head = _ALLOCATION.match(line)
        if head is not None:
            heads.append(head)
            values.append([])
        elif heads and (value := _VALUE.match(line)) is not None:
            values[-1].append(_value(value, ranges, last))
    if not heads:
        raise DumpError(f"no allocation in the buffer assignment of {module}: it begins {text[:80]!r}")
    allocations = tuple(_allocation(h, v) for h, v in zip(heads, values, strict=True))
    return BufferAssignmentRecord(module, tuple(ranges.sequence), allocations, _peak(allocations))


def _value(m: re.Match[str], ranges: LiveRanges, last: int) -> BufferValue:
    index = _index((m["index"] or "{}")[1:-1])
    start, end = ranges.ranges.get((m["name"], index), (0, last))
    return BufferValue(m["name"], index, m["shape"].strip(), int(m["offset"]), int(m["size"]), start, end)


def _allocation(m: re.Match[str], values: list[BufferValue]) -> BufferAllocation:
    rest = m["rest"]
    parameter = _PARAMETER.search(rest)
    kinds: Mapping[str, bool] = {
        "parameter": parameter is not None,
        "constant": "constant" in rest,
        "thread-local": "thread-local" in rest,
        "output": "maybe-live-out" in rest or "output shape" in rest,
    }
    kind = next((k for k, yes in kinds.items() if yes), "temp")
    number = int(parameter[1]) if parameter is not None else None
    where = _index(parameter[2] or "") if parameter is not None else ()
    return BufferAllocation(int(m["index"]), kind, int(m["size"]), tuple(values), number, where)


def _peak(allocations: tuple[BufferAllocation, ...]) -> int:
    """The most bytes that values in temp allocations take at one position of the program."""
    changes: dict[int, int] = {}
    for a in allocations:
        for v in a.values if a.kind == "temp" else ():
            changes[v.start] = changes.get(v.start, 0) + v.size
            changes[v.end + 1] = changes.get(v.end + 1, 0) - v.size
    peak = now = 0
    for _, change in sorted(changes.items()):
        now += change
        peak = max(peak, now)
    return peak


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(k) for k in text.split(",") if k)


def buffer_assignment_text(record: BufferAssignmentRecord) -> str:
    """The report that `parse_buffer_assignment` reads, in XLA's form; values are numbered in order."""
    lines = ["BufferAssignment:"]
    number = 0
    for a in record.allocations:
        lines.append(f"allocation {a.index}: size {a.size}, {_kind_text(a)}:")
        for v in a.values:
            index = "{" + ",".join(map(str, v.index)) + "}" if v.index else ""
            lines.append(f" value: <{number} {v.instruction}{index} @0> (size={v.size},offset={v.offset}): {v.shape}")
            number += 1
    lines += ["", f"Total bytes used: {record.total_bytes}"]
    return "\n".join(lines) + "\n"


def live_range_text(record: BufferAssignmentRecord) -> str:
    """The report that `parse_live_ranges` reads, in XLA's form."""
    lines = [f"HloLiveRange (max {len(record.sequence)}):", "  InstructionSequence:"]
    lines += [f"    {k}:{name}" for k, name in enumerate(record.sequence)]
    lines.append("  BufferLiveRange:")
    for a in record.allocations:
        lines += [f"    {v.instruction}{{{','.join(map(str, v.index))}}}:{v.start}-{v.end}" for v in a.values]
    return "\n".join(lines) + "\n"


def _kind_text(a: BufferAllocation) -> str:
    shape = a.values[0].shape if a.values else ""
    if a.kind == "parameter":
        index = ",".join(map(str, a.parameter_index))
        return f"parameter {a.parameter_number}, shape |{shape}| at ShapeIndex {{{index}}}"
    if a.kind == "output":
        return f"output shape is |{shape}|, maybe-live-out"
    return {"temp": "preallocated-temp"}.get(a.kind, a.kind)

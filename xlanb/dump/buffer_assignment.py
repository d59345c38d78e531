"""Read XLA's buffer assignment report.

It lists allocations, their values and, with a live-range report, when each value is live.

    allocation 1: size 16384, output shape is |f32[2,32,64]|, maybe-live-out:
     value: <58 fusion.2 @0> (size=16384,offset=0): f32[2,4,32,16]{3,2,1,0}

Source of the forms: BufferAssignment::ToString and HloLiveRange::ToString.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue, live_bytes
from xlanb.errors import DumpError

_ALLOCATION = re.compile(r"^\s*allocation (?P<index>\d+):?\s*(?:0x\w+,\s*)?size (?P<size>\d+)(?P<rest>.*)$")
_VALUE = re.compile(
    r"^\s*value:\s*<(?P<id>\d+) (?P<name>\S+?)(?P<index>\{[\d,]*\})?(?P<phi> \([^)]*\))? @-?\d+>\s*"
    r"\(size=(?P<size>\d+),offset=(?P<offset>\d+)\):\s*(?P<shape>.*)$"
)
_SCRATCH = re.compile(r"^\s*scratch: (?P<name>\S+) \(size=(?P<size>\d+),offset=(?P<offset>\d+)\)$")
_PEAK = re.compile(r"^By kind: .*\(at the peak (\d+)\)", re.MULTILINE)
_SHAPE = re.compile(r"\|(.*)\|")
_PARAMETER = re.compile(r"\bparameter (\d+)\b(?:.*\bShapeIndex \{([\d,]*)\})?")
_SEQUENCE = re.compile(r"^\s*(\d+):(\S+)$")
_RANGE = re.compile(r"^\s*(\S+?)\{([\d,]*)\}:(\d+)-(\d+)$")


@dataclass
class DumpedLiveRanges:
    """A report of live ranges.

    `sequence` is the program order of instructions; `ranges` has the first and last position of
    each buffer (name, ShapeIndex).
    """

    sequence: list[str] = field(default_factory=list)
    ranges: dict[tuple[str, tuple[int, ...]], tuple[int, int]] = field(default_factory=dict)


def parse_live_ranges(text: str) -> DumpedLiveRanges:
    """Parse the sequence and ranges of an HloLiveRange report, skipping other lines."""
    found = DumpedLiveRanges()
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
    """Parse the buffer assignment report of `module`; `live` is its live-range report, if any.

    If no report has a value's live range, `start` and `end` are those of the whole program, and the
    peak is that of all values at once.

    Raises:
        DumpError: there is no allocation in the text.
    """
    ranges = parse_live_ranges(live or text)
    last = max(len(ranges.sequence) - 1, 0)
    heads: list[re.Match[str]] = []
    values: list[list[BufferValue]] = []
    scratch: list[list[BufferValue]] = []
    places = {name: k for k, name in enumerate(ranges.sequence)}
    for line in text.splitlines():
        head = _ALLOCATION.match(line)
        if head is not None:
            heads.append(head)
            values.append([])
            scratch.append([])
        elif heads and (value := _VALUE.match(line)) is not None:
            values[-1].append(_value(value, ranges, last))
        elif heads and (needed := _SCRATCH.match(line)) is not None:
            scratch[-1].append(_scratch(needed, places))
    if not heads:
        raise DumpError(f"the buffer assignment of {module} has no allocations: it begins {text[:80]!r}")
    allocations = tuple(_allocation(*parts) for parts in zip(heads, values, scratch, strict=True))
    record = BufferAssignmentRecord(module, tuple(ranges.sequence), allocations)
    peak = _PEAK.search(text)
    return replace(record, peak_bytes=int(peak[1]) if peak is not None else _peak(record))


def _value(m: re.Match[str], ranges: DumpedLiveRanges, last: int) -> BufferValue:
    index = _index((m["index"] or "{}")[1:-1])
    start, end = ranges.ranges.get((m["name"], index), (0, last))
    shape, is_phi = m["shape"].strip(), m["phi"] == " (phi)"
    return BufferValue(m["name"], index, shape, int(m["offset"]), int(m["size"]), start, end, int(m["id"]), is_phi)


def _scratch(m: re.Match[str], places: Mapping[str, int]) -> BufferValue:
    at = places.get(m["name"], 0)
    return BufferValue(m["name"], (), "", int(m["offset"]), int(m["size"]), at, at)


def _allocation(m: re.Match[str], values: list[BufferValue], scratch: list[BufferValue]) -> BufferAllocation:
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
    shape = found[1] if (found := _SHAPE.search(rest)) is not None else ""
    return BufferAllocation(int(m["index"]), kind, int(m["size"]), tuple(values), number, where, shape, tuple(scratch))


def _peak(record: BufferAssignmentRecord) -> int:
    if record.sequence:
        return max(live_bytes(record))
    return sum(v.size for a in record.allocations if a.kind == "temp" for v in a.values)


def _index(text: str) -> tuple[int, ...]:
    return tuple(int(k) for k in text.split(",") if k)

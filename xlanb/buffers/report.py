"""Buffer assignment as text, in the formats of XLA's reports.

XLA dumps the files *-buffer-assignment, -buffer-assignment-values and -live-range.

    BufferAssignment:
    allocation 1: size 16384, output shape is |f32[2,32,64]|, maybe-live-out:
     value: <58 fusion.2 @0> (size=16384,offset=0): f32[2,4,32,16]{3,2,1,0}

Facts that XLA's reports do not have, scratch of kernels and the bytes by kind of allocation, are in
lines that its readers skip.
Source: BufferAssignment::ToString, HloValue::ToString and HloLiveRange::ToString.
"""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def report(record: BufferAssignmentRecord) -> str:
    """Allocations, sums, values with their uses, and live ranges."""
    return f"{allocations_text(record)}\n{values_text(record)}\n{live_range_text(record)}"


def allocations_text(record: BufferAssignmentRecord) -> str:
    """The allocations with their values (XLA's *-buffer-assignment.txt)."""
    lines = ["BufferAssignment:"]
    for a in record.allocations:
        lines.append(f"allocation {a.index}: size {a.size}, {_head(a)}:")
        values, scratch = (sorted(vs, key=lambda v: (v.offset, v.start)) for vs in (a.values, a.scratch))
        lines += [f" value: {_name(v)} (size={v.size},offset={v.offset}): {v.shape}" for v in values]
        lines += [f" scratch: {v.instruction} (size={v.size},offset={v.offset})" for v in scratch]
    return "\n".join(lines) + "\n"


def values_text(record: BufferAssignmentRecord) -> str:
    """The total bytes, also by kind, and the values with their uses.

    XLA's *-buffer-assignment-values.txt.
    """
    lines = [f"Total bytes used: {record.total_bytes} ({human(record.total_bytes)})"]
    kinds = {"parameter": "parameters", "output": "outputs", "constant": "constants", "temp": "temporaries"}
    parts = [f"{name} {record.bytes_of(kind)}" for kind, name in kinds.items()]
    lines.append(f"By kind: {', '.join(parts)} (at the peak {record.peak_bytes}), scratch {record.scratch_bytes}")
    lines += ["", "Used values:"]
    for v in _values(record):
        lines += [_name(v), " positions:", *(f"  {p}" for p in v.positions or (v.place,))]
        lines += [" uses:", *(f"  {u}" for u in v.uses or ("(none)",))]
        if v.source is not None:
            lines.append(f" from instruction: {v.source.text}")
    return "\n".join(lines) + "\n"


def live_range_text(record: BufferAssignmentRecord) -> str:
    """The program order, the live range of each value, and the values live at the peak.

    XLA's *-live-range.txt.
    """
    lines = [f"HloLiveRange (max {len(record.sequence)}):", "  InstructionSequence:"]
    lines += [f"    {k}:{name}" for k, name in enumerate(record.sequence)]
    lines.append("  BufferLiveRange:")
    values = list(_values(record))
    lines += [f"    {_indexed(v)}:{v.start}-{v.end}" for v in values]
    position = busiest(record)
    lines.append(f"  Live ranges at {position} (peak):")
    sum_ = 0
    for v in sorted((v for v in values if v.start <= position <= v.end), key=lambda v: -v.size):
        sum_ += v.size
        lines.append(f"    {_indexed(v)}: {v.size} bytes (cumulative: {sum_} bytes)")
    return "\n".join(lines) + "\n"


def busiest(record: BufferAssignmentRecord) -> int:
    """The first program position at which live values have the most bytes."""
    changes = [0] * (len(record.sequence) + 2)
    for v in _values(record):
        changes[v.start] += v.size
        changes[v.end + 1] -= v.size
    most = position = now = 0
    for at, change in enumerate(changes):
        now += change
        if now > most:
            most, position = now, at
    return position


def _values(record: BufferAssignmentRecord) -> Iterator[BufferValue]:
    yield from sorted((v for a in record.allocations for v in a.values), key=lambda v: v.number)


def _name(v: BufferValue) -> str:
    return f"<{v.number} {v.place}{' (phi)' if v.is_phi else ''} @0>"


def _indexed(v: BufferValue) -> str:
    return f"{v.instruction}{{{','.join(map(str, v.index))}}}"


def _head(a: BufferAllocation) -> str:
    if a.kind == "parameter":
        index = ",".join(map(str, a.parameter_index))
        return f"parameter {a.parameter_number}, shape |{a.shape}| at ShapeIndex {{{index}}}"
    if a.kind == "output":
        return f"output shape is |{a.shape}|, maybe-live-out"
    return {"temp": "preallocated-temp"}.get(a.kind, a.kind)


def human(size: int) -> str:
    """Bytes as XLA prints them: one decimal for KiB, two for larger units."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.{min(unit, 2)}f}{_UNITS[unit]}"

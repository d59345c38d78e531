"""Buffer assignment as text, in the style of XLA's buffer-assignment.txt."""

from __future__ import annotations

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def report(record: BufferAssignmentRecord) -> str:
    """The allocations with their values, then the totals."""
    lines = ["BufferAssignment:"]
    for a in record.allocations:
        lines.append(f"allocation {a.index}: {_head(a)}:")
        for v in sorted(a.values, key=lambda v: (v.offset, v.start)):
            index = "{" + ",".join(map(str, v.index)) + "}" if v.index else ""
            lines.append(
                f" value: <{v.instruction}{index} @{v.start}-{v.end}> (size={v.size},offset={v.offset}): {v.shape}"
            )
    lines += ["", f"Total bytes used: {record.total_bytes} ({human(record.total_bytes)})"]
    lines.append(
        f"Temp bytes used: {record.temp_bytes} ({human(record.temp_bytes)}), live at the peak: {record.peak_bytes}"
    )
    return "\n".join(lines) + "\n"


def _head(a: BufferAllocation) -> str:
    if a.kind == "parameter":
        return f"size {a.size}, parameter {a.parameter_number}, shape index {{{','.join(map(str, a.parameter_index))}}}"
    if a.kind == "output":
        return f"size {a.size}, maybe-live-out"
    return f"size {a.size}, {'preallocated-temp' if a.kind == 'temp' else a.kind}"


def human(size: int) -> str:
    """Bytes in the largest unit that leaves a number above one."""
    value, unit = float(size), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.4g} {_UNITS[unit]}"

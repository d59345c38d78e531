"""Buffer assignments as plain data: live ranges and offsets, and bytes in use over program
order.
"""

from __future__ import annotations

from typing import Any

from xlanb.buffers.records import BufferAllocation, BufferAssignmentRecord, BufferValue, live_bytes

_MAX_VALUES = 1500


def memory_data(record: BufferAssignmentRecord) -> dict[str, Any]:
    """Return plain data for the Memory pane, the largest allocations first.

    Values beyond a limit are counted.
    """
    left = _MAX_VALUES
    allocations = []
    for a in sorted(record.allocations, key=lambda a: (-a.size, a.index)):
        rows = [
            [name, list(v.index), v.shape, v.offset, v.size, v.start, v.end]
            for name, v in sorted(_held(a), key=lambda held: -held[1].size)[: max(left, 0)]
        ]
        left -= len(rows)
        allocations.append(
            {
                "i": a.index,
                "kind": a.kind,
                "size": a.size,
                "values": rows,
                "parameter": a.parameter_number,
            }
        )
    data: dict[str, Any] = {
        "k": "buffers",
        "name": record.module,
        "sequence": list(record.sequence[:4000]),
        "steps": len(record.sequence),
        "live": live_bytes(record)[:4000],
        "allocations": allocations[:500],
        "peak": record.peak_bytes,
        "total": record.total_bytes,
        "temp": record.temp_bytes,
        "kinds": _by_kind(record),
    }
    shown = sum(len(a["values"]) for a in data["allocations"])
    hidden = sum(len(_held(a)) for a in record.allocations) - shown
    if hidden:
        data["hidden"] = hidden
    return data


def memory_text(record: BufferAssignmentRecord) -> str:
    """A report in the manner of XLA's buffer-assignment.txt."""
    sizes = f"temp {bytes_text(record.temp_bytes)}, peak {bytes_text(record.peak_bytes)}"
    kinds = ", ".join(f"{name} {bytes_text(size)}" for name, size in _by_kind(record).items())
    count = len(record.allocations)
    lines = [
        f"BufferAssignment of {record.module}: {bytes_text(record.total_bytes)} in {count} allocations, "
        f"{sizes}, {kinds}"
    ]
    for a in record.allocations:
        where = f" parameter {a.parameter_number}" if a.parameter_number is not None else ""
        lines.append(f"allocation {a.index}: size {a.size}, {a.kind}{where}")
        lines.extend(
            f"  {name}{{{','.join(map(str, v.index))}}} {v.shape} (size={v.size}, offset={v.offset}, live "
            f"{v.start}..{v.end})"
            for name, v in _held(a)
        )
    return "\n".join(lines)


def _held(a: BufferAllocation) -> list[tuple[str, BufferValue]]:
    """Return an allocation's contents by name: values, and the scratch of kernels."""
    return [(v.instruction, v) for v in a.values] + [(f"{v.instruction} scratch", v) for v in a.scratch]


def _by_kind(record: BufferAssignmentRecord) -> dict[str, int]:
    """Bytes besides those of temporaries."""
    kinds = {"parameters": "parameter", "outputs": "output", "constants": "constant"}
    return {name: record.bytes_of(kind) for name, kind in kinds.items()} | {"scratch": record.scratch_bytes}


def bytes_text(size: float) -> str:
    """A size for people: "1.5 MiB"."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"

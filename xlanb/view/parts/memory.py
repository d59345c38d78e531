"""Buffer assignments as plain data: what lives where and when, and the bytes in use over program order."""

from __future__ import annotations

from typing import Any

from xlanb.buffers.records import BufferAssignmentRecord

_MAX_VALUES = 1500


def live_bytes(record: BufferAssignmentRecord) -> list[int]:
    """Bytes of temp memory in use at each position of the program order; values that share their bytes count once."""
    steps = len(record.sequence)
    change = [0] * (steps + 1)
    for allocation in record.allocations:
        if allocation.kind != "temp":
            continue
        spans: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for v in allocation.values:
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


def memory_data(record: BufferAssignmentRecord) -> dict[str, Any]:
    """Plain data for the Memory pane; the largest allocations first, values beyond a limit left out and counted."""
    left = _MAX_VALUES
    allocations = []
    for a in sorted(record.allocations, key=lambda a: (-a.size, a.index)):
        values = sorted(a.values, key=lambda v: -v.size)[: max(left, 0)]
        left -= len(values)
        rows = [[v.instruction, list(v.index), v.shape, v.offset, v.size, v.start, v.end] for v in values]
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
    }
    shown = sum(len(a["values"]) for a in data["allocations"])
    hidden = sum(len(a.values) for a in record.allocations) - shown
    if hidden:
        data["hidden"] = hidden
    return data


def memory_text(record: BufferAssignmentRecord) -> str:
    """A report in the manner of XLA's buffer-assignment.txt."""
    sizes = f"temp {bytes_text(record.temp_bytes)}, peak {bytes_text(record.peak_bytes)}"
    count = len(record.allocations)
    lines = [f"BufferAssignment of {record.module}: {bytes_text(record.total_bytes)} in {count} allocations, {sizes}"]
    for a in record.allocations:
        where = f" parameter {a.parameter_number}" if a.parameter_number is not None else ""
        lines.append(f"allocation {a.index}: size {a.size}, {a.kind}{where}")
        lines.extend(
            f"  {v.instruction}{{{','.join(map(str, v.index))}}} {v.shape} (size={v.size}, offset={v.offset}, live {v.start}..{v.end})"
            for v in a.values
        )
    return "\n".join(lines)


def bytes_text(size: float) -> str:
    """A size for people: "1.5 MiB"."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"

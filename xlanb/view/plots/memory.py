"""A buffer assignment as a figure: temporaries by offset, over program order."""

from __future__ import annotations

from itertools import cycle
from typing import Any, Final

from xlanb.buffers.records import BufferAssignmentRecord, BufferValue, live_bytes
from xlanb.view.parts.memory import bytes_text
from xlanb.view.plots.chart import FAULT, PALETTE, Bar, bar_figure, escaped, graph_objects, left_out, styled

_MOST_VALUES: Final = 300
_UNITS: Final = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("bytes", 1))
_KINDS: Final = dict(zip(("parameter", "constant", "output", "temp", "thread-local"), PALETTE, strict=False))


def memory_figure(record: BufferAssignmentRecord) -> Any:
    """Plot temporaries as boxes: live ranges horizontally, offsets vertically; a line for bytes in
    use.

    A program without temporaries shows its allocations by size.
    """
    if not record.temp_bytes:
        return _allocations(record)
    placed = _placed(record)
    unit, scale = next((name, size) for name, size in _UNITS if record.temp_bytes >= size)
    shown = sorted(placed, key=lambda p: -p[1].size)[:_MOST_VALUES]
    go = graph_objects()
    boxes = go.Bar(
        base=[v.start - 0.5 for _, v in shown],
        x=[v.end - v.start + 1 for _, v in shown],
        y=[(bottom + v.size / 2) / scale for bottom, v in shown],
        width=[v.size / scale for _, v in shown],
        orientation="h",
        name="values",
        marker={
            "color": [c for c, _ in zip(cycle(PALETTE), shown, strict=False)],
            "opacity": 0.6,
            "line": {"width": 0.5},
        },
        customdata=[[escaped(v.place), escaped(v.shape), bytes_text(v.size), v.start, v.end] for _, v in shown],
        hovertemplate="<b>%{customdata[0]}</b> %{customdata[1]}<br>%{customdata[2]}, live %{customdata[3]} to "
        "%{customdata[4]}<extra></extra>",
    )
    used = live_bytes(record)
    line = go.Scatter(
        x=list(range(len(used))), y=[b / scale for b in used], mode="lines", name="in use",
        line={"shape": "hvh", "color": FAULT},
        customdata=[escaped(name) for name in record.sequence],
        hovertemplate=f"%{{customdata}}: %{{y:.4g}} {unit} in use<extra></extra>",
    )  # fmt: skip
    title = (
        f"{record.module}: {bytes_text(record.temp_bytes)} of temporaries, {bytes_text(record.peak_bytes)} at the peak"
    )
    more = left_out(len(placed) - len(shown), "values")
    return styled(go.Figure([boxes, line]), title + more, x="position in the program's order", y=f"offset, {unit}")


def _placed(record: BufferAssignmentRecord) -> list[tuple[int, BufferValue]]:
    """Each value of the temp allocations with its place, one allocation above the other."""
    found, bottom = [], 0
    for allocation in (a for a in record.allocations if a.kind == "temp"):
        found += [(bottom + v.offset, v) for v in (*allocation.values, *allocation.scratch) if v.size]
        bottom += allocation.size
    return found


def _allocations(record: BufferAssignmentRecord) -> Any:
    ordered = sorted((a for a in record.allocations if a.size), key=lambda a: -a.size)
    bars = [
        Bar(f"{a.index} {a.values[0].place if a.values else a.kind}", a.size, a.kind, f"{bytes_text(a.size)} {a.shape}")
        for a in ordered
    ]
    title = f"{record.module}: {bytes_text(record.total_bytes)} in {len(bars)} allocations, none of temporaries"
    return bar_figure(title, "size", "bytes", bars, _KINDS)

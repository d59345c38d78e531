"""One run, or two of one program, as a plotly timeline with a row per device.

Of two runs the first (XLA off) is above, the second (XLA on) below; ops are joined to the fusions
that contain them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xlanb.errors import XlanbError
from xlanb.runtime.step_stats import (
    COMPILATIONS,
    CPU,
    KERNELS,
    LAUNCHES,
    PASSES,
    NodeExecStats,
    StepStats,
    op_of,
    timeline_figure,
)

_COLOURS: Final = {CPU: "#b3bcc9", LAUNCHES: "#8a63d2", KERNELS: "#2f8c9b", COMPILATIONS: "#c98a2b", PASSES: "#2867d6"}
_OTHER: Final = "#777777"
_JOIN: Final = "rgba(201,138,43,0.45)"
_WORDS: Final = {
    CPU: "nodes",
    LAUNCHES: "launches",
    KERNELS: "kernels",
    COMPILATIONS: "compilations",
    PASSES: "passes",
}
_FEWEST_US: Final = 1e-3  # what took no time is drawn as thin as this
_MOST_JOINS: Final = 400


@dataclass(frozen=True)
class _Bar:
    """A node on a row: begin and length in microseconds since the run began."""

    node: NodeExecStats
    device: str
    row: str
    start: float
    length: float


def figure(run: StepStats, before: StepStats | None = None) -> Any:
    """Return a plotly Figure of one run, with another run of the same program (XLA off) above it.

    Each bar's `customdata` is [name, op, TensorFlow nodes, details], so that a click leads to the
    ops.

    Raises:
        XlanbError: a run was not traced.
    """
    import plotly.graph_objects as go

    runs = [("XLA off: ", before), ("XLA on: ", run)] if before is not None else [("", run)]
    bars: list[_Bar] = []
    for words, stats in runs:
        bars += _bars(stats, words)
    chart = go.Figure([_trace(go, device, [b for b in bars if b.device == device]) for device in _devices(bars)])
    if before is not None:
        lines = [line for pair in _joins(bars, *(w for w, _ in runs)) for line in (*pair, (None, None))]
        chart.add_trace(
            go.Scatter(
                x=[x for x, _ in lines],
                y=[y for _, y in lines],
                mode="lines",
                line={"width": 1, "color": _JOIN},
                hoverinfo="skip",
                name="computed by",
            )
        )
    rows = list(dict.fromkeys(b.row for b in bars))
    chart.update_layout(
        title={
            "text": "Timeline of " + ("two runs" if before is not None else "a run"),
            "yref": "container",
            "y": 0.96,
        },
        template="plotly_white",
        barmode="overlay",
        height=170 + 56 * len(rows),
        margin={"l": 10, "r": 10, "t": 80, "b": 50},
        xaxis={"title": "us since the run began", "rangemode": "tozero"},
        yaxis={"categoryorder": "array", "categoryarray": rows[::-1], "automargin": True, "type": "category"},
        # above the rows: below them it would overlap the axis title
        legend={"orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom"},
    )
    return chart


timeline_figure.implement(figure)


def _devices(bars: Sequence[_Bar]) -> list[str]:
    return list(dict.fromkeys(b.device for b in bars))


def _bars(stats: StepStats, words: str) -> Iterator[_Bar]:
    nodes = [(d.device, n) for d in stats.dev_stats for n in d.node_stats]
    if not nodes:
        raise XlanbError(
            "the run was not traced: give Session.run RunOptions(trace_level=FULL_TRACE) and a RunMetadata"
        )
    # A first run's compilation takes a thousand times as long as the run: time starts at the nodes.
    first = min(n.all_start_nanos for _, n in nodes)
    for device, n in nodes:
        row = words + _WORDS.get(device, device)
        yield _Bar(n, device, row, (n.all_start_nanos - first) / 1e3, max((n.all_end_rel_nanos or 0) / 1e3, _FEWEST_US))


def _trace(go: Any, device: str, bars: Sequence[_Bar]) -> Any:
    return go.Bar(
        base=[b.start for b in bars],
        x=[b.length for b in bars],
        y=[b.row for b in bars],
        orientation="h",
        name=_WORDS.get(device, device),
        marker={"color": _COLOURS.get(device, _OTHER), "line": {"width": 0.5, "color": "rgba(0,0,0,0.35)"}},
        customdata=[_custom(b.node) for b in bars],
        hovertemplate="<b>%{customdata[0]}</b> (%{customdata[1]})<br>%{x:.2f} us from "
        "%{base:.2f}<br>%{customdata[2]}%{customdata[3]}<extra></extra>",
    )


def _custom(n: NodeExecStats) -> list[str]:
    facts = [
        f"{k}: {v:,}" if isinstance(v, int) else f"{k}: {v}"
        for k, v in n.detail.items()
        if v not in ("", None) and not isinstance(v, bool)
    ]
    return [_escaped(n.node_name), _escaped(op_of(n)), _escaped(", ".join(n.ops)), _escaped("; ".join(facts))]


def _joins(bars: Sequence[_Bar], above: str, below: str) -> Iterator[tuple[tuple[float, str], tuple[float, str]]]:
    """From the middle of each node of the run above to the kernel below that computes it."""
    off = {b.node.node_name: b for b in bars if b.device == CPU and b.row.startswith(above)}
    count = 0
    for kernel in bars:
        if kernel.device != KERNELS or not kernel.row.startswith(below):
            continue
        for name in kernel.node.ops:
            op = off.get(name)
            if op is not None and count < _MOST_JOINS:
                count += 1
                yield (op.start + op.length / 2, op.row), (kernel.start + kernel.length / 2, kernel.row)


def _escaped(text: str) -> str:
    """Escape plotly's tags in labels; names of graphs are shown verbatim."""
    return text.replace("&", "&amp;").replace("<", "&lt;")

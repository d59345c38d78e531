"""Times as plotly figures: of the passes of a compilation, and of the kernels of a run."""

from __future__ import annotations

from typing import Any

from xlanb.cpu.records import ExecutionRecord, KernelTime
from xlanb.errors import XlanbError
from xlanb.explorer.trace import Trace

_CHANGED = "#2867d6"
_SAME = "#b3bcc9"
_KERNEL = "#2f8c9b"


def figure(trace: Trace) -> Any:
    """A plotly Figure of every stage's wall time, in milliseconds and in order; what was not measured is left out.

    Raises:
        XlanbError: no stage of the trace was timed.
    """
    import plotly.graph_objects as go

    timed = [s for s in trace if s.seconds is not None and s.kind not in {"execution", "compilation_cache"}]
    if not timed:
        raise XlanbError(f"no stage of {trace.name!r} was timed")
    bars = go.Bar(
        x=[(s.seconds or 0.0) * 1e3 for s in timed],
        y=[f"{s.index} {s.name}" for s in timed],
        orientation="h",
        marker_color=[_CHANGED if s.changed else _SAME for s in timed],
        customdata=[s.describe() for s in timed],
        hovertemplate="%{customdata}<br>%{x:.3f} ms<extra></extra>",
    )
    return _plain(go.Figure(bars), f"{_escaped(trace.name)}: time of each stage", len(timed))


def kernel_figure(record: ExecutionRecord) -> Any:
    """A plotly Figure of the kernels of a run, in microseconds, the slowest first.

    Raises:
        XlanbError: the run was not timed by kernel.
    """
    import plotly.graph_objects as go

    if not record.kernels:
        raise XlanbError("the run was not timed by kernel")
    kernels = sorted(record.kernels, key=lambda k: -k.seconds)
    bars = go.Bar(
        x=[k.seconds * 1e6 for k in kernels],
        y=[_escaped(k.name) for k in kernels],
        orientation="h",
        marker_color=_KERNEL,
        customdata=[[_escaped(k.op_name), k.bytes_accessed, k.flops, _limit(k)] for k in kernels],
        hovertemplate="%{customdata[0]}<br>%{x:.2f} us, %{customdata[1]} bytes, %{customdata[2]} flops%{customdata[3]}<extra></extra>",
    )
    return _plain(go.Figure(bars), "time of each kernel", len(kernels), "us")


def _limit(k: KernelTime) -> str:
    return "" if k.of_limit is None else f"<br>{100 * k.of_limit:.0f}% of the {k.bound} limit"


def _plain(chart: Any, title: str, rows: int, unit: str = "ms") -> Any:
    chart.update_layout(
        title=title,
        template="plotly_white",
        height=max(220, 90 + 22 * rows),
        margin={"l": 10, "r": 10, "t": 50, "b": 40},
        xaxis_title=unit,
        yaxis={"autorange": "reversed", "automargin": True},
        showlegend=False,
    )
    return chart


def _escaped(text: str) -> str:
    """Plotly takes a few tags in its labels; names from the IR are to be read as they are."""
    return text.replace("&", "&amp;").replace("<", "&lt;")

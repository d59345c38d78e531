"""Times as figures: the stages of a compilation, the kernels of a run, recorded programs."""

from __future__ import annotations

from typing import Any

from xlanb.cpu.records import ExecutionRecord, KernelTime
from xlanb.errors import XlanbError
from xlanb.explorer.recording import Recording
from xlanb.explorer.stage import RUN_KINDS
from xlanb.explorer.trace import Trace
from xlanb.hlo.records import ModuleRecord
from xlanb.view.parts.memory import bytes_text
from xlanb.view.plots.chart import (
    CHANGED,
    KERNEL,
    RUN,
    SAME,
    Bar,
    bar_figure,
    graph_objects,
    labelled,
    styled,
    unique,
)

_GROUPS = {"changed something": CHANGED, "changed nothing": SAME}


def stages_figure(trace: Trace) -> Any:
    """Plot wall times of a compilation's timed stages in milliseconds, in order.

    Raises:
        XlanbError: no stage of the trace was timed.
    """
    timed = [s for s in trace if s.seconds is not None and s.kind not in RUN_KINDS]
    if not timed:
        raise XlanbError(f"no stage of {trace.name!r} was timed")
    changed, same = _GROUPS
    bars = [
        Bar(f"{s.index} {s.name}", (s.seconds or 0.0) * 1e3, changed if s.changed else same, s.describe())
        for s in timed
    ]
    total = sum(b.value for b in bars)
    return bar_figure(f"{trace.name}: {total:,.3g} ms in {len(bars)} stages", "wall time", "ms", bars, _GROUPS)


def sizes_figure(trace: Trace) -> Any:
    """Instructions after each stage that ends in HLO.

    Raises:
        XlanbError: the trace holds no HLO.
    """
    stages = [s for s in trace if isinstance(s.after, ModuleRecord) and (s.changed or not s.index)]
    if not stages:
        raise XlanbError(f"{trace.name!r} holds no HLO")
    go = graph_objects()
    labels = unique(labelled(f"{s.index} {s.name}") for s in stages)
    line = go.Scatter(
        x=labels,
        y=[s.after.instruction_count for s in stages],
        mode="lines+markers",
        line={"shape": "hv", "color": CHANGED},
        hovertemplate="%{x}: %{y} instructions<extra></extra>",
    )
    figure = styled(go.Figure(line), f"{trace.name}: HLO instructions after each pass", x="pass", y="instructions")
    figure.update_xaxes(type="category", tickangle=-45, automargin=True)
    return figure.update_yaxes(rangemode="tozero")


def run_figure(record: ExecutionRecord) -> Any:
    """Kernels of a run in microseconds, the slowest first.

    Raises:
        XlanbError: the kernels of the run were not timed.
    """
    if not record.kernels:
        raise XlanbError("the kernels of the run were not timed")
    kernels = sorted(record.kernels, key=lambda k: -k.seconds)
    bars = [Bar(k.name, k.seconds * 1e6, "", _facts(record, k)) for k in kernels]
    title = f"Kernels of a run of {record.seconds * 1e6:,.3g} us"
    return bar_figure(title, "time", "us", bars, {"": KERNEL})


def _facts(record: ExecutionRecord, k: KernelTime) -> str:
    facts = [f"{record.share_of(k):.0%} of the run", bytes_text(k.bytes_accessed), f"{k.flops:,} flops"]
    if k.of_limit is not None:
        facts.append(f"{k.of_limit:.0%} of the {k.bound} limit")
    return ", ".join([*facts, k.op_name] if k.op_name else facts)


def recording_figure(recording: Recording) -> Any:
    """Plot seconds of recorded programs: compilation, and all runs.

    Raises:
        XlanbError: nothing was compiled.
    """
    programs = recording.programs
    if not programs:
        raise XlanbError(recording.headline)
    groups = {"compilation": CHANGED, "runs": RUN}
    bars = [
        Bar(f"{p.trace.name}: {what}", seconds, what, f"{p.runs} runs")
        for p in programs
        for what, seconds in zip(groups, (p.compile_seconds, p.run_seconds), strict=True)
        if seconds
    ]
    return bar_figure(recording.headline, "time", "s", bars, groups)

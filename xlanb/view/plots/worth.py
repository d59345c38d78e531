"""The worth of each pass, and the modules of a dump, as figures."""

from __future__ import annotations

import math
from typing import Any, Final

from xlanb.errors import XlanbError
from xlanb.explorer.ablation import Ablation
from xlanb.explorer.comparison import Comparison
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.view.plots.chart import (
    CHANGED,
    RUN,
    SAME,
    Bar,
    bar_figure,
    graph_objects,
    labelled,
    left_out,
    styled,
)

_FIGURES: Final = {
    "run_us": ("run time", "circle"),
    "compile_ms": ("compile time", "diamond"),
    "instructions": ("instructions", "square"),
    "kernels": ("kernels", "triangle-up"),
    "temp_bytes": ("temporaries", "x"),
}
_MOST_PASSES: Final = 20


def ablation_figure(ablation: Ablation) -> Any:
    """Plot each omitted pass's ratio of every figure to the full pipeline's, on a logarithmic axis.

    Of more than twenty passes, those that change the run time most are shown.
    """
    relative = ablation.relative
    if not len(relative):
        raise XlanbError(f"no pass was omitted from {ablation.name}: nothing to plot")
    order = sorted(relative.index, key=lambda name: -_distance(relative["run_us"][name]))[:_MOST_PASSES]
    shown = relative.loc[[name for name in relative.index if name in set(order)]]
    go = graph_objects()
    figure = go.Figure()
    for column, (name, symbol) in _FIGURES.items():
        figure.add_scatter(
            x=shown[column].tolist(),
            y=[labelled(p) for p in shown.index],
            mode="markers",
            name=name,
            marker={"symbol": symbol, "size": 11, "opacity": 0.85},
            hovertemplate=f"without %{{y}}: {name} x %{{x:.3g}}<extra></extra>",
        )
    figure.add_vline(x=1.0, line={"width": 1, "color": SAME})
    more = left_out(len(relative) - len(shown), "passes")
    figure = styled(
        figure,
        f"{ablation.name}: without each pass, relative to the whole pipeline{more}",
        x="ratio (1: no difference; above 1: more without the pass)",
        y="omitted pass",
        height=170 + 24 * len(shown),
    )
    figure.update_xaxes(type="log", tickformat="~r")
    return figure.update_yaxes(type="category", autorange="reversed")


def _distance(ratio: float) -> float:
    """Return a ratio's distance from 1 in logarithms; infinite for a pass required to compile."""
    return abs(math.log(ratio)) if ratio > 0 else math.inf


def comparison_figure(comparison: Comparison) -> Any:
    """Microseconds of a run of each branch."""
    table = comparison.table
    bars = [
        Bar(row["branch"], row["run_us"], "", f"{row['kernels']} kernels, {row['instructions']} instructions")
        for _, row in table.iterrows()
    ]
    return bar_figure("Run time of each branch", "median of the runs", "us", bars, {"": RUN})


def dump_figure(dump: DumpDirectory) -> Any:
    """Instructions of the modules of a dump, after the passes and before.

    Raises:
        XlanbError: the directory holds no module.
    """
    ranked = [(m, max(m.after, 0) or m.before) for m in dump.ranked]
    if not ranked:
        raise XlanbError(f"{dump.directory} contains no modules")
    groups = {"program": CHANGED, "helper": SAME}
    bars = [
        Bar(
            f"module_{m.files.number:04d} {m.name}",
            size,
            "helper" if m.is_helper else "program",
            f"{m.before:,} instructions before the passes, {m.after:,} after; {m.why}",
        )
        for m, size in ranked
    ]
    return bar_figure(f"{len(bars)} modules of {dump.directory.name}", "instructions", "", bars, groups)

"""What each pass is worth, as a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlanb.explorer import displays

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {
    "run_us": "run time",
    "compile_ms": "compile time",
    "instructions": "instructions",
    "kernels": "kernels",
    "temp_bytes": "temporaries",
}


@displays.ablation_figure.implement
def ablation_figure(relative: pd.DataFrame, title: str) -> Any:
    """A plotly figure: for each pass left out (rows of `relative`) the ratio of every figure to that of the whole pipeline, on a logarithmic axis."""
    import plotly.graph_objects as go

    figure = go.Figure()
    for column, name in _NAMES.items():
        figure.add_bar(y=list(relative.index), x=relative[column].tolist(), name=name, orientation="h")
    figure.add_vline(x=1.0, line_width=1)
    figure.update_layout(
        title=f"{title}: without each pass, relative to the whole pipeline",
        xaxis={"type": "log", "title": "ratio (1: no difference)"},
        yaxis={"title": "pass left out", "autorange": "reversed"},
        barmode="group",
        height=160 + 70 * len(relative),
    )
    return figure

"""Errors of results as figures: after each pass, or after those that a bisection evaluated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from xlanb.errors import XlanbError
from xlanb.explorer.bisection import Bisection
from xlanb.explorer.numerics import Numerics
from xlanb.view.plots.chart import CHANGED, FAULT, RUN, graph_objects, labelled, left_out, styled, unique

_MOST_RESULTS: Final = 6
_FLOOR: Final = 1e-18
"""The position of a zero error on a logarithmic axis."""


def numerics_figure(numerics: Numerics) -> Any:
    """Plot each result's error after each changing pass; a cross if a pass cannot be evaluated.

    Raises:
        XlanbError: no stage was evaluated.
    """
    if not any(s.results for s in numerics.stages):
        raise XlanbError("no stage was evaluated: " + "; ".join(dict.fromkeys(s.failure for s in numerics.stages)))
    labels = unique(labelled(f"{s.stage.index} {s.stage.name}") for s in numerics.stages)
    worst: dict[str, float] = {}
    for r in (r for s in numerics.stages for r in s.results):
        worst[r.name] = max(worst.get(r.name, 0.0), r.err if r.err is not None else float("inf"))
    chosen = sorted(worst, key=lambda name: -worst[name])[:_MOST_RESULTS]
    figure = graph_objects().Figure()
    for name in chosen:
        errors = [next((r.err for r in s.results if r.name == name), None) for s in numerics.stages]
        _add_line(figure, labels, errors, name)
    failed = {label: s.failure for label, s in zip(labels, numerics.stages, strict=True) if s.failure}
    _add_crosses(figure, failed)
    more = left_out(len(worst) - len(chosen), "results")
    return _styled(figure, f"Error of the results after each pass{more}", labels)


def bisection_figure(bisection: Bisection) -> Any:
    """Plot the error after each evaluated stage, and the tolerance; the guilty stage is red.

    Raises:
        XlanbError: no stage was evaluated.
    """
    if not bisection.checked:
        raise XlanbError("no pass changed anything: nothing to plot")
    labels = unique(labelled(f"{c.stage.index} {c.stage.name}") for c in bisection.checked)
    figure = graph_objects().Figure()
    _add_line(figure, labels, [None if c.failure else c.error for c in bisection.checked], "largest error")
    pairs = list(zip(labels, bisection.checked, strict=True))
    _add_crosses(figure, {label: c.failure for label, c in pairs if c.failure})
    guilty = [(label, c) for label, c in pairs if c.stage is bisection.stage]
    for label, c in guilty:
        marker = {"color": FAULT, "size": 14, "symbol": "circle-open", "line": {"width": 3}}
        figure.add_scatter(
            x=[label], y=[_drawn(c.error)], mode="markers", marker=marker, name="changed the result", hoverinfo="skip"
        )
    tolerance = [_drawn(bisection.tolerance)] * len(labels)
    line = {"dash": "dash", "color": RUN}
    figure.add_scatter(
        x=labels, y=tolerance, mode="lines", line=line, name=f"tolerance {bisection.tolerance:.1e}", hoverinfo="skip"
    )
    found = f"{guilty[0][0]} changed the result" if guilty else "no pass changed the result"
    return _styled(figure, f"Error after each pass that was evaluated: {found}", labels)


def _drawn(error: float | None) -> float | None:
    return None if error is None else max(error, _FLOOR)


def _add_line(figure: Any, labels: Sequence[str], errors: Sequence[float | None], name: str) -> None:
    figure.add_scatter(
        x=list(labels),
        y=[_drawn(e) for e in errors],
        mode="lines+markers",
        name=labelled(name),
        customdata=["not finite" if e is None else f"{e:.2e}" for e in errors],
        hovertemplate="%{x}: %{customdata}<extra>%{fullData.name}</extra>",
    )


def _add_crosses(figure: Any, failed: dict[str, str]) -> None:
    if failed:
        figure.add_scatter(
            x=list(failed),
            y=[_FLOOR] * len(failed),
            mode="markers",
            marker={"symbol": "x", "color": FAULT, "size": 9},
            name="not evaluated",
            customdata=[labelled(text) for text in failed.values()],
            hovertemplate="%{x}: %{customdata}<extra></extra>",
        )


def _styled(figure: Any, title: str, labels: Sequence[str]) -> Any:
    figure = styled(figure, title, x="stage and pass", y="largest relative error")
    figure.update_xaxes(
        type="category", categoryorder="array", categoryarray=list(labels), tickangle=-45, automargin=True
    )
    ticks = [_FLOOR, *(10.0**k for k in range(-16, 1, 4))]
    drawn = [e for line in figure.data for e in line.y if e is not None]
    top = max(1.0, math.log10(max(drawn, default=1.0)) + 0.5)
    figure.update_yaxes(range=[math.log10(_FLOOR) - 0.7, top])
    figure.update_yaxes(type="log", tickvals=ticks, ticktext=["0", *(f"1e{k}" for k in range(-16, 1, 4))])
    return figure.update_layout(showlegend=True, colorway=[CHANGED, *figure.layout.colorway[1:]])

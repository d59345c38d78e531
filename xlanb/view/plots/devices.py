"""Figures of several devices: a run with a lane per device, and collectives by time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from xlanb.cpu.device_timeline import DeviceTimeline
from xlanb.errors import XlanbError
from xlanb.spmd.plan import CollectivePlan
from xlanb.view.plots.chart import FAULT, PALETTE, Bar, bar_figure, escaped, graph_objects, styled

_WAITING: Final = "rgba(128,128,128,0.35)"
_MOST_VISITS: Final = 4000
_MOST_LINES: Final = 400
_SHORTEST_US: Final = 0.5  # what took no time is drawn as wide as this
_LANE: Final = 34


def devices_figure(timeline: DeviceTimeline) -> Any:
    """Plot device lanes over the microseconds of a run: waits in grey, collectives by colour.

    A line goes from the last device to each that waited for it.

    Raises:
        XlanbError: no collective ran.
    """
    visits = timeline.visits
    if not len(visits):
        raise XlanbError(f"{timeline.program} ran no collective on several devices: nothing to draw")
    go = graph_objects()
    shown = visits.nsmallest(_MOST_VISITS, "came")
    lanes = [f"device {d}" for d in sorted(visits.device.unique())]
    figure = go.Figure()
    waits = (shown.complete - shown.came).sum() * 1e6
    _add_bars(figure, shown, "came", "complete", "waiting", _WAITING)
    for k, (opcode, rows) in enumerate(shown.groupby("opcode", sort=True)):
        _add_bars(figure, rows, "complete", "ended", str(opcode), PALETTE[k % len(PALETTE)])
    figure.add_scatter(
        **_joined(_waits(timeline)),
        mode="lines",
        line={"width": 1, "color": FAULT},
        hoverinfo="skip",
        name="waited for",
    )
    title = (
        f"{timeline.program}: {len(visits):,} collectives on {len(lanes)} devices, which waited {waits:,.0f} us in all"
    )
    figure = styled(figure, title, x="since the run began, us", height=150 + _LANE * len(lanes))
    figure.update_yaxes(categoryorder="array", categoryarray=lanes[::-1], automargin=True, type="category")
    return figure.update_layout(barmode="overlay")


def _add_bars(figure: Any, rows: Any, begin: str, end: str, name: str, colour: str) -> None:
    """A bar for each visit, from one of its times to another."""
    figure.add_bar(
        base=(rows[begin] * 1e6).tolist(),
        x=((rows[end] - rows[begin]) * 1e6).clip(lower=_SHORTEST_US).tolist(),
        y=[f"device {d}" for d in rows.device],
        orientation="h",
        name=name,
        marker_color=colour,
        customdata=[[escaped(c)] for c in rows.collective],
        hovertemplate=f"<b>%{{customdata[0]}}</b> on %{{y}}<br>{name} %{{x:,.1f}} us, from %{{base:,.1f}} "
        "us<extra></extra>",
    )


def _waits(timeline: DeviceTimeline) -> Iterator[tuple[float, int, float, int]]:
    """Yield waits: time and device of the last arrival, then time and device of one that waited."""
    visits: Any = timeline.visits.sort_values("came", kind="stable")
    turn = visits.groupby(["collective", "device"]).cumcount()  # in a loop a collective comes again
    for (collective, _), rows in visits.groupby(["collective", turn], sort=False):
        by_device = {int(v.device): v for v in rows.itertuples()}
        for late, waiting in timeline.links(collective, {d: v.came for d, v in by_device.items()}):
            yield by_device[late].came, late, by_device[waiting].complete, waiting


def _joined(waits: Iterator[tuple[float, int, float, int]]) -> dict[str, list[Any]]:
    """Return lines for plotly, with gaps between them; of many, the first ones."""
    shown = list(islice(waits, _MOST_LINES))
    x = [v for came, _, went, _ in shown for v in (came * 1e6, went * 1e6, None)]
    y = [v for _, late, _, waiting in shown for v in (f"device {late}", f"device {waiting}", None)]
    return {"x": x, "y": y}


def plan_figure(plan: CollectivePlan) -> Any:
    """Plot estimated times of a program's collectives on an interconnect, the slowest first.

    Raises:
        XlanbError: there are none.
    """
    if not plan.collectives:
        raise XlanbError("the program has no collectives to draw")
    bars = [
        Bar(
            c.name,
            c.seconds * c.executions * 1e6,
            c.kind,
            f"{c.bytes * c.executions:,} bytes from each device; {c.reason}",
        )
        for c in plan.collectives
    ]
    kinds = {kind: PALETTE[k % len(PALETTE)] for k, kind in enumerate(sorted(plan.kinds))}
    return bar_figure(plan.summary, "time", "us", bars, kinds)

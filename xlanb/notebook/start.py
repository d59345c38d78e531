"""The initial state of a step view: a stage, a pane, pinned ops, a stage to compare with, a
guess.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from xlanb.errors import ArgumentError, nearest
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace

PANES = ("Graph", "Diff", "Text", "Code", "Why", "Memory", "Numerics", "Timing", "Film", "Compare")

StageName = int | str | Stage
"""A stage by position (negative: from the end), by name as `trace[...]` takes it, or itself."""


def start_at(
    traces: Sequence[Trace],
    names: Collection[str],
    *,
    stage: StageName | None = None,
    pane: str = "",
    pinned: str | Sequence[str] = (),
    against: StageName | None = None,
    predict: bool = False,
) -> dict[str, Any]:
    """Return the initial state of the front end (view/step/start.js describes its parts).

    `names` are those of all instructions and nodes.

    Raises:
        ArgumentError: there is no such pane, stage or op; `against` is a stage of another
            compilation, and the pane is not Graph.
        XlanbError: there is no stage of that name; the message has the nearest.
    """
    branch, position = _place(traces, 0, 0 if stage is None else stage)
    start: dict[str, Any] = {"branch": branch, "stage": position}
    if pane:
        start["pane"] = _pane(pane)
    start |= _pins(pinned, names)
    if against is not None:
        other, other_position = _place(traces, branch, against)
        if start.get("pane") == "Graph":
            start["second_graph"] = f"{other}:{_drawn(traces[other], other_position)}"
        elif other == branch:
            start |= {"pane": "Diff", "other": other_position}
        else:
            raise ArgumentError(
                f"the stages belong to two compilations, {traces[branch].name!r} and {traces[other].name!r}:"
                " pane='Graph' shows them side by side"
            )
    if predict:
        start |= {"stage": max(position - 1, 0), "pane": "Graph", "predict": 1}
    return start


def _place(traces: Sequence[Trace], branch: int, stage: StageName) -> tuple[int, int]:
    """The number of the trace and the position in it."""
    if isinstance(stage, Stage):
        found = [(k, p) for k, t in enumerate(traces) for p, s in enumerate(t) if s is stage]
        if not found:
            raise ArgumentError(
                f"stage {stage.name!r} does not belong to any of these: {', '.join(t.name for t in traces)}"
            )
        return found[0]
    if not traces or (isinstance(stage, int) and not -len(traces[branch]) <= stage < max(len(traces[branch]), 1)):
        count = len(traces[branch]) if traces else 0
        raise ArgumentError(f"no stage {stage}: there are {count}, numbered from 0")
    trace = traces[branch]
    position = stage if isinstance(stage, int) else trace.stages.index(trace[stage])
    return branch, position % max(len(trace), 1)


def _pane(name: str) -> str:
    """A pane by its name, in whatever case."""
    found = next((p for p in PANES if p.lower() == name.lower()), "")
    if not found:
        raise ArgumentError(f"no pane {name!r}{nearest(name, PANES)}")
    return found


def _pins(pinned: str | Sequence[str], names: Collection[str]) -> dict[str, str]:
    """The op that is pinned, and the other one of a pair."""
    pins = [pinned] if isinstance(pinned, str) else list(pinned)
    if len(pins) > 2:
        raise ArgumentError(f"{len(pins)} ops to pin: expected one, or two to see the decisions about the pair")
    for name in pins:
        if name not in names:
            raise ArgumentError(f"no op {name!r} at any stage{nearest(name, names)}")
    return dict(zip(("pinned", "second"), pins, strict=False))


def _drawn(trace: Trace, position: int) -> int:
    """Return the first stage with the same program after it: the front end lists each form once."""
    while position > 0 and trace.stages[position].given_after is trace.stages[position - 1].given_after:
        position -= 1
    return position

"""Report propagation events as decisions of the pass, for views and `trace.why`.

split          (source, array)    an array got axes along a factor, from an array that had them
split          (array,)           rejected: another factor of the array has the axes
split alike    (operation,)       rejected: its arrays still differ along a factor, so the
                                  partitioner must reshard
"""

from __future__ import annotations

from collections.abc import Iterator

from xlanb.spmd.shardy.axes import Axes
from xlanb.spmd.shardy.events import Event, Propagation
from xlanb.tracing import Decision, Predicate, current_cause

SPLIT = "split"
SPLIT_ALIKE = "split alike"


def decisions(propagation: Propagation) -> Iterator[Decision]:
    """Yield each event's decisions in order, then the operations whose arrays still differ."""
    cause = current_cause()
    for event in propagation.events:
        step = Predicate(str(event.step), holds=True, value=f"{event.kind} {event.name}")
        for gain in event.gains:
            factor = Predicate(f"factor {gain.factor}", holds=True, value=_axes(gain.axes))
            value = event.name if event.kind == "result" else gain.value
            yield Decision(cause, SPLIT, (gain.source, value), taken=True, predicates=(factor, step))
        yield from _conflicts(event, step)
    for found in propagation.disagreements():
        each = ", ".join(f"{name} by {_axes(axes)}" for name, axes in found.kinds)
        failed = Predicate(f"factor {found.factor}", holds=False, value=each)
        yield Decision(cause, SPLIT_ALIKE, (found.op,), taken=False, predicates=(failed,))


def _conflicts(event: Event, step: Predicate) -> Iterator[Decision]:
    for c in event.conflicts:
        got = f"got {_axes(c.got)}" if c.got else "got none"
        value = f"wanted {_axes(c.wanted)}, {got}: factor {c.winner} has it"
        failed = Predicate(f"factor {c.factor}", holds=False, value=value)
        yield Decision(current_cause(), SPLIT, (c.value,), taken=False, predicates=(step, failed))


def _axes(axes: Axes) -> str:
    return "{" + ", ".join(map(str, axes)) + "}"

"""The figure of each kind of object, as its `plot()` returns it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.device_timeline import DeviceTimeline
from xlanb.cpu.records import ExecutionRecord
from xlanb.display import figure as figure_hook
from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.ablation import Ablation
from xlanb.explorer.bisection import Bisection
from xlanb.explorer.comparison import Comparison
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.explorer.numerics import Numerics
from xlanb.explorer.recording import Recording
from xlanb.explorer.trace import Trace
from xlanb.spmd.plan import CollectivePlan
from xlanb.view.plots.devices import devices_figure, plan_figure
from xlanb.view.plots.memory import memory_figure
from xlanb.view.plots.numbers import bisection_figure, numerics_figure
from xlanb.view.plots.timing import recording_figure, run_figure, sizes_figure, stages_figure
from xlanb.view.plots.worth import ablation_figure, comparison_figure, dump_figure


def _last(trace: Trace, kind: type[Any], what: str) -> Any:
    """The last artifact of a kind."""
    found = next((s.after for s in reversed(trace.stages) if isinstance(s.given_after, kind)), None)
    if found is None:
        raise XlanbError(f"{trace.name!r} holds no {what}")
    return found


_OF_TRACE: Final[Mapping[str, Callable[[Trace], Any]]] = {
    "time": stages_figure,
    "instructions": sizes_figure,
    "kernels": lambda t: run_figure(_last(t, ExecutionRecord, "run")),
    "memory": lambda t: memory_figure(_last(t, BufferAssignmentRecord, "buffer assignment")),
}
_OF: Final[Mapping[type[Any], Callable[[Any], Any]]] = {
    ExecutionRecord: run_figure,
    BufferAssignmentRecord: memory_figure,
    DeviceTimeline: devices_figure,
    CollectivePlan: plan_figure,
    Numerics: numerics_figure,
    Bisection: bisection_figure,
    Ablation: ablation_figure,
    Comparison: comparison_figure,
    DumpDirectory: dump_figure,
    Recording: recording_figure,
}


@figure_hook.implement
def figure(obj: Any, what: str = "") -> Any:
    """Return a plotly Figure of an object.

    For a trace `what` is "time", "instructions", "kernels" or "memory".

    Raises:
        ArgumentError: a trace has no such figure.
        XlanbError: there is nothing to draw.
        MissingLibraryError: plotly is not installed.
    """
    drawn = _drawn(obj, what)
    from xlanb.view.plots.plot import Plot  # late: it needs plotly

    return Plot(drawn)


def _drawn(obj: Any, what: str) -> Any:
    if isinstance(obj, Trace):
        if what not in _OF_TRACE:
            raise ArgumentError(f"a trace has no figure {what!r}{nearest(what, _OF_TRACE)}")
        return _OF_TRACE[what](obj)
    return next(draw for kind, draw in _OF.items() if isinstance(obj, kind))(obj)

"""`explore`: the step widget on anything that can be compiled, or on a trace that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.boundary import boundary, filtered_traceback
from xlanb.explorer import displays
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace
from xlanb.notebook.widget import StepWidget


@filtered_traceback()
def explore(x: Any, /, *args: Any, **named: Any) -> StepWidget:
    """The step widget on anything that was compiled, or can be.

    On a DumpDirectory it shows the main program and the graphs. On a Compilation, or on anything that Compilation takes, it is live: Next at the end of what was recorded runs exactly one more stage. On a Trace, or a list of traces, it shows them.

    Raises:
        XlanbError: `x` is no program, or its first stage fails.
    """
    if isinstance(x, DumpDirectory):
        return _widget(x.traces)
    if isinstance(x, Trace) or (isinstance(x, Sequence) and x and all(isinstance(t, Trace) for t in x)):
        return _widget([x] if isinstance(x, Trace) else list(x))
    compilation = x if isinstance(x, Compilation) else Compilation(x, *args, **named)
    if not compilation.traces:
        compilation.step()
    # a live compilation may begin further traces: the widget asks for them anew
    return _widget(lambda: compilation.traces, compilation)


displays.explore_traces.implement(explore)


@boundary("show a compilation")
def _widget(
    traces: Sequence[Trace] | Callable[[], Sequence[Trace]], compilation: Compilation | None = None
) -> StepWidget:
    return StepWidget(traces, compilation=compilation)

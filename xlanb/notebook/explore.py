"""`explore`: the step widget on anything that can be compiled, or on a trace that is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.boundary import boundary, filtered_traceback
from xlanb.explorer import displays
from xlanb.explorer.dump_directory import DumpDirectory
from xlanb.explorer.live import Compilation
from xlanb.explorer.trace import Trace
from xlanb.notebook.start import StageName
from xlanb.notebook.widget import StepWidget


@filtered_traceback()
def explore(
    x: Any,
    /,
    *args: Any,
    stage: StageName | None = None,
    pane: str = "",
    pinned: str | Sequence[str] = (),
    against: StageName | None = None,
    predict: bool = False,
    **named: Any,
) -> StepWidget:
    """Show the step widget on a compilation, or on anything that can be compiled.

    On a DumpDirectory it shows the main program and the graphs. On a Compilation, or on anything
    that Compilation takes, it is live: Next at the end of the recorded stages runs exactly one
    more. On a Trace, or a list of traces, it shows them. Of a large trace the first and the last
    program are there at once, and the others follow while the view is open.

    Args:
        x: the object to show.
        *args: example arguments of a function.
        stage: the stage to open: a position, a name as in `trace[...]`, or a Stage; a live
            compilation runs up to a named stage.
        pane: "Graph", "Diff", "Text", "Code", "Why", "Memory", "Numerics", "Timing", "Film" or
            "Compare"; by default the one that fits the stage.
        pinned: the name of an instruction or node; for two, the card shows the decisions about
            them.
        against: another stage: the Diff pane compares the two, the Graph pane (`pane="Graph"`)
            draws both side by side.
        predict: open before that stage and have the reader guess what it removes or changes.
        **named: as for `Compilation`.

    Raises:
        XlanbError: `x` is not a program, or its first stage fails; there is no such stage, pane or
            instruction.
    """
    widget = _open(x, args, named, stage)
    if stage is not None or pane or pinned or against is not None or predict:
        widget.open_at(stage, pane, pinned, against, predict)
    return widget


def _open(x: Any, args: tuple[Any, ...], named: dict[str, Any], stage: StageName | None) -> StepWidget:
    if isinstance(x, DumpDirectory):
        return _widget(x.traces)
    if isinstance(x, Trace) or (isinstance(x, Sequence) and x and all(isinstance(t, Trace) for t in x)):
        return _widget([x] if isinstance(x, Trace) else list(x))
    compilation = x if isinstance(x, Compilation) else Compilation(x, *args, **named)
    if isinstance(stage, str) and not any(stage in (s.name, s.kind) for t in compilation.traces for s in t):
        compilation.run_to(stage)
    if not compilation.traces:
        compilation.step()
    # a live compilation may begin more traces: the widget reads them again
    return _widget(lambda: compilation.traces, compilation)


displays.explore_traces.implement(explore)


@boundary("show a compilation")
def _widget(
    traces: Sequence[Trace] | Callable[[], Sequence[Trace]], compilation: Compilation | None = None
) -> StepWidget:
    return StepWidget(traces, compilation=compilation)

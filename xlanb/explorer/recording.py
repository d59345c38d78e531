"""`recording`: collect the traces of all programs compiled during a block, in any thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.cpu.executable import Executable
from xlanb.display import Displayable, Plottable
from xlanb.errors import XlanbError, nearest
from xlanb.explorer import displays
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.trace import Trace
from xlanb.frames import framed
from xlanb.tracing import (
    CompilationStarted,
    Compiled,
    Decision,
    DeferredDecisions,
    DeferredEdits,
    Edit,
    Event,
    StageFinished,
    observing_everywhere,
)

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.run_counter import RunCounter

_SHOWN = 30
"""Default number of rows in the text, and of programs in the step view."""


@dataclass
class RecordedProgram:
    """A compilation and its program's runs while recorded. Times are wall seconds."""

    trace: Trace
    thread: str
    begin: float
    compile_seconds: float = 0.0
    is_compiled: bool = False
    counter: RunCounter | None = None
    _ended: tuple[int, float] | None = None

    @property
    def runs(self) -> int:
        """How often the program ran."""
        return self._counted[0]

    @property
    def run_seconds(self) -> float:
        """The total time of all runs."""
        return self._counted[1]

    @property
    def seconds(self) -> float:
        """The total time of compilation and runs."""
        return self.compile_seconds + self.run_seconds

    @property
    def failed(self) -> bool:
        """Whether the compilation ended in an error."""
        return any(s.failed for s in self.trace.stages[-1:])

    @property
    def _counted(self) -> tuple[int, float]:
        if self._ended is not None:
            return self._ended
        runs = self.trace.runs  # by the session, for a graph's clusters
        if self.counter is None or self.counter.runs == 0:
            return len(runs), sum(runs)
        return self.counter.runs, self.counter.seconds

    def compiled_until(self, now: float) -> None:
        """Set the end of the compilation to now, if it is not over."""
        if not self.is_compiled:
            self.compile_seconds = now - self.begin

    def end(self) -> None:
        """Stop counting runs."""
        self._ended = self._counted
        if self.counter is not None:
            self.counter.end()
            self.counter = None


class Recording(Displayable, Plottable):
    """The programs compiled during a `recording` block, slowest first.

    The order is by the time of the compilation plus all runs in the block. There are `len(r)`
    programs; `r[0]` is the Trace of the slowest, `r["jit_step"]` that of a name; iterating yields
    the traces. `r.explore()` opens them as one list, and `r.to_dataframe()` is the table that
    `print(r)` shows. During the block, it shows what was recorded so far.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._recorders: dict[int, Recorder] = {}
        self._found: dict[int, RecordedProgram] = {}
        self._names: dict[str, int] = {}
        self._is_over = False

    # -- events ------------------------------------------------------------------------------------

    def on_event(self, event: Event) -> None:
        """Handle one event of the compiler, in the compiling thread."""
        recorder = self._recorders.get(threading.get_ident())
        if isinstance(event, CompilationStarted):
            if not self._is_over:
                self._start(event, recorder)
        elif recorder is None:
            return
        elif isinstance(event, Edit):
            self.take_edit(event)
        elif isinstance(event, Decision):
            self.take_decision(event)
        elif event.compilation in self._found:
            if isinstance(event, Compiled):
                self._finish(event)
            elif isinstance(event, StageFinished):
                self._found[event.compilation].compiled_until(time.perf_counter())
            recorder.on_event(event)

    def take_edit(self, edit: Edit | DeferredEdits) -> None:
        """Record an edit for the next stage that finishes in this thread."""
        recorder = self._recorders.get(threading.get_ident())
        if recorder is not None:
            recorder.take_edit(edit)

    def take_decision(self, decision: Decision | DeferredDecisions) -> None:
        """Record a decision for the next stage that finishes in this thread."""
        recorder = self._recorders.get(threading.get_ident())
        if recorder is not None:
            recorder.take_decision(decision)

    def _start(self, event: CompilationStarted, recorder: Recorder | None) -> None:
        thread = threading.current_thread()
        with self._lock:
            if recorder is None:
                recorder = self._recorders.setdefault(threading.get_ident(), Recorder())
            trace = recorder.begin(event)
            count = self._names[trace.name] = self._names.get(trace.name, 0) + 1
            if count > 1:
                trace.name = f"{trace.name} ({count})"
            self._found[event.key] = RecordedProgram(trace, thread.name, time.perf_counter())

    def _finish(self, event: Compiled) -> None:
        found, executable = self._found[event.compilation], event.program
        found.compiled_until(time.perf_counter())
        found.is_compiled = True
        if not isinstance(executable, Executable):  # for a GPU: its code is a stage already, and nothing runs here
            return
        if not self._is_over:
            found.counter = executable.count_runs()

    def end(self) -> None:
        """Stop recording new compilations, and stop counting runs."""
        with self._lock:
            self._is_over = True
            for program in self._found.values():
                program.end()

    # -- results -----------------------------------------------------------------------------------

    @property
    def programs(self) -> list[RecordedProgram]:
        """The compilations with their times and runs, slowest first."""
        with self._lock:
            shown = {id(t) for recorder in self._recorders.values() for t in recorder.traces}
            found = [p for p in self._found.values() if id(p.trace) in shown]
        return sorted(found, key=lambda p: -p.seconds)

    @property
    def headline(self) -> str:
        """Return the number of programs, and their total times."""
        programs = self.programs
        if not programs:
            return _NOTHING
        compiling, running = sum(p.compile_seconds for p in programs), sum(p.run_seconds for p in programs)
        return (
            f"{len(programs)} program{'s' * (len(programs) != 1)}, slowest first: "
            f"{compiling:.3g} s of compilation, {running:.3g} s of runs"
        )

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for notebooks."""
        return (("compiled meanwhile", self.to_dataframe()),)

    def __len__(self) -> int:
        return len(self.programs)

    def __iter__(self) -> Iterator[Trace]:
        return iter([p.trace for p in self.programs])

    def __getitem__(self, key: int | str) -> Trace:
        """Return a program's Trace, by rank (0 is the slowest) or by name.

        Raises:
            XlanbError: no program has that name; the message lists the nearest.
            IndexError: there are fewer programs.
        """
        traces = list(self)
        if isinstance(key, int):
            return traces[key]
        found = next((t for t in traces if t.name in {key, f"jit_{key}"}), None)
        if found is None:
            names = [t.name for t in traces]
            held = f" among {len(names)}{nearest(key, names)}" if names else ": nothing was compiled"
            raise XlanbError(f"no program {key!r} was recorded{held}")
        return found

    @boundary("list the recorded programs")
    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per program, slowest first.

        Columns: name, seconds (of compilation and runs), compile_seconds, runs, run_seconds,
        instructions before and after the passes, passes that changed something, thread, whether it
        failed.
        """
        rows = [
            {
                "program": p.trace.name,
                "seconds": p.seconds,
                "compile_seconds": p.compile_seconds,
                "runs": p.runs,
                "run_seconds": p.run_seconds,
                "instructions_before": _instructions(p.trace, first=True),
                "instructions_after": _instructions(p.trace, first=False),
                "passes_changed": len(p.trace.changed),
                "thread": p.thread,
                "failed": p.failed,
            }
            for p in self.programs
        ]
        return framed(rows, columns=_COLUMNS)

    def explore(self, most: int | None = _SHOWN) -> Any:
        """Return the step view of the `most` slowest programs in one list, or of all with None.

        Raises:
            XlanbError: nothing was compiled.
        """
        traces = list(self)[:most]
        if not traces:
            raise XlanbError(_NOTHING)
        return displays.explore_traces(traces)

    @boundary("write a page")
    def to_html(self, path: str, most: int | None = _SHOWN) -> None:
        """Write the step view of the `most` slowest programs as one self-contained page.

        It works from disk with no network.
        """
        displays.write_page(list(self)[:most], path)

    def __str__(self) -> str:
        programs = self.programs
        if not programs:
            return _NOTHING
        lines = [self.headline]
        width = max(len("program"), *(min(len(p.trace.name), 60) for p in programs[:_SHOWN]))
        lines.append(f"  {'program':<{width}} {'compile':>10} {'runs':>8} {'run':>10}  instructions")
        lines += [_line(p, width) for p in programs[:_SHOWN]]
        if len(programs) > _SHOWN:
            lines.append(f"  ... {len(programs) - _SHOWN} more programs")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Recording: {len(self)} programs>"


@contextmanager
def recording() -> Iterator[Recording]:
    """Record the Trace of every program compiled in the block, in any thread, with its runs.

        with xlanb.recording() as r:
            train()
        print(r)         # a table, slowest first
        r.explore()      # the step view of all of them

    Records what JAX compiles on the backend xlanb, and what `xlanb.jit`, `xlanb.compile` and this
    thread's sessions compile. Programs compiled earlier are not compiled again, so neither they nor
    their runs are recorded: a jitted function called before the block (`jax.clear_caches()` makes
    JAX forget them), and what JAX finds in its persistent compilation cache.

    Recordings may be nested, and opened in several threads at once: each has all that is compiled
    while it is open. An error ends the block as usual; the recording stays readable, with the
    failed stage of a compilation that failed. Recording slows compilation down; outside such a
    block it costs nothing.

    Yields:
        The Recording.
    """
    found = Recording()
    try:
        with observing_everywhere(found):
            yield found
    finally:
        found.end()


_COLUMNS = [
    "program", "seconds", "compile_seconds", "runs", "run_seconds", "instructions_before", "instructions_after",
    "passes_changed", "thread", "failed",
]  # fmt: skip
_NOTHING = (
    "nothing was compiled during the recording: cached programs are not compiled again "
    "(jax.clear_caches() clears JAX's cache)"
)


def _instructions(trace: Trace, *, first: bool) -> int | None:
    """Return the number of HLO instructions before or after the passes."""
    stages = trace.stages if first else reversed(trace.stages)
    counts = (getattr(s.given_after, "instruction_count", None) for s in stages)
    return next((c for c in counts if c is not None), None)


def _line(p: RecordedProgram, width: int) -> str:
    name = p.trace.name if len(p.trace.name) <= 60 else f"{p.trace.name[:57]}..."
    before, after = _instructions(p.trace, first=True), _instructions(p.trace, first=False)
    sizes = "failed" if p.failed else f"{before} -> {after}"
    return f"  {name:<{width}} {_seconds(p.compile_seconds):>10} {p.runs:>8} {_seconds(p.run_seconds):>10}  {sizes}"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.1f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


__all__ = ["RecordedProgram", "Recording", "recording"]

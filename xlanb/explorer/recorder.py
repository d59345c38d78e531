"""Recorder: an observer that turns the compiler's events into traces."""

from __future__ import annotations

from dataclasses import replace

from xlanb.cpu.executable import Executable
from xlanb.explorer.sources import source_lines
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.tracing import (
    CompilationStarted,
    Compiled,
    Decision,
    DeferredDecisions,
    DeferredEdits,
    Edit,
    Event,
    Executed,
    PassesChosen,
    RecordedDecisions,
    RecordedEdits,
    StageFinished,
)


class Recorder:
    """Collects every compilation of its context as a `Trace`, in the order in which they began.

        with observing(Recorder()) as recorder:
            session.run(...)
        recorder.traces

    A compilation that continues another (a cluster of a graph) starts with that one's stages; a
    graph whose clusters all have their own trace is not listed separately. Given a `trace`, the
    first compilation continues
    it: a branch.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self._branch = trace
        self._traces: dict[int, Trace] = {}
        self._continued: set[int] = set()
        self._edits: list[Edit | DeferredEdits] = []
        self._decisions: list[Decision | DeferredDecisions] = []
        self.take_edit = self._edits.append
        self.take_decision = self._decisions.append

    @property
    def traces(self) -> list[Trace]:
        """One trace per compilation."""
        if self._branch is not None:
            return [self._branch]
        return [t for key, t in self._traces.items() if key not in self._continued and t.stages]

    def on_event(self, event: Event) -> None:
        """Handle one event of the compiler."""
        if isinstance(event, Edit):
            self.take_edit(event)
        elif isinstance(event, Decision):
            self.take_decision(event)
        elif isinstance(event, StageFinished):
            self._finish(event)
        elif isinstance(event, CompilationStarted):
            self.begin(event)
        else:
            trace = self._traces.get(event.compilation)
            if trace is not None:
                _note(trace, event)

    def begin(self, event: CompilationStarted) -> Trace:
        """Return the trace of a compilation that begins."""
        if self._branch is not None:
            found, self._branch = self._branch, None
            self._traces[event.key] = found
            return found
        parent = None if event.parent is None else self._traces.get(event.parent)
        if parent is not None and event.parent is not None:
            self._continued.add(event.parent)
        name = event.name if parent is None else f"{parent.name}: {event.name}"
        made = self._traces[event.key] = Trace(name, parent.stages if parent else ())
        return made

    def _finish(self, event: StageFinished) -> None:
        edits, decisions = RecordedEdits(self._edits.copy()), RecordedDecisions(self._decisions.copy())
        self._edits.clear()
        self._decisions.clear()
        trace = self._traces.get(event.compilation)
        if trace is None:  # it began before this recorder
            trace = self._traces[event.compilation] = Trace(f"compilation {event.compilation}")
        record = event.stage.given_after
        if isinstance(record, ModuleRecord | GraphRecord) and not _has_such(trace, type(record)):
            trace.sources.update(source_lines(record))
        trace.stages.append(replace(event.stage, index=len(trace.stages), edits=edits, decisions=decisions))


def _has_such(trace: Trace, kind: type[ModuleRecord | GraphRecord]) -> bool:
    return any(isinstance(s.given_after, kind) for s in trace.stages)


def _note(trace: Trace, event: PassesChosen | Compiled | Executed) -> None:
    """Record facts about a compilation other than its stages."""
    if isinstance(event, PassesChosen):
        trace.pipeline, trace.passes_from = event.pipeline, len(trace.stages)
    elif isinstance(event, Compiled):
        if isinstance(event.program, Executable):
            trace.program = event.program
        else:
            trace.gpu_program = event.program
    else:
        trace.runs.append(event.seconds)
        trace.inputs = event.inputs

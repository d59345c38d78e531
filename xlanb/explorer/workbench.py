"""Workbench: the compilations and actions that the step widget offers.

The actions are to step, run, fork, edit, disable passes, and measure errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xlanb.boundary import let_pass
from xlanb.errors import XlanbError, nearest
from xlanb.explorer.attempt import Attempt, force, measured
from xlanb.explorer.branches import Branch, branch, remaining
from xlanb.explorer.coming import ComingStage
from xlanb.explorer.live import Compilation
from xlanb.explorer.numerics import Numerics
from xlanb.explorer.order import pass_tree, reordered
from xlanb.explorer.running import run_traced
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.stage import Stages, exhaust

_HLO = ("hlo", "tf2xla", "hlo_pass")


class Workbench:
    """Numbered traces, in order of appearance, with the actions for each.

    `source` returns the traces without the workbench's own branches; `compilation` is the live one
    behind them, if any. `on_step` and `on_run`, if given, replace these two actions. `off` are the
    passes disabled in new branches.
    """

    def __init__(
        self,
        source: Callable[[], Sequence[Trace]],
        compilation: Compilation | None = None,
        on_step: Callable[[], Stage | None] | None = None,
        on_run: Callable[[], Any] | None = None,
    ) -> None:
        self._source = source
        self._compilation = compilation
        self._on_step = on_step or (compilation.step if compilation is not None else None)
        self._on_run = on_run
        self._ended = self._on_step is None
        self._steps_itself = on_step is None and compilation is not None
        self._numbers: list[Trace] = []
        self.branches: list[Compilation] = []
        self.off: list[str] = []

    # -- properties --------------------------------------------------------------------------------

    @property
    def traces(self) -> list[Trace]:
        """All traces: the source's, then those of branches."""
        found = list(self._source())
        for b in self.branches:
            found += [t for t in b.traces if all(t is not f for f in found)]
        self._numbers += [t for t in found if all(t is not n for n in self._numbers)]
        return found

    @property
    def numbered(self) -> list[Trace]:
        """All traces so far, by number."""
        _ = self.traces
        return list(self._numbers)

    def number(self, trace: Trace) -> int:
        """Return the number of a trace."""
        _ = self.traces
        return next(k for k, t in enumerate(self._numbers) if t is trace)

    def trace(self, number: int | None = None) -> Trace:
        """Return the trace with a number, by default the first.

        Raises:
            XlanbError: there is none.
        """
        traces = self.traces
        if number is None and traces:
            return traces[0]
        if number is None or not 0 <= number < len(self._numbers):
            raise XlanbError(f"no compilation {number}: there are {len(self._numbers)}")
        return self._numbers[number]

    def is_live(self, trace: Trace) -> bool:
        """Whether another step may add to it."""
        owner = self._owner(trace)
        if owner is not None:
            return not owner.is_done
        if self._ended or (self._steps_itself and self._compilation is not None and self._compilation.is_done):
            return False
        own = [t for t in self._source() if self._owner(t) is None]
        return not own or trace is own[-1]

    @property
    def can_step(self) -> bool:
        """Whether stepping was possible initially, or still is."""
        return self._on_step is not None or any(not b.is_done for b in self.branches)

    @property
    def can_run(self) -> bool:
        """Whether Run would run something."""
        return self._on_run is not None or self._compilation is not None or any(t.program for t in self.traces)

    @property
    def has_passes(self) -> bool:
        """Whether a trace came from our own passes.

        These can be omitted one by one, or made to fuse a pair.
        """
        return self._compilation is not None or any(t.pipeline is not None for t in self.traces)

    @property
    def has_hlo(self) -> bool:
        """Whether there is a module to fork from or to evaluate; reads nothing."""
        return self._compilation is not None or any(s.kind in _HLO for t in self.traces for s in t)

    # -- actions -----------------------------------------------------------------------------------

    def step(self, trace: Trace | None = None) -> Stage | None:
        """Run one more stage of a trace, by default of the original compilation.

        Returns None if none is left.

        Raises:
            XlanbError: the stage failed, or there is nothing to step.
        """
        owner = self._owner(trace) if trace is not None else None
        if owner is not None:
            return owner.step()
        if self._on_step is None:
            raise XlanbError("this widget shows a finished trace: it cannot be stepped")
        if self._ended:
            return None
        try:
            stage = self._on_step()
        except BaseException as error:
            self._ended = True
            if not self._steps_itself:
                let_pass(error)  # from a function passed to the widget
            raise
        self._ended = stage is None
        return stage

    def coming(self, trace: Trace) -> tuple[ComingStage, ...]:
        """Return the remaining stages of a trace, if known."""
        if not self.is_live(trace):
            return ()
        stepped = self._stepped(trace)
        return stepped.coming if stepped is not None else ()

    def steps(self, trace: Trace | None = None, position: int | None = None) -> Iterator[Stage]:
        """Run the stages of a trace up to a position of the remaining ones, or all; yield each.

        Raises:
            XlanbError: a stage failed, there is nothing to step, or no such position.
        """
        if position is not None:
            stepped = self._stepped(trace)
            if stepped is None:
                raise XlanbError("the upcoming stages are unknown: step, or go to the last one")
            yield from stepped.steps_to(position)
            return
        while (stage := self.step(trace)) is not None:
            yield stage

    def run(self, trace: Trace | None = None) -> Any:
        """Compile a program to the end if necessary, and run it.

        Uses its last inputs, else random ones.

        Raises:
            XlanbError: there is nothing to run, or it failed.
        """
        return exhaust(self.running(trace))

    def running(self, trace: Trace | None = None) -> Stages[Any]:
        """As `run`, but yields each stage compiled on the way and returns the program's result."""
        owner = self._owner(trace) if trace is not None else None
        if owner is None and self._on_run is not None:
            try:
                return self._on_run()
            except BaseException as error:
                let_pass(error)
                raise
        if owner is None and self._compilation is not None:
            owner = self._compilation
        try:
            while owner is not None and (stage := owner.step()) is not None:
                yield stage
        finally:
            self._ended = self._ended or (owner is self._compilation and (owner is None or owner.is_done))
        failed = next((s for s in trace.stages if s.failed), None) if trace is not None else None
        if trace is not None and trace.program is None and failed is not None:
            raise XlanbError(f"{trace.name} failed in {failed.name}: it cannot run; continue from an earlier stage")
        program = trace if trace is not None and trace.program is not None else None
        program = program or next((t for t in reversed(self.traces) if t.program is not None), None)
        if program is None:
            raise XlanbError("this widget has no program to run")
        return run_traced(program)

    def fork(self, trace: Trace, at: int, text: str | None = None) -> Trace:
        """Fork a trace after a stage, compile to the end, and return the new trace.

        Uses an edited text if given, and omits the disabled passes.

        Raises:
            HloEditError: the text is not a module, or violates a rule of HLO.
            XlanbError: there is no HLO, or it does not compile; the branch is kept, with the failed
                stage.
        """
        return exhaust(self.forking(trace, at, text))

    def forking(self, trace: Trace, at: int, text: str | None = None) -> Stages[Trace]:
        """As `fork`, but yields each stage and returns the new trace."""
        return self._finishing(branch(trace, at, text=text, without=self.off))

    def left(self, trace: Trace, at: int) -> list[dict[str, Any]]:
        """Return the passes that remain after a stage; see `order.pass_tree`.

        Raises:
            XlanbError: there is no HLO.
        """
        return pass_tree(remaining(trace, at))

    def reorder(self, trace: Trace, at: int, order: Sequence[Any]) -> Trace:
        """Fork a trace after a stage with the remaining passes in another order, and compile it.

        Omits the disabled passes and returns the new trace; see `order.reordered`.

        Raises:
            XlanbError: there is no HLO, the order is invalid, or it does not compile; the branch is
                kept, with the failed stage.
        """
        return exhaust(self.reordering(trace, at, order))

    def reordering(self, trace: Trace, at: int, order: Sequence[Any]) -> Stages[Trace]:
        """As `reorder`, but yields each stage and returns the new trace."""
        passes = reordered(remaining(trace, at), order)
        name = f"other order from {trace.stages[at].index} {trace.stages[at].name}"
        return self._finishing(branch(trace, at, pipeline=passes, without=self.off, name=name))

    def attempting(self, trace: Trace, a: str, b: str) -> Stages[Attempt]:
        """Fuse two instructions that a pass did not fuse, in a branch, and measure both.

        Yields each stage, and returns the attempt.

        Raises:
            XlanbError: no pass decided against it, the failed condition cannot be overridden, or
                the branch does not compile.
        """
        refused, left = force(trace, a, b)
        if trace.program is None:
            yield from self.steps(trace)
        made = yield from self._finishing(left)
        return measured(trace, refused, made)

    def _finishing(self, left: Branch) -> Stages[Trace]:
        made = Compilation(left)
        self.branches.append(made)
        while (stage := made.step()) is not None:
            yield stage
        return made.trace

    def toggle(self, name: str, *, off: bool | None = None) -> list[str]:
        """Disable a pass in new branches, or enable it again; return the disabled ones.

        Raises:
            XlanbError: no compilation here has such a pass.
        """
        known = {s.name for t in self.traces for s in t if s.kind == "hlo_pass"} | {
            n for t in self.traces if t.pipeline is not None for n in t.pipeline.names
        }
        if name not in known and name not in self.off:
            raise XlanbError(f"no pass {name!r} here{nearest(name, sorted(known))}")
        is_off = name not in self.off if off is None else off
        self.off = [n for n in self.off if n != name] + ([name] if is_off else [])
        return self.off

    def numerics(self, trace: Trace) -> Numerics:
        """Return the results of a trace after each pass.

        Raises:
            XlanbError: there is no HLO, or the interpreter cannot evaluate it.
        """
        return trace.numerics()

    def _stepped(self, trace: Trace | None) -> Compilation | None:
        """Return the compilation that steps a trace, or None if a given function does."""
        owner = self._owner(trace) if trace is not None else None
        return self._compilation if owner is None and self._steps_itself else owner

    def _owner(self, trace: Trace) -> Compilation | None:
        """Return the branch of a trace."""
        waiting: list[Compilation] = [
            *self.branches,
            *(self._compilation.branches if self._compilation is not None else ()),
        ]
        while waiting:
            b = waiting.pop()
            if b.trace is trace:
                return b
            waiting += b.branches
        return None

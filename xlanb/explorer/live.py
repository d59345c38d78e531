"""Compilation: a recorded compilation that is stepped manually, one stage at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xlanb.boundary import filtered_traceback, internal_error
from xlanb.boundary import is_foreign as is_foreign_error
from xlanb.cpu.compiler import chosen_pipeline
from xlanb.debug_options import current, in_force
from xlanb.display import Displayable
from xlanb.dump.writer import dumping
from xlanb.errors import ArgumentError, XlanbError, nearest
from xlanb.explorer.attempt import Attempt, force, measured
from xlanb.explorer.branches import Branch, branch, remaining
from xlanb.explorer.coming import FOR_GPU, ComingStage, coming_stages
from xlanb.explorer.comparison import Comparison, compare
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.running import run_traced
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.graph.foreign import feeds_of, graph_of, is_foreign, is_jit_compiled, zeros_of
from xlanb.graph.operation import Operation, Tensor
from xlanb.hlo import HloModule
from xlanb.runtime.compiler import module_stages, options_in_force
from xlanb.runtime.functions import as_tf_function
from xlanb.runtime.program import to_module
from xlanb.runtime.session import Session
from xlanb.stage import Stages
from xlanb.tracing import Decision, DeferredDecisions, DeferredEdits, Edit, Event, observing, unobserved
from xlanb.transforms.pipeline import HloPassPipeline

_LAST_OF_MODULE = ("assembly",)
_LAST_FOR_GPU = ("gpu_program",)
_LAST_OF_GRAPH = ("execution", "compilation_cache")
"""Stages after which a compilation may have ended, so that looking ahead is needed."""


class _Kept:
    """Events of a stage computed in advance, held until the user steps there."""

    def __init__(self) -> None:
        self.events: list[Event | DeferredEdits | DeferredDecisions] = []
        self.take_edit = self.take_decision = self.events.append
        self.error: BaseException | None = None

    def on_event(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    def tell(self, recorder: Recorder) -> None:
        """Replay the events to a recorder."""
        for event in self.events:
            if isinstance(event, Edit | DeferredEdits):
                recorder.take_edit(event)
            elif isinstance(event, Decision | DeferredDecisions):
                recorder.take_decision(event)
            else:
                recorder.on_event(event)


class Compilation(Displayable):
    """The live stepper: `step()` runs exactly one more stage of the compiler.

    `x` is an HloModule, HLO text, a function (over xlanb.tf or JAX) with example arguments, or
    tensors and operations of a graph with a feed dictionary. A graph is run in `session`, a new one
    by default, and also goes through clustering and execution. So is a TensorFlow program that
    `Graph.from_tensorflow` accepts, with its arguments. `result` is an Executable, or what
    Session.run returns.

    `target` is "cpu", or the name of an NVIDIA GPU ("a100", "h100"), which need not be present.
    Then the passes are XLA:GPU's, the last stages are PTX and the launches, and the result is a
    GpuExecutable. Graphs are compiled for the CPU.

    `fork` starts a separate compilation after any stage; `branches` lists them.
    """

    @filtered_traceback()
    def __init__(
        self, x: Any, /, *args: Any, session: Session | None = None, target: str = "cpu", **named: Any
    ) -> None:
        self._target = "" if target.strip().lower() == "cpu" else target
        self._recorder = Recorder(x.past) if isinstance(x, Branch) else Recorder()
        self._flags = current()
        self.result: Any = None
        self.is_done = False
        self.branches: list[Compilation] = []
        self._ahead: _Kept | None = None
        self._given: tuple[Any, ...] = ()
        self._may_end_at: tuple[str, ...] = _LAST_OF_MODULE
        self._passes: HloPassPipeline | None = x.passes if isinstance(x, Branch) else None
        with observing(self._recorder), dumping(self._flags):
            self._stages: Stages[Any] = x.stages() if isinstance(x, Branch) else self._start(x, args, session, named)
        if self._target:
            self._may_end_at = _LAST_FOR_GPU

    def _start(self, x: Any, args: tuple[Any, ...], session: Session | None, named: dict[str, Any]) -> Stages[Any]:
        if self._target:
            return self._start_for_gpu(x, args, session, named)
        x = as_tf_function(x)
        if session is None and is_foreign(x) and not is_jit_compiled(x):
            if not self._flags.tf_xla_auto_jit:  # stepping a TensorFlow program implies compiling it
                self._flags = replace(self._flags, tf_xla_auto_jit=2, tf_xla_cpu_global_jit=True)
            batch = named.pop("batch", None)
            graph = graph_of(x, *args, batch=batch)
            feeds = feeds_of(graph, args) or ({} if named else zeros_of(graph))
            targets = [] if graph.binding is None else graph.binding.targets
            fetches = [*graph.outputs, *(graph.get_operation_by_name(n) for n in targets)]
            with in_force(self._flags):
                stages = Session(graph).run_stages(fetches, {**feeds, **named})
            return _without_targets(stages, len(graph.outputs))
        if session is not None or (_is_graph(x) and args):
            graph = session.graph if session is not None else (x[0] if isinstance(x, list | tuple) else x).graph
            feeds = args[0] if args else {}
            if not isinstance(feeds, Mapping):
                raise TypeError(f"expected a feed dictionary with the tensors, got a {type(feeds).__name__}")
            self._may_end_at = _LAST_OF_GRAPH
            return (session or Session(graph)).run_stages(x, feeds)
        with unobserved():  # creating the module is not compilation
            module = to_module(x, *args, **named)
        self._given = _arrays(module, args)
        return module_stages(module)

    def _start_for_gpu(
        self, x: Any, args: tuple[Any, ...], session: Session | None, named: dict[str, Any]
    ) -> Stages[Any]:
        if session is not None or (_is_graph(x) and args):
            raise ArgumentError(
                f"a graph with feeds is compiled for the CPU, not for {self._target}: give a "
                "function, HLO, or tensors without feeds"
            )
        from xlanb.runtime.gpu_compiler import gpu_options, gpu_stages  # not loaded for the CPU

        self._passes = gpu_options(self._target).passes
        with unobserved():
            module = to_module(x, *args, **named)
        return gpu_stages(module, self._target)

    @property
    def traces(self) -> list[Trace]:
        """One trace per compilation so far, branches last."""
        return [*self._recorder.traces, *(t for b in self.branches for t in b.traces)]

    @property
    def trace(self) -> Trace:
        """The trace of the current compilation (the latest; branches have their own)."""
        return self._recorder.traces[-1] if self._recorder.traces else Trace("nothing yet")

    def step(self) -> Stage | None:
        """Run one more stage; return None if none is left.

        Raises:
            XlanbError: the stage failed; the trace has it as failed, with the last valid artifact
                before it.
        """
        if self.is_done:
            return None
        ahead, self._ahead = self._ahead, None
        if ahead is None:
            if not self._advance(self._recorder):
                return None
        else:
            ahead.tell(self._recorder)
            if ahead.error is not None:
                self.is_done = True
                raise ahead.error
        stage = self.trace.stages[-1]
        if stage.kind in self._may_end_at:
            self._look_ahead()
        return stage

    def _advance(self, observer: Recorder | _Kept) -> bool:
        """Run one more stage for an observer; return False if none is left."""
        with observing(observer), in_force(self._flags), dumping(self._flags):
            try:
                next(self._stages)
            except StopIteration as end:
                self.result = end.value
                self.is_done = True
                if self._given and not self.trace.inputs:
                    self.trace.inputs = self._given
                return False
            except BaseException as error:
                self.is_done = True
                if isinstance(error, Exception) and is_foreign_error(error):
                    raise internal_error(error, "compile") from error
                raise
        return True

    def _look_ahead(self) -> None:
        """Find out whether that was the last stage; if not, keep the next one for the next step."""
        kept = _Kept()
        try:
            more = self._advance(kept)
        except Exception as error:  # noqa: BLE001 - raised by the step that comes to it
            kept.error, more, self.is_done = error, True, False
        if more:
            self._ahead = kept
        else:
            kept.tell(self._recorder)

    @property
    def coming(self) -> tuple[ComingStage, ...]:
        """The remaining stages, in pipeline order; a loop's passes are listed once."""
        if self.is_done and self._ahead is None:
            return ()
        is_graph = self._may_end_at is _LAST_OF_GRAPH
        if self._passes is None:
            with in_force(self._flags):
                self._passes = chosen_pipeline(options_in_force())
        if self._target:
            return coming_stages(self.trace, self._passes, after_passes=FOR_GPU)
        return coming_stages(self.trace, self._passes, is_graph=is_graph, is_run=is_graph)

    def run_to(self, name: str) -> Stage:
        """Step until a stage with this name (or kind) has run.

        Raises:
            XlanbError: the compilation ended without one.
        """
        while (stage := self.step()) is not None:
            if name in (stage.name, stage.kind):
                return stage
        raise XlanbError(
            f"no stage {name!r} was reached{nearest(name, [n for s in self.trace for n in (s.name, s.kind)])}"
        )

    def steps_to(self, position: int) -> Iterator[Stage]:
        """Step until the stage at this position of `coming` has run, yielding each stage.

        Stops earlier if its loop ends before it.

        Raises:
            XlanbError: there is no such position, or a stage failed.
        """
        coming = self.coming
        if not 0 <= position < len(coming):
            raise XlanbError(f"no upcoming stage {position}: {len(coming)} are left")
        wanted, behind = coming[position], len(coming) - position - 1
        runs = _runs_before(coming, position)
        while (stage := self.step()) is not None:
            yield stage
            runs -= wanted.is_stage(stage)
            if runs <= 0 or (wanted.rounds and len(self.coming) <= behind):
                return

    @raised_gc_thresholds()
    def finish(self, progress: Callable[[int, int, str], None] | None = None) -> Any:
        """Run all remaining stages and return the result.

        `progress` is called after each stage with the number run, the approximate total, and the
        stage's name.
        """
        while (stage := self.step()) is not None:
            if progress is not None:
                done = len(self.trace)
                progress(done, done + len(self.coming), stage.name)
        return self.result

    # -- branches ----------------------------------------------------------------------------------

    def fork(
        self,
        at: int | str = -1,
        *,
        text: str | None = None,
        without: Iterable[str] = (),
        move: Mapping[str, str] | None = None,
        pipeline: HloPassPipeline | str | None = None,
        trace: Trace | None = None,
        name: str = "",
    ) -> Compilation:
        """Return another compilation that continues from the HLO after a stage.

        Its trace shares the stages up to there; they are not compiled again. After a backend stage,
        the HLO before the backend is used.

        Args:
            at: the stage, a position or a name; by default the last so far.
            text: HLO text to use instead; constants that it omits (`{...}`) keep their values.
            without: passes that do not run from here on.
            move: a pass -> the pass that it should follow.
            pipeline: other passes than the remaining ones ("default" and "xla" are names); see
                `remaining`.
            trace: which compilation to fork, if there are several (the clusters of a graph; those
                of other branches); by default the latest.
            name: the name of the branch.

        Raises:
            HloEditError: the text is not a module, or violates a rule of HLO; has line and column.
            XlanbError: there is no such stage, it has no HLO, or there is no such pass.
        """
        left = branch(
            self.trace if trace is None else trace,
            at,
            text=text,
            without=without,
            move=move,
            pipeline=pipeline,
            name=name,
        )
        with in_force(self._flags):
            made = Compilation(replace(left, target=self._target), target=self._target or "cpu")
        self.branches.append(made)
        return made

    def attempt(self, a: str, b: str, *, trace: Trace | None = None) -> Attempt:
        """Fuse two instructions that our fusion pass did not fuse, and measure the effect.

        All other passes run; the branch is one of `branches`.

        Raises:
            XlanbError: no pass decided against it, the failed condition cannot be overridden, or
                the branch does not compile.
        """
        if self._target:
            raise ArgumentError(f"an attempt is measured by running it, and {self._target} programs cannot run here")
        self.finish()
        origin = self.trace if trace is None else trace
        refused, left = force(origin, a, b)
        with in_force(self._flags):
            made = Compilation(left)
        self.branches.append(made)
        made.finish()
        return measured(origin, refused, made.trace)

    def remaining(self, at: int | str = -1) -> HloPassPipeline:
        """Return the passes that remain after a stage.

        Change them and pass them to `fork` as its pipeline.

        Raises:
            XlanbError: there is no such stage, or it has no HLO.
        """
        return remaining(self.trace, at)

    def compare(self, *others: Compilation, inputs: Sequence[Any] = (), runs: int = 20) -> Comparison:
        """Finish this compilation and others (by default its branches), and compare them.

        They run alternately on the same inputs: see Comparison.

        Raises:
            XlanbError: one does not compile, or the inputs do not match.
        """
        all_of_them = [self, *(others or self.branches)]
        for c in all_of_them:
            c.finish()
        return compare(*(c.trace for c in all_of_them), inputs=inputs, runs=runs)

    def run(self, *inputs: Any) -> Any:
        """Finish, then run the program with a timer around each kernel; the run becomes a stage.

        Uses `inputs`, else those of the last run, else the example arguments, else random ones.

        Raises:
            XlanbError: it does not compile, or the inputs do not match.
        """
        self.finish()
        return run_traced(self.trace, inputs)

    def __str__(self) -> str:
        return str(self.trace)

    def __repr__(self) -> str:
        return f"<Compilation {self.trace.name}: {len(self.trace)} stages{', done' if self.is_done else ''}>"


def _runs_before(coming: Sequence[ComingStage], position: int) -> int:
    """Return how often the pass at a position will have run when it has.

    A loop's pass is listed twice: in the rest of the current round, and in later rounds.
    """
    wanted = coming[position]
    return sum(c.name == wanted.name and c.pipeline == wanted.pipeline for c in coming[: position + 1])


def _arrays(module: HloModule, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the example arguments as arrays, one per module parameter.

    Returns () if they are only shapes and dtypes.
    """
    try:
        flat = module.flat_arguments(args) if args else ()
    except XlanbError:  # e.g. named arguments: the program then runs on others
        return ()
    return flat if all(isinstance(a, int | float | complex) or hasattr(a, "__array__") for a in flat) else ()


def _without_targets(stages: Stages[Any], count: int) -> Stages[Any]:
    """Return the same stages, with the values of the first fetches only."""
    return list((yield from stages))[:count]


def _is_graph(x: Any) -> bool:
    items = x if isinstance(x, list | tuple) else [x]
    return bool(items) and all(isinstance(i, Tensor | Operation) for i in items)

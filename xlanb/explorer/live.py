"""Compilation: a compilation that is stepped manually, one stage at a time, and recorded."""

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
from xlanb.graph.foreign import feeds_of, graph_of, is_foreign, is_jit_compiled, zeros_of
from xlanb.graph.operation import Operation, Tensor
from xlanb.hlo import HloModule
from xlanb.runtime.compiler import module_stages, options_in_force
from xlanb.runtime.program import as_tf_function, to_module
from xlanb.runtime.session import Session
from xlanb.stage import Stages
from xlanb.tracing import Event, observing, unobserved
from xlanb.transforms.pipeline import HloPassPipeline

_LAST_OF_MODULE = ("assembly",)
_LAST_FOR_GPU = ("gpu_program",)
_LAST_OF_GRAPH = ("execution", "compilation_cache")
"""Stages after which a compilation may have ended: look ahead there."""


class _Kept:
    """Events of a stage that was computed in advance, held back until the user steps there."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.error: BaseException | None = None

    def on_event(self, event: Event) -> None:
        """Keep an event."""
        self.events.append(event)

    def tell(self, recorder: Recorder) -> None:
        """Hand them on."""
        for event in self.events:
            recorder.on_event(event)


class Compilation(Displayable):
    """The live stepper: `step()` runs exactly one more stage of the compiler.

    `x` is an HloModule, HLO text, a function (over xlanb.tf or JAX) with example arguments, or tensors and operations of a graph with a feed dictionary; a graph is run in `session`, a
    new one by default, and then walks through clustering and execution too. So is a program of TensorFlow, which `Graph.from_tensorflow` takes, with its
    arguments. `result` is what came out: an Executable, or what Session.run gives.

    `target` is "cpu", or an NVIDIA GPU by its name ("a100", "h100"), which need not be here: then the passes are XLA:GPU's, the last stages PTX and the launches, and the result is a
    GpuExecutable. Graphs are compiled for the CPU.

    `fork` leaves it after any of its stages for a compilation of its own; `branches` are those that did.
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
            if not self._flags.tf_xla_auto_jit:  # who steps a program of TensorFlow wants to see it compiled
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
        with unobserved():  # making the module is not yet compiling it
            module = to_module(x, *args, **named)
        self._given = _arrays(module, args)
        return module_stages(module)

    def _start_for_gpu(
        self, x: Any, args: tuple[Any, ...], session: Session | None, named: dict[str, Any]
    ) -> Stages[Any]:
        if session is not None or (_is_graph(x) and args):
            raise ArgumentError(f"a graph with feeds is compiled for the CPU, not for {self._target}: give a function, HLO, or tensors without feeds")  # fmt: skip
        from xlanb.runtime.gpu_compiler import gpu_options, gpu_stages  # not loaded for the CPU

        self._passes = gpu_options(self._target).passes
        with unobserved():
            module = to_module(x, *args, **named)
        return gpu_stages(module, self._target)

    @property
    def traces(self) -> list[Trace]:
        """One trace per compilation so far, those of branches last."""
        return [*self._recorder.traces, *(t for b in self.branches for t in b.traces)]

    @property
    def trace(self) -> Trace:
        """The trace of the compilation that is under way (the latest; branches have their own)."""
        return self._recorder.traces[-1] if self._recorder.traces else Trace("nothing yet")

    def step(self) -> Stage | None:
        """Run one more stage; None where none is left.

        Raises:
            XlanbError: the stage failed; it stands in the trace, as failed, with what was good before it.
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
        """Run one more stage for an observer; False where none is left."""
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
        """Learn whether that was the last stage; where it was not, the next one is kept for the next step."""
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
        """The stages that are left to run, in the pipeline's order; a loop shows its passes once."""
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
        """Step until a stage of this name (or kind) has run.

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
        """Step until the stage at this position of `coming` has run, giving each stage; earlier where its loop ends before it.

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

    def finish(self, progress: Callable[[int, int, str], None] | None = None) -> Any:
        """Run all that is left; the result. `progress` hears after each stage: how many have run, how many there will be about, the stage's name."""
        while (stage := self.step()) is not None:
            if progress is not None:
                done = len(self.trace)
                progress(done, done + len(self.coming), stage.name)
        return self.result

    # -- branches -----------------------------------------------------------------------------------------------

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
        """Another compilation that goes on from the HLO as it stood after a stage (a position or a name; by default the last so far).

        Its trace shares the stages up to there; what ran is not compiled again. After a stage of the backend the HLO before the backend is taken.

        Args:
            at: the stage.
            text: HLO text to go on with instead of what stood there; constants that it leaves out (`{...}`) keep their values.
            without: passes that do not run from here on.
            move: a pass -> the pass that it is to follow instead.
            pipeline: other passes instead of those that are left ("default" and "xla" are names); see `remaining`.
            trace: which compilation to leave, where there are several (the clusters of a graph; those of other branches); by default the latest.
            name: what to call the branch.

        Raises:
            HloEditError: the text is no module, or breaks a rule of HLO; has line and column.
            XlanbError: there is no such stage, no HLO at it, or no such pass.
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
        """Fuse two instructions that our fusion pass did not fuse, go on with all other passes, and measure what that brings; the branch is one of `branches`.

        Raises:
            XlanbError: no pass decided against it, the condition that failed cannot be lifted, or the branch cannot be compiled.
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
        """The passes that are left to run after a stage: change them and give them to `fork` as its pipeline.

        Raises:
            XlanbError: there is no such stage, or no HLO at it.
        """
        return remaining(self.trace, at)

    def compare(self, *others: Compilation, inputs: Sequence[Any] = (), runs: int = 20) -> Comparison:
        """This compilation and others (by default its branches), each finished, run in turns on the same inputs: see Comparison.

        Raises:
            XlanbError: one cannot be compiled, or the inputs do not fit.
        """
        all_of_them = [self, *(others or self.branches)]
        for c in all_of_them:
            c.finish()
        return compare(*(c.trace for c in all_of_them), inputs=inputs, runs=runs)

    def run(self, *inputs: Any) -> Any:
        """Finish, then run the program with a clock around each kernel: on `inputs`, else on those of the last run, else on the example arguments, else on random ones. The run becomes a stage.

        Raises:
            XlanbError: it cannot be compiled, or the inputs do not fit.
        """
        self.finish()
        return run_traced(self.trace, inputs)

    def __str__(self) -> str:
        return str(self.trace)

    def __repr__(self) -> str:
        return f"<Compilation {self.trace.name}: {len(self.trace)} stages{', done' if self.is_done else ''}>"


def _runs_before(coming: Sequence[ComingStage], position: int) -> int:
    """How often the pass at a position will have run when it has: the rest of a round and the rounds after it list a pass of a loop twice."""
    wanted = coming[position]
    return sum(c.name == wanted.name and c.pipeline == wanted.pipeline for c in coming[: position + 1])


def _arrays(module: HloModule, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arrays among example arguments, one for each parameter of the module; none where they are shapes and dtypes alone."""
    try:
        flat = module.flat_arguments(args) if args else ()
    except XlanbError:  # named arguments, say: the program is tried with others then
        return ()
    return flat if all(isinstance(a, int | float | complex) or hasattr(a, "__array__") for a in flat) else ()


def _without_targets(stages: Stages[Any], count: int) -> Stages[Any]:
    """The same stages, with the values of the first fetches alone."""
    return list((yield from stages))[:count]


def _is_graph(x: Any) -> bool:
    items = x if isinstance(x, list | tuple) else [x]
    return bool(items) and all(isinstance(i, Tensor | Operation) for i in items)

"""Trace: a compilation as a list of stages, read by every view, for any compiler."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.display import Displayable, figure
from xlanb.errors import XlanbError, nearest
from xlanb.explorer import displays
from xlanb.explorer.lineage import Lineage, Provenance
from xlanb.explorer.stage import RUN_KINDS, Stage, count_kernels
from xlanb.frames import framed
from xlanb.hlo.records import ModuleRecord

if TYPE_CHECKING:
    import pandas as pd

    from xlanb.cpu.executable import Executable
    from xlanb.explorer.bisection import Bisection
    from xlanb.explorer.diff import ModuleDiff, TraceDiff
    from xlanb.explorer.film import Film
    from xlanb.explorer.numerics import Numerics
    from xlanb.explorer.replay import Replay
    from xlanb.gpu.executable import GpuExecutable
    from xlanb.transforms.pipeline import HloPassPipeline
    from xlanb.why import Why

_COUNTS = ("added", "removed", "modified")


class Trace(Displayable):
    """The stages of one compilation, in order; grows while the compilation is live.

    `trace[7]` is a stage by position, `trace["fusion"]` the last stage of that name that changed
    something (or the last one).

    Attributes:
        runs: the wall seconds of the latest executions.
        pipeline: for our own compilations, the passes that run from stage `passes_from` on.
        program: the Executable, once there is one.
        gpu_program: for a GPU, the GpuExecutable.
        inputs: the arrays of the last run.
        sources: the text of Python lines, by file and line, as they were when the program was
            traced.
        parent: for a branch, the trace that it forked from.
        forked_at: the last stage that it shares with its parent.
    """

    def __init__(self, name: str, stages: Sequence[Stage] = ()) -> None:
        self.name = name
        self.stages: list[Stage] = list(stages)
        self.runs: deque[float] = deque(maxlen=10_000)
        self.pipeline: HloPassPipeline | None = None
        self.passes_from = len(self.stages)
        self.program: Executable | None = None
        self.gpu_program: GpuExecutable | None = None
        self.inputs: tuple[Any, ...] = ()
        self.parent: Trace | None = None
        self.forked_at = -1
        self.sources: dict[tuple[str, int], str] = {}

    def __len__(self) -> int:
        return len(self.stages)

    def __iter__(self) -> Iterator[Stage]:
        return iter(self.stages)

    def __getitem__(self, key: int | str) -> Stage:
        """Return a stage by position or by name, of several the last that changed something.

        Raises:
            XlanbError: there is none with that name; the message lists the nearest.
            IndexError: the position is out of range.
        """
        if isinstance(key, int):
            return self.stages[key]
        named = [s for s in reversed(self.stages) if key in {s.name, s.kind}]
        found = next((s for s in named if s.changed or s.failed), named[0] if named else None)
        if found is None:
            known = [n for s in self.stages for n in (s.name, s.kind)]
            raise XlanbError(f"no stage {key!r} in trace {self.name!r}{nearest(key, known)}")
        return found

    @property
    def changed(self) -> list[Stage]:
        """The stages that changed something."""
        return [s for s in self.stages if s.changed]

    @property
    def kernel_count(self) -> int:
        """The number of kernels, 0 if the trace holds no code."""
        return len(self.program.program.kernels) if self.program is not None else count_kernels(self.stages)

    @property
    def compile_seconds(self) -> float | None:
        """The wall seconds of all compilation stages; None if no stage was timed.

        Excludes runs, and time that a cache saved.
        """
        timed = [s.seconds for s in self.stages if s.seconds is not None and s.kind not in RUN_KINDS]
        return sum(timed) if timed else None

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per stage, by its index.

        Columns: kind, name, changed, added, removed, modified, ms (NaN if unknown), summary,
        pipeline.
        """
        import pandas as pd

        rows = [
            {
                "kind": s.kind, "name": s.name, "changed": s.changed,
                **dict(zip(_COUNTS, s.changes.counts, strict=True)),
                "ms": float("nan") if s.seconds is None else s.seconds * 1e3,
                "summary": s.describe().removeprefix(f"{s.name}: "), "pipeline": " > ".join(s.pipeline),
            }
            for s in self.stages
        ]  # fmt: skip
        columns = ["kind", "name", "changed", *_COUNTS, "ms", "summary", "pipeline"]
        return framed(rows, columns, pd.Index([s.index for s in self.stages], name="stage"))

    def plot(self, what: str = "time") -> Any:
        """Return a plotly Figure.

        `what` is the "time" of the stages, "instructions" after each pass, "kernels" of the last
        run, or the "memory" of temporaries.

        Raises:
            ArgumentError: there is no such figure.
            XlanbError: the trace has no data for it.
            MissingLibraryError: plotly is not installed.
        """
        return figure(self, what)

    def diff(self, a: int | str | Trace, b: int | str | None = None) -> ModuleDiff | TraceDiff | str:
        """Return the differences between the HLO after two stages, or between two traces.

        Compares stages `a` and `b`, or this trace and `a`. Instructions are matched by structure.
        For a stage without HLO, returns the unified diff of the texts.

        Raises:
            XlanbError: there is no such stage.
        """
        from xlanb.explorer.diff import diff_modules, diff_traces

        if isinstance(a, Trace):
            return diff_traces(self, a)
        left, right = self[a], self[b if b is not None else -1]
        if isinstance(left.after, ModuleRecord) and isinstance(right.after, ModuleRecord):
            return diff_modules(left.after, right.after, (left.name, right.name))
        texts = [str(getattr(s.after, "text", s.after)).splitlines() for s in (left, right)]
        return "\n".join(unified_diff(texts[0], texts[1], left.name, right.name, lineterm=""))

    def bisect(
        self, *inputs: Any, tolerance: float | None = None, within: bool = True, exhaustive: bool = False
    ) -> Bisection:
        """Find the first HLO pass after which the result changes, by the reference interpreter.

        The reference is the module before all passes. Without `inputs`, uses those of the last run,
        else the example arguments, else random ones. If no pass changes the result, the compiled
        program runs too, because its code may.

        `tolerance` is the largest relative error to ignore (by default a few units in the last
        place of the results' dtype). `within` also searches the rewrite inside the pass, if the
        pass is ours; `exhaustive` evaluates after every pass instead of a binary search.

        Raises:
            XlanbError: there is no HLO before the passes, or the interpreter cannot evaluate it.
        """
        from xlanb.explorer.bisection import bisect

        return bisect(self, inputs, tolerance=tolerance, within=within, exhaustive=exhaustive)

    def results_on(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """Return the results of a program that ran elsewhere on these arrays by leaf, or None."""
        return None

    def numerics(self, *inputs: Any, seconds: float = 20.0) -> Numerics:
        """Return each result after every HLO pass that changed something.

        It shows range, NaN and infinities, and the error against the module before all passes.
        Evaluated by the reference interpreter on `inputs`, else on those of the last run, else on
        random ones. Says so if a module is too large, or if `seconds` have passed.

        Raises:
            XlanbError: there is no HLO before the passes, or the interpreter cannot evaluate it.
        """
        from xlanb.explorer.numerics import numerics

        return numerics(self, inputs, seconds=seconds)

    def why(self, *subject: str) -> Why:
        """Return the recorded decisions about these instructions or nodes, in order.

        All of them must take part, under any name that they had at the time. For two, their fate
        comes last: whether they are in one cluster, one kernel, or one instruction, and what
        prevented it.

        For a dump of the real XLA, which has no reasons, xlanb's own conditions are applied to its
        modules. These decisions are marked as a replay, and what the dump shows as facts;
        differences are reported (see `replay`).

        Raises:
            XlanbError: no stage has an instruction or node of that name; the message lists the
                nearest.
        """
        from xlanb.explorer.why import why

        return why(self, subject)

    @boundary("replay a pass of the real XLA")
    def replay(self, stage: int | str = "fusion") -> Replay:
        """Compare the decisions of a pass of the real XLA with those of xlanb's conditions.

        Both see the same module. The pass is one of fusion, cse, algsimp, constant_folding.

        Raises:
            XlanbError: the trace is not the real XLA's, or that stage cannot be replayed; the
                message says which can.
        """
        from xlanb.explorer.replay import replay

        return replay(self, stage)

    @boundary("follow an instruction through the stages")
    def lineage(self, name: str) -> Lineage:
        """Return where an instruction (or a TensorFlow node) came from, and what it became.

        Raises:
            XlanbError: there is no HLO in the trace, or nothing with that name.
        """
        return Provenance(self.stages).lineage(name)

    @property
    def coverage(self) -> float:
        """Return the share of final instructions with a known node or op_name, 0 to 1."""
        return Provenance(self.stages).coverage()

    def film(self) -> Film:
        """Return the whole compilation as an animation; notebooks show it, `to_html` writes it.

        Raises:
            XlanbError: there is no HLO in the trace.
        """
        from xlanb.explorer.film import Film

        return Film(self)

    @boundary("write a page")
    def to_html(self, path: str) -> None:
        """Write the step view as one self-contained page that works from disk with no network."""
        displays.write_page([self], path)

    def __str__(self) -> str:
        return displays.trace_text(self)

    def __repr__(self) -> str:
        return f"<Trace {self.name}: {len(self)} stages, {len(self.changed)} changed>"

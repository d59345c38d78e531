"""Trace: a compilation as a list of stages. Every view reads this, whoever did the compiling."""

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

    `trace[7]` is a stage by position, `trace["fusion"]` the last stage of that name that changed something (or the
    last one). `runs` holds the wall seconds of each execution so far, the latest ones.

    Of our own compilations there is more: `pipeline` holds the passes that run from stage `passes_from` on, `program` is the Executable once there is one (for a GPU `gpu_program`, a GpuExecutable), `inputs` are the arrays that it was
    last run with; `sources` has the text of Python lines, by file and line, as it was when the program was traced. A branch has the trace that it left as `parent` and shares its stages up to `forked_at`.
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
        """A stage by position or by name: of several the last that changed something.

        Raises:
            XlanbError: there is none of that name; the message has the nearest.
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
        """How many kernels the program has; 0 where the trace holds no code."""
        return len(self.program.program.kernels) if self.program is not None else count_kernels(self.stages)

    @property
    def compile_seconds(self) -> float | None:
        """Wall seconds of all stages of the compilation together, without runs and the time that a cache saved; None where no stage was timed."""
        timed = [s.seconds for s in self.stages if s.seconds is not None and s.kind not in RUN_KINDS]
        return sum(timed) if timed else None

    def to_dataframe(self) -> pd.DataFrame:
        """One row per stage, by its index: kind, name, changed, added, removed, modified, ms (NaN where unknown), summary, pipeline."""
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
        """A plotly Figure: the "time" of the stages, "instructions" after each pass, "kernels" of the last run, or the "memory" of temporaries.

        Raises:
            ArgumentError: there is no such figure.
            XlanbError: the trace holds nothing of it.
            MissingLibraryError: plotly is not installed.
        """
        return figure(self, what)

    def diff(self, a: int | str | Trace, b: int | str | None = None) -> ModuleDiff | TraceDiff | str:
        """What differs between the HLO after stage `a` and after stage `b`, instructions matched by structure; or between this trace and another.

        Where a stage holds no HLO, the unified diff of the texts.

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
        """The first HLO pass after which the result on `inputs` moves away from the one before all passes, by the reference interpreter.

        Without `inputs` those of the last run are taken, else the example arguments that the program was made for, else random ones. Where no pass moves it, the compiled program is run too: its code may.

        `tolerance` is the largest relative error that counts as none (by default a few units in the last place of the results' dtype). With `within` the rewrite inside the pass is looked
        for too, where the pass is one of ours; `exhaustive` evaluates after every pass rather than halving.

        Raises:
            XlanbError: there is no HLO before the passes, or the interpreter cannot evaluate it.
        """
        from xlanb.explorer.bisection import bisect

        return bisect(self, inputs, tolerance=tolerance, within=within, exhaustive=exhaustive)

    def results_on(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """What a program that ran elsewhere gave for these arrays, leaf by leaf; None where that is not known."""
        return None

    def numerics(self, *inputs: Any, seconds: float = 20.0) -> Numerics:
        """What each result is after every HLO pass that changed something: range, NaN and infinities, error against the module before all passes.

        Evaluated by the reference interpreter on `inputs`, else on those of the last run, else on random ones. Where a module is too large, or `seconds` are over, it says so.

        Raises:
            XlanbError: there is no HLO before the passes, or the interpreter cannot evaluate it.
        """
        from xlanb.explorer.numerics import numerics

        return numerics(self, inputs, seconds=seconds)

    def why(self, *subject: str) -> Why:
        """The recorded decisions about these instructions or nodes (all of them must take part), in order, under whatever names they had at the time.

        Of two, what became of them in the end comes last: whether they are in one cluster, in one kernel, or one instruction, and what stood between them.

        Of a dump of the real XLA, which tells no reasons, xlanb's own conditions are asked about the modules in it: these
        decisions are marked as a replay, what the dump shows as facts, and where the two differ it is said (see `replay`).

        Raises:
            XlanbError: a name is that of no instruction or node of any stage; the message has the nearest.
        """
        from xlanb.explorer.why import why

        return why(self, subject)

    @boundary("replay a pass of the real XLA")
    def replay(self, stage: int | str = "fusion") -> Replay:
        """Compare the decisions of a pass of the real XLA with those of xlanb's conditions on the
        same module.

        It is one of fusion, cse, algsimp, constant_folding.

        Raises:
            XlanbError: the trace is none of the real XLA's, or that stage cannot be replayed; the message says which can.
        """
        from xlanb.explorer.replay import replay

        return replay(self, stage)

    @boundary("follow an instruction through the stages")
    def lineage(self, name: str) -> Lineage:
        """Where an instruction (or a TensorFlow node) came from, and what became of it.

        Raises:
            XlanbError: there is no HLO in the trace, or nothing of that name.
        """
        return Provenance(self.stages).lineage(name)

    @property
    def coverage(self) -> float:
        """Share of the final instructions whose TensorFlow node (or op name) is known, 0 to 1."""
        return Provenance(self.stages).coverage()

    def film(self) -> Film:
        """The whole compilation as one moving picture: shown by a notebook, written by its `to_html`.

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

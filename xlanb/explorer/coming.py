"""The remaining stages of a live compilation, in the order of its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from xlanb.explorer.branches import remaining
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.transforms.pipeline import AnyPass, HloPassFix, HloPassPipeline

_GRAPH = ("tf_graph", "optimize", "mark_for_compilation", "encapsulate_subgraphs", "build_xla_ops", "tf2xla")
_BACKEND = ("schedule", "buffer_assignment", "llvm_ir", "llvm_ir_optimized", "assembly")
FOR_GPU = ("buffer_assignment", "llvm_ir", "llvm_ir_optimized", "ptx", "gpu_program")
"""The stages after the HLO passes when compiling for a GPU."""

_HLO = ("hlo", "tf2xla", "hlo_pass")
_ROUND = "round "


class ComingStage(NamedTuple):
    """A stage that has not run yet.

    Attributes:
        name: the pass, or the kind of another stage.
        kind: the kind of stage.
        pipeline: the enclosing pipelines, outermost first.
        rounds: 0 outside of loops; in a loop the remaining rounds, with this one.
    """

    name: str
    kind: str
    pipeline: tuple[str, ...] = ()
    rounds: int = 0

    def is_stage(self, stage: Stage) -> bool:
        """Whether a stage that ran is this one, in any round."""
        path = stage.pipeline[:-1] if stage.pipeline[-1:] and stage.pipeline[-1].startswith(_ROUND) else stage.pipeline
        return self.name in (stage.name, stage.kind) and (self.kind != "hlo_pass" or path == self.pipeline)


def coming_stages(
    trace: Trace,
    pipeline: HloPassPipeline,
    *,
    is_graph: bool = False,
    is_run: bool = False,
    after_passes: tuple[str, ...] = _BACKEND,
) -> tuple[ComingStage, ...]:
    """Return what remains to run after the last stage of a trace.

    Args:
        trace: the compilation so far.
        pipeline: the HLO passes that will run; ignored once the trace has its own.
        is_graph: whether the compilation begins with a graph.
        is_run: whether the program is run after compilation.
        after_passes: the kinds of stages that follow the HLO passes.
    """
    last = trace.stages[-1].kind if trace.stages else ""
    backend = _after(after_passes, last)
    coming: list[ComingStage] = []
    if is_graph and last not in (*_HLO, *after_passes, "execution", "compilation_cache"):
        coming += [ComingStage(kind, kind) for kind in _after(_GRAPH, last)]
    elif not is_graph and not trace.stages:
        coming.append(ComingStage("hlo", "hlo"))
    if last not in (*after_passes, "execution", "compilation_cache"):
        left = remaining(trace) if trace.pipeline is not None else pipeline
        coming += _passes(left.passes, (left.name,), 0)
    elif last in ("execution", "compilation_cache"):
        return ()
    coming += [ComingStage(kind, kind) for kind in backend]
    return (*coming, ComingStage("execution", "execution")) if is_run else tuple(coming)


def _after(kinds: tuple[str, ...], last: str) -> tuple[str, ...]:
    return kinds[kinds.index(last) + 1 :] if last in kinds else kinds


def _passes(passes: Iterable[AnyPass], path: tuple[str, ...], rounds: int) -> Iterator[ComingStage]:
    """Yield a pipeline's passes, each once; those of a loop represent all of its rounds."""
    for p in passes:
        inner, left = (p.inner, p.limit) if isinstance(p, HloPassFix) else (p, rounds)
        if isinstance(inner, HloPassPipeline):
            yield from _passes(inner.passes, (*path, inner.name), left)
        elif isinstance(inner, HloPassFix):
            yield from _passes((inner,), path, left)
        else:
            yield ComingStage(inner.name, "hlo_pass", path, left)

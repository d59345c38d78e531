"""The record of `%%xla_jit`: the compilations of a cell, its result, and its time."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from xlanb.display import Displayable
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord

_ENDS: Final = frozenset({"_Arg", "_Retval"})
_FREE: Final = frozenset({"Const", "NoOp", "Identity"})  # nothing is compiled for them alone


@dataclass(frozen=True)
class Observation(Displayable):
    """The compilations of a cell, the largest program first; `result` is the cell's value.

    `why_uncompiled` says why nothing was compiled, if known.
    """

    traces: tuple[Trace, ...]
    result: Any
    seconds: float
    why_uncompiled: str = ""

    @property
    def trace(self) -> Trace:
        """The main compilation: the one with the most HLO.

        Raises:
            IndexError: the cell compiled nothing.
        """
        return self.traces[0]

    def summary(self) -> str:
        """A line for each compilation."""
        if not self.traces:
            if self.why_uncompiled:
                return f"xlanb: nothing was compiled in this cell. {self.why_uncompiled}"
            return (
                "xlanb: nothing was compiled in this cell (code compiled by an earlier cell is reused; -F recompiles)"
            )
        return "\n".join(f"xlanb: {describe(t)}" for t in self.traces)

    def __str__(self) -> str:
        return self.summary()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Return the step view of the traces, or a text if there are none."""
        return super()._repr_mimebundle_(include, exclude) if self.traces else {"text/plain": self.summary()}


def observation(traces: Sequence[Trace], result: Any, seconds: float, why_uncompiled: str = "") -> Observation:
    """Make an observation, the largest program first.

    Graphs without compiled code are left out if others have some.
    """
    compiled = [t for t in traces if _modules(t)]
    return Observation(tuple(sorted(compiled or traces, key=_size, reverse=True)), result, seconds, why_uncompiled)


def why_uncompiled(traces: Sequence[Trace]) -> str:
    """Say in one line why no trace has compiled code; "" if one has, or if no graph was
    clustered.
    """
    marked = [(t, g) for t in traces if (g := _marked(t)) is not None]
    if any(_modules(t) for t in traces):
        return ""
    return "; ".join(dict.fromkeys(_why_outside(t, g) for t, g in marked))


def _marked(trace: Trace) -> GraphRecord | None:
    """The graph after clusters were marked."""
    graphs = [s.after for s in trace if isinstance(s.after, GraphRecord) and s.kind == "mark_for_compilation"]
    return graphs[-1] if graphs else None


def _why_outside(trace: Trace, graph: GraphRecord) -> str:
    """Why no node of a graph is in a cluster."""
    nodes = [n for n in graph.nodes if n.op not in _ENDS]
    if all(n.op in _FREE for n in nodes):
        if not any(s.name == "constant_folding" and s.changed for s in trace):
            return "the graph has nothing to compute"
        return (
            "its values depend only on constants and were folded when the graph was optimised (stage "
            "constant_folding); to compile it, end the cell in the tensor, or feed the arrays through tf.placeholder"
        )
    reasons: dict[str, list[str]] = {}
    for n in nodes:
        if not n.cluster and n.op not in _FREE:
            reasons.setdefault(n.reason or "no reason was recorded", []).append(f"{n.name} ({n.op})")
    most = sorted(reasons.items(), key=lambda item: -len(item[1]))[:3]
    said = "; ".join(f"{', '.join(names[:3])}{', ...' * (len(names) > 3)}: {reason}" for reason, names in most)
    hint = "; --min-cluster-size changes the minimum size" if "tf_xla_min_cluster_size" in said else ""
    return f"no node is in a cluster: {said}{hint}"


def describe(trace: Trace) -> str:
    """One line on a compilation: nodes, instructions before and after, kernels, times."""
    parts = []
    graph = _marked(trace)
    if graph is not None:
        inside = sum(bool(n.cluster) for n in graph.nodes)
        parts.append(f"{inside} of {len(graph.nodes)} nodes in clusters")
    modules = _modules(trace)
    if modules:
        kernels = sum(i.opcode is HloOpcode.FUSION for i in modules[-1].entry_computation.instructions)
        first, last = modules[0].instruction_count, len(modules[-1].entry_computation.instructions)
        parts.append(f"{first} HLO instructions became {last}, {kernels} fusion{'s' * (kernels != 1)}")
    timed = [s.seconds for s in trace if s.seconds is not None and s.kind not in ("execution", "compilation_cache")]
    took = f", {sum(timed) * 1e3:.0f} ms" if timed else ""
    parts.append(f"{len(trace)} stages, {len(trace.changed)} changed something{took}")
    if trace.runs:
        parts.append(
            f"{len(trace.runs)} run{'s' * (len(trace.runs) != 1)}, median {statistics.median(trace.runs) * 1e6:.0f} us"
        )
    reason = why_uncompiled([trace])
    return f"{trace.name}: {'; '.join(parts)}" + (f"\n  not compiled: {reason}" if reason else "")


def _modules(trace: Trace) -> list[ModuleRecord]:
    return [s.after for s in trace if isinstance(s.after, ModuleRecord)]


def _size(trace: Trace) -> int:
    modules = _modules(trace)
    return modules[0].instruction_count if modules else 0

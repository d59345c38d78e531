"""Observation: what `%%xla_jit` saw: the compilations of a cell, what it gave back, how long it took."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from xlanb.display import Displayable
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord


@dataclass(frozen=True)
class Observation(Displayable):
    """The compilations that a cell caused, the largest program first; `result` is the value that the cell ended in."""

    traces: tuple[Trace, ...]
    result: Any
    seconds: float

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
            return "xlanb: nothing was compiled in this cell (code that an earlier cell compiled is used again; -F compiles anew)"
        return "\n".join(f"xlanb: {describe(t)}" for t in self.traces)

    def __str__(self) -> str:
        return self.summary()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """The step view of the traces; where there are none, the words that say so."""
        return super()._repr_mimebundle_(include, exclude) if self.traces else {"text/plain": self.summary()}


def observation(traces: Sequence[Trace], result: Any, seconds: float) -> Observation:
    """An observation with the largest program first; graphs that compiled nothing are left out where others did."""
    compiled = [t for t in traces if _modules(t)]
    return Observation(tuple(sorted(compiled or traces, key=_size, reverse=True)), result, seconds)


def describe(trace: Trace) -> str:
    """One line on a compilation: nodes, instructions before and after, kernels, times."""
    parts = []
    graphs = [s.after for s in trace if isinstance(s.after, GraphRecord) and s.kind == "mark_for_compilation"]
    if graphs:
        inside = sum(bool(n.cluster) for n in graphs[-1].nodes)
        parts.append(f"{inside} of {len(graphs[-1].nodes)} nodes in clusters")
    modules = _modules(trace)
    if modules:
        kernels = sum(i.opcode is HloOpcode.FUSION for i in modules[-1].entry_computation.instructions)
        first, last = modules[0].instruction_count, len(modules[-1].entry_computation.instructions)
        parts.append(f"{first} HLO instructions became {last}, {kernels} fusion{'s' * (kernels != 1)}")
    timed = [s.seconds for s in trace if s.seconds is not None and s.kind not in ("execution", "compilation_cache")]
    parts.append(f"{len(trace)} stages, {len(trace.changed)} changed something, {sum(timed) * 1e3:.0f} ms")
    if trace.runs:
        parts.append(
            f"{len(trace.runs)} run{'s' * (len(trace.runs) != 1)}, median {statistics.median(trace.runs) * 1e6:.0f} us"
        )
    return f"{trace.name}: {'; '.join(parts)}"


def _modules(trace: Trace) -> list[ModuleRecord]:
    return [s.after for s in trace if isinstance(s.after, ModuleRecord)]


def _size(trace: Trace) -> int:
    modules = _modules(trace)
    return modules[0].instruction_count if modules else 0

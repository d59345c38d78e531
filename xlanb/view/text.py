"""Plain text of objects: a trace as a table of its stages, artifacts as their text."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord, KernelTime
from xlanb.dump.tpu.program import TpuProgram
from xlanb.explorer import displays
from xlanb.explorer.numbers import time_text
from xlanb.explorer.stage import Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ComputationRecord
from xlanb.hlo.text.printer import computation_text
from xlanb.view.parts.items import node_text
from xlanb.view.parts.memory import bytes_text, memory_text
from xlanb.view.parts.tpu import program_text

_MAX_DIFF = 60
_MOST_IDLE = 4


@displays.trace_text.implement
def trace_text(trace: Trace) -> str:
    """List the stages that changed something: position, time (if any is known), changes.

    Consecutive unchanged ones share a line.
    """
    has_times = any(s.seconds is not None for s in trace)
    counts = f"{len(trace)} stage{'s' * (len(trace) != 1)}, {len(trace.changed)} changed something"
    lines = [f"{trace.name}: {counts}"]
    pipeline: tuple[str, ...] = ()
    idle: list[Stage] = []
    for s in trace:
        if not s.changed and not s.failed:
            idle.append(s)
            continue
        lines += _idle_lines(idle, has_times)
        idle = []
        if s.pipeline != pipeline and s.pipeline:
            lines.append(f"      {' > '.join(s.pipeline)}")
        pipeline = s.pipeline
        lines.append(f"{s.index:>4} {'!' if s.failed else '*'}{_time(s.seconds, has_times)}  {s.describe()}")
    lines += _idle_lines(idle, has_times)
    if trace.runs:
        runs = f"{len(trace.runs)} run{'s' * (len(trace.runs) != 1)}"
        lines.append(f"{runs}, the last in {time_text(trace.runs[-1])}")
    return "\n".join(lines)


def _time(seconds: float | None, has_times: bool) -> str:
    return f" {time_text(seconds):>9}" if has_times else ""


def _idle_lines(stages: Sequence[Stage], has_times: bool) -> list[str]:
    """Return consecutive unchanged stages as one line; a single one has its own."""
    if not stages:
        return []
    if len(stages) == 1:
        return [f"{stages[0].index:>4}  {_time(stages[0].seconds, has_times)}  {stages[0].describe()}"]
    known = [s.seconds for s in stages if s.seconds is not None]
    names = list(dict.fromkeys(s.name for s in stages))
    shown = ", ".join(names[:_MOST_IDLE]) + (", ..." if len(names) > _MOST_IDLE else "")
    spent = _time(sum(known) if known else None, has_times)
    return [f"{'...':>4}  {spent}  {len(stages)} stages changed nothing: {shown}"]


def traces_text(traces: Sequence[Trace]) -> str:
    """Several traces: the first in full, a line for each of the others."""
    whole = trace_text(traces[0]) if traces else "nothing was compiled"
    rest = [f"{t.name}: {len(t)} stage{'s' * (len(t) != 1)}, {len(t.changed)} changed something" for t in traces[1:]]
    return "\n".join([whole, *([""] if rest else []), *rest])


def stage_text(stage: Stage) -> str:
    """Describe a stage's changes, then its decisions."""
    lines = [stage.describe()]
    for d in stage.decisions[:_MAX_DIFF]:
        values = "; ".join(
            f"{'' if p.holds else 'NOT '}{p.name}{f' ({p.value})' if p.value else ''}" for p in d.predicates
        )
        lines.append(f"  {'yes' if d.taken else 'no '} {d.action} {' -> '.join(d.subject)}: {values}".rstrip(": "))
    if len(stage.decisions) > _MAX_DIFF:
        lines.append(f"  ... {len(stage.decisions) - _MAX_DIFF} more decisions")
    return "\n".join(lines)


def artifact_text(artifact: object) -> str:
    """An artifact of a stage as plain text."""
    if isinstance(artifact, GraphRecord):
        return graph_text(artifact)
    if isinstance(artifact, ComputationRecord):
        return computation_text(artifact)
    if isinstance(artifact, BufferAssignmentRecord):
        return memory_text(artifact)
    if isinstance(artifact, CodeRecord | TextRecord):
        return artifact.text
    if isinstance(artifact, ExecutionRecord):
        return execution_text(artifact)
    if isinstance(artifact, TpuProgram):
        return program_text(artifact)
    if isinstance(artifact, CacheRecord):
        found = "hit" if artifact.hit else "miss"
        return (
            f"cache {found}: {artifact.signature} ({artifact.hits} hits, {artifact.misses} misses, "
            f"{artifact.entries} entries)"
        )
    return str(artifact)


def graph_text(graph: GraphRecord) -> str:
    """A TensorFlow graph, a node a line, its functions after it."""
    parts = []
    for g, word in ((graph, "graph"), *((f, "function") for f in graph.functions)):
        parts.append("\n".join([f"{word} {g.name} {{", *(node_text(n) for n in g.nodes), "}"]))
    return "\n\n".join(parts)


def execution_text(record: ExecutionRecord) -> str:
    """Wall time, kernels with the slowest first, results."""
    lines = [f"ran in {time_text(record.seconds)}" + (f" (of {record.runs} runs)" if record.runs > 1 else "")]
    lines.extend(
        f"  {time_text(k.seconds):>9}  {k.name}  {bytes_text(k.bytes_accessed)}  {k.flops:,} flops  "
        f"{_limit(k)}{k.op_name}".rstrip()
        for k in sorted(record.kernels, key=lambda k: -k.seconds)
    )
    lines.extend(f"  {shape} {text}" for shape, text in record.results)
    return "\n".join(lines)


def _limit(k: KernelTime) -> str:
    """Return the share of a kernel's hardware limit; "" if unknown."""
    return "" if k.of_limit is None else f"{100 * k.of_limit:.0f}% of {k.bound}  "

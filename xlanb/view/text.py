"""Plain text of what can be shown: a trace as a table of its stages, artifacts as themselves."""

from __future__ import annotations

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.explorer.stage import Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.printer import computation_text
from xlanb.hlo.records import ComputationRecord
from xlanb.view.parts.items import node_text
from xlanb.view.parts.memory import bytes_text, memory_text

_MAX_DIFF = 60


def trace_text(trace: Trace) -> str:
    """One line per stage: position, whether it changed anything, time, what it did."""
    counts = f"{len(trace)} stages, {len(trace.changed)} changed something"
    lines = [f"{trace.name}: {counts}"]
    pipeline: tuple[str, ...] = ()
    for s in trace:
        if s.pipeline != pipeline and s.pipeline:
            lines.append(f"      {' > '.join(s.pipeline)}")
        pipeline = s.pipeline
        mark = "!" if s.failed else "*" if s.changed else " "
        lines.append(f"{s.index:>4} {mark} {time_text(s.seconds):>9}  {s.describe()}")
    if trace.runs:
        lines.append(f"{len(trace.runs)} runs, the last in {time_text(trace.runs[-1])}")
    return "\n".join(lines)


def stage_text(stage: Stage) -> str:
    """What a stage did, then the decisions that it took."""
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
    if isinstance(artifact, CacheRecord):
        found = "hit" if artifact.hit else "miss"
        return f"cache {found}: {artifact.signature} ({artifact.hits} hits, {artifact.misses} misses, {artifact.entries} entries)"
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
        f"  {time_text(k.seconds):>9}  {k.name}  {bytes_text(k.bytes_accessed)}  {k.flops:,} flops  {k.op_name}".rstrip()
        for k in sorted(record.kernels, key=lambda k: -k.seconds)
    )
    lines.extend(f"  {shape} {text}" for shape, text in record.results)
    return "\n".join(lines)


def time_text(seconds: float | None) -> str:
    """A time for people: "1.23 ms"; "unknown" where it was not measured, never zero."""
    if seconds is None:
        return "unknown"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"

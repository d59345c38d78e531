"""Describe an object in ten lines: as the fallback of its picture where scripts are off, and as
plain text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from xlanb.analysis.record_cost import RecordCosts
from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CodeRecord, ExecutionRecord
from xlanb.explorer.numbers import time_text
from xlanb.explorer.stage import Artifact, Deferred, Stage, count_kernels
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.view.parts.items import clip
from xlanb.view.parts.memory import bytes_text
from xlanb.view.text import artifact_text, stage_text

LINES: Final = 10
_WIDTH: Final = 130  # characters
_NAMED: Final = 4
LANGUAGES: Final = {"llvm": "LLVM IR", "asm": "assembly", "ptx": "PTX", "sass": "SASS"}
_QUIET: Final = frozenset((HloOpcode.PARAMETER, HloOpcode.CONSTANT, HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT))


def first_lines(text: str, where: str, most: int = LINES) -> str:
    """Return the first lines of a text, clipped, with a note on the rest."""
    lines = text.splitlines()
    shown = [clip(line, _WIDTH) for line in lines[: most - 1 if len(lines) > most else most]]
    return "\n".join([*shown, *([f"... {len(lines) - len(shown):,} more lines: {where}"] if len(lines) > most else [])])


# ------------------------------------------------------------------------------------------- traces


def trace_brief(trace: Trace) -> str:
    """Summarize a compilation in at most ten lines.

    They have its stages, the largest changes, the program, kernels, time, memory, and the next
    steps.
    """
    return "\n".join(clip(line, _WIDTH) for line in _of_trace(trace) if line)


def _of_trace(trace: Trace) -> Iterator[str]:
    failed = next((s for s in trace if s.failed), None)
    yield f"{trace.name}: {_counted(len(trace), 'stage')}, {len(trace.changed)} changed something"
    if failed is not None:
        yield (
            f"failed at stage {failed.index}, {failed.name}: "
            f"{(failed.error or '').splitlines()[0] if failed.error else ''}"
        )
    yield _changed(trace)
    yield _program(trace)
    yield _code(trace)
    yield _time(trace)
    yield _memory(trace)
    yield "xlanb.explore(trace) steps through it; trace.to_html(path) saves it as a page"
    yield "trace[k] is a stage, print(trace) lists them, trace.why(a, b) explains why two instructions are not fused"


def _changed(trace: Trace) -> str:
    """Name the passes that changed most, as many as fit a line."""
    rows = [(s, sum(s.changes.counts)) for s in trace.changed if s.kind == "hlo_pass" and not _is_later(s)]
    rows.sort(key=lambda row: -row[1])
    told = [f"{s.name} (+{a} -{b} ~{c})" for s, _ in rows[:_NAMED] for a, b, c in [s.changes.counts]]
    for count in range(len(told), 0, -1):
        more = f" and {len(rows) - count} more" if len(rows) > count else ""
        line = f"passes that changed most: {', '.join(told[:count])}{more}"
        if len(line) <= _WIDTH:
            return line
    return ""


def _is_later(stage: Stage) -> bool:
    """Whether an artifact of a stage was not read from its file yet."""
    return any(isinstance(g, Deferred) and not g.is_read for g in (stage.given_before, stage.given_after))


def _artifacts(trace: Trace) -> Iterator[Artifact]:
    """Yield the stages' artifacts that are in memory, the last first."""
    for stage in reversed(trace.stages):
        given = stage.given_after
        if isinstance(given, Deferred):
            if given.is_read:
                yield given.get()
        elif given is not None:
            yield given


def _program(trace: Trace) -> str:
    modules = [a for a in _artifacts(trace) if isinstance(a, ModuleRecord)]
    if not modules:
        graph = next((a for a in _artifacts(trace) if isinstance(a, GraphRecord)), None)
        return graph_line(graph) if graph is not None else ""
    first, last = modules[-1], modules[0]
    fusions = sum(i.opcode is HloOpcode.FUSION for c in last.computations for i in c.instructions)
    more = f", {_counted(fusions, 'fusion')}" if fusions else ""
    return f"instructions: {first.instruction_count:,} at first, {last.instruction_count:,} at the end{more}"


def _code(trace: Trace) -> str:
    codes = {a.language: a for a in reversed(list(_artifacts(trace))) if isinstance(a, CodeRecord)}
    lines = [f"{c.line_count:,} lines of {LANGUAGES.get(language, language)}" for language, c in codes.items()]
    count = trace.kernel_count if trace.program is not None else count_kernels(s for s in trace if not _is_later(s))
    kernels = [_counted(count, "kernel")] if count else []
    return ", ".join([*kernels, *lines])


def _time(trace: Trace) -> str:
    compiled = trace.compile_seconds
    parts = [f"compiled in {time_text(compiled)}"] if compiled else []
    timed = sorted((s for s in trace if s.seconds), key=lambda s: -(s.seconds or 0.0))[:2]
    if parts and timed:
        parts.append("the slowest: " + ", ".join(f"{s.name} {time_text(s.seconds)}" for s in timed))
    if trace.runs:
        parts.append(f"the last of {_counted(len(trace.runs), 'run')} took {time_text(trace.runs[-1])}")
    return "; ".join(parts)


def _memory(trace: Trace) -> str:
    found = next((a for a in _artifacts(trace) if isinstance(a, BufferAssignmentRecord)), None)
    if found is None:
        return ""
    kinds = ", ".join(f"{k}s {bytes_text(found.bytes_of(k))}" for k in ("parameter", "output") if found.bytes_of(k))
    return f"memory: {bytes_text(found.total_bytes)} ({kinds}, temporaries {bytes_text(found.temp_bytes)})"


# -------------------------------------------------------------------------------- stages, artifacts


def stage_brief(stage: Stage) -> str:
    """Summarize a stage in at most ten lines: its changes, decisions, and the program after it."""
    text = stage_text(stage)
    after = stage.given_after
    if isinstance(after, ModuleRecord | GraphRecord):
        text += f"\n{module_brief(after) if isinstance(after, ModuleRecord) else graph_line(after)}"
    elif "\n" not in text and after is not None and not isinstance(after, Deferred):
        text += f"\n{artifact_text(after)}"
    return first_lines(text, "its .after.text has the program, .decisions contains all decisions")


def artifact_brief(artifact: object, text: str) -> str:
    """An artifact in at most ten lines; `text` is all that it says."""
    if isinstance(artifact, ModuleRecord):
        return module_brief(artifact)
    if isinstance(artifact, GraphRecord):
        return "\n".join([graph_line(artifact), "print() of it shows every node"])
    more = "str() of it" if isinstance(artifact, ExecutionRecord) else "its .text"
    return first_lines(text, f"{more} has them all")


def module_brief(module: ModuleRecord) -> str:
    """Summarize a module in some lines: its size, operations, parameters and results."""
    count, parts = module.instruction_count, len(module.computations)
    lines = [f"HloModule {module.name}: {_counted(count, 'instruction')} in {_counted(parts, 'computation')}"]
    opcodes = Counter(i.opcode.text for c in module.computations for i in c.instructions if i.opcode not in _QUIET)
    if opcodes:
        lines.append(f"does: {_most(opcodes)}")
    entry = module.by_name.get(module.entry)
    if entry is not None:
        given = [i for i in entry.instructions if i.opcode is HloOpcode.PARAMETER]
        size = sum(i.shape.byte_size for i in given)
        names = ", ".join(f"{i.name} {i.shape.text(layout=False)}" for i in given[:_NAMED])
        more = f" and {len(given) - _NAMED} more" if len(given) > _NAMED else ""
        lines.append(f"takes: {names}{more} ({bytes_text(size)})" if given else "takes nothing")
        root = entry.by_name.get(entry.root)
        if root is not None:
            lines.append(f"gives: {root.shape.text(layout=False)} ({bytes_text(root.shape.byte_size)})")
        costs = RecordCosts(module, {}).of(module.entry)
        flops, moved = (sum(c[k] for c in costs) for k in (0, 1))
        lines.append(f"costs: {flops:,.4g} flops, {bytes_text(moved)} read and written")
    lines.append("print() of it shows its text, xlanb.explore(it) compiles it pass by pass")
    return "\n".join(clip(line, _WIDTH) for line in lines)


def graph_line(graph: GraphRecord) -> str:
    """A graph in two lines: its size, and its most frequent ops."""
    clusters = {n.cluster for n in graph.nodes if n.cluster}
    parts = [_counted(len(graph.nodes), "node")]
    parts += [_counted(len(graph.functions), "function")] if graph.functions else []
    parts += [_counted(len(clusters), "cluster")] if clusters else []
    return f"graph {graph.name}: {', '.join(parts)}\nops: {_most(Counter(n.op for n in graph.nodes))}"


def _most(counts: Counter[str], most: int = 8) -> str:
    told = [f"{count} {name}" for name, count in counts.most_common(most)]
    rest = sum(counts.values()) - sum(count for _, count in counts.most_common(most))
    return ", ".join([*told, *([f"{rest} others"] if rest else [])])


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def last_drawn(trace: Trace) -> ModuleRecord | GraphRecord | None:
    """Return the last module, or else graph, that is in memory, to draw a trace."""
    found = list(_artifacts(trace))
    for kind in (ModuleRecord, GraphRecord):
        for artifact in found:
            if isinstance(artifact, kind):
                return artifact
    return None


def traces_brief(traces: Sequence[Trace]) -> str:
    """Several compilations: the first in ten lines, a line for each of some others."""
    if not traces:
        return "nothing was compiled"
    rest = [f"{t.name}: {_counted(len(t), 'stage')}, {len(t.changed)} changed something" for t in traces[1:LINES]]
    more = [f"... {len(traces) - LINES:,} more compilations"] if len(traces) > LINES else []
    return "\n".join([trace_brief(traces[0]), *rest, *more])

"""Represent public objects: as HTML (the step view, or with its passes) and as plain text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from google.protobuf.message import Message

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, Code, CodeRecord, ExecutionRecord
from xlanb.display import mimebundle as mimebundle_hook
from xlanb.dump import writer
from xlanb.dump.dot import DotGraph
from xlanb.dump.tpu.memory_space import MemorySpaceRecord
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import TpuScheduleRecord
from xlanb.errors import XlanbError
from xlanb.explorer.film import Film
from xlanb.explorer.reproducer import Reproducer
from xlanb.explorer.stage import Artifact, Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.gpu.emulator.warp_trace import WarpTrace
from xlanb.graph.graphdef.reader import graph_of_proto
from xlanb.graph.records import GraphRecord
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.reducer import ReducedModule
from xlanb.runtime.gpu_program import GpuProgram
from xlanb.shape import Layout, Shape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.mesh import Mesh
from xlanb.view.brief import LANGUAGES, artifact_brief, stage_brief, trace_brief
from xlanb.view.cards import card_html
from xlanb.view.dot_picture import dot_html
from xlanb.view.film.page import film_html
from xlanb.view.page import fragment_html, kept, pre_html, view_html, whole_page
from xlanb.view.parts.fusion import fused_computation, neighbourhood, traffic
from xlanb.view.parts.items import clip
from xlanb.view.payload import build_payload
from xlanb.view.payload_builder import PayloadBuilder
from xlanb.view.pool import LEVELS
from xlanb.view.program import picture_html
from xlanb.view.saved_file import reduction_html, reproducer_html
from xlanb.view.shape import layout_text, shape_html, shape_text
from xlanb.view.sharding import mesh_html, record_sharding_html, sharding_html, sharding_text
from xlanb.view.still import still_html
from xlanb.view.tables import tables_html
from xlanb.view.text import artifact_text, stage_text, traces_text
from xlanb.view.warp import warp_html

_ARTIFACTS = (
    GraphRecord,
    ModuleRecord,
    BufferAssignmentRecord,
    CodeRecord,
    ExecutionRecord,
    CacheRecord,
    TextRecord,
    MemorySpaceRecord,
    TpuProgram,
    TpuScheduleRecord,
    GpuProgram,
)
_MOST_LINES = 60
_MOST_CHARACTERS = 6_000
_CODE_LINES = 20_000  # of one text by itself

_KINDS = {
    GraphRecord: "tf_graph",
    ModuleRecord: "hlo",
    BufferAssignmentRecord: "buffer_assignment",
    CodeRecord: "llvm_ir",
    ExecutionRecord: "execution",
    CacheRecord: "compilation_cache",
    TextRecord: "text",
    MemorySpaceRecord: "memory_space_assignment",
    TpuProgram: "llo",
    TpuScheduleRecord: "tpu_schedule",
    GpuProgram: "gpu_program",
}


@mimebundle_hook.implement
def mimebundle(obj: Any) -> dict[str, str]:
    """Return an object's HTML and plain text, both short enough to keep in a notebook.

    It is a Trace, a Stage, or an object with `traces` or `tables` ((caption, DataFrame) pairs); any
    record, or an object that returns one by `record()`, `trace` or `hlo_module`. Other objects show
    their text, clipped.
    """
    bundle = _bundle(obj)
    where = "its .text" if hasattr(type(obj), "text") or isinstance(obj, CodeRecord | TextRecord) else "str() of it"
    return bundle | {"text/plain": _clipped(bundle["text/plain"], where)}


def _bundle(obj: Any) -> dict[str, str]:
    if card := card_html(obj):
        return {"text/html": card, "text/plain": _own_text(obj, repr(obj))}
    if isinstance(obj, Code):
        return {"text/html": artifact_html(obj.record()), "text/plain": obj.beginning}
    if isinstance(obj, Message):
        return _graph_def(obj)
    if isinstance(obj, DotGraph):
        return {"text/html": dot_html(obj), "text/plain": str(obj)}
    if isinstance(obj, Trace):
        return {"text/html": fragment_html([obj], is_kept=True), "text/plain": trace_brief(obj)}
    if isinstance(obj, WarpTrace):
        return {"text/html": warp_html(obj), "text/plain": str(obj)}
    if isinstance(obj, Film):
        return {"text/html": film_html(obj), "text/plain": str(obj)}
    if isinstance(obj, Reproducer):
        return {"text/html": reproducer_html(obj), "text/plain": str(obj)}
    if isinstance(obj, ReducedModule):
        return {"text/html": reduction_html(obj), "text/plain": str(obj)}
    if isinstance(obj, Stage):
        return {"text/html": _stage_html(obj), "text/plain": stage_text(obj)}
    if isinstance(obj, Shape | Layout):
        return {
            "text/html": shape_html(obj),
            "text/plain": layout_text(obj) if isinstance(obj, Layout) else shape_text(obj),
        }
    if isinstance(obj, HloSharding):
        return {"text/html": sharding_html(obj), "text/plain": sharding_text(obj)}
    if isinstance(obj, Mesh):
        return {"text/html": mesh_html(obj), "text/plain": str(obj)}
    if isinstance(getattr(obj, "before", None), ModuleRecord) and isinstance(getattr(obj, "after", None), ModuleRecord):
        stage = _stage_of(obj)
        if stage is not None:
            return {"text/html": _stage_html(stage), "text/plain": str(obj)}
    tables = getattr(obj, "tables", ())
    picture = picture_html(obj)
    shown = picture + (tables_html(tables) if isinstance(tables, tuple) else "")
    traces = getattr(obj, "traces", None)
    if isinstance(traces, Sequence) and traces and all(isinstance(t, Trace) for t in traces):
        text = _own_text(obj, traces_text(traces))
        return {"text/html": shown + fragment_html(list(traces), is_kept=True), "text/plain": text}
    if shown:
        text = _own_text(obj, repr(obj))
        drawn = _as_artifact(_record_of(obj)) if picture else None
        headline = getattr(obj, "headline", text)  # of a text that says what picture and tables say too
        head, foot = ("", artifact_html(drawn, fallback=text)) if drawn is not None else (pre_html(headline), "")
        return {"text/html": head + shown + foot, "text/plain": text}
    record = _record_of(obj)
    if isinstance(record, InstructionRecord):
        return _instruction(obj, record)
    if isinstance(record, Trace):
        return {
            "text/html": fragment_html([record], is_kept=True),
            "text/plain": _own_text(obj, trace_brief(record)),
        }
    artifact = _as_artifact(record)
    if artifact is not None:
        text = artifact_text(record) if record is obj else _own_text(obj, artifact_text(record))
        return {"text/html": artifact_html(artifact, fallback=text), "text/plain": text}
    text = _own_text(obj, repr(obj))
    return {"text/html": pre_html(_clipped(text, "str() of it")), "text/plain": text}


def _graph_def(message: Message) -> dict[str, str]:
    """Show a GraphDef as its graph, or as text if it has none."""
    try:
        graph = graph_of_proto(message)
    except XlanbError as error:
        text = f"{error}\n{message}"
        return {"text/html": pre_html(_clipped(text, "str() of it")), "text/plain": text}
    text = str(graph).replace("<tf.Graph 'graph'", "<GraphDef", 1)
    return {"text/html": artifact_html(graph.record(), "GraphDef", text), "text/plain": text}


def _clipped(text: str, where: str) -> str:
    """Clip a text that notebooks keep, and say where the rest is."""
    if len(text) <= _MOST_CHARACTERS and text.count("\n") < _MOST_LINES:
        return text
    total = text.count("\n") + 1
    lines = [clip(line) for line in text[:_MOST_CHARACTERS].splitlines()[:_MOST_LINES]]
    return "\n".join([*lines, f"... shown: {len(lines):,} of {total:,} lines; {where} has them all"])


def _stage_of(result: Any) -> Stage | None:
    """A pass's result as a stage: it knows the pass, its pipelines and the time."""
    name, pipeline, seconds = (getattr(result, k, None) for k in ("name", "pipeline", "seconds"))
    if not isinstance(name, str) or not isinstance(pipeline, tuple):
        return None
    return Stage("hlo_pass", name, result.before, result.after, pipeline, seconds=seconds)


def _instruction(obj: Any, record: InstructionRecord) -> dict[str, str]:
    """Show an instruction with its neighbours, or a fusion with its ops; a record alone as its
    line.
    """
    computation, module = (_record_of_parent(obj, *path) for path in (("parent",), ("parent", "module")))
    lines = [clip(record.text)]
    shown: ComputationRecord | None = None
    if isinstance(module, ModuleRecord) and (fused := fused_computation(record, module)) is not None:
        lines.append(str(traffic(fused)))
        shown = fused
    elif isinstance(computation, ComputationRecord):
        shown = neighbourhood(record, computation)
    text, grid = "\n".join(lines), record_sharding_html(record, module if isinstance(module, ModuleRecord) else None)
    if shown is None:
        artifact = _as_artifact(record)
        html = pre_html(text) if artifact is None else artifact_html(artifact)
        return {"text/html": html + grid, "text/plain": text}
    drawn = ModuleRecord(record.name, (shown,), shown.name)
    return {"text/html": pre_html(text) + grid + artifact_html(drawn, record.name), "text/plain": text}


def _record_of_parent(obj: Any, *path: str) -> Any:
    """Return the record of a live instruction's computation or module, or None."""
    for name in path:
        obj = getattr(obj, name, None)
    record = getattr(obj, "record", None)
    return record() if callable(record) else None


def artifact_html(artifact: Artifact, title: str = "", fallback: str = "") -> str:
    """Show one artifact: its graph, its text, or its figures.

    Without scripts, its picture and ten lines of `fallback`, by default of its text, are shown.
    """
    name = title or str(
        getattr(artifact, "name", "")
        or getattr(artifact, "module", "")
        or LANGUAGES.get(language := getattr(artifact, "language", ""), language)
        or type(artifact).__name__
    )
    kind = _KINDS[type(artifact)]
    trace = Trace(name, [Stage(kind, name, artifact, artifact)])
    if isinstance(artifact, CodeRecord | TextRecord):
        builder = PayloadBuilder(replace(LEVELS[0], code_lines=_CODE_LINES), title=name)
        builder.update([trace])
        payload = builder.payload
    else:
        payload = build_payload([trace], title=name)
    payload["single"] = 1
    return view_html(payload, artifact_brief(artifact, fallback or artifact_text(artifact)), _picture(artifact))


def _picture(artifact: object) -> str:
    return still_html(artifact) if isinstance(artifact, ModuleRecord | GraphRecord) else ""


def artifact_page(artifact: Artifact, title: str = "") -> str:
    """Return one artifact as a whole page that works from disk."""
    return whole_page(artifact_html(artifact, title), title or str(getattr(artifact, "name", "")) or "xlanb")


writer.html_page.implement(artifact_page)


def _stage_html(stage: Stage) -> str:
    """Show a stage with its changes and reasons, without its neighbours."""
    alone = Stage(
        stage.kind,
        stage.name,
        stage.before,
        stage.after,
        stage.pipeline,
        stage.edits,
        stage.decisions,
        stage.seconds,
        stage.summary,
        stage.error,
    )
    payload = build_payload([Trace(stage.name, [alone])], title=stage.name)
    payload["single"] = 1
    is_code = isinstance(stage.after, CodeRecord | TextRecord)
    return view_html(payload if is_code else kept(payload), stage_brief(stage), _picture(stage.after))


def _record_of(obj: Any) -> Any:
    """Return the record of a live object, else its trace, else the module that it compiled."""
    if isinstance(obj, (*_ARTIFACTS, ComputationRecord, InstructionRecord)):
        return obj
    record = getattr(obj, "record", None)
    if callable(record):
        return record()
    trace = getattr(obj, "trace", None)
    if isinstance(trace, Trace) and len(trace):
        return trace
    module = getattr(obj, "hlo_module", None)
    if module is None or not callable(getattr(module, "record", None)):
        return None
    memory = getattr(getattr(obj, "buffer_assignment", None), "record", None)
    if not callable(memory):
        return module.record()
    return _program(module.record(), memory())


def _program(module: ModuleRecord, memory: BufferAssignmentRecord) -> Trace:
    """Show the compiled program, and its memory."""
    schedule = Stage(
        "schedule", "program", module, module, summary=f"{module.instruction_count:,} instructions in order"
    )
    return Trace(module.name, [schedule, Stage("buffer_assignment", "buffer_assignment", module, memory, index=1)])


def _as_artifact(record: Any) -> Artifact | None:
    """Return a record that the view can draw; a computation or instruction becomes a small
    module.
    """
    if isinstance(record, InstructionRecord):
        record = ComputationRecord(record.name, (record,), record.name)
    if isinstance(record, ComputationRecord):
        return ModuleRecord(record.name, (record,), record.name)
    return record if isinstance(record, _ARTIFACTS) else None


def _own_text(obj: Any, otherwise: str) -> str:
    """`str(obj)` where its class says how, else another text."""
    defined = {name for kind in type(obj).__mro__[:-1] for name in vars(kind)}
    return str(obj) if "__str__" in defined else otherwise

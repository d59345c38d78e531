"""Traces as one JSON-able payload for the step view; grows by deltas while a compilation is live.

    {"revision", "title", "items": [...], "chunks": [...], "artifacts": [...], "traces": [{"name", "live", "counts", "stages": [...]}], "order": [...]}

Stages name artifacts by index, artifacts name chunks (the text of one computation) and items (one instruction) by index; what did not change between two
passes is there once. view/parts/items.py says what an item holds, view/pool.py how chunks and pictures are written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from xlanb.buffers.records import BufferAssignmentRecord
from xlanb.cpu.records import CacheRecord, CodeRecord, ExecutionRecord
from xlanb.explorer.stage import Artifact, Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.records import ModuleRecord
from xlanb.view.drawing import Drawing
from xlanb.view.parts.diff import graph_diff, module_diff
from xlanb.view.parts.graph import graph_sheet
from xlanb.view.parts.hlo import module_sheet
from xlanb.view.parts.items import clip
from xlanb.view.parts.llvm import code_data
from xlanb.view.parts.memory import memory_data
from xlanb.view.parts.why import why_data
from xlanb.view.pool import LEVELS, Limits, Pool, diff_rows

Payload = dict[str, Any]

MAX_BYTES = 2_000_000


def build_payload(
    traces: Sequence[Trace], *, live: bool = False, title: str = "", max_bytes: int = MAX_BYTES
) -> Payload:
    """The payload of finished or running traces, under `max_bytes` of JSON: where needed with less text and smaller pictures, which it notes."""
    payload: Payload = {}
    for level in LEVELS:
        builder = PayloadBuilder(level, title=title)
        builder.update(traces, live=live)
        payload = builder.payload
        if len(json.dumps(payload, separators=(",", ":"))) <= max_bytes:
            break
        payload["note"] = "This trace is large: pictures and texts are cut."
    return payload


class PayloadBuilder:
    """Keeps a payload and adds to it what is new in the traces.

    `payload` is the whole so far, changed in place; `update` gives back the delta alone, which `merge` on the other side adds.
    """

    def __init__(self, limits: Limits | None = None, *, title: str = "") -> None:
        self.limits = limits or LEVELS[0]
        self.pool = Pool(self.limits)
        self.payload: Payload = {
            "revision": 0,
            "title": title,
            "items": [],
            "chunks": [],
            "artifacts": [],
            "traces": [],
            "order": [],
        }
        self._artifacts: dict[int, tuple[Artifact, int]] = {}
        self._traces: list[Trace] = []
        self._pictures: list[dict[str, Drawing]] = []
        self._new: list[dict[str, Any]] = []
        self._bytes = 0

    def update(self, traces: Sequence[Trace], *, live: bool | Callable[[Trace], bool] = False) -> Payload:
        """Take in what the traces hold by now, and give back what was added.

        `live` says whether a trace can still be stepped. Traces that are no longer listed stay in the payload but out of its order.
        """
        self._new = []
        order, changes = [], []
        for trace in traces:
            number = next((k for k, t in enumerate(self._traces) if t is trace), -1)
            if number < 0:
                number = len(self._traces)
                self._traces.append(trace)
                self._pictures.append({})
                self.payload["traces"].append({"name": trace.name, "live": False, "counts": {}, "stages": []})
            order.append(number)
            running = live(trace) if callable(live) else live
            changes.append(self._trace(number, trace, running))
        items, chunks = self.pool.take_new()
        base = self.payload["revision"]
        delta = {
            "base": base,
            "revision": base + 1,
            "items": items,
            "chunks": chunks,
            "artifacts": self._new,
            "traces": changes,
            "order": order,
        }
        merge(self.payload, delta)
        self._bytes += len(json.dumps(delta, separators=(",", ":")))
        if self._bytes > MAX_BYTES // 2 and self.limits is LEVELS[0]:
            self.limits = self.pool.limits = LEVELS[1]
        elif self._bytes > MAX_BYTES * 3 // 4:
            self.limits = self.pool.limits = LEVELS[-1]
        return delta

    def _trace(self, number: int, trace: Trace, running: bool) -> Payload:
        done = len(self.payload["traces"][number]["stages"])
        future = _clusters(trace)
        stages = [self._stage(number, s, trace, future) for s in trace.stages[done:]]
        runs = [round(r, 9) for r in list(trace.runs)[-200:]]
        return {
            "number": number,
            "name": trace.name,
            "live": running,
            "counts": _counts(trace),
            "runs": runs,
            "stages": stages,
        }

    def _stage(self, number: int, stage: Stage, trace: Trace, future: dict[str, str]) -> Payload:
        before = self._artifact(number, stage.before, stage, future)
        after = self._artifact(number, stage.after, stage, future)
        data: Payload = {
            "i": stage.index,
            "kind": stage.kind,
            "name": stage.name,
            "pl": list(stage.pipeline),
            "ch": int(stage.changed),
            "s": stage.seconds,
            "d": clip(stage.describe().removeprefix(f"{stage.name}: "), 300),
            "b": before,
            "a": after,
        }
        if stage.error is not None:
            data["e"] = clip(stage.error, 8000)
        if not isinstance(stage.after, ModuleRecord | GraphRecord):
            data["ctx"] = self._context(trace, stage)
        diff = self._diff(stage)
        if diff:
            data["diff"] = diff
        why = why_data(stage.edits, stage.decisions, self.limits.rewrites)
        if why:
            data["why"] = why
        return data

    def _context(self, trace: Trace, stage: Stage) -> int:
        """The picture beside code, memory and times: the last module, or else graph, before this stage."""
        for kind in (ModuleRecord, GraphRecord):
            for earlier in reversed(trace.stages[: stage.index]):
                if isinstance(earlier.after, kind):
                    return self._artifacts[id(earlier.after)][1] if id(earlier.after) in self._artifacts else -1
        return -1

    def _diff(self, stage: Stage) -> list[Payload]:
        before, after = stage.before, stage.after
        if before is None or not stage.changed or not self.limits.diff_rows:
            return []
        if isinstance(after, ModuleRecord) and isinstance(before, ModuleRecord):
            return diff_rows(self.pool, module_diff(before, after))
        if isinstance(after, GraphRecord) and isinstance(before, GraphRecord):
            return diff_rows(self.pool, graph_diff(before, after))
        return []

    def _artifact(self, number: int, record: Artifact | None, stage: Stage, future: dict[str, str]) -> int:
        if record is None:
            return -1
        known = self._artifacts.get(id(record))
        if known is not None:
            return known[1]
        data = self._data(number, record, stage, future)
        index = len(self.payload["artifacts"]) + len(self._new)
        self._new.append(data)
        self._artifacts[id(record)] = (
            record,
            index,
        )  # the record too: an id is only unique while its object lives
        return index

    def _data(self, number: int, record: Artifact, stage: Stage, future: dict[str, str]) -> Payload:
        if isinstance(record, ModuleRecord):
            chunks, note = self.pool.module_chunks(record)
            return {
                "k": "module",
                "name": record.name,
                "c": chunks,
                "n": record.instruction_count,
                "note": note,
                "g": self._module_picture(number, record, stage),
            }
        if isinstance(record, GraphRecord):
            chunks, note = self.pool.graph_chunks(record)
            return {
                "k": "graph",
                "name": record.name,
                "c": chunks,
                "n": len(record.nodes),
                "note": note,
                "g": self._graph_picture(number, record, stage, future),
            }
        if isinstance(record, BufferAssignmentRecord):
            return memory_data(record)
        if isinstance(record, CodeRecord):
            return code_data(record, self.limits.code_lines)
        if isinstance(record, TextRecord):
            return code_data(CodeRecord(record.language, record.text), self.limits.code_lines)
        if isinstance(record, ExecutionRecord):
            return _execution(record)
        return _cache(record)

    def _module_picture(self, number: int, record: ModuleRecord, stage: Stage) -> Payload | None:
        if not self.limits.nodes:
            return None
        sheet = module_sheet(record, self.limits.nodes, (*stage.added, *stage.modified))
        drawing = sheet.draw(self._pictures[number].get("module"))
        self._pictures[number]["module"] = drawing
        return self.pool.picture(drawing, sheet.subjects)

    def _graph_picture(self, number: int, record: GraphRecord, stage: Stage, future: dict[str, str]) -> Payload | None:
        if not self.limits.nodes:
            return None

        def cluster_of(node: NodeRecord) -> str:
            return node.cluster or future.get(node.name, "")

        sheet = graph_sheet(record, self.limits.nodes, (*stage.added, *stage.modified), cluster_of)
        drawing = sheet.draw(self._pictures[number].get("graph"))
        self._pictures[number]["graph"] = drawing
        marked = {n.cluster for n in record.nodes if n.cluster} | {f.name for f in record.functions}
        shown = frozenset(k for k, g in drawing.labels.items() if not k.endswith("]") or g.label in marked)
        return self.pool.picture(drawing, sheet.subjects, shown)


def merge(payload: Payload, delta: Payload) -> None:
    """Add a delta to a payload, in place."""
    payload["revision"] = delta["revision"]
    for key in ("items", "chunks", "artifacts"):
        payload[key].extend(delta[key])
    for change in delta["traces"]:
        while len(payload["traces"]) <= change["number"]:
            payload["traces"].append({"stages": []})
        trace = payload["traces"][change["number"]]
        trace["stages"].extend(change["stages"])
        trace.update({k: v for k, v in change.items() if k not in {"stages", "number"}})
    payload["order"] = delta["order"]


def _clusters(trace: Trace) -> dict[str, str]:
    """The cluster that each node will be marked for: a graph is laid out as it will be clustered, so that marking moves nothing."""
    for stage in trace.stages:
        if isinstance(stage.after, GraphRecord):
            found = {n.name: n.cluster for n in stage.after.nodes if n.cluster}
            if found:
                return found
    return {}


def _counts(trace: Trace) -> Payload:
    kernels = 0
    for stage in trace.stages:
        if isinstance(stage.after, CodeRecord):
            kernels = max(kernels, len(stage.after.kernels) or len(stage.after.functions))
    passes = sum(s.kind == "hlo_pass" for s in trace.stages)
    return {
        "stages": len(trace.stages),
        "passes": passes,
        "changed": len(trace.changed),
        "kernels": kernels,
    }


def _cache(record: CacheRecord) -> Payload:
    counts = {
        "hit": int(record.hit),
        "hits": record.hits,
        "misses": record.misses,
        "entries": record.entries,
    }
    return {"k": "cache", "signature": clip(record.signature), **counts, "s": record.seconds}


def _execution(record: ExecutionRecord) -> Payload:
    kernels = [
        [k.name, k.instruction, k.seconds, k.bytes_accessed, k.flops, k.op_name]
        for k in sorted(record.kernels, key=lambda k: -k.seconds)[:500]
    ]
    results = [[shape, clip(text, 1000)] for shape, text in record.results[:50]]
    return {
        "k": "execution",
        "s": record.seconds,
        "runs": record.runs,
        "kernels": kernels,
        "results": results,
    }

"""Build a payload by deltas, as a compilation runs; view/payload.py describes its content."""

from __future__ import annotations

import json
import math
import sys
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from xlanb.explorer.coming import ComingStage
from xlanb.explorer.gpu_fusion import FusionDecisions
from xlanb.explorer.replay import edges_of
from xlanb.explorer.stage import RUN_KINDS, Artifact, Deferred, Stage, TextRecord, count_kernels
from xlanb.explorer.trace import Trace
from xlanb.gc_thresholds import raised_gc_thresholds
from xlanb.graph.records import GraphRecord
from xlanb.hlo.python_lines import place_text
from xlanb.hlo.records import ModuleRecord
from xlanb.view.artifact_data import Later, artifact_data, op_lists
from xlanb.view.marks import hidden_marks, wrong_marks
from xlanb.view.outline.caller_keys import CallerKeys
from xlanb.view.outline.opening import MOST, Opening, default_opening
from xlanb.view.outline.program import ProgramOutline
from xlanb.view.outlines import Outlines
from xlanb.view.parts.coming import coming_data
from xlanb.view.parts.diff import graph_diff, module_diff
from xlanb.view.parts.items import clip
from xlanb.view.parts.llvm import code_characters
from xlanb.view.parts.sharding import Shardings, merge_shardings
from xlanb.view.parts.text_diff import text_diff
from xlanb.view.parts.why import why_data
from xlanb.view.pool import LEVELS, SHORT, Limits, Pool, diff_rows

Payload = dict[str, Any]

MAX_JSON = 24_000_000
"""The most characters of a page's uncompressed JSON."""
_SMALL = 1 << 16  # bytes of what does not keep others from being read
READ_BYTES = 24 << 20
"""Bytes of an unread dump to read for one page: some seconds."""


class PayloadBuilder:
    """Keep a payload, and add new content of the traces.

    `payload` is the whole so far, changed in place; `update` returns only the delta, which `merge`
    adds on the other side. Of unread dumps it reads `read_bytes` at once; the rest waits for
    `load`. One `update` adds programs up to `most_ops` different ops, but at least one; the rest
    waits for `load` or `fill`. The first picture of a program has about `nodes` nodes.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        title: str = "",
        read_bytes: int = READ_BYTES,
        outlines: Outlines | None = None,
        nodes: int = MOST,
        most_ops: float = math.inf,
    ) -> None:
        self._nodes = nodes
        self._most_ops = most_ops
        self._read_bytes = read_bytes
        self.limits = limits or LEVELS[0]
        self._outlines = outlines or Outlines()
        self.pool = Pool(self.limits, self._outlines.items)
        self.payload: Payload = {
            "revision": 0,
            "title": title,
            "items": [],
            "chunks": [],
            "artifacts": [],
            "traces": [],
            "order": [],
            "frames": [],
            "lines": {},
        }
        self._artifacts: dict[int, tuple[Artifact | Later, int]] = {}
        self._traces: list[Trace] = []
        self._openings: list[dict[str, list[tuple[int, Opening]]]] = []
        self._caller_keys: list[CallerKeys] = []
        self._new: list[dict[str, Any]] = []
        self._bytes = 0
        self._unweighed: Payload | None = None
        self._source_count = 0
        self._read = 0
        self._later: dict[int, Later] = {}
        self._incomplete: list[dict[int, None]] = []
        self._shardings = Shardings()

    @raised_gc_thresholds()
    def update(
        self,
        traces: Sequence[Trace],
        *,
        live: bool | Callable[[Trace], bool] = False,
        coming: Callable[[Trace], Sequence[ComingStage]] | None = None,
    ) -> Payload:
        """Add the traces' current content; return the delta.

        `live` says whether a trace can still be stepped, `coming` its remaining stages. Traces that
        are no longer listed stay in the payload but not in its order.
        """
        self._begin()
        order = [self._number(trace) for trace in traces]
        changes = []
        self._choose(traces)
        for number, trace in zip(order, traces, strict=True):
            running = live(trace) if callable(live) else live
            data = self._trace(number, trace, running)
            if coming is not None:
                data["coming"] = coming_data(coming(trace))
            changes.append(data)
        return self._close(changes, order)

    @raised_gc_thresholds()
    def load(self, number: int, position: int) -> Payload:
        """Add a stage's deferred artifacts; return the delta with them and their difference.

        Raises:
            IndexError: there is no such trace or stage.
            XlanbError: it cannot be read.
        """
        trace = self._traces[number]
        stage = trace.stages[position]
        is_filling = position in self._incomplete[number]
        self._begin(is_filling=is_filling)
        given = (stage.given_before, stage.given_after)
        waiting = dict.fromkeys(self._later[id(g)] for g in given if id(g) in self._later)
        read = [(later, later.get()) for later in waiting]
        fills = []
        for later, record in read:
            del self._later[id(later.given)]
            index = self._artifacts[id(later)][1]
            self._artifacts[id(record)] = (record, index)
            fills.append([index, self._data(number, record, position)])
        complete = [k for k in self._incomplete[number] if self._is_complete(trace.stages[k])]
        found = {k: self._content(number, trace, k) for k in complete}
        if read and not is_filling:  # its reasons are there
            before, after = map(self._look, given)
            found[position] = self._change(stage, before, after)
        sets = [[number, k, content] for k, content in found.items() if content]
        return self._close([], self.payload["order"], fills=fills, sets=sets)

    def fill(self) -> Iterator[Payload]:
        """Add what `update` left for later, stage by stage; yield the deltas."""
        for number, waiting in enumerate(self._incomplete):
            while waiting:
                yield self.load(number, next(iter(waiting)))

    @property
    def is_complete(self) -> bool:
        """Whether `fill` has nothing to add."""
        return not any(self._incomplete)

    @property
    def waiting_names(self) -> frozenset[str]:
        """The names of ops of programs that were left for later."""
        programs = [p for later in self._later.values() if (p := later.program) is not None]
        distinct = {id(ops): ops for p in programs for ops in op_lists(p)}
        return frozenset(op.name for ops in distinct.values() for op in ops)

    def set_numerics(self, number: int, rows: Mapping[int, Sequence[Mapping[str, Any]]]) -> Payload:
        """Add measurements after stages of a trace; return the delta.

        `rows` gives by stage, for each result, {"name", "min", "max", "nan", "inf", "err"}; None
        for unknown numbers.
        """
        self._begin()
        known = range(len(self.payload["traces"][number]["stages"]))
        sets = []
        for position, results in rows.items():
            if position in known:
                plain = [{k: _number(v) for k, v in r.items()} for r in results]
                errors = [r["err"] for r in plain if r.get("err") is not None]
                sets.append([number, position, {"numerics": plain, "err": max(errors, default=None)}])
        return self._close([], self.payload["order"], sets=sets)

    def set_worth(self, number: int, rows: Mapping[str, Mapping[str, Any]]) -> Payload:
        """Add the measured worth of a trace's passes, by name; return the delta.

        See explorer.worth.Worth.data.
        """
        self._begin()
        return self._close([{"number": number, "stages": [], "worth": dict(rows)}], self.payload["order"])

    def _close(self, traces: list[Payload], order: list[int], **more: list[Any]) -> Payload:
        """Return the delta of new content, after merging it into the payload."""
        items, chunks = self.pool.take_new()
        base = self.payload["revision"]
        delta: Payload = {
            "base": base,
            "revision": base + 1,
            "items": items,
            "chunks": chunks,
            "artifacts": self._new,
            "traces": traces,
            "order": order,
            "frames": self.pool.take_new_frames(),
            "lines": self._new_lines(),
            **({"shardings": shardings} if (shardings := self._shardings.take_new()) else {}),
            **{k: v for k, v in more.items() if v},
        }
        merge(self.payload, delta)
        self._unweighed = delta
        return delta

    def _begin(self, *, is_filling: bool = False) -> None:
        """Before a new delta, measure the last one; lower the limits if the payload grows too
        large.

        A payload that is made at once does not need this, and what only waited to be converted
        would be in it.
        """
        self._new = []
        delta, self._unweighed = self._unweighed, None
        if delta is None:
            return
        code = sum(code_characters(a) for a in delta["artifacts"] if a["k"] == "code")
        self._bytes += len(compact_json(delta)) - code
        room = MAX_JSON if is_filling else MAX_JSON // 4
        if self._bytes > room and self.limits is LEVELS[0]:
            self.limits = self.pool.limits = LEVELS[SHORT]
        elif self._bytes > 2 * room:
            self.limits = self.pool.limits = LEVELS[-1]

    def _new_lines(self) -> dict[str, str]:
        """The text of Python lines that the traces know and the payload does not."""
        count = sum(len(t.sources) for t in self._traces)
        if count == self._source_count or self.limits is LEVELS[-1]:
            return {}
        self._source_count = count
        known = self.payload["lines"]
        found = {place_text(*place): text for trace in self._traces for place, text in trace.sources.items()}
        return {place: text for place, text in found.items() if place not in known}

    def _trace(self, number: int, trace: Trace, running: bool) -> Payload:
        done = len(self.payload["traces"][number]["stages"])
        stages = [self._stage(number, k, trace) for k in range(done, len(trace.stages))]
        runs = [round(r, 9) for r in list(trace.runs)[-200:]]
        return {
            "number": number,
            "name": trace.name,
            "live": running,
            "counts": self._counts(trace),
            "runs": runs,
            "stages": stages,
        }

    def _stage(self, number: int, position: int, trace: Trace) -> Payload:
        stage = trace.stages[position]
        left, right = self._look(stage.given_before), self._look(stage.given_after)
        old, new = _program(left), _program(right)
        if isinstance(old, ModuleRecord) and isinstance(new, ModuleRecord):
            self._caller_keys[number].update(stage, old, new)
        before = self._artifact(number, left, position)
        after = self._artifact(number, right, position)
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
        if new is None:
            data["ctx"] = self._context(trace, stage)
        if self._is_complete(stage):
            return data | self._content(number, trace, position)
        self._incomplete[number][position] = None
        return data | self._change(stage, left, right)

    def _is_complete(self, stage: Stage) -> bool:
        """Whether none of its programs in memory waits to be converted."""
        given = (self._look(stage.given_before), self._look(stage.given_after))
        return not any(isinstance(g, Later) and g.program is not None for g in given)

    def _content(self, number: int, trace: Trace, position: int) -> Payload:
        """Return a stage's changes and reasons; it is complete then."""
        self._incomplete[number].pop(position, None)
        stage = trace.stages[position]
        left, right = self._look(stage.given_before), self._look(stage.given_after)
        data = self._change(stage, left, right)
        heavy = isinstance(stage.decisions, FusionDecisions) and stage.decisions.is_heavy
        told = () if heavy else stage.decisions
        replayed = edges_of(trace, stage) if trace.pipeline is None else ()
        why = why_data(stage.edits, told, self.limits.rewrites, self.pool.item, replayed)
        if why:
            data["why"] = why | self._unused(stage, left, right)
        return data

    def _unused(self, stage: Stage, before: Artifact | Later | None, after: Artifact | Later | None) -> Payload:
        """Count the computations that a pass removed as unused, without an edit, and their
        instructions.
        """
        if not isinstance(before, ModuleRecord) or not isinstance(after, ModuleRecord):
            return {}
        edited = {e.computation for e in stage.edits}
        unused = [c for c in before.computations if c.name not in after.by_name and c.name not in edited]
        return {"unused": [len(unused), sum(len(c.instructions) for c in unused)]} if unused else {}

    def _context(self, trace: Trace, stage: Stage) -> int:
        """Return the picture for code, memory and times: the last module, or else graph, before
        this stage.
        """
        for kind in (ModuleRecord, GraphRecord):
            for earlier in reversed(trace.stages[: stage.index]):
                given = self._look(earlier.given_after)
                if isinstance(_program(given), kind):
                    return self._artifacts[id(given)][1] if id(given) in self._artifacts else -1
        return -1

    def _counts(self, trace: Trace) -> Payload:
        read = (s for s in trace.stages if not isinstance(self._look(s.given_after), Later))
        kernels = trace.kernel_count if trace.program is not None else count_kernels(read)
        is_known = kernels > 0 or trace.program is not None or any(s.kind in RUN_KINDS for s in trace.stages)
        counts = {
            "stages": len(trace.stages),
            "passes": sum(s.kind == "hlo_pass" for s in trace.stages),
            "changed": len(trace.changed),
            "seconds": trace.compile_seconds,
        }
        return {**counts, "kernels": kernels} if is_known else counts

    def _choose(self, traces: Sequence[Trace]) -> None:
        """Choose the unread dumps to read, within the limit.

        First those before and after all passes, then small ones, then in order.
        """
        waiting: dict[int, Deferred] = {}
        for trace in traces:
            given = [
                g for s in trace for g in (s.given_before, s.given_after) if isinstance(g, Deferred) and not g.is_read
            ]
            passes = [s.given_after for s in trace if s.kind in ("hlo", "hlo_pass")]
            last = [g for g in passes[-1:] if isinstance(g, Deferred) and not g.is_read]
            small = [g for g in given if g.size <= _SMALL]
            for g in (*given[:1], *last, *given[-1:], *small, *given):
                waiting.setdefault(id(g), g)
        for g in waiting.values():
            if id(g) in self._later:
                continue
            if self._read + g.size <= self._read_bytes:
                self._read += g.size
            else:
                self._later[id(g)] = Later(g)
        self._postpone(traces)

    def _postpone(self, traces: Sequence[Trace]) -> None:
        """Leave new programs in memory for later, beyond the limit.

        The first and the last are added first.
        """
        if math.isinf(self._most_ops):
            return
        new = {
            id(g): g
            for trace in traces
            for s in trace.stages[len(self.payload["traces"][self._number(trace)]["stages"]) :]
            for g in (s.given_before, s.given_after)
            if isinstance(g, ModuleRecord | GraphRecord) and id(g) not in self._artifacts
        }
        programs = list(new.values())
        left = self._most_ops
        seen: set[int] = set()
        for k, program in enumerate((*programs[:1], *programs[:0:-1][:1], *programs[1:-1])):
            fresh = {id(ops): len(ops) for ops in op_lists(program) if id(ops) not in seen}
            left -= sum(fresh.values())
            if k and left < 0:
                self._later[id(program)] = Later(program)
            seen.update(fresh)

    def _number(self, trace: Trace) -> int:
        """Return the number of a trace, which is added if it is new."""
        for number, known in enumerate(self._traces):
            if known is trace:
                return number
        self._traces.append(trace)
        self._openings.append({})
        self._incomplete.append({})
        self._caller_keys.append(CallerKeys())
        self.payload["traces"].append({"name": trace.name, "live": False, "counts": {}, "stages": []})
        return len(self._traces) - 1

    def _look(self, given: Artifact | Deferred | None) -> Artifact | Later | None:
        """Return an artifact, or a placeholder if a limit is exceeded."""
        later = self._later.get(id(given))
        if later is not None:
            return later
        return given.get() if isinstance(given, Deferred) else given

    def _change(self, stage: Stage, before: Artifact | Later | None, after: Artifact | Later | None) -> Payload:
        """Return a stage's changes: the rows of its difference, and the unlimited counts."""
        changed: Payload = {}
        old, new = _program(before), _program(after)
        if stage.changed and new is not None and type(old) is type(new):
            changed["n"] = list(stage.changes.counts)
            if marks := self._marks(stage, before, after):
                changed["marks"] = marks
        if diff := self._diff(stage, before, after):
            changed["diff"] = diff
        return changed

    def _marks(self, stage: Stage, before: Artifact | Later | None, after: Artifact | Later | None) -> Payload:
        """Return marks that the page cannot compute for changed ops: see view/marks.py."""
        left, right = self.pool.shown.get(id(before)), self.pool.shown.get(id(after))
        if left is None or right is None:
            return {}
        found = {
            "wrong": wrong_marks(left, right, stage.changes, self.pool.item),
            "before": hidden_marks(left, stage.changes, is_before=True),
            "after": hidden_marks(right, stage.changes, is_before=False),
        }
        return {k: v for k, v in found.items() if v}

    def _diff(self, stage: Stage, before: Artifact | Later | None, after: Artifact | Later | None) -> list[Payload]:
        if before is None or not stage.changed or not self.limits.diff_rows:
            return []
        if isinstance(after, ModuleRecord) and isinstance(before, ModuleRecord):
            return diff_rows(self.pool, module_diff(before, after, stage.changes))
        if isinstance(after, GraphRecord) and isinstance(before, GraphRecord):
            return diff_rows(self.pool, graph_diff(before, after, stage.changes))
        if isinstance(after, TextRecord) and isinstance(before, TextRecord) and before.language == after.language:
            return text_diff(self.pool, after.name, before.text, after.text)
        return []

    def _artifact(self, number: int, record: Artifact | Later | None, position: int) -> int:
        if record is None:
            return -1
        known = self._artifacts.get(id(record))
        if known is not None:
            return known[1]
        data = self._data(number, record, position)
        index = len(self.payload["artifacts"]) + len(self._new)
        self._new.append(data)
        self._artifacts[id(record)] = (
            record,
            index,
        )  # the record too: an id is only unique while its object lives
        return index

    def _data(self, number: int, record: Artifact | Later, position: int) -> Payload:
        if isinstance(record, ModuleRecord):
            program = self._outlines.program(record)
            chunks, note = self.pool.module_chunks(record, program)
            keys = self._caller_keys[number].of(record)
            return {
                "k": "module",
                "name": record.name,
                "c": chunks,
                "n": record.instruction_count,
                "note": note,
                "o": self._opening(number, position, "module", program, keys),
                **({"keys": dict(keys)} if keys else {}),
                **self._shardings.of_module(number, record),
            }
        if isinstance(record, GraphRecord):
            program = self._outlines.program(record)
            chunks, note = self.pool.graph_chunks(record, program)
            return {
                "k": "graph",
                "name": record.name,
                "c": chunks,
                "n": len(record.nodes),
                "note": note,
                "o": self._opening(number, position, "graph", program),
            }
        return artifact_data(record, self.limits)

    def _opening(
        self, number: int, position: int, kind: str, program: ProgramOutline, keys: Mapping[str, str] | None = None
    ) -> list[str]:
        """Return the keys of open groups in the first picture of a stage, the most useful first.

        Passes keep them.
        """
        known = self._openings[number].setdefault(kind, [])
        at = bisect_right(known, position, key=itemgetter(0))
        found = default_opening(program, known[at - 1][1] if at else None, self._nodes, keys)
        known.insert(at, (position, found))
        return list(found.open)


def _program(given: Artifact | Later | None) -> GraphRecord | ModuleRecord | None:
    """Return the program in memory that this is or stands for."""
    if isinstance(given, Later):
        return given.program
    return given if isinstance(given, GraphRecord | ModuleRecord) else None


def merge(payload: Payload, delta: Payload) -> None:
    """Add a delta to a payload, in place."""
    payload["revision"] = delta["revision"]
    for key in ("items", "chunks", "artifacts", "frames"):
        payload[key].extend(delta[key])
    payload.setdefault("lines", {}).update(delta.get("lines", {}))
    merge_shardings(payload, delta.get("shardings", {}))
    for change in delta["traces"]:
        while len(payload["traces"]) <= change["number"]:
            payload["traces"].append({"stages": []})
        trace = payload["traces"][change["number"]]
        trace["stages"].extend(change["stages"])
        trace.update({k: v for k, v in change.items() if k not in {"stages", "number"}})
    for index, data in delta.get("fills", ()):
        payload["artifacts"][index] = data
    for number, position, values in delta.get("sets", ()):
        payload["traces"][number]["stages"][position].update(values)
    payload["order"] = delta["order"]


def compact_json(data: Any) -> str:
    """Write JSON without spaces."""
    return json.dumps(data, separators=(",", ":"))


def _number(value: Any) -> Any:
    """A value as JSON can hold it: no NaN, and the largest number for an infinity."""
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return None
    return max(-sys.float_info.max, min(value, sys.float_info.max))

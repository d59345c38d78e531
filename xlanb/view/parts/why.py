"""Why a pass did what it did: its rewrites, each with rule and place, and its decisions with the value of every condition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.graph.records import NodeRecord
from xlanb.hlo.records import InstructionRecord
from xlanb.tracing import Cause, Decision, Edit
from xlanb.view.parts.items import clip, node_text

MAX_REWRITES = 300
MAX_DECISIONS = 400


def rewrites(edits: Sequence[Edit]) -> list[list[Edit]]:
    """Edits that belong to one rewrite: neighbours with one cause object; with no rule named, each edit of an equal cause is in one group."""
    groups: list[list[Edit]] = []
    for edit in edits:
        if groups and groups[-1][-1].cause is edit.cause and (edit.cause.rule or len(groups[-1]) < 50):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def why_data(edits: Sequence[Edit], decisions: Sequence[Decision], limit: int = MAX_REWRITES) -> dict[str, Any] | None:
    """Plain data for the Why pane, None where there is nothing to tell."""
    groups = rewrites(edits)
    if not groups and not decisions:
        return None
    data: dict[str, Any] = {
        "rewrites": [_rewrite(g) for g in groups[:limit]],
        "decisions": [_decision(d) for d in decisions[:limit]],
    }
    if len(groups) > limit:
        data["more_rewrites"] = len(groups) - limit
    if len(decisions) > limit:
        data["more_decisions"] = len(decisions) - limit
    return data


def _cause(cause: Cause) -> dict[str, str]:
    known = {"pass": cause.pass_name, "rule": cause.rule, "where": cause.where}
    return {k: v for k, v in known.items() if v}


def _rewrite(group: list[Edit]) -> dict[str, Any]:
    edits = []
    for e in group[:40]:
        entry: dict[str, Any] = {"kind": e.kind, "in": e.computation}
        if e.old is not None:
            entry["old"], entry["a"] = record_text(e.old), getattr(e.old, "name", "")
        if e.new is not None:
            entry["new"], entry["b"] = record_text(e.new), getattr(e.new, "name", "")
        edits.append(entry)
    data: dict[str, Any] = {**_cause(group[0].cause), "edits": edits}
    if len(group) > 40:
        data["more"] = len(group) - 40
    return data


def _decision(d: Decision) -> dict[str, Any]:
    predicates = [[p.name, int(p.holds), clip(str(p.value), 300)] for p in d.predicates]
    return _cause(d.cause) | {
        "action": d.action,
        "subject": [clip(s, 200) for s in d.subject[:20]],
        "taken": int(d.taken),
        "predicates": predicates,
    }


def record_text(record: object) -> str:
    """One line for an instruction or a node."""
    if isinstance(record, InstructionRecord):
        return clip(record.text, 600)
    if isinstance(record, NodeRecord):
        return clip(node_text(record).strip(), 600)
    return clip(str(record), 600)

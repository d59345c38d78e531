"""Reasons of a pass: its rewrites, each with rule and place, and its decisions with all
conditions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from xlanb.graph.records import NodeRecord
from xlanb.hlo.records import InstructionRecord
from xlanb.tracing import Cause, Decision, Edit, is_same_rewrite
from xlanb.view.parts.items import clip, node_text
from xlanb.why import REPLAY

MAX_REWRITES = 300
MAX_EDITS = 50
_MANY = 6
"""Refused decisions from which on the conditions that failed are summed up."""
_MOST_CONDITIONS = 6


def rewrites(edits: Sequence[Edit]) -> list[list[Edit]]:
    """Edits that belong to one rewrite, rewrite by rewrite (see `is_same_rewrite`)."""
    groups: list[list[Edit]] = []
    for edit in edits:
        if groups and is_same_rewrite(groups[-1][-1], edit):
            groups[-1].append(edit)
        else:
            groups.append([edit])
    return groups


def why_data(
    edits: Sequence[Edit],
    decisions: Sequence[Decision],
    limit: int = MAX_REWRITES,
    item: Callable[[InstructionRecord], int] | None = None,
    replayed: Sequence[Decision] = (),
) -> dict[str, Any] | None:
    """Return plain data for the Why pane, or None if there is none.

    With `item`, which returns the index of an instruction's item, edits hold the indices `i`
    (before) and `j` (after) instead of text, which suffices to repeat every edit. `limit` is the
    number of rewrites, and of decisions, that are shown; the others are counted. Of many refused
    decisions, `failing` counts the most frequent conditions that failed. `replayed` are
    decisions that the compiler did not report: xlanb's conditions made them on the module of a
    dump.
    """
    groups = rewrites(edits)
    if not groups and not decisions and not replayed:
        return None
    shown = [*map(_decision, _sample(decisions, limit))]
    shown += [_decision(d) | {"basis": REPLAY} for d in _sample(replayed, limit)]
    data: dict[str, Any] = {"rewrites": [_rewrite(g, item) for g in groups[:limit]], "decisions": shown}
    if len(groups) > limit:
        data["more_rewrites"] = len(groups) - limit
    failing = Counter(
        d.predicates[-1].name for part in (decisions, replayed) for d in part if not d.taken and d.predicates
    )
    if failing.total() >= _MANY:
        data["failing"] = [[clip(name, 200), count] for name, count in failing.most_common(_MOST_CONDITIONS)]
    rest = max(len(decisions) - limit, 0) + max(len(replayed) - limit, 0)
    if rest:
        data["more_decisions"] = rest
        data["taken"] = sum(d.taken for part in (decisions, replayed) for d in part)
    return data


def _sample(decisions: Sequence[Decision], limit: int) -> list[Decision]:
    """The first decisions up to the limit, in their order, half of each outcome where there are."""
    if len(decisions) <= limit:
        return list(decisions)
    by_outcome: dict[bool, list[int]] = {True: [], False: []}
    for n, d in enumerate(decisions):
        by_outcome[d.taken].append(n)
    taken, refused = by_outcome[True], by_outcome[False]
    count = min(len(taken), max(limit // 2, limit - len(refused)))
    return [decisions[n] for n in sorted([*taken[:count], *refused[: limit - count]])]


def _cause(cause: Cause) -> dict[str, Any]:
    known = {
        "pass": cause.pass_name,
        "rule": cause.rule,
        "where": cause.where,
        "pattern": clip(cause.pattern, 600),
        "keeps": cause.keeps,
    }
    parts = {"parts": [[name, clip(i, 200)] for name, i in cause.parts]} if cause.parts else {}
    return {k: v for k, v in known.items() if v} | parts


def _rewrite(group: list[Edit], item: Callable[[InstructionRecord], int] | None) -> dict[str, Any]:
    edits = [_edit(e, item) for e in group[:MAX_EDITS]]
    data: dict[str, Any] = {**_cause(group[0].cause), "edits": edits}
    if len(group) > MAX_EDITS:
        data["more"] = len(group) - MAX_EDITS
    return data


def _edit(e: Edit, item: Callable[[InstructionRecord], int] | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": e.kind, "in": e.computation}
    for record, name, text, index in ((e.old, "a", "old", "i"), (e.new, "b", "new", "j")):
        if record is None:
            continue
        entry[name] = getattr(record, "name", "")
        if item is not None and isinstance(record, InstructionRecord):
            entry[index] = item(record)
        else:
            entry[text] = record_text(record)
    return entry


def _decision(d: Decision) -> dict[str, Any]:
    predicates = [
        [p.name, int(p.holds), clip(str(p.value), 300), *([clip(p.remedy, 300)] if p.remedy else [])]
        for p in d.predicates
    ]
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

"""Outlines as plain data, for the step view.

A chunk's "t" describes its items, in their order: "g" the groups, each [position of its parent or
-1, kind, label, key (0: the parent's key, a slash and the label), the number of instances if it is
not the number of groups in it]; "m" the innermost group of each item, as pairs (group, number of
consecutive items); "r" the role of each, a letter (see `Ops`); "u" the distinct (floating-point
operations, bytes), and "w" the one of each item with role "."; "c" [item, function, ...] the
functions that nodes call; "l" (item, executions of its body, ...) of loops.

For a truncated computation, "x" describes the rest: "n" [group, ops, operations, bytes, label], "p"
the number of parameters, "e" [from, to, bytes, number] between groups, or between a group and an
item k, which is -2 - k, "t" (item, its representative: a group or an item, ...) of the items in
undescribed instances of repeats, and "o" [item, ops, operations, bytes] of the absent ops in such
instances.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from xlanb.view.outline.cutting import CutOutline
from xlanb.view.outline.labels import describe
from xlanb.view.outline.ops import INLINED, INPUT
from xlanb.view.outline.program import Part
from xlanb.view.outline.tree import Outline, OutlineGroup

Data = dict[str, Any]


def part_data(part: Part, first: int) -> Data:
    """Return the outline of one computation with its items from `first` on."""
    groups: Sequence[OutlineGroup] = part.outline.groups
    member: Sequence[int] = part.outline.member
    cut = part.cut(first) if first else None
    if cut is not None:
        groups, member = cut.groups, cut.member
    data: Data = {
        "g": _groups(groups, part.outline),
        "m": [x for group, run in groupby(member[first:]) for x in (group, len(list(run)))],
        "r": part.ops.roles[first:],
    }
    pairs: dict[tuple[float, float], int] = {}
    shown = (k for k in range(first, len(part.ops)) if part.ops.is_shown(k))
    data["w"] = [pairs.setdefault(_pair(part.costs[k]), len(pairs)) for k in shown]
    data["u"] = [list(p) for p in pairs]
    if part.trips:
        data["l"] = [x for k, n in part.trips.items() if k >= first for x in (k - first, n)]
    if part.ops.clusters:  # an instruction names its callees, a node does not
        data["c"] = [[k - first, *called] for k, called in part.calls.items() if k >= first]
    if cut is not None:
        data["x"] = _rest(part, cut)
    return data


def _groups(groups: Sequence[OutlineGroup], outline: Outline) -> list[list[Any]]:
    instances: Counter[str] = Counter(outline.groups[g.parent].key for g in outline.groups if g.parent >= 0)
    kept: Counter[int] = Counter(g.parent for g in groups)
    rows: list[list[Any]] = []
    for k, g in enumerate(groups):
        above = groups[g.parent].key if g.parent >= 0 else ""
        derived = f"{above}/{g.label}" if above else g.label
        key: list[str | int] = [] if g.key == derived else [g.key]
        if g.kind == "repeat" and instances[g.key] != kept[k]:
            key = [g.key, instances[g.key]]
        rows.append([g.parent, g.kind, g.label, *key])
    return rows


@lru_cache(maxsize=1 << 14)
def _pair(cost: tuple[float, float]) -> tuple[float, float]:
    return _rounded(cost[0]), _rounded(cost[1])


def _rounded(value: float) -> float:
    """Three digits."""
    number = min(float(f"{value:.3g}"), 1e300)
    return int(number) if number < 1e15 else number


def _rest(part: Part, cut: CutOutline) -> Data:
    ops, first = part.ops, cut.first
    totals: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0])
    members: dict[int, list[int]] = defaultdict(list)
    edges: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for k in range(len(ops)):
        if k < first and ops.is_shown(k):
            flops, size = part.costs[k]
            total = totals[cut.end(k)]
            total[0], total[1], total[2] = total[0] + 1, total[1] + flops, total[2] + size
            members[cut.end(k)].append(k)
        for o in ops.operands[k]:
            if o >= first or ops.roles[o] in (INLINED, INPUT) or cut.crosses(o, k):
                continue
            ends = cut.end(o), cut.end(k)
            if -1 not in ends and ends[0] != ends[1]:
                edge = edges[ends]
                edge[0], edge[1] = edge[0] + part.sizes[o], edge[1] + 1
    rows = [(end, int(n), _rounded(f), _rounded(b)) for end, (n, f, b) in sorted(totals.items())]
    alike = [(k - first, cut.end(k)) for k in range(first, len(ops)) if cut.end(k) != -2 - (k - first)]
    return {
        "n": [[*row, describe(members[row[0]], ops)] for row in rows if row[0] >= -1],
        "o": [[-2 - end, *row] for end, *row in rows if end < -1],
        "t": [x for pair in alike for x in pair],
        "p": ops.roles[:first].count(INPUT),
        "e": [[a, b, *both] for (a, b), both in edges.items()],
    }

"""Outlines as plain data, for the step view.

A chunk's "t" says of its items, in their order: "g" the groups, each [position of its parent or -1, kind, label, key
(0: the parent's key, a slash and the label), how many it stands for where that is not the number of groups in it];
"m" the innermost group of each item, as pairs (group, how many items in a row); "r" the role of each, a letter (see
`Ops`); "u" the different (floating-point operations, bytes), and "w" which of them each item with role "." has; "c"
[item, function, ...] what nodes call. Of a computation that is not all there, "x" tells of the rest: "n" [group, ops,
operations, bytes, label], "p" how many parameters, and "e" [from, to, bytes, how many] between groups, or between a
group and an item k, which is -2 - k.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from xlanb.view.outline.labels import describe
from xlanb.view.outline.ops import INLINED, INPUT
from xlanb.view.outline.program import Part
from xlanb.view.outline.tree import Outline, OutlineGroup

Data = dict[str, Any]

_GROUPS = 240
"""Groups that are told of a computation whose text is not all there."""


def part_data(part: Part, first: int) -> Data:
    """The outline of one computation of which the items from `first` on are there."""
    groups, member = list(part.outline.groups), list(part.outline.member)
    if first:
        groups, member = _cut(part, groups, member, first)
    data: Data = {
        "g": _groups(groups, part.outline),
        "m": [x for group, run in groupby(member[first:]) for x in (group, len(list(run)))],
        "r": part.ops.roles[first:],
    }
    pairs: dict[tuple[float, float], int] = {}
    shown = (k for k in range(first, len(part.ops)) if part.ops.is_shown(k))
    data["w"] = [pairs.setdefault(_pair(part.costs[k]), len(pairs)) for k in shown]
    data["u"] = [list(p) for p in pairs]
    if part.ops.clusters:  # an instruction says itself what it calls, a node does not
        data["c"] = [[k - first, *called] for k, called in part.calls.items() if k >= first]
    if first:
        data["x"] = _rest(part, member, first)
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


def _cut(part: Part, groups: list[OutlineGroup], member: list[int], first: int) -> tuple[list[OutlineGroup], list[int]]:
    """The heaviest groups with all that are around them; what lies in others lies in the next that is kept."""
    weights = [0.0] * len(groups)
    for k, g in enumerate(member):
        if g >= 0:
            weights[g] += part.ops.weights[k] + 1.0
    for g in range(len(groups) - 1, -1, -1):
        if groups[g].parent >= 0:
            weights[groups[g].parent] += weights[g]
    others = _others(groups, member, first)
    own = [g for g in range(len(groups)) if g not in others]
    ranked = sorted(own, key=lambda g: (-weights[g], g))[:_GROUPS]  # a parent is as heavy as its child
    place = {g: k for k, g in enumerate(sorted(ranked))}
    kept: list[OutlineGroup] = []
    lifted: list[int] = []
    for g, group in enumerate(groups):
        parent = lifted[group.parent] if group.parent >= 0 else -1
        lifted.append(place.get(g, parent))
        if g in place:
            kept.append(OutlineGroup(group.key, group.label, group.kind, parent))
    rest = next((k for k in range(len(member)) if member[k] < 0 and part.ops.is_shown(k)), -1)
    member = [lifted[g] if g >= 0 else -1 for g in member]
    if rest >= 0:
        kept.append(OutlineGroup("~", "other ops", "flow", -1))
        member = [len(kept) - 1 if g < 0 and part.ops.is_shown(k) else g for k, g in enumerate(member)]
    return kept, member


def _others(groups: list[OutlineGroup], member: list[int], first: int) -> set[int]:
    """The instances of repeats but for one that is on the page as a whole, where there is one, and what is in them:
    that one shows what they are.
    """
    begin = [len(member)] * len(groups)
    for k in range(len(member) - 1, -1, -1):
        if member[k] >= 0:
            begin[member[k]] = k
    for g in range(len(groups) - 1, -1, -1):
        if groups[g].parent >= 0:
            begin[groups[g].parent] = min(begin[groups[g].parent], begin[g])
    chosen: dict[int, int] = {}
    for g, group in enumerate(groups):
        if group.parent >= 0 and groups[group.parent].kind == "repeat":
            known = chosen.setdefault(group.parent, g)
            if begin[known] < first <= begin[g]:
                chosen[group.parent] = g
    kept = set(chosen.values())
    others: set[int] = set()
    for g, group in enumerate(groups):
        if group.parent in others or (group.parent in chosen and g not in kept):
            others.add(g)
    return others


def _rest(part: Part, member: Sequence[int], first: int) -> Data:
    ops = part.ops
    totals: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0])
    members: dict[int, list[int]] = defaultdict(list)
    edges: dict[tuple[int, int], list[int]] = defaultdict(lambda: [0, 0])
    for k in range(len(ops)):
        if k < first and ops.is_shown(k):
            flops, size = part.costs[k]
            total = totals[member[k]]
            total[0], total[1], total[2] = total[0] + 1, total[1] + flops, total[2] + size
            members[member[k]].append(k)
        for o in ops.operands[k]:
            ends = (member[o] if o < first else -2 - o + first, member[k] if k < first else -2 - k + first)
            if o < first and ops.roles[o] not in (INLINED, INPUT) and -1 not in ends and ends[0] != ends[1]:
                edge = edges[ends]
                edge[0], edge[1] = edge[0] + part.sizes[o], edge[1] + 1
    return {
        "n": [
            [g, int(n), _rounded(f), _rounded(b), describe(members[g], ops)] for g, (n, f, b) in sorted(totals.items())
        ],
        "p": ops.roles[:first].count(INPUT),
        "e": [[a, b, *both] for (a, b), both in edges.items()],
    }

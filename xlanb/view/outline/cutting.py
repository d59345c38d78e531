"""Computations that are too long for a page: the groups to describe, and substitutes for absent
ops.

One instance of a repeat is described, preferably one that is fully on the page. An op of another
instance is counted with its counterpart, the op of the same kind at the same place of the described
one, as if all instances were present.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import cached_property

from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import OutlineGroup

GROUPS = 240
"""The most groups of a computation whose text is not complete."""
REST = "~"
"""The key of the group of all ungrouped ops."""
_NUMBER = re.compile(r"\d+")


class CutOutline:
    """The outline of a computation; only the ops from `first` on are on the page.

    `groups` are the heaviest with all that enclose them; `member` gives each op's innermost group
    (-1: none), or the repeat for an instance that is not described.
    """

    def __init__(self, ops: Ops, groups: Sequence[OutlineGroup], member: Sequence[int], first: int) -> None:
        self.ops, self.first = ops, first
        self._groups, self._member = groups, member
        self._chosen = self._instances()
        self._pair_up()
        self._lifted: list[int] = []
        self.groups: list[OutlineGroup] = []
        self._keep()
        self.member = [self._lifted[g] if g >= 0 else -1 for g in member]
        if any(g < 0 and ops.is_shown(k) for k, g in enumerate(member)):
            self.groups.append(OutlineGroup(REST, "other ops", "flow", -1))
            rest = len(self.groups) - 1
            self.member = [rest if g < 0 and ops.is_shown(k) else g for k, g in enumerate(self.member)]

    def end(self, k: int) -> int:
        """Return the representative of op k: a group (-1: none), or an op k' on the page, as -2 -
        (k' - first).
        """
        return self._ends[k]

    @cached_property
    def _ends(self) -> list[int]:
        return [self._end(k) for k in range(len(self._member))]

    def _end(self, k: int) -> int:
        while (g := self._member[k]) in self._others:
            twin = self._twin_of_op.get(k, -1)
            if twin < 0:
                return self._lifted[self._told_group(g)]
            k = twin
        return -2 - (k - self.first) if k >= self.first else self.member[k]

    def crosses(self, a: int, b: int) -> bool:
        """Whether an edge leads from one instance of a repeat to another: of these one is drawn."""
        above = self._chain(self._member[a])
        inside = set(above)
        meet = next((g for g in self._chain(self._member[b]) if g in inside), -1)
        return meet >= 0 and self._groups[meet].kind == "repeat"

    def _chain(self, g: int) -> list[int]:
        out = []
        while g >= 0:
            out.append(g)
            g = self._groups[g].parent
        return out

    def _instances(self) -> dict[int, int]:
        """Return the described instance of each repeat."""
        groups, member = self._groups, self._member
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
                if begin[known] < self.first <= begin[g]:
                    chosen[group.parent] = g
        return chosen

    @cached_property
    def _others(self) -> set[int]:
        """Return the groups of instances that are not described."""
        kept = set(self._chosen.values())
        others: set[int] = set()
        for g, group in enumerate(self._groups):
            if group.parent in others or (group.parent in self._chosen and g not in kept):
                others.add(g)
        return others

    # -- twins -------------------------------------------------------------------------------------

    def _pair_up(self) -> None:
        self._twin_of_op: dict[int, int] = {}
        self._twin_of_group: dict[int, int] = {}
        children: dict[int, list[int]] = defaultdict(list)
        own: dict[int, list[int]] = defaultdict(list)
        for g, group in enumerate(self._groups):
            children[group.parent].append(g)
        for k, g in enumerate(self._member):
            own[g].append(k)

        def word(g: int) -> Hashable:
            return self._groups[g].kind, _NUMBER.sub("", self._groups[g].label)

        def drawn(k: int) -> Hashable:
            return self.ops.tokens[k], self.ops.roles[k]

        for repeat, told in self._chosen.items():
            todo = [(told, g) for g in children[repeat] if g != told]
            while todo:
                first, other = todo.pop()
                self._twin_of_group[other] = first
                self._twin_of_op.update(_paired(own[other], own[first], drawn))
                todo.extend((twin, g) for g, twin in _paired(children[other], children[first], word).items())

    def _told_group(self, g: int) -> int:
        """Return the counterpart of a group in an undescribed instance, or of the nearest enclosing
        one.
        """
        while g in self._others:
            g = self._twin_of_group.get(g, self._groups[g].parent)
        return g

    # -- what is kept ------------------------------------------------------------------------------

    def _keep(self) -> None:
        groups = self._groups
        weights = [0.0] * len(groups)
        for k, g in enumerate(self._member):
            if g >= 0:
                weights[g] += self.ops.weights[k] + 1.0
        for g in range(len(groups) - 1, -1, -1):
            if groups[g].parent >= 0:
                weights[groups[g].parent] += weights[g]
        own = [g for g in range(len(groups)) if g not in self._others]
        ranked = sorted(own, key=lambda g: (-weights[g], g))[:GROUPS]  # a parent is as heavy as its child
        place = {g: k for k, g in enumerate(sorted(ranked))}
        for g, group in enumerate(groups):
            parent = self._lifted[group.parent] if group.parent >= 0 else -1
            self._lifted.append(place.get(g, parent))
            if g in place:
                self.groups.append(OutlineGroup(group.key, group.label, group.kind, parent))


def _paired(from_: Iterable[int], to: Iterable[int], word: Callable[[int], Hashable]) -> dict[int, int]:
    """Pair ops of `from_` with the next unpaired one of `to` with the same word."""
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for t in to:
        waiting[word(t)].append(t)
    for found in waiting.values():
        found.reverse()
    return {f: waiting[word(f)].pop() for f in from_ if waiting.get(word(f))}

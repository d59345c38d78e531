"""Compare programs by structure: instructions are paired as by `xlanb.stage.changes_between`."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.stage import Changes, changes_between, is_other, named_parts

R = TypeVar("R", InstructionRecord, NodeRecord)


@dataclass(frozen=True)
class DiffRow(Generic[R]):
    """One row, before and after; the mark is "+" added, "-" removed, "~" changed, "=" the same.

    `is_moved`: it was in another computation before, which is a change too.
    """

    before: R | None
    after: R | None
    is_moved: bool = False

    @cached_property
    def mark(self) -> str:
        """One of "+-~="."""
        if self.before is None:
            return "+"
        if self.after is None:
            return "-"
        return "~" if self.is_moved or is_other(self.before, self.after) else "="


@dataclass(frozen=True)
class DiffSection(Generic[R]):
    """The rows of one computation, or of a graph."""

    name: str
    rows: tuple[DiffRow[R], ...]

    @property
    def changed(self) -> bool:
        """Whether anything in it differs."""
        return any(r.mark != "=" for r in self.rows)


def module_diff(
    before: ModuleRecord | None, after: ModuleRecord | None, changes: Changes | None = None
) -> list[DiffSection[InstructionRecord]]:
    """Compare every computation of either side, those of `after` first, except identical objects.

    `changes` between the two are computed if not given.
    """
    old = dict(before.by_name) if before else {}
    new = dict(after.by_name) if after else {}
    names = [n for n in new if old.get(n) is not new[n]] + [n for n in old if n not in new]
    pairing = _Pairing[InstructionRecord](before, after, changes)
    return [DiffSection(n, tuple(pairing.rows(n))) for n in names]


def graph_diff(
    before: GraphRecord | None, after: GraphRecord | None, changes: Changes | None = None
) -> list[DiffSection[NodeRecord]]:
    """A graph and its functions, those that differ; `changes` as for modules."""
    old = _graphs(before)
    new = _graphs(after)
    names = [n for n in (*new, *(n for n in old if n not in new)) if old.get(n) is not new.get(n)]
    pairing = _Pairing[NodeRecord](before, after, changes)
    return [DiffSection(n, tuple(pairing.rows(n))) for n in names]


def _graphs(graph: GraphRecord | None) -> dict[str, tuple[NodeRecord, ...]]:
    if graph is None:
        return {}
    return {"": graph.nodes, **{f.name: f.nodes for f in graph.functions}}


class _Pairing(Generic[R]):
    """Which part of an artifact is which part of another, over all of their computations."""

    def __init__(
        self,
        before: ModuleRecord | GraphRecord | None,
        after: ModuleRecord | GraphRecord | None,
        changes: Changes | None,
    ) -> None:
        self.changes = changes if changes is not None else changes_between(before, after)
        self.old: Mapping[str, Mapping[str, R]] = named_parts(before)
        self.new: Mapping[str, Mapping[str, R]] = named_parts(after)
        self._was = {now: was for was, now in self.changes.renamed.items()}
        self._homes = {name: section for section, parts in self.old.items() for name in parts}

    def rows(self, section: str) -> list[DiffRow[R]]:
        """Return the rows of one computation; instructions that moved are in their new
        computation.
        """
        left, right = self.old.get(section, {}), self.new.get(section, {})
        position = {name: k for k, name in enumerate(left)}
        partner: dict[int, int] = {}
        moved: dict[int, R] = {}
        for k, name in enumerate(right):
            was = self._was.get(name, name)
            if was in position:
                partner[k] = position[was]
            elif was in self._homes:
                moved[k] = self.old[self._homes[was]][was]
        gone = [position[name] for name in left if name in self.changes.removed]
        return _rows(list(left.values()), list(right.values()), partner, gone, moved)


def _rows(
    left: Sequence[R], right: Sequence[R], partner: Mapping[int, int], gone: Collection[int], moved: Mapping[int, R]
) -> list[DiffRow[R]]:
    """Return rows in the order of `right`; removed ones (positions in `left`) are at their old
    place.

    `partner` maps positions in `right` to those in `left`, `moved` to instructions from another
    computation.
    """
    pairs = [(partner[k], k) for k in range(len(right)) if k in partner]
    anchors = _increasing([p for p, _ in pairs])
    fixed = {pairs[a][1] for a in anchors}
    waiting = sorted(gone, reverse=True)
    rows: list[DiffRow[R]] = []
    for k, item in enumerate(right):
        if k in fixed:
            while waiting and waiting[-1] < partner[k]:
                rows.append(DiffRow(left[waiting.pop()], None))
        was = left[partner[k]] if k in partner else moved.get(k)
        rows.append(DiffRow(was, item, is_moved=k in moved))
    rows.extend(DiffRow(left[g], None) for g in reversed(waiting))
    return rows


def _increasing(values: Sequence[int]) -> list[int]:
    """Positions of a longest increasing subsequence."""
    tails: list[int] = []
    ends: list[int] = []
    back: list[int] = []
    for k, v in enumerate(values):
        at = bisect_left(tails, v)
        if at == len(tails):
            tails.append(v)
            ends.append(k)
        else:
            tails[at] = v
            ends[at] = k
        back.append(ends[at - 1] if at else -1)
    chain: list[int] = []
    k = ends[-1] if ends else -1
    while k >= 0:
        chain.append(k)
        k = back[k]
    return chain[::-1]

"""Before and after by structure: instructions matched by identity or name, not by line."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo.records import InstructionRecord, ModuleRecord

R = TypeVar("R", InstructionRecord, NodeRecord)


@dataclass(frozen=True)
class DiffRow(Generic[R]):
    """One row: what stood before, what stands after; the mark is "+" added, "-" removed, "~" changed, "=" the same."""

    before: R | None
    after: R | None

    @property
    def mark(self) -> str:
        """One of "+-~="."""
        if self.before is None:
            return "+"
        if self.after is None:
            return "-"
        return "=" if self.before is self.after or self.before == self.after else "~"


@dataclass(frozen=True)
class DiffSection(Generic[R]):
    """The rows of one computation, or of a graph."""

    name: str
    rows: tuple[DiffRow[R], ...]

    @property
    def changed(self) -> bool:
        """Whether anything in it differs."""
        return any(r.mark != "=" for r in self.rows)


def module_diff(before: ModuleRecord | None, after: ModuleRecord | None) -> list[DiffSection[InstructionRecord]]:
    """Every computation of either side, those of `after` first; computations that are one object on both sides are left out."""
    old = dict(before.by_name) if before else {}
    new = dict(after.by_name) if after else {}
    names = [n for n in new if old.get(n) is not new[n]] + [n for n in old if n not in new]
    sections = []
    for name in names:
        left = old[name].instructions if name in old else ()
        right = new[name].instructions if name in new else ()
        sections.append(DiffSection(name, tuple(match(left, right))))
    return sections


def graph_diff(before: GraphRecord | None, after: GraphRecord | None) -> list[DiffSection[NodeRecord]]:
    """A graph and its functions, those that differ."""
    old = _graphs(before)
    new = _graphs(after)
    names = [n for n in (*new, *(n for n in old if n not in new)) if old.get(n) is not new.get(n)]
    return [DiffSection(n, tuple(match(old.get(n, ()), new.get(n, ())))) for n in names]


def _graphs(graph: GraphRecord | None) -> dict[str, tuple[NodeRecord, ...]]:
    if graph is None:
        return {}
    return {"": graph.nodes, **{f.name: f.nodes for f in graph.functions}}


def match(left: Sequence[R], right: Sequence[R]) -> list[DiffRow[R]]:
    """Rows in the order of `right`; what is gone stands where it was."""
    partner = _partners(left, right)
    pairs = [(partner[k], k) for k in range(len(right)) if k in partner]
    anchors = _increasing([p for p, _ in pairs])
    fixed = {pairs[a][1] for a in anchors}
    gone = sorted(set(range(len(left))) - set(partner.values()), reverse=True)
    rows: list[DiffRow[R]] = []
    for k, item in enumerate(right):
        if k in fixed:
            while gone and gone[-1] < partner[k]:
                rows.append(DiffRow(left[gone.pop()], None))
        rows.append(DiffRow(left[partner[k]] if k in partner else None, item))
    rows.extend(DiffRow(left[g], None) for g in reversed(gone))
    return rows


def _identity(record: InstructionRecord | NodeRecord) -> int:
    return record.uid if isinstance(record, InstructionRecord) else 0


def _partners(left: Sequence[R], right: Sequence[R]) -> dict[int, int]:
    """For positions on the right the position of the same one on the left: by uid, then by name."""
    by_uid = {_identity(r): k for k, r in enumerate(left) if _identity(r)}
    by_name = {r.name: k for k, r in enumerate(left)}
    found: dict[int, int] = {}
    for k, r in enumerate(right):
        if _identity(r) in by_uid:
            found[k] = by_uid[_identity(r)]
    taken = set(found.values())
    for k, r in enumerate(right):
        p = by_name.get(r.name)
        if k not in found and p is not None and p not in taken and not (_identity(r) and _identity(left[p])):
            found[k] = p
            taken.add(p)
    return found


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

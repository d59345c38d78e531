"""The difference of two clusterings: what another flag, scope or device changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from xlanb.display import Displayable
from xlanb.frames import framed

if TYPE_CHECKING:
    import pandas as pd

SAME, ENTERED, LEFT, MOVED, ADDED, GONE = "same", "entered", "left", "moved", "added", "gone"
_SHOWN = 12  # groups of changes in the text, and names in a group; the table has all


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One node: its clusters before and after (None: in none), the reasons, and its change.

    `change` is "same", "entered" or "left" a cluster, "moved" to a cluster other than the one that
    most of its companions came into, or "added" / "gone" if only one of the two graphs has the
    node.
    """

    node: str
    op: str
    before: str | None
    after: str | None
    change: str
    reason_before: str
    reason_after: str


@dataclass(frozen=True)
class ClusterSide:
    """One clustering's part of a difference."""

    cluster_of: Mapping[str, str | None]
    ops: Mapping[str, str]
    reasons: Mapping[str, str]


class ClusteringDiff(Displayable):
    """The difference of two clusterings, node by node.

    `nodes` has all nodes, `changes` those that differ, `became` the successor of each old cluster
    (None: dissolved).
    """

    def __init__(self, before: ClusterSide, after: ClusterSide) -> None:
        self.before = before
        self.after = after
        self.became = _successors(before.cluster_of, after.cluster_of)
        names = dict.fromkeys((*before.cluster_of, *after.cluster_of))
        self.nodes = tuple(self._compare(name) for name in names)

    def _compare(self, name: str) -> NodeChange:
        old, new = self.before.cluster_of.get(name), self.after.cluster_of.get(name)
        if name not in self.before.cluster_of:
            change = ADDED
        elif name not in self.after.cluster_of:
            change = GONE
        elif old is None or new is None:
            change = SAME if old == new else ENTERED if old is None else LEFT
        else:
            change = SAME if self.became[old] == new else MOVED
        op = self.after.ops.get(name) or self.before.ops.get(name, "")
        return NodeChange(
            name, op, old, new, change, self.before.reasons.get(name, ""), self.after.reasons.get(name, "")
        )

    @property
    def changes(self) -> tuple[NodeChange, ...]:
        """The nodes whose cluster changed, or whose reason to be outside changed (except for
        numbers).
        """
        return tuple(n for n in self.nodes if n.change != SAME or _kind(n.reason_before) != _kind(n.reason_after))

    @property
    def is_same(self) -> bool:
        """Whether the partitions are equal, whatever the clusters' names."""
        return all(n.change == SAME for n in self.nodes) and len({*self.became.values()}) == len(self.became)

    @property
    def change_of(self) -> dict[str, str]:
        """Node -> change, which colours the picture."""
        return {n.node: n.change for n in self.nodes}

    def table(self) -> pd.DataFrame:
        """A row for each node that differs."""
        return framed([asdict(n) for n in self.changes], columns=list(NodeChange.__dataclass_fields__))

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the tables for a notebook: the old clusters and their successors, then changed
        nodes.
        """
        sizes = [Counter(c for c in side.cluster_of.values() if c) for side in (self.before, self.after)]
        rows = [(old, sizes[0][old], new or "", sizes[1][new or ""]) for old, new in self.became.items()]
        rows += [("", 0, new, size) for new, size in sizes[1].items() if new not in self.became.values()]
        clusters = framed(rows, columns=["before", "nodes before", "after", "nodes after"])
        return (("Clusters before and after", clusters), ("Nodes that differ", self.table()))

    @property
    def headline(self) -> str:
        """Count the nodes that stayed, entered, left and moved, for the line above picture and
        tables.
        """
        counts = Counter(n.change for n in self.nodes)
        return ", ".join(f"{count} {change}" for change, count in counts.items()) or "no nodes"

    def __str__(self) -> str:
        lines = [self.headline]
        sizes = [Counter(c for c in side.cluster_of.values() if c) for side in (self.before, self.after)]
        for old, new in self.became.items():
            heir = f"{new} ({sizes[1][new]} nodes)" if new else "no cluster"
            lines.append(f"  {old} ({sizes[0][old]} nodes) -> {heir}")
        lines += [f"  {new} ({sizes[1][new]} nodes) is new" for new in sizes[1] if new not in self.became.values()]
        groups: dict[tuple[str, str, str], list[str]] = {}
        for n in self.changes:
            place = n.before or "outside", n.after or "outside"
            groups.setdefault((*place, n.reason_after or n.reason_before), []).append(n.node)
        for (old, new, why), names in list(groups.items())[:_SHOWN]:
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            lines.append(f"  {', '.join(names[:_SHOWN])}{rest}: {old} -> {new}")
            lines += [f"      {'was outside: ' if old == 'outside' and new != 'outside' else ''}{why}"] if why else []
        if len(groups) > _SHOWN:
            lines.append(f"  ... and {len(groups) - _SHOWN} more groups, see .table()")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<ClusteringDiff: {len(self.changes)} of {len(self.nodes)} nodes differ>"


def _kind(reason: str) -> str:
    """A reason without its figures: a cluster that is too small still is, under another minimum."""
    return re.sub(r"\d+", "0", reason)


def _successors(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return for each old cluster the new one with most of its nodes.

    Each new cluster succeeds only one, the one with the largest share.
    """
    shares = Counter((old, after[name]) for name, old in before.items() if old and after.get(name))
    heirs: dict[str, str | None] = {old: None for old in before.values() if old}
    taken: set[str | None] = set()
    for (old, new), _ in shares.most_common():
        if heirs[old] is None and new not in taken:
            heirs[old] = new
            taken.add(new)
    return heirs

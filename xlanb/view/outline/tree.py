"""The tree of groups of one computation or graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from xlanb.view.outline.ops import SHOWN, Ops


@dataclass(frozen=True, slots=True)
class OutlineGroup:
    """One group.

    `key` is stable between passes, `kind` is "scope", "repeat", "flow" or "cluster", `parent` the
    position of the parent group (-1: none).
    """

    key: str
    label: str
    kind: str
    parent: int


@dataclass(frozen=True)
class Outline:
    """Groups, parents before children.

    For each op it has the innermost group (-1: none) and the role (see `Ops`).
    """

    groups: tuple[OutlineGroup, ...]
    member: tuple[int, ...]
    roles: str


@dataclass(frozen=True, eq=False)
class Contents:
    """Lists by the position of a group; the last entry is for the whole program (-1).

    `children` are the groups and `ops` the drawn ops directly in it, `weights` the costs of all its
    content.
    """

    children: list[list[int]]
    ops: list[list[int]]
    weights: list[float]

    @classmethod
    def of(cls, outline: Outline, ops: Ops) -> Contents:
        """Return the contents of an outline of these ops."""
        groups = outline.groups
        children: list[list[int]] = [[] for _ in range(len(groups) + 1)]
        own: list[list[int]] = [[] for _ in range(len(groups) + 1)]
        weights = [0.0] * (len(groups) + 1)
        for k, (home, role, weight) in enumerate(zip(outline.member, ops.roles, ops.weights, strict=True)):
            if role == SHOWN:
                own[home].append(k)
            weights[home] += weight
        for number, group in enumerate(groups):
            children[group.parent].append(number)
        for number in range(len(groups) - 1, -1, -1):
            weights[groups[number].parent] += weights[number]
        return cls(children, own, weights)


@dataclass(eq=False)
class TreeBranch:
    """A group under construction; `ops` are those directly in it."""

    key: str
    label: str
    kind: str = "scope"
    ops: list[int] = field(default_factory=list)
    branches: list[TreeBranch] = field(default_factory=list)

    def walk(self) -> Iterator[TreeBranch]:
        """This group and all within, parents first."""
        yield self
        for b in self.branches:
            yield from b.walk()

    def all_ops(self) -> list[int]:
        """The ops in this group and in those within, by position."""
        return sorted(k for b in self.walk() for k in b.ops)

    def shown(self, ops: Ops) -> int:
        """Return the number of nodes when open."""
        return len(self.branches) + sum(ops.is_shown(k) for k in self.ops)


def outline(root: TreeBranch, ops: Ops) -> Outline:
    """The finished tree; keys that occur twice are numbered."""
    groups: list[OutlineGroup] = []
    member = [-1] * len(ops)
    seen: dict[str, int] = {}
    todo = [(b, -1) for b in reversed(root.branches)]
    while todo:
        branch, parent = todo.pop()
        times = seen[branch.key] = seen.get(branch.key, 0) + 1
        key = branch.key if times == 1 else f"{branch.key}#{times}"
        position = len(groups)
        groups.append(OutlineGroup(key, branch.label, branch.kind, parent))
        for k in branch.ops:
            member[k] = position
        todo.extend((b, position) for b in reversed(branch.branches))
    return Outline(tuple(groups), tuple(member), ops.roles)

"""Split groups that data leaves and enters again, so that a picture of groups has no cycle.

In `a -> b -> c` with a and c in one group and b in another, each group would read the other. A
group that the outline made is split there: into {a} and {c}. A scope of the program stays whole,
without the ops that only joined it because they have no scope of their own.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from xlanb.view.outline.labels import describe
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.repeats import FEWEST, label_of_repeat
from xlanb.view.outline.tree import TreeBranch

_MADE = ("flow", "repeat")
_SMALLEST = 2  # atoms of a group that is left of another
_DONE = sys.maxsize


@dataclass(frozen=True, eq=False)
class Atom:
    """What is directly in a group: a drawn op or a group (`op` is -1).

    `members` are the drawn ops in it, `reads` those that they read; `size` counts all its ops.
    """

    op: int
    branch: TreeBranch | None
    members: Sequence[int]
    reads: Iterable[int]
    size: int = 1

    @classmethod
    def of_op(cls, op: int, ops: Ops) -> Atom:
        """A drawn op."""
        return cls(op, None, (op,), ops.sources[op])

    @classmethod
    def of_group(cls, branch: TreeBranch, ops: Ops) -> Atom:
        """A group with its present ops."""
        inside = branch.all_ops()
        members = [k for k in inside if ops.is_shown(k)]
        return cls(-1, branch, members, {o for k in members for o in ops.sources[k]}, len(inside))


def make_convex(root: TreeBranch, ops: Ops) -> None:
    """Split groups until no group lies on a cycle with others in its branch.

    Cycles remain only where the program itself leaves a scope and enters it again.
    """
    for branch in root.walk():  # the children of a branch are walked after they are changed here
        level = _Level(branch, ops) if branch.branches else None
        if level is None or not level.cycles():
            continue
        level.split_all()
        if level.take_out_crossing():
            level.split_all()
        level.adopt()


class _Level:
    """The contents of one branch, and the edges between them."""

    def __init__(self, branch: TreeBranch, ops: Ops) -> None:
        self.branch = branch
        self.ops = ops

    def cycles(self) -> list[list[Atom]]:
        """The parts of the branch that lie on cycles together."""
        return _cycles(_atoms(self.branch, self.ops))

    def split_all(self) -> None:
        """Split groups until none on a cycle can be split."""
        todo = self.cycles()
        while todo:
            todo += self._split_one(todo.pop())

    def _split_one(self, atoms: list[Atom]) -> list[list[Atom]]:
        """Split a group of a cycle, made ones before scopes, small ones before large ones.

        Return the cycles that remain in it.

        A path that leaves a group and returns stays in the cycle, so the rest of the branch does
        not matter.
        """
        groups = [(b.kind not in _MADE, a.size, b) for a in atoms if (b := a.branch) is not None]
        for _, _, group in sorted(groups, key=itemgetter(0, 1)):
            others = [a for a in atoms if a.branch is not group]
            if group.kind in _MADE:
                return self._split_made(group, others)
            parts = self._take_out_borrowed(group, others)
            if parts is not None:
                return _cycles(parts)
        return []

    def take_out_crossing(self) -> bool:
        """Move ops without a scope out of scopes that they put on a cycle together.

        Those that read or feed other groups leave; return whether there are any.
        """
        out: set[int] = set()
        for part in self.cycles():
            groups = [a.branch for a in part if a.branch is not None]
            borrowed = {id(b): self._borrowed(b) for b in groups}
            exploded = [Atom.of_group(_without(b, borrowed[id(b)]), self.ops) for b in groups]
            exploded += [Atom.of_op(k, self.ops) for found in borrowed.values() for k in found]
            if any(sum(a.branch is not None for a in cycle) > 1 for cycle in _cycles(exploded)):
                continue  # the program itself enters a scope twice
            for group in groups:
                out |= self._crossing(group, borrowed[id(group)])
        for group in self.branch.branches:
            self._leave(group, out)
        return bool(out)

    def _crossing(self, group: TreeBranch, borrowed: Sequence[int]) -> set[int]:
        """The ops of these, in a group, that read or feed others outside, or such ops."""
        inside = set(group.all_ops())
        out: set[int] = set()
        size = -1
        while len(out) > size:
            size = len(out)
            for k in borrowed:
                near = [*self.ops.sources[k], *(u for u in self.ops.users[k] if self.ops.is_shown(u))]
                if any(n not in inside or n in out for n in near):
                    out.add(k)
        return out

    def adopt(self) -> None:
        """Move ops without a scope that lie between two ops of one group into it."""
        for part in self.cycles():
            groups = [a.branch for a in part if a.branch is not None]
            own = sorted(a.op for a in part if a.branch is None and self.ops.paths[a.op] is None)
            if len(groups) != 1 or groups[0].kind == "repeat" or not own:
                continue
            homes = {k: b for b in groups[0].walk() for k in b.ops}
            for k in own:
                homes[k] = next((homes[o] for o in self.ops.sources[k] if o in homes), groups[0])
                homes[k].ops.append(k)
            self.branch.ops = [k for k in self.branch.ops if k not in homes]

    def _split_made(self, group: TreeBranch, others: list[Atom]) -> list[list[Atom]]:
        """Replace a group by groups that no path leaves and enters again; return what cycles
        remain.

        Those are cycles of its atoms with the others: atoms that equally many paths have left
        before are on no cycle when they are merged.
        """
        atoms = _atoms(group, self.ops)
        inside = len(atoms)
        atoms += others
        times, mixed, cycles = _times_left(_edges(atoms), inside)
        parts: dict[int, list[int]] = defaultdict(list)
        for n in range(inside):
            if n not in mixed:
                parts[times[n]].append(n)
        found = [parts[key] for key in sorted(parts)] + [[n] for n in sorted(mixed)]
        if len(found) == 1:
            found = [[n] for n in range(inside)]
        merged = self._replace(group, [[atoms[n] for n in part] for part in found])
        within = {n for part, whole in zip(found, merged, strict=True) if whole for n in part}
        return [[atoms[n] for n in cycle] for cycle in cycles if not within.issuperset(cycle)]

    def _replace(self, group: TreeBranch, parts: Sequence[Sequence[Atom]]) -> list[bool]:
        """Replace a group by its parts; return which are groups, not atoms that stand alone."""
        branch = self.branch
        at = branch.branches.index(group)
        hidden = [k for k in group.ops if not self.ops.is_shown(k)]
        made: list[TreeBranch] = []
        alone: list[int] = []
        wholes = [self._regrouped(group, part) for part in parts]
        for part, whole in zip(parts, wholes, strict=True):
            if whole is not None:
                made.append(whole)
                continue
            made += [a.branch for a in part if a.branch is not None]
            alone += [a.op for a in part if a.branch is None]
        branch.branches[at : at + 1] = made
        homes = {k: b for b in made for inner in b.walk() for k in inner.ops}
        for k in hidden:
            reader = next((homes[u] for u in self.ops.users[k] if u in homes), branch)
            (branch if reader.kind == "repeat" else reader).ops.append(k)
        branch.ops = sorted([*branch.ops, *alone])
        return [whole is not None for whole in wholes]

    def _regrouped(self, group: TreeBranch, part: Sequence[Atom]) -> TreeBranch | None:
        """Make a group of some atoms of a group; None where they are to stand alone."""
        inner = [a.branch for a in part if a.branch is not None]
        own = [a.op for a in part if a.branch is None]
        if group.kind == "repeat":
            enough = len(inner) >= FEWEST
            return TreeBranch(group.key, label_of_repeat(inner), "repeat", branches=inner) if enough else None
        if len(part) < _SMALLEST:
            return None
        members = [k for a in part for k in a.members]
        head = max(members, key=lambda k: (self.ops.heavy[k], self.ops.weights[k], -k))
        label = describe(members, self.ops) if own else f"{inner[0].label} … {inner[-1].label}"
        return TreeBranch(f"{self.branch.key}~{self.ops.names[head]}", label, "flow", own, inner)

    def _take_out_borrowed(self, group: TreeBranch, others: list[Atom]) -> list[Atom] | None:
        """Move ops out of a scope that have none and put it on a cycle; None if there are none."""
        borrowed = self._borrowed(group)
        if not borrowed:
            return None
        atoms = [Atom.of_op(k, self.ops) for k in borrowed]
        edges = _edges([*atoms, Atom.of_group(_without(group, borrowed), self.ops), *others])
        times, mixed, _ = _times_left(edges, len(borrowed) + 1)
        own = len(borrowed)
        if own in mixed:  # the program itself enters the scope twice
            return None
        out = {k for n, k in enumerate(borrowed) if n in mixed or times[n] != times[own]}
        if not out:
            return None
        self._leave(group, out)
        return [*others, Atom.of_group(group, self.ops), *(a for a in atoms if a.op in out)]

    def _borrowed(self, group: TreeBranch) -> list[int]:
        """The drawn ops of a scope that have no scope of their own."""
        return [k for k in group.all_ops() if self.ops.is_shown(k) and self.ops.paths[k] is None]

    def _leave(self, group: TreeBranch, out: set[int]) -> None:
        """Move ops from a group into the branch."""
        moved = out.intersection(group.all_ops())
        for inner in group.walk():
            inner.ops = [k for k in inner.ops if k not in moved]
        self.branch.ops = sorted([*self.branch.ops, *moved])


def _without(group: TreeBranch, borrowed: Iterable[int]) -> TreeBranch:
    away = set(borrowed)
    return TreeBranch(group.key, group.label, group.kind, [k for k in group.all_ops() if k not in away])


def _atoms(branch: TreeBranch, ops: Ops) -> list[Atom]:
    groups = [Atom.of_group(b, ops) for b in branch.branches]
    return groups + [Atom.of_op(k, ops) for k in branch.ops if ops.is_shown(k)]


def _edges(atoms: Sequence[Atom]) -> list[set[int]]:
    """The atoms that each one reads, by position."""
    home = {k: n for n, a in enumerate(atoms) for k in a.members}
    return [{home[o] for o in a.reads if o in home} - {n} for n, a in enumerate(atoms)]


def _cycles(atoms: Sequence[Atom]) -> list[list[Atom]]:
    return [[atoms[n] for n in part] for part in components(_edges(atoms)) if len(part) > 1]


def components(reads: Sequence[set[int]]) -> list[list[int]]:
    """Strongly connected components by Tarjan's algorithm; each after those that it reads."""
    index = [-1] * len(reads)  # in the order of first visits
    low = [0] * len(reads)
    waiting: list[int] = []
    found: list[list[int]] = []
    count = 0
    for start in range(len(reads)):
        if index[start] >= 0:
            continue
        index[start] = low[start] = count
        count += 1
        waiting.append(start)
        path = [(start, iter(reads[start]))]
        while path:
            at, rest = path[-1]
            lowest = low[at]
            for other in rest:
                seen = index[other]
                if seen < 0:
                    index[other] = low[other] = count
                    count += 1
                    waiting.append(other)
                    path.append((other, iter(reads[other])))
                    break
                lowest = min(lowest, seen)  # in a finished component it is _DONE
            else:
                path.pop()
                low[at] = lowest
                if path and lowest < low[path[-1][0]]:
                    low[path[-1][0]] = lowest
                if lowest == index[at]:
                    part = [waiting.pop()]
                    while part[-1] != at:
                        part.append(waiting.pop())
                    for n in part:
                        index[n] = _DONE
                    found.append(part)
                continue
            low[at] = lowest
    return found


def _times_left(reads: Sequence[set[int]], inside: int) -> tuple[list[int], set[int], list[list[int]]]:
    """Count how often a path to each node has left the first `inside` nodes before.

    Also returns those of the first nodes that lie on a cycle with others, and all cycles.
    """
    times = [0] * len(reads)
    mixed: set[int] = set()
    cycles: list[list[int]] = []
    for part in components(reads):
        if len(part) > 1:
            cycles.append(part)
            if any(n >= inside for n in part):
                mixed.update(n for n in part if n < inside)
        is_in = part[0] < inside and part[0] not in mixed
        count = 0
        for n in part:
            for o in reads[n]:
                leaves = o < inside and o not in mixed and not is_in
                count = max(count, times[o] + leaves)
        for n in part:
            times[n] = count
    return times, mixed, cycles

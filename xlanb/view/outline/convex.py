"""Split groups that data leaves and enters again, so that a picture of groups has no cycle.

In `a -> b -> c` with a and c in one group and b in another, each group would read the other. A
group that the outline made is split there: into {a} and {c}. A scope of the program stays whole,
without the ops that only joined it because they have no scope of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xlanb.view.outline.labels import describe
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.repeats import FEWEST, label_of_repeat
from xlanb.view.outline.tree import TreeBranch

_MADE = ("flow", "repeat")
_SMALLEST = 2  # atoms of a group that is left of another


@dataclass(frozen=True, eq=False)
class Atom:
    """What is directly in a group: a drawn op or a group."""

    op: int
    branch: TreeBranch | None

    def members(self, ops: Ops) -> list[int]:
        """The drawn ops in it."""
        return [self.op] if self.branch is None else [k for k in self.branch.all_ops() if ops.is_shown(k)]


def make_convex(root: TreeBranch, ops: Ops) -> None:
    """Split groups until no group lies on a cycle with others in its branch.

    Cycles remain only where the program itself leaves a scope and enters it again.
    """
    for branch in root.walk():  # the children of a branch are walked after they are changed here
        level = _Level(branch, ops) if branch.branches else None
        if level is None or not level.is_cyclic():
            continue
        while (group := level.next_to_split()) is not None:
            level.split(group)
        if level.take_out_crossing():
            while (group := level.next_to_split()) is not None:
                level.split(group)
        level.adopt()


class _Level:
    """The contents of one branch, and the edges between them."""

    def __init__(self, branch: TreeBranch, ops: Ops) -> None:
        self.branch = branch
        self.ops = ops
        self.atoms = _atoms(branch, ops)
        self._kept: set[int] = set()  # groups (ids) with nothing to take out

    def is_cyclic(self) -> bool:
        """Whether there is a cycle."""
        return bool(_cycles(_edges(self.atoms, self.ops)))

    def next_to_split(self) -> TreeBranch | None:
        """A group on a cycle that can be split, those that the outline made before scopes."""
        cyclic = [self.atoms[n].branch for part in _cycles(_edges(self.atoms, self.ops)) for n in part]
        groups = [b for b in cyclic if b is not None and id(b) not in self._kept]
        return min(groups, key=lambda b: (b.kind not in _MADE, len(b.all_ops())), default=None)

    def take_out_crossing(self) -> bool:
        """Move ops without a scope out of scopes that they put on a cycle together.

        Those that read or feed other groups leave; return whether there are any.
        """
        out: set[int] = set()
        for part in _cycles(_edges(self.atoms, self.ops)):
            groups = [b for n in part if (b := self.atoms[n].branch) is not None]
            borrowed = {id(b): self._borrowed(b) for b in groups}
            exploded = [Atom(-1, _without(b, borrowed[id(b)])) for b in groups]
            exploded += [Atom(k, None) for found in borrowed.values() for k in found]
            reads = _edges(exploded, self.ops)
            if any(sum(n < len(groups) for n in cycle) > 1 for cycle in _cycles(reads)):
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
        for part in _cycles(_edges(self.atoms, self.ops)):
            groups = [b for n in part if (b := self.atoms[n].branch) is not None]
            own = sorted(k for n in part if (k := self.atoms[n].op) >= 0 and self.ops.paths[k] is None)
            if len(groups) != 1 or groups[0].kind == "repeat" or not own:
                continue
            homes = {k: b for b in groups[0].walk() for k in b.ops}
            for k in own:
                homes[k] = next((homes[o] for o in self.ops.sources[k] if o in homes), groups[0])
                homes[k].ops.append(k)
            self.branch.ops = [k for k in self.branch.ops if k not in homes]

    def split(self, group: TreeBranch) -> None:
        """Replace a group by groups that no path leaves and enters again."""
        if group.kind in _MADE:
            self._replace(group, self._convex_parts(group))
        elif self._take_out_borrowed(group):
            self._kept.clear()
        else:
            self._kept.add(id(group))

    def _convex_parts(self, group: TreeBranch) -> list[list[Atom]]:
        """The atoms of a group by how often a path to them has left the group before."""
        inside = _atoms(group, self.ops)
        others = [a for a in self.atoms if a.branch is not group]
        edges = _edges([*inside, *others], self.ops)
        times, mixed = _times_left(edges, len(inside))
        parts: dict[int, list[Atom]] = defaultdict(list)
        alone: list[list[Atom]] = []
        for n, atom in enumerate(inside):
            if n in mixed:
                alone.append([atom])
            else:
                parts[times[n]].append(atom)
        found = [parts[key] for key in sorted(parts)] + alone
        return found if len(found) > 1 else [[atom] for atom in inside]

    def _replace(self, group: TreeBranch, parts: Sequence[Sequence[Atom]]) -> None:
        branch = self.branch
        at = branch.branches.index(group)
        hidden = [k for k in group.ops if not self.ops.is_shown(k)]
        made: list[TreeBranch] = []
        for part in parts:
            whole = self._regrouped(group, part)
            if whole is not None:
                made.append(whole)
                continue
            made += [a.branch for a in part if a.branch is not None]
            branch.ops += [a.op for a in part if a.branch is None]
        branch.branches[at : at + 1] = made
        homes = {k: b for b in made for inner in b.walk() for k in inner.ops}
        for k in hidden:
            reader = next((homes[u] for u in self.ops.users[k] if u in homes), branch)
            (branch if reader.kind == "repeat" else reader).ops.append(k)
        branch.ops.sort()
        self.atoms = _atoms(branch, self.ops)
        self._kept.clear()

    def _regrouped(self, group: TreeBranch, part: Sequence[Atom]) -> TreeBranch | None:
        """Make a group of some atoms of a group; None where they are to stand alone."""
        inner = [a.branch for a in part if a.branch is not None]
        own = [a.op for a in part if a.branch is None]
        if group.kind == "repeat":
            enough = len(inner) >= FEWEST
            return TreeBranch(group.key, label_of_repeat(inner), "repeat", branches=inner) if enough else None
        if len(part) < _SMALLEST:
            return None
        members = [k for a in part for k in a.members(self.ops)]
        head = max(members, key=lambda k: (self.ops.heavy[k], self.ops.weights[k], -k))
        label = describe(members, self.ops) if own else f"{inner[0].label} … {inner[-1].label}"
        return TreeBranch(f"{self.branch.key}~{self.ops.names[head]}", label, "flow", own, inner)

    def _take_out_borrowed(self, group: TreeBranch) -> bool:
        """Move ops out of a scope that have none and put it on a cycle; return whether any do."""
        borrowed = self._borrowed(group)
        if not borrowed:
            return False
        rest = [a for a in self.atoms if a.branch is not group]
        atoms = [Atom(k, None) for k in borrowed] + [Atom(-1, _without(group, borrowed)), *rest]
        edges = _edges(atoms, self.ops)
        times, mixed = _times_left(edges, len(borrowed) + 1)
        own = len(borrowed)
        if own in mixed:  # the program itself enters the scope twice
            return False
        out = {k for n, k in enumerate(borrowed) if n in mixed or times[n] != times[own]}
        if not out:
            return False
        self._leave(group, out)
        return True

    def _borrowed(self, group: TreeBranch) -> list[int]:
        """The drawn ops of a scope that have no scope of their own."""
        return [k for k in group.all_ops() if self.ops.is_shown(k) and self.ops.paths[k] is None]

    def _leave(self, group: TreeBranch, out: set[int]) -> None:
        """Move ops from a group into the branch."""
        moved = out.intersection(group.all_ops())
        for inner in group.walk():
            inner.ops = [k for k in inner.ops if k not in moved]
        self.branch.ops = sorted([*self.branch.ops, *moved])
        self.atoms = _atoms(self.branch, self.ops)


def _without(group: TreeBranch, borrowed: Iterable[int]) -> TreeBranch:
    away = set(borrowed)
    return TreeBranch(group.key, group.label, group.kind, [k for k in group.all_ops() if k not in away])


def _atoms(branch: TreeBranch, ops: Ops) -> list[Atom]:
    return [Atom(-1, b) for b in branch.branches] + [Atom(k, None) for k in branch.ops if ops.is_shown(k)]


def _edges(atoms: Sequence[Atom], ops: Ops) -> list[set[int]]:
    """The atoms that each one reads, by position."""
    members = [a.members(ops) for a in atoms]
    home = {k: n for n, inside in enumerate(members) for k in inside}
    sources = ops.sources
    return [{home[o] for k in inside for o in sources[k] if o in home} - {n} for n, inside in enumerate(members)]


def _cycles(reads: Sequence[set[int]]) -> list[list[int]]:
    return [part for part in components(reads) if len(part) > 1]


def components(reads: Sequence[set[int]]) -> list[list[int]]:
    """Strongly connected components by Tarjan's algorithm; each after those that it reads."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    waiting: list[int] = []
    done: set[int] = set()
    found: list[list[int]] = []
    for start in range(len(reads)):
        if start in index:
            continue
        index[start] = low[start] = len(index)
        waiting.append(start)
        path = [(start, iter(reads[start]))]
        while path:
            at, rest = path[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    waiting.append(other)
                    path.append((other, iter(reads[other])))
                    break
                if other not in done:
                    low[at] = min(low[at], index[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[at])
                if low[at] == index[at]:
                    part = [waiting.pop()]
                    while part[-1] != at:
                        part.append(waiting.pop())
                    done.update(part)
                    found.append(part)
    return found


def _times_left(reads: Sequence[set[int]], inside: int) -> tuple[list[int], set[int]]:
    """Count how often a path to each node has left the first `inside` nodes before.

    Also returns those of the first nodes that lie on a cycle with others.
    """
    times = [0] * len(reads)
    mixed: set[int] = set()
    for part in components(reads):
        if len(part) > 1 and any(n >= inside for n in part):
            mixed.update(n for n in part if n < inside)
        is_in = part[0] < inside and part[0] not in mixed
        count = 0
        for n in part:
            for o in reads[n]:
                leaves = o < inside and o not in mixed and not is_in
                count = max(count, times[o] + leaves)
        for n in part:
            times[n] = count
    return times, mixed

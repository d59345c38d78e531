"""Choose the groups that are open in a program's first picture: a readable number of the
heaviest.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from xlanb.view.outline.ops import INPUT, RESULT
from xlanb.view.outline.program import Part, ProgramOutline

MOST = 30
"""Nodes of the first picture."""
_FEWEST, _LIMIT = 6, 80
_KEEP = 56  # nodes up to which open groups stay open
_PORTS = 8
_DEPTH = 12
_FUSION = 0.2  # a fusion is opened after scopes of so much of its weight,
_DEEPER = 0.25  # and a group after those around it, and beside them, of so much


@dataclass(frozen=True)
class Opening:
    """Keys of the open groups, the most useful first, and of all that were considered.

    Groups that are new in a later stage may still be opened there.
    """

    open: tuple[str, ...]
    known: frozenset[str] = field(default=frozenset())


@dataclass(frozen=True)
class Spot:
    """A place in a program: a group (-1: all) of a part, with the prefix of the keys in it."""

    part: Part
    group: int
    prefix: str


@dataclass(frozen=True)
class _Openable:
    """A box to open: its key, the number of nodes when open, and their positions."""

    key: str
    nodes: int
    spots: tuple[Spot, ...]
    depth: int


def called_roles(word: str, count: int) -> Sequence[str]:
    """Return the roles of an op's computations: of a loop body and condition, else their
    numbers.
    """
    return ("body", "condition") if word == "while" and count == 2 else tuple(map(str, range(count)))


def group_key(prefix: str, key: str) -> str:
    """Return a group's key among a picture's nodes and groups; `prefix` is that of its caller."""
    return f"{prefix}@{key}"


def default_opening(
    program: ProgramOutline, previous: Opening | None = None, most: int = MOST, keys: Mapping[str, str] | None = None
) -> Opening:
    """Return the groups to open, for about `most` nodes.

    Groups that were open in the previous stage stay open while the picture remains readable. `keys`
    are those of the callers whose key is not their name (see `CallerKeys`).
    """
    insides = Insides(program, keys)
    if previous is not None:
        total, kept = _Opener(insides, previous, most).run()
        if total >= min(_FEWEST, most):
            return kept
    return _Opener(insides, None, most).run()[1]


class Insides:
    """The content of a program's groups."""

    def __init__(self, program: ProgramOutline, keys: Mapping[str, str] | None = None) -> None:
        self.program = program
        self._keys = keys or {}

    def key(self, spot: Spot, k: int) -> str:
        """The key of an op among all nodes and groups of a picture."""
        name = spot.part.ops.names[k]
        return f"{spot.prefix}{self._keys.get(name, name)}"

    def of(self, spot: Spot) -> tuple[list[int], list[int]]:
        """Return groups and ops drawn in an open group; for a repeat, those of its first
        instance.
        """
        part, group = spot.part, spot.group
        children = part.contents.children
        while group >= 0 and part.outline.groups[group].kind == "repeat" and children[group]:
            group = children[group][0]
        return children[group], part.contents.ops[group]

    def weight(self, part: Part, group: int) -> float:
        """Return the cost of the ops in a group."""
        return part.contents.weights[group]

    def count(self, part: Part, group: int) -> int:
        """Return the number of ops in a group."""
        return self.program.ops_in_group(part, group)

    def instances(self, part: Part, group: int) -> int:
        """Return the number of instances of a repeat; 0 for other groups."""
        return len(part.contents.children[group]) if part.outline.groups[group].kind == "repeat" else 0

    def callees(self, part: Part, k: int, key: str) -> tuple[Spot, ...]:
        """The computations that are drawn in the place of an op."""
        called = part.calls.get(k, ())
        parts = self.program.parts
        roles = called_roles(part.ops.words[k], len(called))
        return tuple(
            Spot(parts[name], -1, f"{key}/{role}/" if len(called) > 1 else f"{key}/")
            for role, name in zip(roles, called, strict=True)
            if name in parts
        )


class _Opener:
    """Opens the groups of a program one by one."""

    def __init__(self, insides: Insides, previous: Opening | None, most: int) -> None:
        self._program = insides.program
        self._most = most
        self._insides = insides
        self._known = previous.known if previous else frozenset()
        self._was_open = frozenset(previous.open) if previous else frozenset()
        self._waiting: list[tuple[float, int, _Openable]] = []
        self._count = 0

    def run(self) -> tuple[int, Opening]:
        """Return the final number of nodes, and the open groups."""
        start = self._program.parts.get(self._program.entry)
        if start is None:
            return 0, Opening(())
        opened: list[str] = []
        known = set(self._known)
        late: list[_Openable] = []
        total = min(start.ops.roles.count(INPUT), _PORTS) + (RESULT in start.ops.roles)
        total += self._enter(Spot(start, -1, ""), 0)
        while self._waiting:
            _, _, box = heapq.heappop(self._waiting)
            is_new = box.key not in self._known
            known.add(box.key)
            grown = total - 1 + box.nodes
            if grown <= (max(_KEEP, self._most) if box.key in self._was_open else self._most if is_new else 0):
                opened.append(box.key)
                total = grown
                for spot in box.spots:
                    self._enter(spot, box.depth)
            elif is_new:
                late.append(box)
        for box in late:
            if total < min(_FEWEST, self._most) and total - 1 + box.nodes <= _LIMIT:
                opened.append(box.key)
                total += box.nodes - 1
        return total, Opening(tuple(opened), frozenset(known))

    def _enter(self, spot: Spot, depth: int) -> int:
        """Queue the boxes in a group; return the number of its nodes."""
        part, prefix = spot.part, spot.prefix
        groups, own = self._insides.of(spot)
        for g in groups:
            inner = Spot(part, g, prefix)
            times = max(1, self._insides.instances(part, g))  # a repeat counts as one instance
            weight = self._insides.weight(part, g) / times
            self._push(group_key(prefix, part.outline.groups[g].key), (inner,), weight, depth)
        for k in own:
            key = self._insides.key(spot, k)
            spots = self._insides.callees(part, k, key) if depth < _DEPTH else ()
            if spots:
                share = _FUSION if part.ops.words[k] == "fusion" else 1.0
                self._push(key, spots, part.ops.weights[k] * share, depth)
        return len(groups) + len(own)

    def _push(self, key: str, spots: tuple[Spot, ...], weight: float, depth: int) -> None:
        if not weight:  # what runs once, before the program
            return
        nodes = sum(len(groups) + len(own) for groups, own in map(self._insides.of, spots))
        self._count += 1
        worth = weight * _DEEPER**depth / max(2, nodes) ** 0.5
        heapq.heappush(self._waiting, (-worth, self._count, _Openable(key, nodes, spots, depth + 1)))

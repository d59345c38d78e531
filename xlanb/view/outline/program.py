"""Program outlines: the tree of groups of each computation, and the computations that ops call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from xlanb.view.outline.cutting import CutOutline
from xlanb.view.outline.grouping import outline_of
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import Contents, Outline


@dataclass(frozen=True, eq=False)
class Part:
    """One computation or function body.

    By position: `calls` are the computations that an op calls and that can be drawn in its place,
    `costs` its floating-point operations and bytes, `sizes` the bytes of its result, `trips` the
    trip count of a loop's body.
    """

    name: str
    ops: Ops
    calls: Mapping[int, Sequence[str]]
    costs: Sequence[tuple[float, float]]
    sizes: Sequence[int]
    trips: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def outline(self) -> Outline:
        """Its tree of groups."""
        return outline_of(self.ops)

    @cached_property
    def contents(self) -> Contents:
        """The members of each group."""
        return Contents.of(self.outline, self.ops)

    def cut(self, first: int) -> CutOutline:
        """Its tree of groups where only the ops from `first` on are on a page."""
        known = self._cuts.get(first)
        if known is None:
            known = self._cuts[first] = CutOutline(self.ops, self.outline.groups, self.outline.member, first)
        return known

    @cached_property
    def _cuts(self) -> dict[int, CutOutline]:
        return {}


@dataclass(frozen=True, eq=False)
class ProgramOutline:
    """The drawable parts of a program, by name; `entry` is drawn first."""

    entry: str
    parts: Mapping[str, Part]
    _sizes: dict[str, int] = field(default_factory=dict, repr=False)

    def ops_of(self, part: Part, k: int) -> int:
        """Return how many ops one op counts as: for a call, those called; 0 if it is not drawn as a
        node.
        """
        if not part.ops.is_shown(k):
            return 0
        called = [c for c in part.calls.get(k, ()) if c in self.parts and c != part.name]
        return max(1, sum(map(self.ops_in, called)))

    def ops_in(self, name: str) -> int:
        """Return the number of ops in a computation, called ones included."""
        if name not in self._sizes:
            self._sizes[name] = 0  # a function may call itself
            part = self.parts[name]
            self._sizes[name] = sum(self.ops_of(part, k) for k in range(len(part.ops)))
        return self._sizes[name]

    def ops_in_group(self, part: Part, group: int) -> int:
        """Return the number of ops in a group; for a repeat, those of all instances."""
        inside = sum(self.ops_of(part, k) for k in part.contents.ops[group])
        return inside + sum(self.ops_in_group(part, g) for g in part.contents.children[group])

"""Programs in outline: the tree of groups of each computation, and which op calls which computation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xlanb.view.outline.grouping import outline_of
from xlanb.view.outline.ops import Ops
from xlanb.view.outline.tree import Contents, Outline


@dataclass(frozen=True, eq=False)
class Part:
    """One computation or function body.

    By position: `calls` the computations that an op calls and that can be drawn in its place, `costs` its
    floating-point operations and bytes, `sizes` the bytes of its result.
    """

    name: str
    ops: Ops
    calls: Mapping[int, Sequence[str]]
    costs: Sequence[tuple[float, float]]
    sizes: Sequence[int]

    @cached_property
    def outline(self) -> Outline:
        """Its tree of groups."""
        return outline_of(self.ops)

    @cached_property
    def contents(self) -> Contents:
        """What lies in which group."""
        return Contents.of(self.outline, self.ops)


@dataclass(frozen=True, eq=False)
class Program:
    """The parts of a program that can be drawn, by name; `entry` is what is drawn first."""

    entry: str
    parts: Mapping[str, Part]

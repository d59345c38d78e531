"""A program's first picture as a drawing, for files and for pages without scripts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlanb.view.drawing import Drawing, DrawnGroup, Node, draw
from xlanb.view.outline.opening import MOST, Insides, Spot, default_opening, group_key
from xlanb.view.outline.ops import INPUT, RESULT
from xlanb.view.outline.program import Part, ProgramOutline

_LETTER, _HEIGHT = 7.4, 42.0
_PORTS = 8
_PARAMETERS = "@parameters"


@dataclass(frozen=True)
class OutlineDrawing:
    """The default view, placed; `titles` are the two lines of each node by key."""

    drawing: Drawing
    titles: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def outline_drawing(program: ProgramOutline, most: int = MOST) -> OutlineDrawing:
    """A program with the groups open that are open at first; at most about `most` nodes."""
    maker = _PictureBuilder(program, frozenset(default_opening(program, most=most).open))
    start = program.parts.get(program.entry)
    if start is not None:
        maker.add(Spot(start, -1, ""), "")
        maker.connect(start, "")
        maker.connect_parameters()
    nodes = [Node(k, _width(t), _HEIGHT, g) for k, (t, g) in maker.nodes.items()]
    drawing = draw(nodes, maker.edges, maker.groups)
    return OutlineDrawing(drawing, {k: t for k, (t, _) in maker.nodes.items()})


def _width(title: tuple[str, str]) -> float:
    return max(64.0, min(260.0, _LETTER * max(map(len, title)) + 26))


class _PictureBuilder:
    """Collect the nodes, groups and edges. A closed group or call is one node, with its own key."""

    def __init__(self, program: ProgramOutline, opened: frozenset[str]) -> None:
        self._insides = Insides(program)
        self._opened = opened
        self.nodes: dict[str, tuple[tuple[str, str], str]] = {}
        self.groups: list[DrawnGroup] = []
        self.edges: dict[tuple[str, str], None] = {}
        self._inner: dict[str, list[Spot]] = {}
        self._fed: set[str] = set()

    def add(self, spot: Spot, box: str) -> None:
        """The nodes and boxes of an open group, in a box."""
        part, prefix = spot.part, spot.prefix
        groups, own = self._insides.of(spot)
        for g in groups:
            group = part.outline.groups[g]
            key = group_key(prefix, group.key)
            times = self._insides.instances(part, g)
            label = f"{group.label} x{times}" if times else group.label
            if key in self._opened:
                self.groups.append(DrawnGroup(key, label, group.kind, box))
                self.add(Spot(part, g, prefix), key)
            else:
                self.nodes[key] = (label, f"{self._insides.count(part, g):,} ops"), box
        for k in own:
            self._op(part, k, prefix, box)
        if spot.group < 0 and not prefix:
            self._rim(part)

    def _op(self, part: Part, k: int, prefix: str, box: str) -> None:
        key = prefix + part.ops.names[k]
        spots = self._insides.callees(part, k, key) if key in self._opened else ()
        if not spots:
            self.nodes[key] = (part.ops.words[k], part.ops.tokens[k].removeprefix(part.ops.words[k]).strip()), box
            return
        kind = "fusion" if part.ops.words[k] == "fusion" else "call"
        self.groups.append(DrawnGroup(key, part.ops.names[k], kind, box))
        for spot in spots:
            inner = key
            if len(spots) > 1:
                inner = spot.prefix.removesuffix("/")
                role = inner.rpartition("/")[2]
                label = f"branch {role}" if role.isdecimal() else role
                self.groups.append(DrawnGroup(inner, label, "computation", key))
            self.add(spot, inner)
        self._inner[key] = list(spots)

    def _rim(self, part: Part) -> None:
        inputs = [k for k, role in enumerate(part.ops.roles) if role == INPUT]
        for k in inputs if len(inputs) <= _PORTS else ():
            self.nodes[part.ops.names[k]] = (part.ops.names[k], part.ops.tokens[k].partition(" ")[2]), ""
        if len(inputs) > _PORTS:
            self.nodes[_PARAMETERS] = (f"{len(inputs)} parameters", ""), ""
        for k, role in enumerate(part.ops.roles):
            if role == RESULT:
                self.nodes[part.ops.names[k]] = ("result", ""), ""

    def connect(self, part: Part, prefix: str) -> None:
        """Connect the representatives of a part's ops; for open calls, the ends inside them."""
        closed = self._closed(part, prefix)
        members = zip(part.outline.member, part.ops.names, strict=True)
        found = (closed[group] or prefix + name for group, name in members)
        keys = [key if key in self.nodes or key in self._inner else "" for key in found]
        for key, reads, inputs in zip(keys, part.ops.sources, part.ops.inputs, strict=True):
            if not key:
                continue
            if not prefix and inputs:
                self._fed.add(self._ends(key, last=False))
            for spot in self._inner.get(key, ()):
                self.connect(spot.part, spot.prefix)
            for o in (*reads, *inputs):
                if keys[o] not in ("", key):
                    self._edge(self._ends(keys[o], last=True), self._ends(key, last=False))

    def connect_parameters(self) -> None:
        """Connect the node of all parameters to the first node that reads one: it is their place.

        Edges to all of their users would cover the picture.
        """
        first = next((key for key in self.nodes if key in self._fed), "")
        if first:
            self._edge(_PARAMETERS, first)

    def _closed(self, part: Part, prefix: str) -> list[str]:
        """Return each group's outermost closed group ("" if none); the last entry is for -1."""
        closed = [""] * (len(part.outline.groups) + 1)
        for number, group in enumerate(part.outline.groups):
            key = group_key(prefix, group.key)
            closed[number] = closed[group.parent] or (key if key in self.nodes else "")
        return closed

    def _ends(self, key: str, *, last: bool) -> str:
        """A node to draw an edge to: of an open call the last or the first in it."""
        while key in self._inner:
            inner = [k for k in self.nodes if k.startswith(f"{key}/")]
            key = inner[-1 if last else 0] if inner else ""
        return key

    def _edge(self, a: str, b: str) -> None:
        if a != b and a in self.nodes and b in self.nodes:
            self.edges[a, b] = None

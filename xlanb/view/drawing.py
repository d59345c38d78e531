"""Drawings: graphs with nested boxes, placed.

They are for static pictures (SVG, dot without Graphviz); a page places its graph itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xlanb.view.layout import Placement, Point, layout, straight

_PAD = 14.0
_HEAD = 24.0
_IN, _OUT = ">", "<"  # begin the keys of ports
_PORTS = frozenset((_IN, _OUT))


@dataclass(frozen=True, slots=True)
class Node:
    """One node to draw: its key, size in pixels, and its group's key ("" for none)."""

    key: str
    width: float
    height: float
    group: str = ""


@dataclass(frozen=True, slots=True)
class DrawnGroup:
    """A labelled box around nodes and groups.

    `kind` is "fusion", "call", "cluster", "computation" or "scope".
    """

    key: str
    label: str
    kind: str
    parent: str = ""


@dataclass(frozen=True)
class Drawing:
    """A graph with coordinates: left, top, width, height per node and group; points per edge."""

    nodes: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    groups: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    labels: Mapping[str, DrawnGroup] = field(default_factory=dict)
    edges: Mapping[tuple[str, str], tuple[Point, ...]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def draw(
    nodes: Sequence[Node],
    edges: Iterable[tuple[str, str]],
    groups: Sequence[DrawnGroup] = (),
) -> Drawing:
    """Lay out each group by itself, innermost first, then groups as nodes of their parent."""
    # A name may be any text: marked as node or group, it is neither a port nor the sheet itself.
    inner_nodes = [Node(f"n{n.key}", n.width, n.height, f"g{n.group}") for n in nodes]
    inner_groups = [DrawnGroup(f"g{g.key}", g.label, g.kind, f"g{g.parent}") for g in groups]
    scene = _Scene(inner_nodes, inner_groups, [(f"n{a}", f"n{b}") for a, b in dict.fromkeys(edges)])
    scene.place("")
    scene.spread("", 0.0, 0.0)
    top = scene.placements[""]
    return Drawing(
        {k[1:]: box for k, box in scene.node_boxes.items()},
        {k[1:]: box for k, box in scene.group_boxes.items()},
        {g.key: g for g in groups},
        {(a[1:], b[1:]): route for (a, b), route in scene.routes().items()},
        top.width,
        top.height,
    )


class _Scene:
    def __init__(self, nodes: Sequence[Node], groups: Sequence[DrawnGroup], edges: list[tuple[str, str]]) -> None:
        known = {g.key for g in groups}
        self.parent = {g.key: g.parent if g.parent in known else "" for g in groups}
        self.node = {n.key: n for n in nodes}
        self.children: dict[str, list[str]] = {"": []}
        for g in groups:
            self.children.setdefault(g.key, [])
            self.children.setdefault(self.parent[g.key], []).append(g.key)
        for n in nodes:
            self.parent[n.key] = n.group if n.group in known else ""
            self.children[self.parent[n.key]].append(n.key)
        self.edges = [(a, b) for a, b in edges if a in self.node and b in self.node]
        self.placements: dict[str, Placement] = {}
        self.node_boxes: dict[str, tuple[float, float, float, float]] = {}
        self.group_boxes: dict[str, tuple[float, float, float, float]] = {}
        self._lifted: dict[str, list[tuple[str, str]]] = {}
        self._ports: dict[str, dict[str, None]] = {}
        for a, b in self.edges:
            for group, x, y in self._pieces(a, b):
                self._lifted.setdefault(group, []).append((x, y))
                for end in (x, y):
                    if end[0] in _PORTS:
                        self._ports.setdefault(group, {})[end] = None

    def _chain(self, key: str) -> list[str]:
        chain = [key]
        while chain[-1]:
            chain.append(self.parent[chain[-1]])
        return chain

    def _pieces(self, a: str, b: str) -> list[tuple[str, str, str]]:
        """Return the parts of an edge from `a` to `b`, one per group on the way: (group, from, to).

        It leaves a group by a port at the bottom and enters one by a port at the top; edges of one
        source share them.
        """
        up, down = self._chain(a), self._chain(b)
        above = set(up[1:])
        meet = next(i for i, g in enumerate(down) if i > 0 and g in above)
        level = up.index(down[meet], 1)
        pieces = [(up[i], up[i - 1], f"{_OUT}{a}") for i in range(1, level)]
        pieces.append((up[level], up[level - 1], down[meet - 1]))
        pieces.extend((down[i], f"{_IN}{a}", down[i - 1]) for i in range(meet - 1, 0, -1))
        return pieces

    def place(self, group: str) -> tuple[float, float]:
        """Lay out a group; its size, frame included."""
        sizes: dict[str, tuple[float, float]] = {}
        for child in self.children[group]:
            node = self.node.get(child)
            sizes[child] = (node.width, node.height) if node else self.place(child)
        ports = self._ports.get(group, {})
        sizes.update(dict.fromkeys(ports, (6.0, 0.0)))
        first = frozenset(p for p in ports if p.startswith(_IN))
        last = frozenset(p for p in ports if p.startswith(_OUT))
        placement = layout(sizes, self._lifted.get(group, ()), first=first, last=last)
        self.placements[group] = placement
        return placement.width + 2 * _PAD, placement.height + _PAD + _HEAD + 4

    def spread(self, group: str, left: float, top: float) -> None:
        """Turn positions within groups into positions on the sheet."""
        for child, (x, y, w, h) in self.placements[group].boxes.items():
            box = (left + x, top + y, w, h)
            if child[0] in _PORTS:
                continue
            if child in self.node:
                self.node_boxes[child] = box
            else:
                self.group_boxes[child] = box
                self.spread(child, box[0] + _PAD, box[1] + _HEAD + 2)

    def routes(self) -> dict[tuple[str, str], tuple[Point, ...]]:
        """The points of every edge on the sheet."""
        routes: dict[tuple[str, str], tuple[Point, ...]] = {}
        for a, b in self.edges:
            middle: list[Point] = []
            pieces = self._pieces(a, b)
            for k, (group, x, y) in enumerate(pieces):
                dx, dy = self._origin(group)
                inner = self.placements[group].routes.get((x, y), ())
                # where one piece ends another begins: of the two points the one at the port stays
                points = inner[
                    0 if k and x.startswith(_IN) else 1 : None if k < len(pieces) - 1 and y.startswith(_OUT) else -1
                ]
                middle.extend((px + dx, py + dy) for px, py in points)
            routes[a, b] = straight(self.node_boxes[a], self.node_boxes[b], middle)
        return routes

    def _origin(self, group: str) -> tuple[float, float]:
        if not group:
            return 0.0, 0.0
        x, y, _, _ = self.group_boxes[group]
        return x + _PAD, y + _HEAD + 2

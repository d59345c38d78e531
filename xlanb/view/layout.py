"""A layered layout of directed graphs, in the manner of Sugiyama, Tagawa and Toda (1981).

    cycles broken -> longest-path ranks -> dummy nodes on long edges -> barycentre sweeps -> coordinates

Given where nodes stood before, a node that survives stays where it was unless an edge would point upwards; new nodes take the free place nearest
to their neighbours. The result depends on nothing but the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from xlanb.view.layout_ranks import Ranked
from xlanb.view.layout_steps import assign_x, count_crossings, order_by_barycentre, straighten

Point = tuple[float, float]
Edge = tuple[str, str]

_GAP_X = 22.0
_GAP_Y = 38.0
_GAP_EDGES = 9.0  # between a long edge and what it passes
_GAP_PORT = 16.0  # below the points where edges enter a box
_DUMMY_WIDTH = 6.0
_MAX_SPAN = 60  # an edge over more ranks than this is drawn straight
_COUNTED_EDGES = 2500  # beyond this, counting crossings costs more than it gives
_PATIENCE = 4  # sweeps without fewer crossings, after which more of them hardly ever find any


@dataclass(frozen=True, slots=True)
class Measure:
    """What tells a drawing from a tangle: its area and the length of all edges in pixels, and how many nodes and edges that is for."""

    area: float
    length: float
    nodes: int
    edges: int

    def holds(self, other: Measure) -> bool:
        """Whether another drawing is about as dense as this one: then there is no need to draw it afresh to know."""
        more_nodes = max(1.0, other.nodes / max(self.nodes, 1))
        more_edges = max(1.0, other.edges / max(self.edges, 1))
        return (
            other.nodes * 4 > self.nodes * 3
            and other.area <= 1.4 * more_nodes * self.area
            and other.length <= 1.25 * more_edges * self.length + 200
        )


@dataclass(frozen=True)
class Placement:
    """Where everything stands, in pixels, y downwards.

    `boxes` gives (left, top, width, height) by node; `routes` the points of each edge, from the bottom of its source to the top of its target;
    `afresh` what the drawing measured when all was last placed afresh.
    """

    boxes: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    routes: Mapping[Edge, tuple[Point, ...]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0
    afresh: Measure | None = field(default=None, compare=False)

    @property
    def measure(self) -> Measure:
        """Its area, and how long its edges are."""
        length = sum(abs(r[-1][0] - r[0][0]) + abs(r[-1][1] - r[0][1]) for r in self.routes.values())
        return Measure(self.width * self.height, length, len(self.boxes), len(self.routes))


def layout(
    sizes: Mapping[str, tuple[float, float]],
    edges: Iterable[Edge],
    previous: Placement | None = None,
    *,
    first: frozenset[str] = frozenset(),
    last: frozenset[str] = frozenset(),
) -> Placement:
    """Place nodes of the given (width, height) so that edges run downwards.

    Edges whose ends are not both in `sizes`, and edges from a node to itself, are left out. With `previous`, survivors keep their place where they can;
    where too little survives, or the drawing would grow far beyond a fresh one, everything is placed afresh. Nodes in `first` stand above
    all others, those in `last` below: there edges enter and leave a box.
    """
    wanted = list(dict.fromkeys((a, b) for a, b in edges if a != b and a in sizes and b in sizes))
    if (
        previous is not None
        and previous.routes.keys() == set(wanted)
        and {n: b[2:] for n, b in previous.boxes.items()} == sizes
    ):
        return previous
    names = list(sizes)
    graph = Ranked(names, wanted, first, last)
    surviving = 0 if previous is None else sum(n in previous.boxes for n in names)
    if previous is None or not previous.boxes or surviving * 5 < len(names) * 2:
        return _fresh(graph, sizes, wanted)
    anchored = _anchored(graph, sizes, wanted, previous)
    now = anchored.measure
    if previous.afresh is not None and previous.afresh.holds(now):
        return replace(anchored, afresh=previous.afresh)
    fresh = _fresh(graph, sizes, wanted)
    best = fresh.measure
    tangled = now.area > 2.5 * max(best.area, 1.0) or now.length > 1.7 * best.length + 400
    return fresh if tangled else replace(anchored, afresh=best)


# -- afresh -----------------------------------------------------------------------------------------------------


def _fresh(graph: Ranked, sizes: Mapping[str, tuple[float, float]], edges: Sequence[Edge]) -> Placement:
    lonely = [v for v in range(len(graph.names)) if not graph.above[v] and not graph.below[v]]
    skipped = set(lonely)
    layers, chains, up, down = _layers(graph, skipped)
    layers = _best_order(layers, up, down)
    widths = [sizes[n][0] for n in graph.names] + [_DUMMY_WIDTH] * (len(up) - len(graph.names))
    x = assign_x(layers, up, down, widths, _GAP_X)
    for _ in range(2 if len(x) < 5000 else 1):
        straighten([[d for d, _ in chain] for chain in chains.values()], layers, x, widths, _GAP_EDGES)
    top, heights = _rank_tops(graph, sizes, layers)
    boxes: dict[str, tuple[float, float, float, float]] = {}
    for k, layer in enumerate(layers):
        for v in layer:
            if v < len(graph.names):
                w, h = sizes[graph.names[v]]
                boxes[graph.names[v]] = (x[v] - w / 2, top[k] + (heights[k] - h) / 2, w, h)
    _grid(boxes, [graph.names[v] for v in lonely], sizes)
    routes = _routes(graph, edges, chains, boxes, x, top, heights)
    placed = _normal(boxes, routes)
    return replace(placed, afresh=placed.measure)


def _layers(
    graph: Ranked, skipped: set[int]
) -> tuple[list[list[int]], dict[int, list[tuple[int, int]]], list[list[int]], list[list[int]]]:
    """Nodes and dummies by rank; `chains` gives the (dummy, rank)s of an edge by its number."""
    n = len(graph.names)
    used = sorted({graph.rank[v] for v in range(n) if v not in skipped})
    dense = {r: i for i, r in enumerate(used)}
    layers: list[list[int]] = [[] for _ in used]
    for v in _walk_order(graph):
        if v not in skipped:
            layers[dense[graph.rank[v]]].append(v)
    up: list[list[int]] = [[] for _ in range(n)]
    down: list[list[int]] = [[] for _ in range(n)]
    chains: dict[int, list[tuple[int, int]]] = {}
    budget = 3 * n + 300
    span = [dense[graph.rank[b]] - dense[graph.rank[a]] for a, b in graph.pairs]
    for e in sorted(range(len(span)), key=span.__getitem__):
        a, b = graph.pairs[e]
        if span[e] - 1 > budget or span[e] > _MAX_SPAN:
            continue
        last = a
        for k in range(dense[graph.rank[a]] + 1, dense[graph.rank[b]]):
            d = len(up)
            up.append([last])
            down.append([])
            down[last].append(d)
            layers[k].append(d)
            chains.setdefault(e, []).append((d, k))
            last = d
            budget -= 1
        down[last].append(b)
        up[b].append(last)
    return layers, chains, up, down


def _walk_order(graph: Ranked) -> list[int]:
    """A depth-first order from the sinks upwards: neighbours start near each other."""
    seen = bytearray(len(graph.names))
    order: list[int] = []
    for sink in range(len(graph.names)):
        if graph.below[sink] or seen[sink]:
            continue
        stack = [sink]
        while stack:
            v = stack.pop()
            if seen[v]:
                continue
            seen[v] = 1
            order.append(v)
            stack.extend(reversed(graph.above[v]))
    return order


def _best_order(layers: list[list[int]], up: list[list[int]], down: list[list[int]]) -> list[list[int]]:
    edges = sum(map(len, down))
    if edges > _COUNTED_EDGES:
        for sweep in range(4):
            layers = order_by_barycentre(layers, up if sweep % 2 == 0 else down, downwards=sweep % 2 == 0)
        return layers
    best, fewest = layers, count_crossings(layers, down)
    found = 0
    for sweep in range(14):
        if not fewest or sweep - found > _PATIENCE:
            break
        layers = order_by_barycentre(layers, up if sweep % 2 == 0 else down, downwards=sweep % 2 == 0)
        crossings = count_crossings(layers, down)
        if crossings < fewest:
            best, fewest, found = layers, crossings, sweep
    return best


def _rank_tops(
    graph: Ranked, sizes: Mapping[str, tuple[float, float]], layers: list[list[int]]
) -> tuple[list[float], list[float]]:
    tops: list[float] = []
    heights: list[float] = []
    y = 0.0
    for layer in layers:
        h = max((sizes[graph.names[v]][1] for v in layer if v < len(graph.names)), default=0.0)
        tops.append(y)
        heights.append(h)
        y += _step(h)
    return tops, heights


def _step(height: float) -> float:
    """From the top of a rank to the next one."""
    return height + (_GAP_Y if height else _GAP_PORT)


def _grid(
    boxes: dict[str, tuple[float, float, float, float]],
    lonely: list[str],
    sizes: Mapping[str, tuple[float, float]],
) -> None:
    """Nodes without any edge, in rows under the rest."""
    if not lonely:
        return
    left = min((b[0] for b in boxes.values()), default=0.0)
    width = max((b[0] + b[2] for b in boxes.values()), default=0.0) - left
    area = sum(sizes[n][0] * sizes[n][1] for n in lonely)
    width = max(width, 2 * math.sqrt(area))
    x, y = left, max((b[1] + b[3] for b in boxes.values()), default=-_GAP_Y) + _GAP_Y
    row = 0.0
    for n in lonely:
        w, h = sizes[n]
        if x > left and x + w > left + width:
            x, y, row = left, y + row + _GAP_X, 0.0
        boxes[n] = (x, y, w, h)
        x += w + _GAP_X
        row = max(row, h)


def _routes(
    graph: Ranked,
    edges: Sequence[Edge],
    chains: Mapping[int, list[tuple[int, int]]],
    boxes: Mapping[str, tuple[float, float, float, float]],
    x: Sequence[float],
    top: Sequence[float],
    heights: Sequence[float],
) -> dict[Edge, tuple[Point, ...]]:
    routes: dict[Edge, tuple[Point, ...]] = {}
    for e, (a, b) in enumerate(edges):
        middle: list[Point] = []
        for d, k in chains.get(e, ()):
            middle += [(x[d], top[k]), (x[d], top[k] + heights[k])]
        if graph.flipped[e]:
            middle.reverse()
        routes[a, b] = straight(boxes[a], boxes[b], middle)
    return routes


def straight(
    a: tuple[float, float, float, float],
    b: tuple[float, float, float, float],
    middle: Sequence[Point] = (),
) -> tuple[Point, ...]:
    """Points of an edge from the bottom of box `a` to the top of box `b`, by way of `middle`."""
    return ((a[0] + a[2] / 2, a[1] + a[3]), *middle, (b[0] + b[2] / 2, b[1]))


def _normal(
    boxes: Mapping[str, tuple[float, float, float, float]], routes: Mapping[Edge, tuple[Point, ...]]
) -> Placement:
    """Everything moved to start at (0, 0)."""
    points = [p for r in routes.values() for p in r]
    left = min([b[0] for b in boxes.values()] + [p[0] for p in points], default=0.0)
    upper = min((b[1] for b in boxes.values()), default=0.0)
    moved = {n: (b[0] - left, b[1] - upper, b[2], b[3]) for n, b in boxes.items()}
    shifted = {e: tuple((px - left, py - upper) for px, py in r) for e, r in routes.items()}
    return _measured(moved, shifted)


def _measured(
    boxes: Mapping[str, tuple[float, float, float, float]], routes: Mapping[Edge, tuple[Point, ...]]
) -> Placement:
    width = max(
        [b[0] + b[2] for b in boxes.values()] + [p[0] for r in routes.values() for p in r],
        default=0.0,
    )
    height = max((b[1] + b[3] for b in boxes.values()), default=0.0)
    return Placement(boxes, routes, width, height)


# -- where things stood -----------------------------------------------------------------------------------------


def _anchored(
    graph: Ranked,
    sizes: Mapping[str, tuple[float, float]],
    edges: Sequence[Edge],
    previous: Placement,
) -> Placement:
    y = _anchored_y(graph, sizes, previous)
    boxes: dict[str, tuple[float, float, float, float]] = {}
    room = _Room()
    movable: list[int] = []
    for v in graph.order:
        name = graph.names[v]
        old = previous.boxes.get(name)
        w, h = sizes[name]
        if old is None or old[1] != y[v] or abs(old[2] - w) > 1:
            movable.append(v)
            continue
        boxes[name] = (old[0], y[v], w, h)
        room.take(boxes[name])
    for v in movable:
        name = graph.names[v]
        w, h = sizes[name]
        boxes[name] = (room.nearest(_wish(graph, v, boxes, previous, w), y[v], w, h), y[v], w, h)
        room.take(boxes[name])
    routes = {}
    for a, b in edges:
        old_route = previous.routes.get((a, b))
        still = old_route is not None and boxes[a] == previous.boxes.get(a) and boxes[b] == previous.boxes.get(b)
        routes[a, b] = old_route if still and old_route is not None else _around(a, b, boxes)
    left = min((b[0] for b in boxes.values()), default=0.0)
    upper = min((b[1] for b in boxes.values()), default=0.0)
    if left < 0 or upper < 0:  # new sources may need room above or beside what stood at the edge
        return _normal(boxes, routes)
    return _measured(boxes, routes)


def _around(a: str, b: str, boxes: Mapping[str, tuple[float, float, float, float]]) -> tuple[Point, ...]:
    """A route past the boxes that stand between two others, on the nearer side of each."""
    (x0, y0), (x1, y1) = straight(boxes[a], boxes[b])
    if y1 - y0 < 2 * _GAP_Y:
        return (x0, y0), (x1, y1)
    points: list[Point] = []
    x = x0
    between = [q for n, q in boxes.items() if n not in (a, b) and q[3] and q[1] > y0 and q[1] + q[3] < y1]
    for left, top, w, h in sorted(between, key=lambda q: q[1]):
        at = x + (x1 - x) * (top + h / 2 - y0) / max(y1 - y0, 1.0)
        if left - _GAP_EDGES < at < left + w + _GAP_EDGES and (not points or top >= points[-1][1]):
            x = left - _GAP_EDGES if at < left + w / 2 else left + w + _GAP_EDGES
            points += [(x, top), (x, top + h)]
            y0 = top + h
    return (x0, straight(boxes[a], boxes[b])[0][1]), *points, (x1, y1)


def _anchored_y(graph: Ranked, sizes: Mapping[str, tuple[float, float]], previous: Placement) -> list[float]:
    y = [0.0] * len(graph.names)
    later: list[int] = []
    for v in graph.order:
        need = max((y[u] + _step(sizes[graph.names[u]][1]) for u in graph.above[v]), default=-math.inf)
        old = previous.boxes.get(graph.names[v])
        if old is not None:
            y[v] = max(old[1], need)
        elif need > -math.inf:
            y[v] = need
        elif graph.below[v]:
            y[v] = -math.inf
            later.append(v)
        else:
            y[v] = previous.height + _GAP_Y
    for v in later:
        y[v] = min((y[w] for w in graph.below[v] if y[w] > -math.inf), default=0.0) - _GAP_Y - sizes[graph.names[v]][1]
    for v in graph.order:  # users of new sources only were placed from nothing
        need = max((y[u] + _step(sizes[graph.names[u]][1]) for u in graph.above[v]), default=-math.inf)
        y[v] = max(y[v], need)
    return y


def _wish(
    graph: Ranked,
    v: int,
    boxes: Mapping[str, tuple[float, float, float, float]],
    previous: Placement,
    w: float,
) -> float:
    old = previous.boxes.get(graph.names[v])
    if old is not None:
        return old[0] + old[2] / 2 - w / 2
    near = [boxes.get(graph.names[u]) or previous.boxes.get(graph.names[u]) for u in (*graph.above[v], *graph.below[v])]
    centres = [b[0] + b[2] / 2 for b in near if b is not None]
    return (sum(centres) / len(centres) if centres else previous.width / 2) - w / 2


class _Room:
    """Which places are taken, by bands of height."""

    _BAND = 64.0

    def __init__(self) -> None:
        self._bands: dict[int, list[tuple[float, float, float, float]]] = {}

    def _keys(self, y: float, h: float) -> range:
        return range(math.floor(y / self._BAND), math.floor((y + h) / self._BAND) + 1)

    def take(self, box: tuple[float, float, float, float]) -> None:
        for k in self._keys(box[1], box[3]):
            self._bands.setdefault(k, []).append(box)

    def nearest(self, wish: float, y: float, w: float, h: float) -> float:
        """The left edge nearest to `wish` at which a box of this size is free."""
        margin = _GAP_X / 2
        taken = sorted(
            {
                (b[0] - w - margin, b[0] + b[2] + margin)
                for k in self._keys(y - margin, h + 2 * margin)
                for b in self._bands.get(k, ())
                if b[1] < y + h + margin and b[1] + b[3] > y - margin
            }
        )
        left = right = wish
        for low, high in taken:
            if low < right < high:
                right = high
        for low, high in sorted(taken, key=lambda t: -t[1]):
            if low < left < high:
                left = low
        return left if wish - left < right - wish else right

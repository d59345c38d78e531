"""A layered layout of directed graphs, in the manner of Sugiyama, Tagawa and Toda (1981).

    break cycles -> longest-path ranks -> dummy nodes on long edges -> barycentre sweeps
        -> coordinates

The result depends only on the arguments. This is for static pictures; pages place their graphs
themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class Placement:
    """Positions in pixels, y downwards.

    `boxes` gives (left, top, width, height) by node; `routes` the points of each edge, from the
    bottom of its source to the top of its target.
    """

    boxes: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)
    routes: Mapping[Edge, tuple[Point, ...]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def layout(
    sizes: Mapping[str, tuple[float, float]],
    edges: Iterable[Edge],
    *,
    first: frozenset[str] = frozenset(),
    last: frozenset[str] = frozenset(),
) -> Placement:
    """Place nodes of the given (width, height) so that edges run downwards.

    Edges with an end outside of `sizes`, and self-edges, are left out. Nodes in `first` are above
    all others, those in `last` below: there edges enter and leave a box.
    """
    wanted = list(dict.fromkeys((a, b) for a, b in edges if a != b and a in sizes and b in sizes))
    graph = Ranked(list(sizes), wanted, first, last)
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
    routes = _routes(graph, wanted, chains, boxes, x, top, heights)
    return _normal(boxes, routes)


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
    """Shift everything to start at (0, 0)."""
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

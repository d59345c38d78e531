"""The numeric steps of the layered layout: order within ranks, crossings, x coordinates."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from operator import sub

Layers = list[list[int]]

_SETTLED = 2.0  # pixels: nodes that move less in an upward sweep are final


def order_by_barycentre(layers: Layers, neighbours: Sequence[Sequence[int]], *, downwards: bool) -> Layers:
    """Sort each layer by the mean position of its nodes' neighbours in the previous layer.

    A node without neighbours keeps its place.
    """
    place = [0.0] * len(neighbours)
    result = list(layers)
    steps = range(len(layers)) if downwards else range(len(layers) - 1, -1, -1)
    for k in steps:
        layer = result[k]
        scale = 1.0 / max(len(layer), 1)
        keys = {}
        for i, v in enumerate(layer):
            near = neighbours[v]
            if len(near) == 1:
                keys[v] = place[near[0]]
            else:
                keys[v] = sum([place[u] for u in near]) / len(near) if near else (i + 0.5) * scale
        layer = sorted(layer, key=keys.__getitem__)
        for i, v in enumerate(layer):
            place[v] = (i + 0.5) * scale
        result[k] = layer
    return result


def count_crossings(layers: Layers, down: Sequence[Sequence[int]]) -> int:
    """Count crossing pairs of edges between neighbouring layers.

    For each edge, previous ones that end further right are counted. Ends are kept in a sorted list,
    which is faster than a tree for some hundreds.
    """
    total = 0
    place = [0] * len(down)
    for upper, lower in pairwise(layers):
        for i, v in enumerate(lower):
            place[v] = i
        seen: list[int] = []
        for v in upper:
            below = down[v]
            if len(below) == 1:
                p = place[below[0]]
                at = bisect_right(seen, p)
                total += len(seen) - at
                seen.insert(at, p)
                continue
            ends = [place[w] for w in below]
            total += sum(len(seen) - bisect_right(seen, p) for p in ends)
            for p in ends:
                insort(seen, p)
    return total


def assign_x(
    layers: Layers,
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
    widths: Sequence[float],
    gap: float,
) -> list[float]:
    """Return the nodes' centres, with neighbours aligned as far as order and widths allow.

    Each sweep moves every layer to the least-squares solution: every node as near as possible to
    the mean of its neighbours, with minimum distances between nodes of a layer.
    """
    x = [0.0] * len(widths)
    for layer in layers:
        _pack(layer, x, widths, gap)
    most = 4 if len(widths) > 4000 else 8
    for r in range(most):
        before = list(x)
        _sweep(layers, up if r % 2 == 0 else down, None, x, widths, gap, downwards=r % 2 == 0)
        if r % 2 and max(map(abs, map(sub, x, before)), default=0.0) < _SETTLED:
            break
    _sweep(layers, up, down, x, widths, gap, downwards=True)
    _sweep(layers, down, None, x, widths, gap, downwards=False)
    return x


def _sweep(
    layers: Layers,
    near: Sequence[Sequence[int]],
    other: Sequence[Sequence[int]] | None,
    x: list[float],
    widths: Sequence[float],
    gap: float,
    *,
    downwards: bool,
) -> None:
    for layer in layers if downwards else reversed(layers):
        _settle(layer, near, other, x, widths, gap)


def straighten(
    chains: Sequence[Sequence[int]],
    layers: Layers,
    x: list[float],
    widths: Sequence[float],
    gap: float,
) -> None:
    """Align the dummies of a long edge vertically, in runs as long as the free space allows."""
    neighbours: dict[int, tuple[int, int]] = {}
    for layer in layers:
        for i, v in enumerate(layer):
            neighbours[v] = (layer[i - 1] if i else -1, layer[i + 1] if i + 1 < len(layer) else -1)

    def room(v: int) -> tuple[float, float]:
        left, right = neighbours[v]
        low = x[left] + (widths[left] + widths[v]) / 2 + gap if left >= 0 else -1e9
        high = x[right] - (widths[right] + widths[v]) / 2 - gap if right >= 0 else 1e9
        return low, high

    for chain in chains:
        start = 0
        while start < len(chain):
            low, high = room(chain[start])
            low, high = min(low, x[chain[start]]), max(high, x[chain[start]])
            end = start + 1
            while end < len(chain):
                other = room(chain[end])
                if max(low, other[0]) > min(high, other[1]):
                    break
                low, high = max(low, other[0]), min(high, other[1])
                end += 1
            mean = sum(x[v] for v in chain[start:end]) / (end - start)
            for v in chain[start:end]:
                x[v] = min(max(mean, low), high)
            start = end


def _pack(layer: Sequence[int], x: list[float], widths: Sequence[float], gap: float) -> None:
    total = sum(widths[v] for v in layer) + gap * max(len(layer) - 1, 0)
    at = -total / 2
    for v in layer:
        x[v] = at + widths[v] / 2
        at += widths[v] + gap


def _settle(
    layer: Sequence[int],
    near: Sequence[Sequence[int]],
    other: Sequence[Sequence[int]] | None,
    x: list[float],
    widths: Sequence[float],
    gap: float,
) -> None:
    """Pool adjacent violators: isotonic regression of the wishes minus the minimum distances."""
    offset = half = 0.0
    offsets: list[float] = []
    blocks: list[tuple[float, float, int]] = []  # sum of weight * wish, weight, length
    for v in layer:
        width = widths[v]
        if offsets:
            offset += half + width / 2 + gap
        half = width / 2
        offsets.append(offset)
        around = near[v] if other is None else (*near[v], *other[v])
        count = len(around)
        if count == 1:
            wish, weight = x[around[0]], 1.25
        elif count:
            wish, weight = sum([x[u] for u in around]) / count, 1.0 + 0.25 * count
        else:
            wish, weight = x[v], 0.1
        if width < gap and len(near[v]) == 1:
            weight = 4.0  # a bend in a long edge shows most
        total, length = (wish - offset) * weight, 1
        while blocks and blocks[-1][0] * weight > total * blocks[-1][1]:
            t, u, d = blocks.pop()
            total, weight, length = total + t, weight + u, length + d
        blocks.append((total, weight, length))
    i = 0
    for s, w, c in blocks:
        at = s / w
        for k in range(i, i + c):
            x[layer[k]] = at + offsets[k]
        i += c

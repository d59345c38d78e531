"""The numeric steps of the layered layout: order within ranks, crossings, x coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Layers = list[list[int]]


def order_by_barycentre(layers: Layers, neighbours: Sequence[Sequence[int]], *, downwards: bool) -> Layers:
    """Each layer sorted by the mean place of its nodes' neighbours in the layer before it; a node without any keeps its place."""
    place = [0.0] * len(neighbours)
    result = list(layers)
    steps = range(len(layers)) if downwards else range(len(layers) - 1, -1, -1)
    for k in steps:
        layer = result[k]
        scale = 1.0 / max(len(layer), 1)
        keys = {}
        for i, v in enumerate(layer):
            near = neighbours[v]
            keys[v] = sum(place[u] for u in near) / len(near) if near else (i + 0.5) * scale
        layer = sorted(layer, key=keys.__getitem__)
        for i, v in enumerate(layer):
            place[v] = (i + 0.5) * scale
        result[k] = layer
    return result


def count_crossings(layers: Layers, down: Sequence[Sequence[int]]) -> int:
    """Pairs of edges between neighbouring layers that cross, by a Fenwick tree (Barth, Juenger and Mutzel 2002)."""
    total = 0
    for upper, lower in pairwise(layers):
        place = {v: i for i, v in enumerate(lower)}
        tree = [0] * (len(lower) + 1)
        seen = 0
        for v in upper:
            ends = sorted(place[w] for w in down[v] if w in place)
            for p in ends:
                i, before = p + 1, 0
                while i:
                    before += tree[i]
                    i &= i - 1
                total += seen - before
            for p in ends:
                seen += 1
                i = p + 1
                while i < len(tree):
                    tree[i] += 1
                    i += i & -i
    return total


def assign_x(
    layers: Layers,
    up: Sequence[Sequence[int]],
    down: Sequence[Sequence[int]],
    widths: Sequence[float],
    gap: float,
) -> list[float]:
    """Centres, so that neighbours stand over each other as far as order and widths allow.

    Each sweep moves every layer to the least-squares solution: every node as near as possible to the mean of its neighbours,
    under the least distances between nodes of a layer.
    """
    x = [0.0] * len(widths)
    for layer in layers:
        _pack(layer, x, widths, gap)
    rounds = 4 if len(widths) > 4000 else 10
    for r in range(rounds):
        downwards = r % 2 == 0
        near = up if downwards else down
        other = down if downwards else up
        for k in range(len(layers)) if downwards else range(len(layers) - 1, -1, -1):
            _settle(layers[k], near, other if r == rounds - 2 else None, x, widths, gap)
    return x


def straighten(
    chains: Sequence[Sequence[int]],
    layers: Layers,
    x: list[float],
    widths: Sequence[float],
    gap: float,
) -> None:
    """Let the dummies of a long edge stand under each other, in runs as long as the free room between their neighbours allows."""
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
    """Pool adjacent violators: isotonic regression of the wishes after the least distances are taken off."""
    offset = 0.0
    offsets: list[float] = []
    blocks: list[tuple[float, float, int]] = []  # sum of weight * wish, weight, length
    last = -1
    for v in layer:
        if last >= 0:
            offset += (widths[last] + widths[v]) / 2 + gap
        last = v
        offsets.append(offset)
        around = near[v] if other is None else (*near[v], *other[v])
        wish = sum(x[u] for u in around) / len(around) if around else x[v]
        weight = 1.0 + 0.25 * len(around) if around else 0.1
        if len(near[v]) == 1 and widths[v] < gap:
            weight = 4.0  # a bend in a long edge shows most
        blocks.append(((wish - offset) * weight, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] * blocks[-1][1] > blocks[-1][0] * blocks[-2][1]:
            s, w, c = blocks.pop()
            t, u, d = blocks.pop()
            blocks.append((s + t, w + u, c + d))
    i = 0
    for s, w, c in blocks:
        for _ in range(c):
            x[layer[i]] = s / w + offsets[i]
            i += 1

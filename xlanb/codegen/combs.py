"""Interleave vectors, and take interleaved ones apart, by shuffles of two vectors at a time.

An even number of lines is halved first: four take eight shuffles instead of twelve.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.values import Value


def interleaved(lines: Sequence[Value]) -> list[Value]:
    """As many vectors: the first elements of all lines, then the second ones, and so on."""
    n, width = len(lines), lines[0].type.lanes
    if n == 1:
        return list(lines)
    if n % 2:
        return [_picked(lines, [(at % n, at // n) for at in range(k * width, (k + 1) * width)]) for k in range(n)]
    halves = [[(k % 2, begin + k // 2) for k in range(width)] for begin in (0, width // 2)]
    pairs = zip(interleaved(lines[::2]), interleaved(lines[1::2]), strict=True)
    return [_picked(pair, half) for pair in pairs for half in halves]


def taken_apart(vectors: Sequence[Value]) -> list[Value]:
    """The lines that are interleaved in these vectors."""
    n, width = len(vectors), vectors[0].type.lanes
    if n == 1:
        return list(vectors)
    if n % 2:
        return [_picked(vectors, [divmod(at * n + k, width) for at in range(width)]) for k in range(n)]
    pairs = list(zip(vectors[::2], vectors[1::2], strict=True))
    places = [[divmod(2 * at + k, width) for at in range(width)] for k in (0, 1)]
    even, odd = (taken_apart([_picked(pair, which) for pair in pairs]) for which in places)
    return [line for two in zip(even, odd, strict=True) for line in two]


def _picked(vectors: Sequence[Value], places: Sequence[tuple[int, int]]) -> Value:
    """The vector of the elements at these vectors and lanes."""
    made, width = vectors[0], len(places)
    for n, vector in enumerate(vectors[1:], 1):
        before = [lane for _, lane in places] if n == 1 else range(width)
        chosen = [width + lane if r == n else k for (r, lane), k in zip(places, before, strict=True)]
        made = made.function.shuffle(made, vector, chosen)
    return made

"""Interleave vectors, take interleaved ones apart, and transpose squares of them.

Each shuffle takes two vectors. An even number of interleaved lines is halved first: four take eight
shuffles instead of twelve.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I64, Type
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


def transposed(rows: Sequence[Value]) -> list[Value]:
    """Transpose a square of 2^k vectors: exchange blocks of half the side, a quarter, ..."""
    n, made = len(rows), list(rows)
    half = n // 2
    while half:
        for r in (r for r in range(n) if not r & half):
            low, high = made[r], made[r + half]
            made[r] = low.function.shuffle(low, high, [n + k - half if k & half else k for k in range(n)])
            made[r + half] = low.function.shuffle(low, high, [n + k if k & half else k + half for k in range(n)])
        half //= 2
    return made


@shared("turned")
def store_columns(f: Function, rows: Pointer, to: Pointer, count: Ix, vector: Type) -> None:
    """Transpose as many rows of `count` elements as a `vector` has: store one per column.

    `to` has room for whole squares.
    """
    width = vector.lanes
    with f.loop(f.div(f.add(count, width - 1), width)) as k:
        begin = f.mul(k, width)
        mask = Mask(width, None, f.constants(I64, range(width)) < f.value(f.sub(count, begin)))
        square = [rows.by(f.add(f.mul(count, r), begin)).load(0, width, mask) for r in range(width)]
        for r, column in enumerate(transposed(square)):
            to.store(f.mul(f.add(begin, r), width), column)


def _picked(vectors: Sequence[Value], places: Sequence[tuple[int, int]]) -> Value:
    """The vector of the elements at these vectors and lanes."""
    made, width = vectors[0], len(places)
    for n, vector in enumerate(vectors[1:], 1):
        before = [lane for _, lane in places] if n == 1 else range(width)
        chosen = [width + lane if r == n else k for (r, lane), k in zip(places, before, strict=True)]
        made = made.function.shuffle(made, vector, chosen)
    return made

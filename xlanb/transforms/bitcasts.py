"""Which shape changes move no bytes (ShapeUtil::ReshapeIsBitcast, TransposeIsBitcast)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from xlanb.shape import ArrayShape, Layout


@lru_cache(maxsize=4096)
def is_bitcast(source: ArrayShape, target: ArrayShape) -> bool:
    """Whether a reshape or copy from `source` to `target`, layouts included, moves no bytes.

    Both shapes are split into their shortest runs of dimensions with equal products. The dimensions
    of each run of more than one element must be adjacent in memory, most significant first, and the
    runs must be in the same memory order. Dimensions of size 1 are ignored.
    """
    if (
        source.element_type is not target.element_type
        or source.element_count != target.element_count
        or source.is_dynamic
        or target.is_dynamic
    ):
        return False
    if source.element_count <= 1:
        return True
    a, b = _physical(source), _physical(target)
    runs = _runs([n for _, n in sorted(a)], [n for _, n in sorted(b)])
    if runs is None:
        return False
    return _order(a, [r[0] for r in runs]) == _order(b, [r[1] for r in runs]) is not None


def _physical(shape: ArrayShape) -> list[tuple[int, int]]:
    """(dimension, size) from most major to most minor, without dimensions of size 1."""
    return [(d, shape.dimensions[d]) for d in reversed(shape.minor_to_major) if shape.dimensions[d] != 1]


def _runs(a: list[int], b: list[int]) -> list[tuple[int, int]] | None:
    """Lengths of the shortest runs with equal products."""
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        i0, j0, pa, pb = i, j, a[i], b[j]
        i, j = i + 1, j + 1
        while pa != pb:
            if pa < pb and i < len(a):
                pa, i = pa * a[i], i + 1
            elif pb < pa and j < len(b):
                pb, j = pb * b[j], j + 1
            else:
                return None
        out.append((i - i0, j - j0))
    return out if i == len(a) and j == len(b) else None


def _order(physical: list[tuple[int, int]], lengths: list[int]) -> list[int] | None:
    """The runs in memory order; None if one is not contiguous and in order."""
    logical = sorted(d for d, _ in physical)
    run_of: dict[int, int] = {}
    for n, length in enumerate(lengths):
        for d in logical[len(run_of) : len(run_of) + length]:
            run_of[d] = n
    order: list[int] = []
    previous = -1
    for d, _ in physical:
        run = run_of[d]
        if order and order[-1] == run:
            if logical.index(d) != logical.index(previous) + 1:
                return None
        elif run in order or logical.index(d) != sum(lengths[:run]):
            return None
        else:
            order.append(run)
        previous = d
    return order


@lru_cache(maxsize=4096)
def aligned_layout(source: ArrayShape, dimensions: tuple[int, ...], *, ones_in_order: bool = False) -> Layout | None:
    """The layout in which reshaping `source` to `dimensions` moves no bytes, or None.

    Dimensions of size 1 become the most major ones. If the reshape only inserts or removes
    dimensions of size 1, row-major stays row-major. With `ones_in_order` each comes right before
    the most minor dimension with a smaller number, so that row-major always stays row-major.
    Source: ShapeUtil::AlignLayouts.
    """
    target = ArrayShape(source.element_type, dimensions).with_default_layout()
    if not source.element_count or source.is_dynamic:
        return None
    if not ones_in_order and _adds_or_drops_ones(source.dimensions, dimensions) and is_bitcast(source, target):
        return target.layout
    a, b = _physical(source), _physical(target)
    runs = _runs([n for _, n in sorted(a)], [n for _, n in sorted(b)])
    order = _order(a, [r[0] for r in runs]) if runs is not None else None
    if runs is None or order is None:
        return None
    logical, groups = sorted(d for d, _ in b), []
    for _, length in runs:
        groups.append(logical[:length])
        logical = logical[length:]
    major_to_minor = [d for run in order for d in groups[run]]
    minor_to_major = list(reversed(major_to_minor))
    for one in (d for d in reversed(range(len(dimensions))) if dimensions[d] == 1):
        smaller = (n for n, d in enumerate(minor_to_major) if ones_in_order and d < one)
        minor_to_major.insert(next(smaller, len(minor_to_major)), one)
    return Layout(tuple(minor_to_major))


def _adds_or_drops_ones(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether the lists differ only by inserted ones."""
    short, long = sorted((a, b), key=len)
    rest = iter(long)
    kept = [n for n in short if _next_is(rest, n)]
    return len(kept) == len(short) and len(short) != len(long) and all(n == 1 for n in rest)


def _next_is(rest: Iterator[int], wanted: int) -> bool:
    return next((n for n in rest if n == wanted or n != 1), None) == wanted

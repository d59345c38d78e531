"""When a change of shape leaves every byte where it is (ShapeUtil::ReshapeIsBitcast, TransposeIsBitcast)."""

from __future__ import annotations

from xlanb.shape import ArrayShape


def is_bitcast(source: ArrayShape, target: ArrayShape) -> bool:
    """Whether a reshape (or copy) from `source` to `target`, layouts included, moves no element in memory.

    Both are cut into their finest runs of equal products; within each run of more than one element the dimensions must lie together, most significant first, and the runs
    must follow each other in memory in the same order. Dimensions of size 1 lie nowhere.
    """
    if (
        source.element_type.bits != target.element_type.bits
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
    """(dimension, size) from the slowest to the fastest, without those of size 1."""
    return [(d, shape.dimensions[d]) for d in reversed(shape.minor_to_major) if shape.dimensions[d] != 1]


def _runs(a: list[int], b: list[int]) -> list[tuple[int, int]] | None:
    """Lengths of the finest runs of equal products."""
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
    """The runs as they follow each other in memory; None where one is not whole and in order."""
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

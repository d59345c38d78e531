"""Which dimensions a reshape merges and splits."""

from __future__ import annotations

from xlanb.errors import ShapeError
from xlanb.shape.shape import ArrayShape


def reshaped_dynamic(shape: ArrayShape, dimensions: tuple[int, ...]) -> tuple[bool, ...]:
    """Which of the new dimensions are dynamic.

    It is the most major one of those that a dynamic dimension is split into or merged with.

    Raises:
        ShapeError: a dynamic dimension is not at a boundary of the new dimensions.
    """
    runs = reshape_runs(shape.dimensions, dimensions)
    flags = [False] * len(dimensions)
    for ins, outs in runs or ():
        if not any(shape.is_dynamic_dimension(d) for d in ins):
            continue
        major = next((d for d in outs if dimensions[d] != 1), outs[0] if outs else None)
        if major is None:
            raise ShapeError(f"cannot reshape {shape} to {list(dimensions)}: it has no dynamic dimension")
        flags[major] = True
    if runs is None and shape.element_count:
        raise ShapeError(f"cannot reshape {shape} to {list(dimensions)}")
    return tuple(flags)


def reshape_runs(source: tuple[int, ...], target: tuple[int, ...]) -> list[tuple[list[int], list[int]]] | None:
    """The shortest runs of dimensions with equal products on both sides.

    Dimensions of size 1 belong to the preceding run.
    """
    runs: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(source) and j < len(target):
        ins, outs, p, q = [i], [j], source[i], target[j]
        i, j = i + 1, j + 1
        while p != q:
            if p < q and i < len(source):
                p, i = p * source[i], i + 1
                ins.append(i - 1)
            elif q < p and j < len(target):
                q, j = q * target[j], j + 1
                outs.append(j - 1)
            else:
                return None
        runs.append((ins, outs))
    if any(n != 1 for n in (*source[i:], *target[j:])):
        return None
    if runs:
        runs[-1][0].extend(range(i, len(source)))
        runs[-1][1].extend(range(j, len(target)))
    return runs or None

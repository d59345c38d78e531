"""Lift reductions and products over tiled dimensions, and reshapes of tiles.

The lifted operation has the tile numbers as dimensions of their own.

x = f32[8,3] in tiles f32[2,3], dimension 0 reduced in each tile
=>  f32[4,2,3] reduced along dimension 1, in tiles f32[1,3]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.spmd.devices.axes import axes_of
from xlanb.spmd.devices.tiles import Tiles, Values, cut
from xlanb.spmd.devices.writing import Writer, dimensions, of_size


def reduced(write: Writer, i: HloInstruction, operands: Sequence[Tiles]) -> Values | None:
    """Lift each device's reduction of its tile.

    Splits each reduced dimension by tile, and keeps the tile number.

    x = f32[8,3] in tiles f32[2,3]; reduce over dimension 0
    =>  reduce f32[4,2,3] over dimension 1, in tiles f32[1,3]
    """
    tiles, gone = operands[0], i.ints("dimensions")
    if len(operands) != 2 or not operands[1].is_whole or not tiles.covers:
        return None
    dims, sizes = dimensions(tiles.whole), tiles.sizes
    split: list[int] = []
    numbers: list[int] = []
    elements: list[int] = []
    for k in range(len(dims)):
        cut_here = k in gone and tiles.is_cut(k)
        if cut_here and (dims[k] % sizes[k] or any(s % sizes[k] for s in tiles.along(k))):
            return None
        if cut_here:
            numbers.append(len(split))
        if k in gone:
            elements.append(len(split) + cut_here)
        split += [dims[k] // sizes[k], sizes[k]] if cut_here else [dims[k]]
    kept = [k for k in range(len(split)) if k not in elements]
    partial = write.copy(
        i,
        (write.reshape(tiles.whole, split), operands[1].whole),
        of_size(i.shape, [split[k] for k in kept]),
        dimensions=tuple(elements),
    )
    order = [kept.index(n) for n in numbers] + [n for n, k in enumerate(kept) if k not in numbers]
    count = math.prod(split[n] for n in numbers)
    result = [split[k] for k in kept if k not in numbers]
    whole = write.rearranged(
        partial, dimensions(partial), order, [count * result[0], *result[1:]] if result else [count]
    )
    starts = []
    for s in tiles.starts:
        number = 0
        for k in gone:
            number = number * (dims[k] // sizes[k]) + s[k] // sizes[k]
        rest = [s[k] for k in range(len(dims)) if k not in gone]
        starts.append((number * result[0] + rest[0], *rest[1:]) if result else (number,))
    local = i.array_shape.dimensions
    values = cut(write, Tiles(whole, tuple(starts), local or (1,)))
    return values if local else tuple(write.reshape(v, ()) for v in values)


def multiplied(write: Writer, i: HloInstruction, left: Tiles, right: Tiles) -> Values | None:
    """Lift each device's dot over tiled contracting dimensions.

    The tile numbers become batch dimensions.
    """
    axes, dims = axes_of(i), i.array_shape.dimensions
    pairs = list(zip(i.ints("lhs_contracting_dims"), i.ints("rhs_contracting_dims"), strict=True))
    if axes is None or not dims:
        return None
    cuts = [n for n, (a, b) in enumerate(pairs) if left.is_cut(a) or right.is_cut(b)]
    for a, b in (pairs[n] for n in cuts):
        alike = (left.along(a), dimensions(left.whole)[a]) == (right.along(b), dimensions(right.whole)[b])
        if not alike or dimensions(left.whole)[a] % left.sizes[a] or any(s % left.sizes[a] for s in left.along(a)):
            return None
    whole, sides = list(dims), (left, right)
    starts = [[0] * len(dims) for _ in left.starts]
    for tiles, places in zip(sides, axes, strict=True):
        for d, axis in enumerate(places):
            if axis is None or not tiles.is_cut(d):
                continue
            for k, s in enumerate(tiles.along(d)):
                starts[k][axis.dim] = s
            whole[axis.dim] = dimensions(tiles.whole)[d]
    batches = i.ints("lhs_batch_dims"), i.ints("rhs_batch_dims")
    if any(left.is_cut(a) != right.is_cut(b) or left.along(a) != right.along(b) for a, b in zip(*batches, strict=True)):
        return None
    counts = [dimensions(left.whole)[pairs[n][0]] // left.sizes[pairs[n][0]] for n in cuts]
    numbers = [0] * len(starts)
    for n, count in zip(cuts, counts, strict=True):
        a = pairs[n][0]
        numbers = [m * count + s // left.sizes[a] for m, s in zip(numbers, left.along(a), strict=True)]
    distinct = len({(m, *s) for m, s in zip(numbers, starts, strict=True)})
    if math.prod(counts) * math.prod(whole) > distinct * math.prod(dims):
        return None
    operands, changed = [], {}
    for name, tiles, batch, side in zip(("lhs", "rhs"), sides, batches, (0, 1), strict=True):
        contracted = [p[side] for p in pairs]
        split: list[int] = []
        place: list[int] = []
        for d, n in enumerate(dimensions(tiles.whole)):
            is_number = d in contracted and contracted.index(d) in cuts
            place.append(len(split) + is_number)
            split += [n // tiles.sizes[d], tiles.sizes[d]] if is_number else [n]
        operands.append(write.reshape(tiles.whole, split))
        changed[f"{name}_batch_dims"] = (*(place[contracted[n]] - 1 for n in cuts), *(place[d] for d in batch))
        changed[f"{name}_contracting_dims"] = tuple(place[d] for d in contracted)
    made = write.copy(i, operands, of_size(i.shape, [*counts, *whole]), **changed)
    merged = write.reshape(made, [math.prod(counts) * whole[0], *whole[1:]])
    begins = tuple((m * whole[0] + s[0], *s[1:]) for m, s in zip(numbers, starts, strict=True))
    return cut(write, Tiles(merged, begins, dims))


def reshaped(write: Writer, i: HloInstruction, tiles: Tiles) -> Values | None:
    """Lift a reshape of tiles to the whole array.

    In each group of dimensions that become others, the tile numbers come first, then the elements
    of a tile.
    """
    groups = _groups(tiles.sizes, i.array_shape.dimensions)
    if groups is None:
        return None
    dims, sizes = dimensions(tiles.whole), tiles.sizes
    split: list[int] = []
    order: list[int] = []
    whole: list[int] = []
    starts: list[list[int]] = [[] for _ in tiles.starts]
    for inner, outer in groups:
        counts, elements = [], []
        for k in inner:
            if dims[k] % sizes[k] or any(s % sizes[k] for s in tiles.along(k)):
                return None
            counts.append(len(split))
            elements.append(len(split) + 1)
            split += [dims[k] // sizes[k], sizes[k]]
        order += [*counts, *elements]
        number = math.prod(split[c] for c in counts)
        results = [i.array_shape.dimensions[k] for k in outer]
        first = next((n for n, size in enumerate(results) if size > 1), 0)
        if not results and number > 1:
            return None
        whole += [size * number if n == first else size for n, size in enumerate(results)]
        for start, begins in zip(tiles.starts, starts, strict=True):
            place = 0
            for k, c in zip(inner, counts, strict=True):
                place = place * split[c] + start[k] // sizes[k]
            begins += [place * size if n == first else 0 for n, size in enumerate(results)]
    moved = write.rearranged(tiles.whole, split, order, whole)
    return cut(write, Tiles(moved, tuple(map(tuple, starts)), i.array_shape.dimensions))


def _groups(before: Sequence[int], after: Sequence[int]) -> list[tuple[list[int], list[int]]] | None:
    """Match runs of dimensions with equal element counts, before and after a reshape.

    Returns None for an array without elements.
    """
    if 0 in before:
        return None
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        inner, outer, a, b = [i], [j], before[i], after[j]
        i, j = i + 1, j + 1
        while a != b:
            if a < b:
                inner.append(i)
                a, i = a * before[i], i + 1
            else:
                outer.append(j)
                b, j = b * after[j], j + 1
        groups.append((inner, outer))
    rest, more = list(range(i, len(before))), list(range(j, len(after)))
    if not groups:
        return [(rest, more)] if rest or more else []
    groups[-1][0].extend(rest)
    groups[-1][1].extend(more)
    return groups

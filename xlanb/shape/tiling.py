"""Positions of elements in memory under XLA's tiled layouts.

`T(8,128)(2,1)` splits the most minor dimensions into tiles, and those into tiles again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.shape.shape import ArrayShape, Layout


def place_of(index: Sequence[int], shape: ArrayShape) -> int:
    """The position of an element in memory, in elements, including padding of tiles."""
    layout = layout_of(shape)
    order = layout.minor_to_major[::-1]
    sizes, at = [shape.dimensions[d] for d in order], [index[d] for d in order]
    for tile in layout.tiles:
        sizes, at = _tiled(sizes, at, tile)
    place = 0
    for size, k in zip(sizes, at, strict=True):
        place = place * size + k
    return place


def padded_sizes(shape: ArrayShape) -> list[int]:
    """The dimensions in memory, most major first, including padding.

    Each level of tiles has dimensions of its own.
    """
    layout = layout_of(shape)
    sizes = [shape.dimensions[d] for d in layout.minor_to_major[::-1]]
    for tile in layout.tiles:
        sizes, _ = _tiled(sizes, [0] * len(sizes), tile)
    return sizes


def layout_of(shape: ArrayShape) -> Layout:
    """The shape's layout; the default one if none is set."""
    return shape.layout if shape.layout is not None else Layout.default(len(shape.dimensions))


def _tiled(sizes: list[int], at: list[int], tile: Sequence[int | None]) -> tuple[list[int], list[int]]:
    """Apply one level of tiles to the most minor dimensions.

    Each becomes the number of its tile and the position within it; `None` merges a dimension with
    the next.
    """
    missing = max(len(tile) - len(sizes), 0)
    sizes, at = [1] * missing + sizes, [0] * missing + at
    cut = len(sizes) - len(tile)
    outer: tuple[list[int], list[int]] = ([], [])
    inner: tuple[list[int], list[int]] = ([], [])
    joined, place = 1, 0
    for size, k, width in zip(sizes[cut:], at[cut:], tile, strict=True):
        joined, place = joined * size, place * size + k
        if width is None:
            continue
        outer[0].append(-(-joined // max(width, 1)))
        outer[1].append(place // max(width, 1))
        inner[0].append(width)
        inner[1].append(place % max(width, 1))
        joined, place = 1, 0
    return sizes[:cut] + outer[0] + inner[0], at[:cut] + outer[1] + inner[1]

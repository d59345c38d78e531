"""Shapes and layouts as pictures: a grid of the last two dimensions.

Each cell shows its position in memory; tiles are framed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Final

from xlanb.shape import ArrayShape, Layout, PrimitiveType, Shape, TupleShape
from xlanb.shape.tiling import layout_of, padded_sizes, place_of
from xlanb.view.parts.memory import bytes_text

_ROWS, _COLUMNS = 10, 16
_CELL_W, _CELL_H = 38, 22
_LEAVES = 60
_STYLE: Final = "font:11px ui-monospace,Menlo,Consolas,monospace;max-width:100%;height:auto;color:inherit"
_TEXT: Final = "font:12px ui-monospace,Menlo,Consolas,monospace;margin:.2em 0;white-space:pre-wrap"


def shape_html(shape: Shape | Layout) -> str:
    """Show a shape in words and as a grid; a tuple's leaves in words; a layout with an example."""
    if isinstance(shape, Layout):
        return _text(layout_text(shape)) + _grid(_example(shape), f"layout {shape}")
    if isinstance(shape, TupleShape):
        return _text(shape_text(shape))
    picture = _grid(shape, str(shape)) if isinstance(shape, ArrayShape) and shape.dimensions else ""
    return _text(shape_text(shape)) + picture


def shape_text(shape: Shape) -> str:
    """Describe a shape: elements, bytes, the order of its dimensions in memory, padding by
    tiles.
    """
    if isinstance(shape, TupleShape):
        leaves = list(shape.leaves())
        lines = [f"{_clipped(str(shape))}: a tuple of {len(leaves)} arrays, {bytes_text(shape.byte_size)}"]
        lines += [
            f"  {{{','.join(map(str, index))}}} {leaf}: {bytes_text(leaf.byte_size)}"
            for index, leaf in leaves[:_LEAVES]
        ]
        if len(leaves) > _LEAVES:
            lines.append(f"  ... {len(leaves) - _LEAVES:,} more")
        return "\n".join(lines)
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        return str(shape)
    if any(d < 0 for d in shape.dimensions):
        return f"{shape}: no fixed size"
    lines = [
        f"{shape}: {shape.element_count:,} element{'' if shape.element_count == 1 else 's'}, "
        f"{bytes_text(shape.byte_size)}"
    ]
    if shape.dimensions and shape.layout is not None:
        lines.append(layout_text(shape.layout))
        padded = math.prod(padded_sizes(shape))
        if padded != shape.element_count:
            lines.append(
                f"padded to whole tiles: {padded:,} elements, {bytes_text(padded * shape.element_type.byte_size)}"
            )
    return "\n".join(lines)


def layout_text(layout: Layout) -> str:
    """A layout in words."""
    if not layout.minor_to_major:
        return f"{layout}: a single element"
    order = ", then ".join(map(str, layout.minor_to_major))
    words = [f"{layout}: neighbours in memory differ in dimension {order}"]
    if layout.is_default:
        words.append("(row major)")
    words += [f"in tiles of {' x '.join('all' if d is None else str(d) for d in tile)}" for tile in layout.tiles]
    if layout.memory_space:
        words.append(f"in memory space {layout.memory_space}")
    if layout.element_size_in_bits:
        words.append(f"{layout.element_size_in_bits} bits per element")
    return ", ".join(words).replace(", (row", " (row")


def _example(layout: Layout) -> ArrayShape:
    """A small array in a layout: some tiles of it."""
    widest = [w or 4 for w in layout.tiles[0]] if layout.tiles else []
    order = layout.minor_to_major
    sizes = dict.fromkeys(order, 4)
    for d, width in zip(order, reversed(widest), strict=False):
        sizes[d] = 2 * width
    return ArrayShape(PrimitiveType.F32, tuple(sizes[d] for d in range(len(order))), layout)


def _grid(shape: ArrayShape, what: str) -> str:
    if not shape.dimensions or any(d <= 0 for d in shape.dimensions):
        return ""
    sizes = (1, *shape.dimensions) if len(shape.dimensions) == 1 else shape.dimensions
    rows, columns = min(sizes[-2], _ROWS), min(sizes[-1], _COLUMNS)
    lead = (0,) * (len(shape.dimensions) - 2)
    places = [[place_of((*lead, r, c)[-len(shape.dimensions) :], shape) for c in range(columns)] for r in range(rows)]
    tiles = layout_of(shape).tiles
    size = math.prod(w for w in tiles[0] if w) if tiles else 0
    last = max(max(row) for row in places) or 1
    parts = [
        _cell(c, r, place, place / last, _edges(places, r, c, size))
        for r, row in enumerate(places)
        for c, place in enumerate(row)
    ]
    height = rows * _CELL_H + 26
    cut = [
        f"{full:,} {name}"
        for full, shown, name in ((sizes[-2], rows, "rows"), (sizes[-1], columns, "columns"))
        if full > shown
    ]
    note = f"the beginning of {', '.join(cut)}; " if cut else ""
    if any(d > 1 for d in shape.dimensions[:-2]):
        note += f"the first of {math.prod(shape.dimensions[:-2]):,} such grids; "
    caption = f"{note}each cell shows its position in memory{', tiles framed' if tiles else ''}"
    label = escape(f"{what}: {caption}")
    width = max(columns * _CELL_W, 7 * len(caption)) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" viewBox="-4 -4 {width} {height + 8}" '
        f'width="{width}" height="{height + 8}" style="{_STYLE}">{"".join(parts)}'
        f'<text x="0" y="{rows * _CELL_H + 18}" fill="currentColor" opacity="0.8">{escape(caption)}</text></svg>'
    )


def _edges(places: Sequence[Sequence[int]], r: int, c: int, size: int) -> str:
    """Lines where another tile begins, to the left of a cell and above it."""
    if not size:
        return ""
    x, y, tile = c * _CELL_W, r * _CELL_H, places[r][c] // size
    lines = ""
    if not c or places[r][c - 1] // size != tile:
        lines += f"M{x} {y}v{_CELL_H}"
    if not r or places[r - 1][c] // size != tile:
        lines += f"M{x} {y}h{_CELL_W}"
    return f'<path d="{lines}" stroke="currentColor" stroke-width="2.5"/>' if lines else ""


def _cell(c: int, r: int, place: int, along: float, edges: str) -> str:
    x, y = c * _CELL_W, r * _CELL_H
    return (
        f'<rect x="{x}" y="{y}" width="{_CELL_W}" height="{_CELL_H}" fill="#2867d6" '
        f'fill-opacity="{0.06 + 0.34 * along:.2f}" stroke="currentColor" stroke-opacity="0.25"/><text '
        f'x="{x + _CELL_W / 2}" y="{y + 15}" text-anchor="middle" fill="currentColor">{place}</text>{edges}'
    )


def _text(text: str) -> str:
    return f'<div style="{_TEXT}">{escape(text)}</div>'


def _clipped(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]} ..."

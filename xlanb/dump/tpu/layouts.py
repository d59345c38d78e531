"""Explain layouts of a TPU: what `f32[128,256]{1,0:T(8,128)S(1)}` says about memory."""

from __future__ import annotations

import math
from typing import Final

from xlanb.hlo.text.lexer import Cursor
from xlanb.hlo.text.parse_shape import parse_shape
from xlanb.shape import ArrayShape, Layout, Shape
from xlanb.shape.tiling import layout_of, padded_sizes

SPACES: Final = {
    0: ("HBM", "the chip's main memory"),
    1: ("VMEM", "the core's vector memory, read by its units"),
    2: ("SFLAG", "synchronization flags"),
    3: ("CMEM", "the on-chip memory of v4"),
    4: ("SMEM", "the core's scalar memory"),
    5: ("host", "memory of the host"),
}
"""Memory spaces of XLA:TPU by number in a layout, `S(1)`: name and meaning."""

_LEAVES: Final = 20


def space_name(layout: Layout | None) -> str:
    """Return the memory space of a layout: "VMEM"; "S(7)" for an unknown number."""
    number = layout.memory_space if layout is not None else 0
    return SPACES[number][0] if number in SPACES else f"S({number})"


def explain_layout(shape: str | Shape) -> str:
    """Describe a shape on a TPU, one line per array.

    Gives memory space, order of dimensions, meaning of its tiles, and padding in bytes.

    Raises:
        HloParseError: the text is not a shape.
    """
    if isinstance(shape, str):
        shape = parse_shape(Cursor(shape), {})
    leaves = [leaf for _, leaf in shape.leaves()]
    lines = [_leaf(leaf) if isinstance(leaf, ArrayShape) else str(leaf) for leaf in leaves[:_LEAVES]]
    if len(leaves) > _LEAVES:
        lines.append(f"... {len(leaves) - _LEAVES:,} more arrays")
    return "\n".join(lines)


def _leaf(shape: ArrayShape) -> str:
    layout = layout_of(shape)
    name, what = SPACES.get(layout.memory_space, (f"memory space {layout.memory_space}", ""))
    parts = [f"{shape.without_layout()} in {name}" + (f" ({what})" if what else "")]
    if len(layout.minor_to_major) > 1:
        parts.append(f"dimension {layout.minor_to_major[0]} varies fastest")
    parts += [_tile(tile, k, shape) for k, tile in enumerate(layout.tiles)]
    if shape.is_array and all(d >= 0 for d in shape.dimensions):
        padded = math.prod(padded_sizes(shape)) * shape.element_type.byte_size
        parts.append(
            f"{shape.byte_size:,} bytes" + (f", {padded:,} padded to whole tiles" if padded != shape.byte_size else "")
        )
    return "; ".join(parts)


def _tile(tile: tuple[int | None, ...], level: int, shape: ArrayShape) -> str:
    sizes = " x ".join("all" if d is None else str(d) for d in tile)
    if level and len(tile) == 2 and tile[1] == 1:
        return f"in a tile {tile[0]} rows share a 32-bit word"
    if level:
        return f"cut again into tiles of {sizes}"
    if len(tile) == 2 and tile[1] == 128:
        register = tile[0] == 8 and shape.element_type.byte_size == 4
        return f"tiles of {sizes}: {tile[0]} sublanes by 128 lanes" + (", one vector register each" if register else "")
    return f"tiles of {sizes}"

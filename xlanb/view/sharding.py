"""Shardings and meshes as pictures: an array's parts, each with the devices that hold it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import groupby
from typing import Final

from xlanb.hlo.records import InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape, Shape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.mesh import Mesh
from xlanb.view.parts.sharding import PARTITIONED, guessed_mesh, mesh_of, parsed_sharding, sharding_data

_WIDE, _HIGH = 240, 120  # pixels of the longer side, and of a cell at least
_CELL_W, _CELL_H = 46, 24
_MOST_LEAVES: Final = 12
_STYLE: Final = "font:11px ui-monospace,Menlo,Consolas,monospace;max-width:100%;height:auto;color:inherit"
_TEXT: Final = "font:12px ui-monospace,Menlo,Consolas,monospace;margin:.2em 0;white-space:pre-wrap"
_HUES: Final = ("#3f78c9", "#c8820b", "#2f8f63", "#b5508b", "#7759c0", "#23829a", "#8f7a2a", "#75808f")


def sharding_text(sharding: HloSharding, mesh: Mesh | None = None) -> str:
    """Describe a sharding in XLA's text, by the axes of a mesh if given, and in words."""
    data = sharding_data(sharding, mesh)
    return "\n".join(filter(None, (str(sharding), data["x"] if mesh is not None else "", data["w"])))


def sharding_html(sharding: HloSharding, shape: Shape | None = None, mesh: Mesh | None = None) -> str:
    """Show a sharding in words and drawn, for a tuple every leaf.

    With the shape of the whole array each part shows its slice.
    """
    if sharding.is_tuple:
        shapes = [s for _, s in shape.leaves()] if shape is not None else []
        leaves = sharding.tuple_elements[:_MOST_LEAVES]
        parts = [sharding_html(s, shapes[k] if k < len(shapes) else None, mesh) for k, s in enumerate(leaves)]
        rest = len(sharding.tuple_elements) - len(leaves)
        return (
            _said(f"a tuple of {len(sharding.tuple_elements)}")
            + "".join(parts)
            + (_said(f"{rest} more") if rest else "")
        )
    known = mesh or guessed_mesh([sharding])
    words = sharding_data(sharding, mesh)["w"]
    axes = sharding_data(sharding, mesh)["x"] if mesh is not None else ""
    devices = sharding_data(sharding, known).get("d")
    picture = _parts(sharding, devices, shape if isinstance(shape, ArrayShape) else None) if devices else ""
    return _said(f"{sharding} {axes}".strip()) + _said(words) + picture


def record_sharding_html(record: InstructionRecord, module: ModuleRecord | None) -> str:
    """Show an instruction's sharding by its module's mesh axes; "" if it cannot be drawn.

    Computations of the partitioner have shapes of one device, so slices of the whole are unknown.
    """
    sharding = parsed_sharding(record.sharding) if record.sharding else None
    if sharding is None:
        return ""
    is_local = module is not None and module.entry.endswith(PARTITIONED)
    return sharding_html(sharding, None if is_local else record.shape, mesh_of(module) if module is not None else None)


def mesh_html(mesh: Mesh) -> str:
    """A mesh as a grid of its devices: its last axis to the right, the others downwards."""
    if mesh.num_devices > 256 or not mesh.axes:
        return _said(f"{mesh.name} {mesh}")
    columns = mesh.axes[-1][1]
    rows = mesh.num_devices // columns
    cells = [
        _cell(k % columns, k // columns, _CELL_W, _CELL_H, str(d), f"device {d}", 0)
        for k, d in enumerate(mesh.devices.flat)
    ]
    down = " x ".join(f"{n}={size}" for n, size in mesh.axes[:-1])
    caption = f"to the right {mesh.axes[-1][0]}={columns}" + (f", down {down}" if down else "")
    return _said(f"{mesh.name} {mesh}") + _svg(cells, columns * _CELL_W, rows * _CELL_H, caption, f"mesh {mesh}")


def part_slices(tiles: Sequence[int], dimensions: Sequence[int], number: int) -> str:
    """The slice of an array that its part of a number is, as NumPy writes it: [0:16, :]."""
    words = []
    for count, size, after in zip(
        tiles, dimensions, (math.prod(tiles[d + 1 :]) for d in range(len(tiles))), strict=True
    ):
        index, step = number // after % count, -(-size // count)
        words.append(f"{min(index * step, size)}:{min((index + 1) * step, size)}" if count > 1 else ":")
    return "[" + ", ".join(words) + "]"


def ranges(numbers: Sequence[int]) -> str:
    """Numbers in short: "0-3, 8"."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])]
    return ", ".join(f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def _parts(sharding: HloSharding, devices: Sequence[Sequence[int]], shape: ArrayShape | None) -> str:
    """Draw the parts: the last split dimension horizontally, those before vertically.

    A single split dimension is vertical, unless it is the last.
    """
    tiles = sharding.data_tile_shape if sharding.is_tiled else ()
    split = [d for d, count in enumerate(tiles) if count > 1]
    right = split[-1] if split and (len(split) > 1 or split[0] == len(tiles) - 1) else -1
    columns = tiles[right] if right >= 0 else 1
    rows = len(devices) // columns
    width, height = max(_CELL_W, _WIDE // columns), max(_CELL_H, _HIGH // rows)
    cells = []
    for k, held in enumerate(devices):
        where = part_slices(tiles, shape.dimensions, k) if shape is not None and tiles else ""
        title = f"{where} on device{'s' * (len(held) > 1)} {ranges(held)}".strip()
        cells.append(_cell(k % columns, k // columns, width, height, ranges(held), title, held[0]))
    across = f"dimension {right} to the right" if right >= 0 else ""
    down = [d for d in split if d != right]
    below = f"dimension {' and '.join(map(str, down))} downwards" if down else ""
    caption = "; ".join(filter(None, (across, below, "each part shows the devices that hold it")))
    return _svg(cells, columns * width, rows * height, caption, str(sharding))


def _cell(column: int, row: int, width: int, height: int, text: str, title: str, device: int) -> str:
    x, y = column * width, row * height
    shown = text if len(text) * 7 <= width - 6 else text[: max(1, (width - 13) // 7)] + "…"
    return (
        f'<g><title>{escape(title)}</title><rect x="{x}" y="{y}" width="{width}" height="{height}" '
        f'fill="{_HUES[device % len(_HUES)]}" fill-opacity="0.22" stroke="currentColor" stroke-opacity="0.45"/><text '
        f'x="{x + width / 2}" y="{y + height / 2 + 4}" text-anchor="middle" '
        f'fill="currentColor">{escape(shown)}</text></g>'
    )


def _svg(cells: Sequence[str], width: int, height: int, caption: str, label: str) -> str:
    wide = max(width, 7 * len(caption)) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(f"{label}: {caption}")}" '
        f'viewBox="-4 -4 {wide} {height + 30}" width="{wide}" height="{height + 30}" '
        f'style="{_STYLE};display:block">{"".join(cells)}'
        f'<text x="0" y="{height + 17}" fill="currentColor" opacity="0.8">{escape(caption)}</text></svg>'
    )


def _said(text: str) -> str:
    return f'<div style="{_TEXT}">{escape(text)}</div>' if text else ""

"""Emit a contraction: pack operands as planned, then run the micro-kernel over all blocks.

Threads share the blocks.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

from xlanb.codegen import costs
from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I8
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import Copy, emit_copy, moves
from xlanb.cpu.emitters.matmul.blocking import Blocking, blocking, other_ways
from xlanb.cpu.emitters.matmul.blocks import Blocks, amx_product, has_blocks
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis, count
from xlanb.cpu.emitters.matmul.grid import Span, Work, emit_grid, even, positions, span_of, walk_table
from xlanb.cpu.emitters.matmul.lanes import has_masks, lanes_of
from xlanb.cpu.emitters.matmul.panel import panel_routine, panel_table
from xlanb.cpu.emitters.matmul.plan import MatmulPlan, most_columns
from xlanb.cpu.emitters.matmul.shared import PAGES
from xlanb.cpu.emitters.matmul.strips import emit_strips, strips_of
from xlanb.cpu.emitters.matmul.tile import MatmulTile, has_pairs, panel_axes, panel_bytes, tile_routine, tile_table
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_FOLDED = 4
"""Rows, and columns, of a tile whose vectors run along depth."""
_STREAMED = 1 << 21
"""Elements of a b, in memory, whose short columns are read one after the other for a single row.

Several long ones at a time hide that the next page is slow to find.
"""
Places = tuple[Value, Value, Value]
"""Addresses of a, b and the result."""


def emit_contraction(f: Function, p: MatmulPlan, places: Places, scratch: Value | None) -> None:
    """Emit a contraction; a and b are the operands before the plan swapped them.

    `scratch` is memory of the size that the plan requests.
    """
    x = p.x
    a, b, c = places
    if x.is_swapped:
        a, b = b, a
    if p.blocks is not None and scratch is not None and has_blocks(p.blocks, f.target):
        _blocks(f, p.blocks, (a, b, c), scratch)
        return
    if p.a is not None and scratch is not None:
        a = _copied(f, "a", p.a, a, scratch)
    if p.b is not None and scratch is not None:
        b = _copied(f, "b", p.b, b, Pointer(scratch, I8).address(p.a_bytes))
    strips = strips_of(p.x, f.target) if p.strips else None
    if strips is not None:
        why = f"b is read once, {strips.lines} lines at a time"
        f.decided("tile", f"{strips.tile}, in strips of {strips.columns} columns", why)
        emit_strips(f, p.x, strips, (a, b, c), _reading(p.x, f.target.costs))
    elif p.folds:
        f.decided("products", "vector sums along the contraction", "both operands are contiguous along it")
        _folds(f, x, (a, b, c))
    else:
        _tiles(f, x, (a, b, c), panels=p.panels)


def _blocks(f: Function, blocks: Blocks, places: Places, scratch: Value) -> None:
    """Emit a blocked product by the fastest micro-kernel that the machine has."""
    product = amx_product(blocks.x, f.target)
    if product is not None:
        from xlanb.cpu.emitters.matmul.amx_blocks import emit_amx_blocks

        emit_amx_blocks(f, blocks, product, places, scratch)
    else:
        from xlanb.cpu.emitters.matmul.vector_blocks import emit_vector_blocks

        emit_vector_blocks(f, blocks, places, scratch)


def _copied(f: Function, name: str, copy: Copy, source: Value, scratch: Value) -> Value:
    """Copy the operand to scratch memory; return its address."""
    elements = prod(x.size for x in copy.axes)
    f.decided(name, "copied first", f"{elements * copy.type.byte_size} bytes: slow to read in its layout")
    emit_copy(f, copy, source, scratch)
    return scratch


def _tiles(f: Function, x: Contraction, places: Places, *, panels: bool) -> None:
    target = f.target
    most = most_columns(x) if panels else inf
    made = blocking(x, target, most)
    if f.module.debug:
        why = f"{made.cycles:.3g} cycles for {made.tiles} tiles"
        f.decided("tile", str(made), why, other_ways(x, target, made, most))
    column = x.columns[-1] if x.columns else ContractionAxis(1, 0, 1, 1)
    width = made.width
    vectors = min(made.vectors, -(-column.size // width))
    step = min(column.size, vectors * width)
    lanes = step - (vectors - 1) * width
    rows = made.offsets(x.rows)
    depth = x.depth or (ContractionAxis(1),)
    tile = MatmulTile(
        width,
        len(rows),
        vectors,
        0 if lanes < width and has_masks(target) else lanes,
        len(depth),
        *_types(x),
        along=column.a != 0,
        is_complex=x.is_complex,
    )
    tile = replace(tile, pairs=has_pairs(target, tile, x.depth))
    nanoseconds = max(made.cycles * f.target.costs.cycle_ns, _reading(x, f.target.costs)) / made.tiles
    pairs = tile.pairs and column.b == 1 and depth[-1].size % 2 == 0
    read = replace(tile, panel=True, pairs=pairs)
    fits = column.b != 1 or panel_bytes(read, depth) <= costs.COMMON.panel_bytes
    has_panel = panels and fits and not column.a
    walk = _walk(x, made, step, target.costs.block_bytes << 2 if has_panel else target.costs.block_bytes)
    if has_panel:
        table = _panel(f, x, read, walk, (rows, depth, step, lanes))
        name = panel_routine(f.module, tile.width * x.type.byte_size)
        emit_grid(f, walk.outer, Work(name, table, places, nanoseconds * walk.blocks))
        return
    work = Work(tile_routine(f.module, tile), tile_table(tile, depth, rows, lanes), places, nanoseconds)
    emit_grid(f, [*walk.outer, *walk.inner], work)


def _panel(
    f: Function,
    x: Contraction,
    tile: MatmulTile,
    walk: _BlockOrder,
    block: tuple[list[tuple[int, int]], tuple[ContractionAxis, ...], int, int],
) -> list[int | str]:
    """The table of the routine that fills a panel and computes its rows.

    `block` is its rows, depth, columns and the lanes of the last vector.
    """
    rows, depth, step, lanes = block
    line = tile.vectors * tile.width
    axes = [
        ContractionAxis(axis.size, axis.b, 0, to.b * line)
        for axis, to in zip(depth, panel_axes(tile, depth), strict=True)
    ]
    if tile.pairs:
        axes[-1] = ContractionAxis(depth[-1].size // 2, 2 * depth[-1].b, 0, line)
    pair = depth[-1].b if tile.pairs else 0
    copy = moves(f, Copy((ContractionAxis(step, x.columns[-1].b, 0, 1), *axes), x.b_type, x.type, pair))
    size = panel_bytes(tile, depth)
    sizes = size, positions(copy.spans), walk.blocks, 0 if step == line else size // tile.line_bytes, tile.line_bytes
    first = walk_table(copy.spans, copy.name, copy.words)
    second = walk_table(walk.inner, tile_routine(f.module, tile), tile_table(tile, depth, rows, lanes))
    return panel_table(f.module, sizes, first, second)


def _types(x: Contraction) -> tuple[PrimitiveType, PrimitiveType, PrimitiveType, PrimitiveType]:
    return x.a_type, x.b_type, x.type, x.c_type


@dataclass(frozen=True)
class _BlockOrder:
    """Blocks in order; `inner` iterates over the rows of a group.

    `outer` iterates over batches, groups of rows whose part of a fits the cache, and columns.
    """

    outer: list[Span]
    inner: list[Span]

    @property
    def blocks(self) -> int:
        """Blocks of rows in a group."""
        return positions(self.inner)


def _walk(x: Contraction, made: Blocking, step: int, room_bytes: int) -> _BlockOrder:
    batch = [span_of(x, axis) for axis in x.batch]
    columns = [span_of(x, axis, step if axis is x.columns[-1] else 1) for axis in x.columns]
    groups: list[Span] = []
    inner: list[Span] = []
    within: list[ContractionAxis] = list(x.depth)
    for n, axis in reversed(list(enumerate(x.rows))):
        by = axis.size if n == made.whole else made.part if n == made.axis else 1
        blocks = -(-axis.size // by)
        fit = 1 if groups else _blocks_that_fit(within, axis, by, room_bytes // x.a_type.byte_size)
        each = blocks if fit >= blocks else even(blocks, fit)
        size = min(axis.size, each * by)
        if each > 1:
            inner.insert(0, span_of(x, replace(axis, size=size), by))
        if each < blocks:
            groups.insert(0, span_of(x, axis, size))
        within.append(axis)
    return _BlockOrder([*batch, *groups, *columns], inner)


def _blocks_that_fit(within: list[ContractionAxis], axis: ContractionAxis, by: int, rows: int) -> int:
    """The maximum number of blocks of `by` rows whose elements of a, with all of `within`, do not
    exceed a limit; at least one.
    """
    dense = count(within)
    reach = 1 + sum((x.size - 1) * abs(x.a) for x in within)
    many = max(rows // dense, (rows - reach) // max(abs(axis.a), 1) + 1 if reach < rows else 0)
    return max(1, many // by)


def _folds(f: Function, x: Contraction, places: Places) -> None:
    """Emit tiles of a few rows and columns whose vectors run along depth."""
    width = lanes_of(f.target, x.type.bits)
    while width > 4 and width // 2 >= x.depth[-1].size:
        width //= 2
    row = x.rows[-1] if x.rows else ContractionAxis(1)
    column = x.columns[-1] if x.columns else ContractionAxis(1)
    parts = 2 if x.is_complex else 1
    high, wide = min(row.size, _FOLDED), min(column.size, _FOLDED // parts)
    is_short = x.b_type.bits < x.type.bits or x.depth[-1].size * x.b_type.byte_size <= PAGES
    if high == 1 and is_short and x.column_count * x.depth_count >= _STREAMED:
        wide = 1
    sets = max(1, costs.COMMON.independent_sums // (high * wide * parts))
    vectors, lanes = divmod(x.depth[-1].size, width)
    tail = (0 if has_masks(f.target) else lanes) if lanes else width
    tile = MatmulTile(width, high, wide, tail, len(x.depth), *_types(x), is_complex=x.is_complex, fold=sets)
    rows = [(r * row.a, r * row.c) for r in range(high)]
    columns = [(n * column.b, n * column.c) for n in range(wide)]
    table = tile_table(tile, (*x.depth[:-1], ContractionAxis(vectors, width, width)), rows, lanes, columns)
    spans = [span_of(x, axis) for axis in x.batch]
    spans += [span_of(x, axis, wide if axis is column else 1) for axis in x.columns]
    spans += [span_of(x, axis, high if axis is row else 1) for axis in x.rows]
    cycles = max(tile.sums, high + wide) * x.depth_count / width + 8 * tile.sums
    reading = _reading(x, f.target.costs) / max(positions(spans), 1)
    nanoseconds = max(cycles * f.target.costs.cycle_ns, reading)
    emit_grid(f, spans, Work(tile_routine(f.module, tile), table, places, nanoseconds))


def _reading(x: Contraction, c: costs.Costs) -> float:
    """The nanoseconds to read operands that do not stay in the L2 cache."""
    sizes = (
        prod(axis.size for axis in (*x.batch, *own, *x.depth)) * t.byte_size
        for own, t in ((x.rows, x.a_type), (x.columns, x.b_type))
    )
    return sum(n for n in sizes if n > c.near_bytes) * c.far_byte_ns

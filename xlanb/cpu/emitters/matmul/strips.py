"""Few rows by a large b: each thread takes strips of its columns, and reads them in order.

    for each strip of columns:                              shared by threads
        for each slice of a few lines of b:                 read from memory once
            for each few rows of a:
                for each tile of the strip: sums += a[rows, slice] * b[slice, tile]
        copy the sums to the result

A tile over all of depth would read a piece of each line of b, so that no line is prefetched; lines
a power of two apart moreover map to few sets of the caches. A strip's sums are on the stack of the
thread that computes them. The routine's table:

    walk                the routine that loops over blocks
    lines, rest, steps  lines of a slice, of the last slice; slices
    a, b                bytes between elements of a row of a, between lines of b
    tiles, a            tiles of rows before the last; bytes between rows of a
    tiles               tiles of a line in the strip
    copies, ...         blocks of the copy to the result; the table of the loop over them
"""

from __future__ import annotations

from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import Copy, moves
from xlanb.cpu.emitters.matmul.contraction import Contraction, ContractionAxis
from xlanb.cpu.emitters.matmul.grid import (
    Work,
    context_of,
    emit_grid,
    even,
    positions,
    span_of,
    walk_routine,
    walk_table,
)
from xlanb.cpu.emitters.matmul.lanes import Lanes, lanes_of
from xlanb.cpu.emitters.matmul.shared import LINE, ROUTINE, types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_VECTORS = 8
"""Vectors of a tile, at most."""
_ROWS = 8
"""Rows of a tile, at most."""
_LINES = 32
"""Lines of b in a slice: no more streams than are prefetched, and they stay near for all rows."""
_FAR = 8192
"""Lines at a multiple of this many bytes share few sets of the L2 cache."""
_FEWER = 16
"""Lines of such a b in a slice; half as many for a single row."""
_STRIP = 3072
"""Bytes of a line in a strip, at most; a third more for a single row."""
_HEAD = 10


@dataclass(frozen=True)
class StripTile:
    """The micro-kernel: `rows` by `vectors` of sums, which are added to those on the stack."""

    rows: int
    last: int
    """Rows of the last tile, which may be fewer."""
    vectors: int
    width: int
    type: PrimitiveType

    @property
    def columns(self) -> int:
        """Columns of the tile."""
        return self.vectors * self.width

    def __str__(self) -> str:
        return f"{self.rows} rows by {self.vectors} vectors of {self.width}"

    @property
    def name(self) -> str:
        """The routine's name."""
        return f"strip.{types_text(self.type)}.{self.rows}.{self.last}x{self.vectors}x{self.width}"


@dataclass(frozen=True)
class Strips:
    """How a product is divided: its columns into strips, its depth into slices."""

    tile: StripTile
    columns: int
    lines: int


def strips_of(x: Contraction, target: CodegenTarget) -> Strips | None:
    """The strips of a product; None if there are too few columns for a tile."""
    width, item, size = lanes_of(target, x.type.bits), x.type.byte_size, x.columns[0].size
    rows = even(x.row_count, min(_ROWS, target.vector_registers * 3 // 8))
    last = (x.row_count - 1) % rows + 1
    vectors = _VECTORS if rows == 1 else min(_VECTORS, (target.vector_registers - 2) // (rows + 1))
    tile = StripTile(rows, last, vectors, width, x.type)
    if size < tile.columns:
        return None

    def work(columns: int) -> tuple[int, int]:
        """The columns that the busiest thread computes; those of the last strip may be repeated."""
        count = -(-size // columns)
        return -(-count // target.threads) * columns, -columns

    is_single = x.row_count == 1
    widest = (_STRIP * 4 // 3 if is_single else _STRIP) // item
    most = min(widest, size) // tile.columns
    columns = min(range((most + 1) // 2 * tile.columns, most * tile.columns + 1, tile.columns), key=work)
    lines = _LINES if x.depth[0].b * item % _FAR else _FEWER // 2 if is_single else _FEWER
    return Strips(tile, columns, min(lines, x.depth[0].size))


def emit_strips(f: Function, x: Contraction, s: Strips, places: tuple[Value, Value, Value], reading_ns: float) -> None:
    """Emit a product in strips, whose operands one thread reads in `reading_ns`."""
    spans = [*(span_of(x, axis) for axis in x.batch), span_of(x, x.columns[0], s.columns)]
    nanoseconds = max(reading_ns, x.products / s.tile.width * f.target.costs.cycle_ns) / positions(spans)
    emit_grid(f, spans, Work(strip_routine(f.module, s.tile), _strip_table(f, x, s), places, nanoseconds))


def _strip_table(f: Function, x: Contraction, s: Strips) -> list[int | str]:
    row, depth, item = x.rows[0] if x.rows else ContractionAxis(1), x.depth[0], x.type.byte_size
    sums = (ContractionAxis(row.size, s.columns, 0, row.c), ContractionAxis(s.columns, 1, 0, x.columns[0].c))
    copy = moves(f, Copy(sums, x.type, x.c_type))
    steps = -(-depth.size // s.lines)
    words = [s.lines, depth.size - (steps - 1) * s.lines, steps, depth.a * item, depth.b * item]
    words += [-(-row.size // s.tile.rows) - 1, row.a * item, s.columns // s.tile.columns, positions(copy.spans)]
    return [f"@{walk_routine(f.module)}", *words, *walk_table(copy.spans, copy.name, copy.words)]


def strip_routine(module: ModuleBuilder, tile: StripTile) -> str:
    """The name of the routine (ptr a, ptr b, ptr c, ptr p) for a strip of columns."""
    return routine(module, tile, tile.name, lambda f: _emit(f, tile), ROUTINE)


def _emit(f: Function, tile: StripTile) -> None:
    a, b, c, p = map(f.argument, ROUTINE)
    lines, rest, steps, a_step, b_step, groups, a_row, tiles, copies = (word(p, k) for k in range(1, _HEAD))
    v, item = Lanes(f, tile.type, tile.width), tile.type.byte_size
    places, line = [k * tile.width for k in range(tile.vectors)], tile.columns * item
    sum_row = tiles * line
    ahead = lines * b_step
    count_of_rows = groups * tile.rows + tile.last
    sums = f.stack_bytes(count_of_rows * sum_row)
    with f.carried(count_of_rows * tiles, [sums], guarded=True) as loop:
        for k in places:
            v.store(tile.type, loop.values[0], k, f.zero(v.kind))
        loop.next = [displaced(loop.values[0], line)]

    def add(rows: int, left: Value, right: Value, to: Value, count: Value) -> None:
        """Add the products of a part of a slice of some rows and of a tile of b."""
        lefts = [displaced(left, a_row * r) for r in range(rows)]
        targets = [(displaced(to, sum_row * r), k) for r in range(rows) for k in places]
        state = [f.zero(count.type), right, *(v.load(tile.type, row, k) for row, k in targets)]
        with f.carried(count, state, guarded=True) as loop:
            at, here, *totals = loop.values
            columns = [v.load(tile.type, here, k) for k in places]
            if tile.rows > 1:  # a single row only waits for memory
                following = displaced(here, ahead)
                for k in range(0, line, LINE):
                    f.prefetch(displaced(following, k), locality=2)
            factors = [v.broadcast(tile.type, displaced(row, at), 0) for row in lefts]
            products = [(factor, column) for factor in factors for column in columns]
            made = [x.times_plus(y, total) for (x, y), total in zip(products, totals, strict=True)]
            loop.next = [at + a_step, displaced(here, b_step), *made]
        for (row, k), total in zip(targets, loop.values[2:], strict=True):
            v.store(tile.type, row, k, total)

    def across(rows: int, left: Value, right: Value, to: Value, count: Value) -> None:
        with f.carried(tiles, [right, to], guarded=True) as loop:
            here, there = loop.values
            add(rows, left, here, there, count)
            loop.next = [displaced(here, line), displaced(there, line)]

    with f.carried(steps, [a, b], guarded=True) as slices:
        left, right = slices.values
        count = f.value(slices.index).equals(steps - 1).select(rest, lines)
        with f.carried(groups, [left, sums], guarded=True) as loop:
            here, there = loop.values
            across(tile.rows, here, right, there, count)
            loop.next = [displaced(here, a_row * tile.rows), displaced(there, sum_row * tile.rows)]
        across(tile.last, loop.values[0], right, loop.values[1], count)
        slices.next = [displaced(left, lines * a_step), displaced(right, ahead)]
    walk, zero = Pointer(p, PTR)[0], f.zero(copies.type)
    f.call_pointer(walk, context_of(displaced(p, 8 * _HEAD), sums, sums, c), zero, copies, zero)

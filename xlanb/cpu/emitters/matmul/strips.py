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
    lines, rest, steps  lines of a slice, of the last slice; slices of the innermost axis of depth
    stretches           positions in the other axes of depth
    a, b                bytes between elements of that axis in a, between lines of b
    groups, tiles       tiles of rows before the last; tiles of a line in the strip
    offset, copies      bytes to the table of the copy to the result; blocks of the copy
    stretches...        bytes of a to each position in the other axes
    rows...             bytes of a to each row
    ...                 the table of the loop that copies
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from xlanb.codegen.function import Function
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import Copy, moves
from xlanb.cpu.emitters.matmul.blocking import step_cycles
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
"""Rows of a tile, at most, unless more and fewer vectors divide a product with less in vain."""
_LINES = 32
"""Lines of b in a slice: no more streams than are prefetched, and they stay near for all rows."""
_FAR = 8192
"""Lines at a multiple of this many bytes share few sets of the L2 cache."""
_FEWER = 16
"""Lines of such a b in a slice, at most."""
_STRIP = 3072
"""Bytes of a line in a strip, at most; twice as many for two tiles of rows."""
_ONCE = 8
"""Lines of b in a slice that one tile of rows reads, and then nobody."""
_LONG = 16384
"""Bytes of a line in a strip of such slices, at most; four times as many for a single row.

Memory is fastest read in order: the next line is elsewhere, and on another page.
"""
_SHARED = 8192
"""Bytes of a line from which on strips are shorter if there would be fewer of them than threads."""
_HEAD = 11


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
    size = x.columns[0].size
    options = [_strips(x, tile, target) for tile in _tiles(x, target) if tile.columns <= size]

    def cycles(s: Strips) -> float:
        """The cycles of a line of b in the busiest thread, columns that are repeated included."""
        step = step_cycles(s.tile.rows, s.tile.vectors, target.costs, is_far=True)
        return step * -(-x.row_count // s.tile.rows) * _busiest(size, s.columns, target) / s.tile.columns

    return min(options, key=cycles, default=None)


def _tiles(x: Contraction, target: CodegenTarget) -> Iterator[StripTile]:
    """Yield the tiles whose sums and operands fit the registers."""
    registers, width = target.vector_registers, lanes_of(target, x.type.bits)
    for most in (min(_ROWS, registers * 3 // 8), registers * 13 // 32):  # of 32, 8 by 3 vectors or 13 by 2
        rows = even(x.row_count, most)
        vectors = _VECTORS if rows == 1 else min(_VECTORS, (registers - 2) // (rows + 1))
        yield StripTile(rows, (x.row_count - 1) % rows + 1, vectors, width, x.type)


def _strips(x: Contraction, tile: StripTile, target: CodegenTarget) -> Strips:
    """Strips of whole tiles, as evenly as threads can share them."""
    item, size, groups = x.type.byte_size, x.columns[0].size, -(-x.row_count // tile.rows)
    if groups == 1:
        longest, lines = _LONG if x.row_count > 1 else 4 * _LONG, _ONCE
    else:
        longest = 2 * _STRIP if groups == 2 else _STRIP
        lines = _LINES if x.depth[-1].b * item % _FAR else _FEWER
    longest = min(longest, max(_SHARED, -(-size // target.threads) * item))
    most = min(longest // item, size) // tile.columns
    options = range((most + 1) // 2 * tile.columns, most * tile.columns + 1, tile.columns)
    columns = min(options, key=lambda n: (_busiest(size, n, target), -n))
    return Strips(tile, columns, min(lines, x.depth[-1].size))


def _busiest(size: int, columns: int, target: CodegenTarget) -> int:
    """The columns that the busiest thread computes; those of the last strip may be repeated."""
    count = -(-size // columns)
    return -(-count // target.threads) * columns


def emit_strips(f: Function, x: Contraction, s: Strips, places: tuple[Value, Value, Value], reading_ns: float) -> None:
    """Emit a product in strips, whose operands one thread reads in `reading_ns`."""
    spans = [*(span_of(x, axis) for axis in x.batch), span_of(x, x.columns[0], s.columns)]
    nanoseconds = max(reading_ns, x.products / s.tile.width * f.target.costs.cycle_ns) / positions(spans)
    emit_grid(f, spans, Work(strip_routine(f.module, s.tile), _strip_table(f, x, s), places, nanoseconds))


def _strip_table(f: Function, x: Contraction, s: Strips) -> list[int | str]:
    depth, item = x.depth[-1], x.type.byte_size
    sums = [ContractionAxis(s.columns, 1, 0, x.columns[0].c)]
    for row in reversed(x.rows):
        sums.insert(0, ContractionAxis(row.size, prod(axis.size for axis in sums), 0, row.c))
    copy = moves(f, Copy(tuple(sums), x.type, x.c_type))
    steps = -(-depth.size // s.lines)
    stretches, rows = (_offsets(axes, item) for axes in (x.depth[:-1], x.rows))
    words = [s.lines, depth.size - (steps - 1) * s.lines, steps, len(stretches), depth.a * item, depth.b * item]
    words += [-(-len(rows) // s.tile.rows) - 1, s.columns // s.tile.columns]
    words += [8 * (_HEAD + len(stretches) + len(rows)), positions(copy.spans), *stretches, *rows]
    return [f"@{walk_routine(f.module)}", *words, *walk_table(copy.spans, copy.name, copy.words)]


def _offsets(axes: Sequence[ContractionAxis], item: int) -> list[int]:
    """The bytes of a to each position in some axes, the last the fastest."""
    places = product(*([n * x.a for n in range(x.size)] for x in axes))
    return [sum(place) * item for place in places]


def strip_routine(module: ModuleBuilder, tile: StripTile) -> str:
    """The name of the routine (ptr a, ptr b, ptr c, ptr p) for a strip of columns."""
    return routine(module, tile, tile.name, lambda f: _emit(f, tile), ROUTINE)


def _emit(f: Function, tile: StripTile) -> None:
    a, b, c, p = map(f.argument, ROUTINE)
    lines, rest, steps, stretches, a_step, b_step, groups, tiles, offset, copies = (word(p, k) for k in range(1, _HEAD))
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

    def add(rows: Sequence[Value], right: Value, to: Value, length: Value) -> None:
        """Add the products of a part of a slice of some rows and of a tile of b."""
        targets = [(displaced(to, sum_row * r), k) for r in range(len(rows)) for k in places]
        state = [f.zero(length.type), right, *(v.load(tile.type, row, k) for row, k in targets)]
        with f.carried(length, state, guarded=True) as loop:
            at, here, *totals = loop.values
            columns = [v.load(tile.type, here, k) for k in places]
            if tile.rows > 1:  # a single row only waits for memory
                following = displaced(here, ahead)
                for k in range(0, line, LINE):
                    f.prefetch(displaced(following, k), locality=2)
            factors = [v.broadcast(tile.type, displaced(row, at), 0) for row in rows]
            products = [(factor, column) for factor in factors for column in columns]
            made = [x.times_plus(y, total) for (x, y), total in zip(products, totals, strict=True)]
            loop.next = [at + a_step, displaced(here, b_step), *made]
        for (row, k), total in zip(targets, loop.values[2:], strict=True):
            v.store(tile.type, row, k, total)

    def across(count: int, left: Value, offsets: Value, right: Value, to: Value, length: Value) -> None:
        """Add the products of a part of a slice of `count` rows and of all tiles of a line."""
        rows = [displaced(left, word(offsets, r)) for r in range(count)]
        with f.carried(tiles, [right, to], guarded=True) as loop:
            here, there = loop.values
            add(rows, here, there, length)
            loop.next = [displaced(here, line), displaced(there, line)]

    first = Pointer(p, I64).address(_HEAD)
    rows = displaced(first, stretches * 8)
    with f.carried(stretches, [b], guarded=True) as outer:
        begin = displaced(a, Pointer(first, I64)[outer.index])
        with f.carried(steps, [begin, outer.values[0]], guarded=True) as slices:
            left, right = slices.values
            length = f.value(slices.index).equals(steps - 1).select(rest, lines)
            with f.carried(groups, [rows, sums], guarded=True) as loop:
                here, there = loop.values
                across(tile.rows, left, here, right, there, length)
                loop.next = [displaced(here, 8 * tile.rows), displaced(there, sum_row * tile.rows)]
            across(tile.last, left, loop.values[0], right, loop.values[1], length)
            slices.next = [displaced(left, lines * a_step), displaced(right, length * b_step)]
        outer.next = [slices.values[1]]
    walk, zero = Pointer(p, PTR)[0], f.zero(copies.type)
    f.call_pointer(walk, context_of(displaced(p, offset), sums, sums, c), zero, copies, zero)

"""The micro-kernel: a block of the result, rows by vectors, in registers over the contraction.

    for d in depth:                     a[row_0 + d]  a[row_1 + d] ...      one element, broadcast
        b[d], b[d + width] ...          a vector each
        total[row, vector] += a * b     rows * vectors multiply-adds for rows + vectors loads

It is a routine (see shared) that depends only on types, rows and vectors. Its table:

    size, a, b            per axis of depth but the last, outermost first: byte strides in a and b
    rounds, rest, a, b    the last axis: rounds of `unroll` steps, and the remaining steps
    a, a                  per step of a round: its byte offset, and its stride to the next round
    a                     per row: byte offset in a
    c                     per row: byte offset in the result
    lanes                 lanes of the last vector

A tile may read b from a panel (see panel). Complex numbers are pairs of lanes; each row has sums
for both parts.

If there are few rows, vectors may run along depth in both operands: a step is a vector of each row
and of each column, and each sum is reduced to one element at the end. The table then ends with each
column's byte offsets in b and in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from xlanb.codegen import costs
from xlanb.codegen.elements import register, store
from xlanb.codegen.function import Function
from xlanb.codegen.lanes import Mask
from xlanb.codegen.module import CodegenTarget, ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.types import BFLOAT, I8, I16, I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis, count
from xlanb.cpu.emitters.matmul.lanes import Lanes
from xlanb.cpu.emitters.matmul.shared import ROUTINE, types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}
"""Intrinsics that multiply pairs of 16-bit integers and add both products, by vector bits."""
_FLOAT_PAIRS = "llvm.x86.avx512bf16.dpbf16ps"
"""The same for pairs of bf16, added to an f32 sum; the vector's bits follow the name."""
_NARROW = (PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16)


@dataclass(frozen=True)
class MatmulTile:
    """A block of `rows` by `vectors` of `width` lanes each over `levels` axes of depth."""

    width: int
    rows: int
    vectors: int
    tail: int
    """Lanes of the last vector; 0 if the table has them."""
    levels: int
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    along: bool = False
    """Whether a is contiguous along the vectors too, so that a vector replaces the broadcast.

    The result has one product per lane and no sum over it: a depthwise convolution.
    """
    pairs: bool = False
    """Whether two steps of depth are taken at once, as pairs of narrow integers or bf16."""
    panel: bool = False
    """Whether b is a panel: lines of whole vectors of the accumulation type, or of pairs."""
    is_complex: bool = False
    """Whether elements are interleaved real and imaginary parts; each row sums products of both."""
    fold: int = 0
    """Sets of accumulators if vectors run along depth in a and b; 0 if they run along columns.

    Sums of each row and column are then reduced to one element; `vectors` counts columns, and
    `tail` is that of depth.
    """

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return self.rows * self.vectors * (2 if self.is_complex else 1)

    @property
    def sets(self) -> int:
        """Accumulators per sum, used in turn."""
        return self.fold or (
            1
            if self.pairs or self.sums >= costs.COMMON.independent_sums
            else min(4, -(-costs.COMMON.independent_sums // self.sums))
        )

    @property
    def unroll(self) -> int:
        """Steps of depth per round."""
        return 2 if self.pairs else self.sets

    @property
    def line_bytes(self) -> int:
        """Bytes of a line of a panel."""
        return self.vectors * self.width * self.type.byte_size

    @property
    def name(self) -> str:
        """The routine's name."""
        end = "" if self.tail == self.width else f".lanes{self.tail or ''}"
        kind = f"{'.along' if self.along else ''}{'.pairs' if self.pairs else ''}"
        kind += f".fold{self.fold}" if self.fold else ""
        kind += f"{'.panel' if self.panel else ''}{'.complex' if self.is_complex else ''}"
        types = types_text(self.a_type, self.b_type, self.type, self.c_type)
        return f"tile.{types}.{self.rows}x{self.vectors}x{self.width}.depth{self.levels}{kind}{end}"


def has_pairs(target: CodegenTarget, tile: MatmulTile, depth: Sequence[ContractionAxis]) -> bool:
    """Whether a tile may take two contiguous steps of depth at once.

    They must be bf16 or narrow integers, on a machine that multiplies and adds such pairs.
    """
    if tile.along or tile.is_complex or not depth or depth[-1].a != 1:
        return False
    if tile.type is PrimitiveType.F32:
        return tile.a_type is tile.b_type is PrimitiveType.BF16 and "avx512bf16" in target.enabled
    bits = tile.width * 32
    wide = bits in _PAIRS and bits <= target.vector_bits and target.triple.startswith("x86_64")
    return wide and tile.type.is_integral and tile.type.bits == 32 and tile.a_type in _NARROW and tile.b_type in _NARROW


def tile_table(
    tile: MatmulTile,
    depth: Sequence[ContractionAxis],
    rows: Sequence[tuple[int, int]],
    lanes: int,
    columns: Sequence[tuple[int, int]] = (),
) -> list[int]:
    """The table of a tile over `depth`.

    `rows` are offsets in a and in the result, `columns` in b and in the result, in elements;
    `lanes` are those of the last vector.
    """
    a, b, c = (t.byte_size for t in (tile.a_type, tile.b_type, tile.c_type))
    if tile.panel:
        depth, b = panel_axes(tile, depth), tile.line_bytes
    around = [*(row * a for row, _ in rows), *(row * c for _, row in rows), lanes]
    words: list[int] = []
    for axis in depth[:-1]:
        words += [axis.size, axis.a * a, axis.b * b]
    inner, unroll = depth[-1], tile.unroll
    words += [inner.size // unroll, inner.size % unroll, inner.a * a, inner.b * b]
    for u in range(unroll):
        words += [u * inner.a * a, unroll * inner.a * a]
    return [*words, *around, *(word for y, z in columns for word in (y * b, z * c))]


def panel_axes(tile: MatmulTile, depth: Sequence[ContractionAxis]) -> tuple[ContractionAxis, ...]:
    """The axes of depth with panel lines as steps of b; a pair of steps shares a line."""
    *outer, inner = depth
    lines = inner.size // 2 if tile.pairs else inner.size
    out = [replace(inner, b=1)]
    for axis in reversed(outer):
        out.insert(0, replace(axis, b=lines))
        lines *= axis.size
    return tuple(out)


def panel_bytes(tile: MatmulTile, depth: Sequence[ContractionAxis]) -> int:
    """Bytes of a panel over depth."""
    return count(depth) // (2 if tile.pairs else 1) * tile.line_bytes


def tile_routine(module: ModuleBuilder, tile: MatmulTile) -> str:
    """The name of a tile's routine."""
    return routine(module, tile, tile.name, lambda f: _TileEmitter(f, tile).emit(), ROUTINE)


class _TileEmitter:
    """Emits the routine of a tile."""

    def __init__(self, f: Function, tile: MatmulTile) -> None:
        self.f = f
        self.tile = tile
        self.v = Lanes(f, tile.type, tile.width)
        self.a, self.b, self.c, self.p = map(f.argument, ROUTINE)
        at = 3 * tile.levels + 1 + 2 * tile.unroll
        last = at + 2 * tile.rows
        self.mask = self.v.some(tile.tail) if tile.tail else Mask.first(f, tile.width, self._word(last))
        self.first_c = at + tile.rows
        self.rows = [displaced(self.a, self._word(at + r)) for r in range(tile.rows)]
        columns = range(last + 1, last + 1 + 2 * tile.vectors, 2) if tile.fold else ()
        self.columns = [(self._word(k), self._word(k + 1)) for k in columns]

    def _word(self, at: int) -> Value:
        return word(self.p, at)

    def emit(self) -> None:
        tile, v, f = self.tile, self.v, self.f
        zeros = [f.zero(v.kind)] * (tile.sums * tile.sets)
        totals = self._nest(0, f.zero(I64), self.b, zeros)
        for s in range(1, tile.sets):
            part = totals[s * tile.sums : (s + 1) * tile.sums]
            totals[: tile.sums] = [x + y for x, y in zip(totals[: tile.sums], part, strict=True)]
        if tile.is_complex and not tile.fold:
            totals = [self._joined(*totals[n : n + 2]) for n in range(0, tile.sums, 2)]
        for r in range(tile.rows):
            row = displaced(self.c, self._word(self.first_c + r))
            for k in range(tile.vectors):
                if tile.fold:
                    parts = 2 if tile.is_complex else 1
                    n = (r * tile.vectors + k) * parts
                    self._store_sums(displaced(row, self.columns[k][1]), totals[n : n + parts])
                    continue
                v.store(tile.c_type, row, k * tile.width, totals[r * tile.vectors + k], self._lanes(k))

    def _joined(self, reals: Value, imaginaries: Value) -> Value:
        """The products of a row's real parts plus i times those of its imaginary parts."""
        v = self.v
        return reals + v.times(v.exchanged(imaginaries), (-1.0, 1.0))

    def _store_sums(self, at: Value, totals: list[Value]) -> None:
        """Store the sums of the lanes.

        For complex numbers: products of like parts, with alternating signs, and of unlike parts.
        """
        if self.tile.is_complex:
            totals[0] = self.v.times(totals[0], (1.0, -1.0))
        for part, total in enumerate(totals):
            store(self.tile.c_type, at, part, self.v.sum(total))

    def _lanes(self, vector: int) -> Mask | None:
        """The mask of a vector's lanes; None for all."""
        return self.mask if vector == self.tile.vectors - 1 else None

    def _nest(self, level: int, at: Value, b: Value, totals: Sequence[Value]) -> list[Value]:
        """Emit the loops over depth from `level` inwards; `at` is the offset in all rows."""
        f, tile = self.f, self.tile
        if level == tile.levels - 1:
            return self._inner(at, b, totals)
        size, a_step, b_step = (self._word(3 * level + k) for k in range(3))
        with f.carried(size, [at, b, *totals]) as loop:
            here, pb, *now = loop.values
            now = self._nest(level + 1, here, pb, now)
            loop.next = [here + a_step, displaced(pb, b_step), *now]
        return list(loop.values[2:])

    def _inner(self, at: Value, b: Value, totals: Sequence[Value]) -> list[Value]:
        tile, first = self.tile, 3 * (self.tile.levels - 1)
        rounds, rest, a_step, b_step = (self._word(first + k) for k in range(4))
        if tile.fold:
            return self._whole_vectors((rounds, rest), at, b, totals)
        if tile.unroll > 1:
            # Separate words even for equal values: otherwise LLVM combines all rows and steps to
            # pointers, which exceed the registers.
            starts = [at, *(at + self._word(first + 4 + 2 * u) for u in range(1, tile.unroll))]
            advances = [self._word(first + 5 + 2 * u) for u in range(tile.unroll)]
            at, b, *totals = self._rounds(rounds, starts, advances, b, b_step, totals)
            rounds = rest
        at, b, *totals = self._rounds(rounds, [at], [a_step], b, b_step, totals)
        return totals

    def _whole_vectors(self, counts: tuple[Value, Value], at: Value, b: Value, totals: Sequence[Value]) -> list[Value]:
        """The last axis of depth with vectors along it: rounds, remaining steps, and the tail.

        Strides are constants, so that addresses need no registers.
        """
        f, tile = self.f, self.tile
        a_step, b_step = (tile.width * t.byte_size for t in (tile.a_type, tile.b_type))
        for n, steps in list(zip(counts, (tile.fold, 1), strict=True))[: tile.fold]:
            with f.carried(n, [at, b, *totals], guarded=True) as loop:
                here, there, *now = loop.values
                for s in range(steps):
                    now = self._step(here, there, now, s)
                    here, there = here + a_step, displaced(there, b_step)
                loop.next = [here, there, *now]
            at, b, *totals = loop.values
        return self._step(at, b, totals, 0, self.mask) if tile.tail < tile.width else list(totals)

    def _rounds(
        self,
        rounds: Value,
        starts: list[Value],
        advances: list[Value],
        b: Value,
        b_step: Value,
        totals: Sequence[Value],
    ) -> list[Value]:
        """Rounds of as many steps as there are offsets in the rows; possibly none.

        Returns (first offset, address in b, totals) after them.
        """
        f, tile, many = self.f, self.tile, len(starts)
        with f.carried(rounds, [*starts, b, *totals], guarded=tile.unroll > 1) as loop:
            here, pb, now = loop.values[:many], loop.values[many], list(loop.values[many + 1 :])
            if tile.pairs and many > 1:
                after = pb if tile.panel else displaced(pb, b_step)
                now, pb = self._pair(here[0], pb, after, now), displaced(after, b_step)
            else:
                for u, at in enumerate(here):
                    now, pb = self._step(at, pb, now, u), displaced(pb, b_step)
            loop.next = [*(x + d for x, d in zip(here, advances, strict=True)), pb, *now]
        return [loop.values[0], *loop.values[many:]]

    def _step(
        self, at: Value, b: Value, totals: Sequence[Value], unrolled: int, mask: Mask | None = None
    ) -> list[Value]:
        """Add the outer product of one step of depth to the totals of the unrolled step's set.

        `mask` selects the elements of a partial vector.
        """
        tile, out = self.tile, list(totals)
        n = unrolled % tile.sets * tile.sums
        columns = self._columns(b, mask)
        for row in self.rows:
            for factor, column in self._products(displaced(row, at), columns, mask):
                out[n] = factor.times_plus(column, out[n])
                n += 1
        return out

    def _products(self, row: Value, columns: list[Value], mask: Mask | None) -> Iterator[tuple[Value, Value]]:
        """Yield the factors for each sum of a row."""
        tile, v = self.tile, self.v
        if tile.along:
            for k, column in enumerate(columns):
                yield v.load(tile.a_type, row, k * tile.width, self._lanes(k)), column
            return
        if tile.fold:
            factors = [v.load(tile.a_type, row, 0, mask)]
        else:
            factors = [v.broadcast(tile.a_type, row, part) for part in range(2 if tile.is_complex else 1)]
        yield from ((factor, column) for column in columns for factor in factors)

    def _columns(self, b: Value, mask: Mask | None = None) -> list[Value]:
        """The vectors of a line of b.

        Along depth, those of all columns; complex ones twice, the second with parts exchanged.
        """
        tile, v = self.tile, self.v
        if tile.fold:
            columns = [v.load(tile.b_type, displaced(b, at), 0, mask) for at, _ in self.columns]
            return [y for x in columns for y in ((x, v.exchanged(x)) if tile.is_complex else (x,))]
        if tile.panel:
            return [v.load(tile.type, b, k * tile.width) for k in range(tile.vectors)]
        return [v.load(tile.b_type, b, k * tile.width, self._lanes(k)) for k in range(tile.vectors)]

    def _pair(self, at: Value, b: Value, b_next: Value, totals: Sequence[Value]) -> list[Value]:
        """Add two steps of depth at once, as 16-bit halves of a lane: even low, odd high."""
        tile = self.tile
        out = list(totals)
        columns = self._columns(b)
        if not tile.panel:
            columns = [self.v.together(x, y) for x, y in zip(columns, self._columns(b_next), strict=True)]
        n = 0
        for row in self.rows:
            factor = self._pair_of(displaced(row, at))
            for column in columns:
                out[n] = self._add_pairs(out[n], factor, column)
                n += 1
        return out

    def _add_pairs(self, total: Value, a: Value, b: Value) -> Value:
        """Add both products of each lane to its sum."""
        f, tile, v = self.f, self.tile, self.v
        halves = (BFLOAT if tile.type.is_floating else I16).times(2 * tile.width)
        a, b = a.bits_as(halves), b.bits_as(halves)
        if tile.type.is_floating:
            return f.call_as(v.kind, f"{_FLOAT_PAIRS}.{tile.width * 32}", total, a, b)
        return total + f.call_as(v.kind, _PAIRS[tile.width * 32], a, b)

    def _pair_of(self, at: Value) -> Value:
        """Load two neighbours of a row as 16-bit halves, broadcast to all lanes.

        The vector has the accumulation type.
        """
        f, tile = self.f, self.tile
        if tile.a_type.bits == 16:
            return f.splat(f.load(register(tile.type), at, 1), tile.width)
        both = f.splat(f.load(I16, at, 1), tile.width).bits_as(I8.times(2 * tile.width))
        return both.cast("sext" if tile.a_type.is_signed else "zext", I16).bits_as(self.v.kind)

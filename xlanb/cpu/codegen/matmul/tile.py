"""The micro-kernel: a block of the result, rows by vectors, held in registers over the whole contraction.

    for d in depth:                     a[row_0 + d]  a[row_1 + d] ...      one element each, in all lanes
        b[d], b[d + width] ...          a vector each
        total[row, vector] += a * b     rows * vectors multiply-adds for rows + vectors loads

It is a routine (see shared) that depends on types, rows and vectors alone. Its table:

    size, a, b        of each axis of depth but the last, outermost first: steps of a and b in bytes
    rounds, rest, a, b    of the last: rounds of `unroll` steps, and the steps that remain
    a, a                  of each step of a round: bytes from the first to it, and to the same of the next round
    a                 of each row: bytes from the tile's address in a
    c                 of each row: bytes from the tile's address in the result
    lanes             that the last vector has

Where the last axis is short, depth is one list of its elements (`levels` is 0) instead: rounds and rest come first, and last, of each element, its bytes in a and in b (and
zeros for one more round, which is read and not used).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis, count
from xlanb.cpu.codegen.matmul.lanes import Lanes
from xlanb.cpu.codegen.matmul.shared import field, moved, routine, types_text, word
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

_INDEPENDENT = 8
"""Sums that must be under way at once so that a unit does not wait for its own results."""

_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}
"""Intrinsics that multiply pairs of 16-bit integers and add the two products, by the width of the vector."""
_SHORT, _LIST = 16, 256
"""Elements of the last axis of depth, and of all, up to which a list of them is quicker than loops in loops."""
_NARROW = (PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16)


@dataclass(frozen=True)
class Tile:
    """A block of `rows` by `vectors` of `width` lanes each over `levels` axes of depth, or over a list of its elements (0)."""

    width: int
    rows: int
    vectors: int
    tail: int
    """Lanes of the last vector; 0 where the table has them."""
    levels: int
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    whole_b: bool = False
    """Whether b may be read beyond the tail (it was padded)."""
    along: bool = False
    """Whether a lies along the vectors too (one result per lane and no sum over it: a depthwise convolution), a vector in place of one element."""
    pairs: bool = False
    """Whether two steps of depth are taken at once, as pairs of narrow integers."""

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return self.rows * self.vectors

    @property
    def sets(self) -> int:
        """Accumulators of a sum, used in turn."""
        return 1 if self.pairs or self.sums >= _INDEPENDENT else min(4, -(-_INDEPENDENT // self.sums))

    @property
    def unroll(self) -> int:
        """Steps of depth in a round."""
        return 2 if self.pairs else self.sets

    @property
    def name(self) -> str:
        """What the routine is called."""
        end = "" if self.tail == self.width else f".lanes{self.tail or ''}{'.whole' if self.whole_b else ''}"
        kind = f"{'.along' if self.along else ''}{'.pairs' if self.pairs else ''}"
        types = types_text(self.a_type, self.b_type, self.type, self.c_type)
        depth = f"depth{self.levels}" if self.levels else "list"
        return f"tile.{types}.{self.rows}x{self.vectors}x{self.width}.{depth}{kind}{end}"


def levels_of(depth: Sequence[Axis]) -> int:
    """The `levels` of a tile over depth."""
    return 0 if len(depth) > 1 and depth[-1].size <= _SHORT and count(depth) <= _LIST else len(depth)


def has_pairs(target: Target, tile: Tile, depth: Sequence[Axis]) -> bool:
    """Whether a tile may take two steps of depth at once: narrow integers, two of a row side by side, on a machine that multiplies and adds pairs."""
    fits = (
        tile.levels > 0
        and tile.type.is_integral
        and tile.type.bits == 32
        and tile.a_type in _NARROW
        and tile.b_type in _NARROW
    )
    bits = tile.width * 32
    wide = bits in _PAIRS and bits <= target.vector_bits and target.triple.startswith("x86_64")
    return fits and wide and not tile.along and bool(depth) and depth[-1].a == 1


def tile_table(tile: Tile, depth: Sequence[Axis], rows: Sequence[tuple[int, int]], lanes: int) -> list[int]:
    """The table of a tile over `depth` with rows at (offset in a, offset in the result), in elements, and so many lanes in the last vector."""
    a, b, c = (t.byte_size for t in (tile.a_type, tile.b_type, tile.c_type))
    around = [*(row * a for row, _ in rows), *(row * c for _, row in rows), lanes]
    if not tile.levels:
        elements = [(0, 0)]
        for axis in depth:
            elements = [(x + k * axis.a * a, y + k * axis.b * b) for x, y in elements for k in range(axis.size)]
        return [*divmod(len(elements), tile.unroll), *around, *chain.from_iterable(elements), *[0] * 2 * tile.unroll]
    words: list[int] = []
    for axis in depth[:-1]:
        words += [axis.size, axis.a * a, axis.b * b]
    inner, unroll = depth[-1], tile.unroll
    words += [inner.size // unroll, inner.size % unroll, inner.a * a, inner.b * b]
    for u in range(unroll):
        words += [u * inner.a * a, unroll * inner.a * a]
    return [*words, *around]


def tile_routine(module: ModuleBuilder, tile: Tile) -> str:
    """The name of a tile's routine."""
    return routine(module, tile, tile.name, lambda f: _Emitter(f, tile).emit())


class _Emitter:
    """Writes the routine of a tile."""

    def __init__(self, f: Function, tile: Tile) -> None:
        self.f = f
        self.tile = tile
        self.v = Lanes(f, tile.type, tile.width)
        at = 3 * tile.levels + 1 + 2 * tile.unroll if tile.levels else 2
        self.list = at + 2 * tile.rows + 1
        self.lanes: int | str = tile.tail or self.v.first(word(f, self.list - 1))
        self.first_c = at + tile.rows
        self.rows = [moved(f, "%a", word(f, at + r)) for r in range(tile.rows)]

    def emit(self) -> None:
        tile, v, f = self.tile, self.v, self.f
        zeros = [v.zero()] * (tile.sums * tile.sets)
        totals = self._nest(0, "0", "%b", zeros) if tile.levels else self._listed(zeros)
        for s in range(1, tile.sets):
            part = totals[s * tile.sums : (s + 1) * tile.sums]
            totals[: tile.sums] = [v.add(x, y) for x, y in zip(totals[: tile.sums], part, strict=True)]
        for r in range(tile.rows):
            row = moved(f, "%c", word(f, self.first_c + r))
            for k in range(tile.vectors):
                v.store(tile.c_type, row, k * tile.width, totals[r * tile.vectors + k], self._lanes(k))

    def _lanes(self, vector: int) -> int | str:
        """Lanes of a vector that there are."""
        return self.lanes if vector == self.tile.vectors - 1 else self.tile.width

    def _nest(self, level: int, at: str, b: str, totals: list[str]) -> list[str]:
        """The loops over depth from `level` inwards; `at` is the offset in all rows."""
        f, tile = self.f, self.tile
        if level == tile.levels - 1:
            return self._inner(at, b, totals)
        size, a_step, b_step = (word(f, 3 * level + k) for k in range(3))
        with f.carried(size, [("i64", at), ("ptr", b), *((self.v.kind, t) for t in totals)]) as loop:
            here, pb, *now = loop.values
            now = self._nest(level + 1, here, pb, now)
            loop.next = [f.let(f"add i64 {here}, {a_step}"), moved(f, pb, b_step), *now]
        return loop.values[2:]

    def _inner(self, at: str, b: str, totals: list[str]) -> list[str]:
        tile, first = self.tile, 3 * (self.tile.levels - 1)
        rounds, rest, a_step, b_step = (word(self.f, first + k) for k in range(4))
        if tile.unroll == 1:
            return self._steps(rounds, [at], [a_step], b, b_step, totals)
        # Words of their own for what is the same number: LLVM would make pointers of all rows and steps together, more than there are registers.
        starts = [at, *(self.f.let(f"add i64 {at}, {word(self.f, first + 4 + 2 * u)}") for u in range(1, tile.unroll))]
        advances = [word(self.f, first + 5 + 2 * u) for u in range(tile.unroll)]
        at, b, *totals = self._rounds(rounds, starts, advances, b, b_step, totals)
        return self._steps(rest, [at], [a_step], b, b_step, totals)

    def _rounds(
        self, rounds: str, starts: list[str], advances: list[str], b: str, b_step: str, totals: list[str]
    ) -> list[str]:
        """Rounds of as many steps as there are offsets in the rows, perhaps none: (first offset, address in b, totals) after them."""
        f, tile, many = self.f, self.tile, len(starts)
        carried = [*(("i64", at) for at in starts), ("ptr", b), *((self.v.kind, t) for t in totals)]
        with f.carried(rounds, carried, guarded=tile.unroll > 1) as loop:
            here, pb, now = loop.values[:many], loop.values[many], loop.values[many + 1 :]
            if tile.pairs and many > 1:
                after = moved(f, pb, b_step)
                now, pb = self._pair(here[0], pb, after, now), moved(f, after, b_step)
            else:
                for u, at in enumerate(here):
                    now, pb = self._step(at, pb, now, u), moved(f, pb, b_step)
            loop.next = [*(f.let(f"add i64 {x}, {d}") for x, d in zip(here, advances, strict=True)), pb, *now]
        return [loop.values[0], *loop.values[many:]]

    def _steps(
        self, rounds: str, starts: list[str], advances: list[str], b: str, b_step: str, totals: list[str]
    ) -> list[str]:
        """Steps one by one: the totals after them."""
        return self._rounds(rounds, starts, advances, b, b_step, totals)[2:]

    def _listed(self, totals: list[str]) -> list[str]:
        """The loops over a list: rounds, and what remains."""
        tile, entry = self.tile, field(self.f, self.list)
        entry, *totals = self._entries(word(self.f, 0), entry, tile.unroll, totals)
        return totals if tile.unroll == 1 else self._entries(word(self.f, 1), entry, 1, totals)[1:]

    def _entries(self, rounds: str, entry: str, many: int, totals: list[str]) -> list[str]:
        """Rounds of so many entries of the list: (address in it, totals) after them.

        A round's entries are read in the one before: LLVM's scheduler would put off all that waits for them, and run out of registers.
        """
        f = self.f
        first = [word(f, k, entry) for k in range(2 * many)]
        carried = [("ptr", entry), *(("i64", x) for x in first), *((self.v.kind, t) for t in totals)]
        with f.carried(rounds, carried, guarded=self.tile.unroll > 1) as loop:
            here, offsets, now = loop.values[0], loop.values[1 : 1 + 2 * many], loop.values[1 + 2 * many :]
            further = moved(f, here, str(16 * many))
            ahead = [word(f, k, further) for k in range(2 * many)]
            for u in range(many):
                now = self._step(offsets[2 * u], moved(f, "%b", offsets[2 * u + 1]), now, u)
            loop.next = [further, *ahead, *now]
        return [loop.values[0], *loop.values[1 + 2 * many :]]

    def _step(self, at: str, b: str, totals: list[str], unrolled: int) -> list[str]:
        """One element of depth: an outer product added to the totals of the set that the unrolled step belongs to."""
        tile, v = self.tile, self.v
        out = list(totals)
        base = unrolled % tile.sets * tile.sums
        columns = self._columns(b)
        for r, row in enumerate(self.rows):
            here = moved(self.f, row, at)
            factor = "" if tile.along else v.broadcast(tile.a_type, here, 0)
            for k, column in enumerate(columns):
                if tile.along:
                    factor = v.load(tile.a_type, here, k * tile.width, self._lanes(k))
                n = base + r * tile.vectors + k
                out[n] = v.multiply_add(out[n], factor, column)
        return out

    def _columns(self, b: str) -> list[str]:
        """The vectors of a line of b."""
        tile = self.tile
        return [
            self.v.load(tile.b_type, b, k * tile.width, tile.width if tile.whole_b else self._lanes(k))
            for k in range(tile.vectors)
        ]

    def _pair(self, at: str, b: str, b_next: str, totals: list[str]) -> list[str]:
        """Two elements of depth at once, as 16-bit halves of a lane: the even one low, the odd one high."""
        f, tile, v = self.f, self.tile, self.v
        out, wide = list(totals), v.kind
        halves = f"<{2 * tile.width} x i16>"
        low, high = (f"<{', '.join([f'i32 {n}'] * tile.width)}>" for n in (65535, 16))
        columns = []
        for even, odd in zip(self._columns(b), self._columns(b_next), strict=True):
            both = f.let(f"or {wide} {f.let(f'and {wide} {even}, {low}')}, {f.let(f'shl {wide} {odd}, {high}')}")
            columns.append(f.let(f"bitcast {wide} {both} to {halves}"))
        name = _PAIRS[tile.width * 32]
        for r, row in enumerate(self.rows):
            factor = self._pair_of(moved(f, row, at), halves)
            for k, column in enumerate(columns):
                n = r * tile.vectors + k
                out[n] = v.add(out[n], f.call(wide, name, (halves, factor), (halves, column)))
        return out

    def _pair_of(self, at: str, halves: str) -> str:
        """Two neighbours of a row in all lanes, as 16-bit integers."""
        f, tile = self.f, self.tile
        bits = 2 * tile.a_type.bits
        many = f"<{tile.width} x i{bits}>"
        first = f.let(f"insertelement {many} poison, i{bits} {f.let(f'load i{bits}, ptr {at}, align 1')}, i64 0")
        all_ = f.let(f"shufflevector {many} {first}, {many} poison, <{tile.width} x i32> zeroinitializer")
        if bits == 32:
            return f.let(f"bitcast {many} {all_} to {halves}")
        bytes_ = f"<{2 * tile.width} x i8>"
        apart = f.let(f"bitcast {many} {all_} to {bytes_}")
        return f.let(f"{'sext' if tile.a_type.is_signed else 'zext'} {bytes_} {apart} to {halves}")

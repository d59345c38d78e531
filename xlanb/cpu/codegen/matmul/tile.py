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

A tile may keep what it reads of b in a panel (see panel), which other tiles read instead; complex numbers are pairs of lanes, each row having sums for both of its parts.

Where the last axis is short, depth is one list of its elements (`levels` is 0) instead: rounds and rest come first, and last, of each element, its bytes in a and in b (and
zeros for one more round, which is read and not used).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, product

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis, count
from xlanb.cpu.codegen.matmul.lanes import Lanes
from xlanb.cpu.codegen.matmul.shared import ROUTINE, field, moved, routine, types_text, word
from xlanb.cpu.codegen.types import register
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

_AHEAD = 12
"""Lines of b that are fetched ahead where they are far apart."""
_INDEPENDENT = 8
"""Sums that must be under way at once so that a unit does not wait for its own results."""

_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}
"""Intrinsics that multiply pairs of 16-bit integers and add the two products, by the width of the vector."""
_FLOAT_PAIRS = "llvm.x86.avx512bf16.dpbf16ps"
"""The same for pairs of bf16, added to a sum of f32; the width of the vector follows."""
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
    """Whether two steps of depth are taken at once, as pairs of narrow integers or bf16."""
    keeps: bool = False
    """Whether what is read of b is written to a panel on the way, as the other tiles of the same columns want it."""
    panel: bool = False
    """Whether b is such a panel: whole vectors of the type that is summed in, or of pairs, line after line."""
    is_complex: bool = False
    """Whether elements are real parts beside imaginary parts: each row has sums of its real part's products and of its imaginary part's."""

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return self.rows * self.vectors * (2 if self.is_complex else 1)

    @property
    def sets(self) -> int:
        """Accumulators of a sum, used in turn."""
        return 1 if self.pairs or self.sums >= _INDEPENDENT else min(4, -(-_INDEPENDENT // self.sums))

    @property
    def unroll(self) -> int:
        """Steps of depth in a round."""
        return 2 if self.pairs else self.sets

    @property
    def line_bytes(self) -> int:
        """Bytes of a line of a panel."""
        return self.vectors * self.width * self.type.byte_size

    @property
    def name(self) -> str:
        """What the routine is called."""
        end = "" if self.tail == self.width else f".lanes{self.tail or ''}{'.whole' if self.whole_b else ''}"
        kind = f"{'.along' if self.along else ''}{'.pairs' if self.pairs else ''}"
        kind += f"{'.keeps' if self.keeps else ''}{'.panel' if self.panel else ''}"
        kind += ".complex" if self.is_complex else ""
        types = types_text(self.a_type, self.b_type, self.type, self.c_type)
        depth = f"depth{self.levels}" if self.levels else "list"
        return f"tile.{types}.{self.rows}x{self.vectors}x{self.width}.{depth}{kind}{end}"


def levels_of(depth: Sequence[Axis]) -> int:
    """The `levels` of a tile over depth."""
    return 0 if len(depth) > 1 and depth[-1].size <= _SHORT and count(depth) <= _LIST else len(depth)


def has_pairs(target: Target, tile: Tile, depth: Sequence[Axis]) -> bool:
    """Whether a tile may take two steps of depth at once, two of a row side by side: bf16, or narrow integers on a machine that multiplies and adds such pairs."""
    if not tile.levels or tile.along or tile.is_complex or not depth or depth[-1].a != 1:
        return False
    if tile.type is PrimitiveType.F32:
        return tile.a_type is tile.b_type is PrimitiveType.BF16
    bits = tile.width * 32
    wide = bits in _PAIRS and bits <= target.vector_bits and target.triple.startswith("x86_64")
    return wide and tile.type.is_integral and tile.type.bits == 32 and tile.a_type in _NARROW and tile.b_type in _NARROW


def tile_table(tile: Tile, depth: Sequence[Axis], rows: Sequence[tuple[int, int]], lanes: int) -> list[int]:
    """The table of a tile over `depth` with rows at (offset in a, offset in the result), in elements, and so many lanes in the last vector."""
    a, b, c = (t.byte_size for t in (tile.a_type, tile.b_type, tile.c_type))
    if tile.panel:
        depth, b = panel_axes(tile, depth), tile.line_bytes
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


def panel_axes(tile: Tile, depth: Sequence[Axis]) -> tuple[Axis, ...]:
    """The axes of depth with lines of the panel as steps of b; two steps of the last make one line where there are pairs."""
    out: list[Axis] = []
    lines = 1
    for axis in reversed(depth):
        out.insert(0, replace(axis, b=lines))
        lines *= panel_lines(tile, axis.size) if axis is depth[-1] else axis.size
    return tuple(out)


def panel_bytes(tile: Tile, depth: Sequence[Axis]) -> int:
    """Bytes of a panel over depth."""
    return count(depth[:-1]) * panel_lines(tile, depth[-1].size) * tile.line_bytes


def panel_lines(tile: Tile, steps: int) -> int:
    """Lines of a panel for so many steps along the last axis of depth."""
    return steps // 2 + steps % 2 if tile.pairs else steps


def tile_routine(module: ModuleBuilder, tile: Tile) -> str:
    """The name of a tile's routine: (ptr a, ptr b, ptr c, ptr p), and the panel that is written where it `keeps` one."""
    parameters = (*ROUTINE, "ptr noalias %panel") if tile.keeps else ROUTINE
    return routine(module, tile, tile.name, lambda f: _Emitter(f, tile).emit(), parameters)


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
        if tile.keeps or tile.panel:
            self._fetch()
        zeros = [v.zero()] * (tile.sums * tile.sets) + ["%panel"] * tile.keeps
        totals = self._nest(0, "0", "%b", zeros) if tile.levels else self._listed(zeros)
        for s in range(1, tile.sets):
            part = totals[s * tile.sums : (s + 1) * tile.sums]
            totals[: tile.sums] = [v.add(x, y) for x, y in zip(totals[: tile.sums], part, strict=True)]
        if tile.is_complex:
            totals = [self._joined(*totals[n : n + 2]) for n in range(0, tile.sums, 2)]
        for r in range(tile.rows):
            row = moved(f, "%c", word(f, self.first_c + r))
            for k in range(tile.vectors):
                v.store(tile.c_type, row, k * tile.width, totals[r * tile.vectors + k], self._lanes(k))

    def _joined(self, reals: str, imaginaries: str) -> str:
        """The products of a row's real parts, and i times those of its imaginary parts."""
        v = self.v
        turned = v.times(v.exchanged(imaginaries), (-1.0, 1.0))
        return v.add(reals, turned)

    def _fetch(self) -> None:
        """The lines of the result on their way while the sums are made."""
        f, tile = self.f, self.tile
        f.module.declare("void", "llvm.prefetch.p0", "ptr, i32, i32, i32")
        for r in range(tile.rows):
            row = moved(f, "%c", word(f, self.first_c + r))
            for at in range(0, tile.vectors * tile.width * tile.c_type.byte_size, 64):
                f.do(f"call void @llvm.prefetch.p0(ptr {moved(f, row, str(at))}, i32 1, i32 3, i32 1)")

    def _fetch_line(self, at: str) -> None:
        """A line of b on its way: those of a large matrix are pages apart, which no machine foresees."""
        f, tile = self.f, self.tile
        for k in range(0, tile.vectors * tile.width * tile.b_type.byte_size, 64):
            f.do(f"call void @llvm.prefetch.p0(ptr {moved(f, at, str(k))}, i32 0, i32 3, i32 1)")

    def _carried(self, totals: list[str]) -> list[tuple[str, str]]:
        """Totals, and where the panel goes on, with their types."""
        kinds = [self.v.kind] * (self.tile.sums * self.tile.sets) + ["ptr"] * self.tile.keeps
        return list(zip(kinds, totals, strict=True))

    def _lanes(self, vector: int) -> int | str:
        """Lanes of a vector that there are."""
        return self.lanes if vector == self.tile.vectors - 1 else self.tile.width

    def _nest(self, level: int, at: str, b: str, totals: list[str]) -> list[str]:
        """The loops over depth from `level` inwards; `at` is the offset in all rows."""
        f, tile = self.f, self.tile
        if level == tile.levels - 1:
            return self._inner(at, b, totals)
        size, a_step, b_step = (word(f, 3 * level + k) for k in range(3))
        with f.carried(size, [("i64", at), ("ptr", b), *self._carried(totals)]) as loop:
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
        ahead = f.let(f"mul i64 {b_step}, {_AHEAD}") if tile.keeps else ""
        carried = [*(("i64", at) for at in starts), ("ptr", b), *self._carried(totals)]
        with f.carried(rounds, carried, guarded=tile.unroll > 1) as loop:
            here, pb, now = loop.values[:many], loop.values[many], loop.values[many + 1 :]
            if tile.keeps:
                self._fetch_line(moved(f, pb, ahead))
            if tile.pairs and many > 1:
                after = pb if tile.panel else moved(f, pb, b_step)
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
        carried = [("ptr", entry), *(("i64", x) for x in first), *self._carried(totals)]
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
            if tile.is_complex:
                factors = [v.broadcast(tile.a_type, here, part) for part in range(2)]
                for k, n in product(range(tile.vectors), range(2)):
                    to = base + 2 * (r * tile.vectors + k) + n
                    out[to] = v.multiply_add(out[to], factors[n], columns[k])
                continue
            factor = "" if tile.along else v.broadcast(tile.a_type, here, 0)
            for k, column in enumerate(columns):
                if tile.along:
                    factor = v.load(tile.a_type, here, k * tile.width, self._lanes(k))
                n = base + r * tile.vectors + k
                out[n] = v.multiply_add(out[n], factor, column)
        return self._kept(columns, out)

    def _kept(self, columns: Sequence[str], totals: list[str]) -> list[str]:
        """A line of the panel written, where it is; the totals after it."""
        f, tile = self.f, self.tile
        if not tile.keeps:
            return totals
        for k, column in enumerate(columns):
            at = moved(f, totals[-1], str(k * tile.width * tile.type.byte_size))
            f.do(f"store {self.v.kind} {column}, ptr {at}, align {tile.type.byte_size}")
        return [*totals[:-1], moved(f, totals[-1], str(tile.line_bytes))]

    def _columns(self, b: str) -> list[str]:
        """The vectors of a line of b."""
        tile = self.tile
        if tile.panel:
            return [self.v.load(tile.type, b, k * tile.width, tile.width) for k in range(tile.vectors)]
        return [
            self.v.load(tile.b_type, b, k * tile.width, tile.width if tile.whole_b else self._lanes(k))
            for k in range(tile.vectors)
        ]

    def _pair(self, at: str, b: str, b_next: str, totals: list[str]) -> list[str]:
        """Two elements of depth at once, as 16-bit halves of a lane: the even one low, the odd one high."""
        tile = self.tile
        out = list(totals)
        columns = self._columns(b)
        if not tile.panel:
            columns = [self._together(x, y) for x, y in zip(columns, self._columns(b_next), strict=True)]
        apart = tile.type.is_floating and "avx512bf16" not in self.f.target.enabled
        halves = [self._halves(column) for column in columns] if apart else []
        for r, row in enumerate(self.rows):
            factor = self._pair_of(moved(self.f, row, at))
            here = range(r * tile.vectors, (r + 1) * tile.vectors)
            if apart:
                even, odd = self._halves(factor)
                for n, (x, y) in zip(here, halves, strict=True):
                    out[n] = self.v.multiply_add(self.v.multiply_add(out[n], even, x), odd, y)
                continue
            for n, column in zip(here, columns, strict=True):
                out[n] = self._add_pairs(out[n], factor, column)
        return self._kept(columns, out)

    def _add_pairs(self, total: str, a: str, b: str) -> str:
        """Both products of each lane added to its sum."""
        f, tile, v = self.f, self.tile, self.v
        halves = f"<{2 * tile.width} x {'bfloat' if tile.type.is_floating else 'i16'}>"
        a, b = (f.let(f"bitcast {v.kind} {x} to {halves}") for x in (a, b))
        if tile.type.is_floating:
            name = f"{_FLOAT_PAIRS}.{tile.width * 32}"
            return f.call(v.kind, name, (v.kind, total), (halves, a), (halves, b))
        return v.add(total, f.call(v.kind, _PAIRS[tile.width * 32], (halves, a), (halves, b)))

    def _together(self, even: str, odd: str) -> str:
        """Widened elements of two lines as halves of a lane, in vectors of the type that is summed in."""
        f, kind, wide = self.f, self.v.kind, f"<{self.tile.width} x i32>"
        if self.tile.type.is_floating:  # a bf16 is the high half of what it is widened to
            even, odd = (f.let(f"bitcast {kind} {x} to {wide}") for x in (even, odd))
            both = f.let(f"or {wide} {f.let(f'lshr {wide} {even}, {self._all(16)}')}, {odd}")
            return f.let(f"bitcast {wide} {both} to {kind}")
        low, high = f.let(f"and {wide} {even}, {self._all(65535)}"), f.let(f"shl {wide} {odd}, {self._all(16)}")
        return f.let(f"or {wide} {low}, {high}")

    def _all(self, n: int) -> str:
        return f"<{', '.join([f'i32 {n}'] * self.tile.width)}>"

    def _halves(self, pairs: str) -> tuple[str, str]:
        """The two bf16 of each lane, widened."""
        f, kind, wide = self.f, self.v.kind, f"<{self.tile.width} x i32>"
        bits = f.let(f"bitcast {kind} {pairs} to {wide}")
        even, odd = f.let(f"shl {wide} {bits}, {self._all(16)}"), f.let(f"and {wide} {bits}, {self._all(-65536)}")
        return f.let(f"bitcast {wide} {even} to {kind}"), f.let(f"bitcast {wide} {odd} to {kind}")

    def _pair_of(self, at: str) -> str:
        """Two neighbours of a row in all lanes, as halves of 16 bits, in a vector of the type that is summed in."""
        f, tile = self.f, self.tile
        if tile.a_type.bits == 16:
            return self.v.splat(f.let(f"load {register(tile.type)}, ptr {at}, align 1"))
        many, bytes_ = f"<{tile.width} x i16>", f"<{2 * tile.width} x i8>"
        first = f.let(f"insertelement {many} poison, i16 {f.let(f'load i16, ptr {at}, align 1')}, i64 0")
        all_ = f.let(f"shufflevector {many} {first}, {many} poison, <{tile.width} x i32> zeroinitializer")
        apart = f.let(f"bitcast {many} {all_} to {bytes_}")
        halves = f"<{2 * tile.width} x i16>"
        wide = f.let(f"{'sext' if tile.a_type.is_signed else 'zext'} {bytes_} {apart} to {halves}")
        return f.let(f"bitcast {halves} {wide} to {self.v.kind}")

"""The micro-kernel: a block of the result, rows by vectors, held in registers over the whole contraction.

    for d in depth:                     a[row_0 + d]  a[row_1 + d] ...      one element each, in all lanes
        b[d], b[d + width] ...          a vector each
        total[row, vector] += a * b     rows * vectors multiply-adds for rows + vectors loads

It is a function of its own, `void tile(ptr a, ptr b, ptr c)`, emitted once per module and shape of block. Strides are part of it: they become displacements.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis
from xlanb.cpu.codegen.matmul.lanes import Lanes, address
from xlanb.cpu.target import Target
from xlanb.shape import PrimitiveType

ATTRIBUTES = 'noinline nounwind "prefer-vector-width"="512"'
_INDEPENDENT = 8
"""Sums that must be under way at once so that a unit does not wait for its own results."""

_PAIRS = {512: "llvm.x86.avx512.pmaddw.d.512", 256: "llvm.x86.avx2.pmadd.wd", 128: "llvm.x86.sse2.pmadd.wd"}
"""Intrinsics that multiply pairs of 16-bit integers and add the two products, by the width of the vector."""

_MADE: WeakKeyDictionary[ModuleBuilder, dict[object, str]] = WeakKeyDictionary()


@dataclass(frozen=True)
class Tile:
    """A block: `rows` are (offset in a, offset in c) of each row, `vectors` of `width` lanes each, only `tail` lanes in the last.

    `depth` are axes with strides in a and b, outermost first. `whole_b`: b may be read beyond the tail (it was padded).
    """

    width: int
    rows: tuple[tuple[int, int], ...]
    vectors: int
    tail: int
    depth: tuple[Axis, ...]
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    whole_b: bool = False
    along: bool = False
    """Whether a lies along the vectors too (one result per lane and no sum over it: a depthwise convolution), a vector in place of one element."""

    def lanes(self, vector: int) -> int:
        """Lanes of a vector that there are."""
        return self.tail if vector == self.vectors - 1 else self.width

    def pairs(self, target: Target) -> bool:
        """Whether two steps of depth are taken at once: narrow integers, two of a row side by side, on a machine that multiplies and adds pairs."""
        narrow = (PrimitiveType.S8, PrimitiveType.U8, PrimitiveType.S16)
        fits = self.type.is_integral and self.type.bits == 32 and self.a_type in narrow and self.b_type in narrow
        wide = (
            self.width * 32 in _PAIRS and self.width * 32 <= target.vector_bits and target.triple.startswith("x86_64")
        )
        return fits and wide and not self.along and bool(self.depth) and self.depth[-1].a == 1

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return len(self.rows) * self.vectors


def once(module: ModuleBuilder, key: object, name: str, emit: object) -> str:
    """The name of a function of a module that is emitted when it is first asked for; `emit(f)` writes its body."""
    made = _MADE.setdefault(module, {})
    if key not in made:
        f = module.function(
            name, ["ptr noalias readonly %a", "ptr noalias readonly %b", "ptr noalias %c"], ATTRIBUTES, ""
        )
        f.ready = True
        emit(f)  # type: ignore[operator]
        made[key] = f.name
    return made[key]


def tile_function(module: ModuleBuilder, tile: Tile) -> str:
    """The name of a tile's function."""
    return once(module, tile, "tile", lambda f: _emit(f, tile))


def _emit(f: Function, tile: Tile) -> None:
    v = Lanes(f, tile.type, tile.width)
    inner = tile.depth[-1].size if tile.depth else 1
    sets = 1 if tile.sums >= _INDEPENDENT else min(4, -(-_INDEPENDENT // tile.sums), inner)
    if tile.pairs(f.target):
        sets = 1
    unroll = 2 if tile.pairs(f.target) else max(sets, min(2 if tile.sums < 16 else 1, inner))
    totals = _nest(f, v, tile, 0, "%a", "%b", [v.zero()] * (tile.sums * sets), unroll)
    for s in range(1, sets):
        part = totals[s * tile.sums : (s + 1) * tile.sums]
        totals[: tile.sums] = [v.add(x, y) for x, y in zip(totals[: tile.sums], part, strict=True)]
    for r, (_, row) in enumerate(tile.rows):
        for k in range(tile.vectors):
            v.store(tile.c_type, "%c", row + k * tile.width, totals[r * tile.vectors + k], tile.lanes(k))


def _nest(f: Function, v: Lanes, tile: Tile, level: int, a: str, b: str, totals: list[str], unroll: int) -> list[str]:
    """The loops over depth from `level` inwards."""
    if level == len(tile.depth):
        return _step(f, v, tile, a, b, 0, 0, totals, 0)
    axis = tile.depth[level]
    inner = level == len(tile.depth) - 1
    by = unroll if inner else 1
    carried = [("ptr", a), ("ptr", b), *((v.kind, t) for t in totals)]
    with f.carried(axis.size // by, carried) as loop:
        pa, pb, *now = loop.values
        if inner and tile.pairs(f.target):
            now = _pair(f, v, tile, pa, pb, axis.b, now)
        elif inner:
            for u in range(by):
                now = _step(f, v, tile, pa, pb, u * axis.a, u * axis.b, now, u)
        else:
            now = _nest(f, v, tile, level + 1, pa, pb, now, unroll)
        loop.next = [address(f, tile.a_type, pa, by * axis.a), address(f, tile.b_type, pb, by * axis.b), *now]
    a, b, *totals = loop.values
    for u in range(axis.size % by if inner else 0):
        totals = _step(f, v, tile, a, b, u * axis.a, u * axis.b, totals, u)
    return totals


def _pair(f: Function, v: Lanes, tile: Tile, a: str, b: str, b_next: int, totals: list[str]) -> list[str]:
    """Two elements of depth at once, as 16-bit halves of a lane: the even one low, the odd one high."""
    out, wide = list(totals), v.kind
    halves = f"<{2 * tile.width} x i16>"
    low, high = (f"<{', '.join([f'i32 {n}'] * tile.width)}>" for n in (65535, 16))
    columns = []
    for k in range(tile.vectors):
        lanes = tile.width if tile.whole_b else tile.lanes(k)
        even, odd = (v.load(tile.b_type, b, at + k * tile.width, lanes) for at in (0, b_next))
        both = f.let(f"or {wide} {f.let(f'and {wide} {even}, {low}')}, {f.let(f'shl {wide} {odd}, {high}')}")
        columns.append(f.let(f"bitcast {wide} {both} to {halves}"))
    name = _PAIRS[tile.width * 32]
    for r, (row, _) in enumerate(tile.rows):
        factor = _pair_of(f, tile, address(f, tile.a_type, a, row), halves)
        for k, column in enumerate(columns):
            at = r * tile.vectors + k
            out[at] = v.add(out[at], f.call(wide, name, (halves, factor), (halves, column)))
    return out


def _pair_of(f: Function, tile: Tile, at: str, halves: str) -> str:
    """Two neighbours of a row in all lanes, as 16-bit integers."""
    bits = 2 * tile.a_type.bits
    many = f"<{tile.width} x i{bits}>"
    first = f.let(f"insertelement {many} poison, i{bits} {f.let(f'load i{bits}, ptr {at}, align 1')}, i64 0")
    all_ = f.let(f"shufflevector {many} {first}, {many} poison, <{tile.width} x i32> zeroinitializer")
    if bits == 32:
        return f.let(f"bitcast {many} {all_} to {halves}")
    bytes_ = f"<{2 * tile.width} x i8>"
    apart = f.let(f"bitcast {many} {all_} to {bytes_}")
    return f.let(f"{'sext' if tile.a_type.is_signed else 'zext'} {bytes_} {apart} to {halves}")


def _step(
    f: Function, v: Lanes, tile: Tile, a: str, b: str, a_at: int, b_at: int, totals: list[str], unrolled: int
) -> list[str]:
    """One element of depth: an outer product added to the totals of the set that the unrolled step belongs to."""
    out = list(totals)
    base = unrolled % (len(totals) // tile.sums) * tile.sums
    columns = [
        v.load(tile.b_type, b, b_at + k * tile.width, tile.width if tile.whole_b else tile.lanes(k))
        for k in range(tile.vectors)
    ]
    for r, (row, _) in enumerate(tile.rows):
        factor = "" if tile.along else v.broadcast(tile.a_type, a, a_at + row)
        for k, column in enumerate(columns):
            if tile.along:
                factor = v.load(tile.a_type, a, a_at + row + k * tile.width, tile.lanes(k))
            at = base + r * tile.vectors + k
            out[at] = v.multiply_add(out[at], factor, column)
    return out

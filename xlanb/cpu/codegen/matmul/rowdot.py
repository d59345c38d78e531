"""The micro-kernel for operands that are both contiguous along the contraction: rows of a with rows of b, a vector along depth at a time.

    for k in depth, a vector at a time:      total[row, column] += a[row, k:] * b[column, k:]
    c[row, column] = sum of total[row, column]

It needs no copy of b, and pays where there are few rows: a matrix times a vector above all. It is a routine (see shared); its table:

    size, a, b             of each axis of depth but the last, outermost first: steps of a and b in bytes
    rounds, rest, lanes    of the last: rounds of `sets` vectors, vectors that remain, and elements after them
    a                      of each row: bytes from the block's address in a
    b                      of each column: bytes from the block's address in b
    c                      of each row and column: bytes from the block's address in the result
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis
from xlanb.cpu.codegen.matmul.lanes import Lanes
from xlanb.cpu.codegen.matmul.shared import moved, routine, types_text, word
from xlanb.cpu.codegen.types import register, store
from xlanb.shape import PrimitiveType


@dataclass(frozen=True)
class RowDot:
    """A block of `rows` by `columns` over `levels` axes of depth, the last with stride 1 in a and b."""

    width: int
    rows: int
    columns: int
    tail: int
    """Elements of the last axis that are no whole vector; -1 where the table has them."""
    levels: int
    a_type: PrimitiveType
    b_type: PrimitiveType
    type: PrimitiveType
    c_type: PrimitiveType
    is_complex: bool = False
    """Whether elements are real parts beside imaginary parts: each pair of a row and a column has the products of like parts, and those of unlike parts."""

    @property
    def sums(self) -> int:
        """Accumulators per step."""
        return self.rows * self.columns * (2 if self.is_complex else 1)

    @property
    def sets(self) -> int:
        """Accumulators of a sum, used in turn."""
        return max(1, 8 // self.sums)

    @property
    def name(self) -> str:
        """What the routine is called."""
        end = ".complex" if self.is_complex else ""
        end += "" if self.tail < 0 else f".lanes{self.tail}"
        types = types_text(self.a_type, self.b_type, self.type, self.c_type)
        return f"rowdot.{types}.{self.rows}x{self.columns}x{self.width}.depth{self.levels}{end}"


def rowdot_table(
    block: RowDot, depth: Sequence[Axis], rows: Sequence[tuple[int, int]], columns: Sequence[tuple[int, int]]
) -> list[int]:
    """The table of a block: (a offset, c offset) of each row, (b offset, c offset) of each column, in elements."""
    a, b, c = (t.byte_size for t in (block.a_type, block.b_type, block.c_type))
    words: list[int] = []
    for axis in depth[:-1]:
        words += [axis.size, axis.a * a, axis.b * b]
    vectors, lanes = divmod(depth[-1].size, block.width)
    words += [vectors // block.sets, vectors % block.sets, lanes]
    words += [row * a for row, _ in rows]
    words += [column * b for column, _ in columns]
    return [*words, *((row + column) * c for _, row in rows for _, column in columns)]


def rowdot_routine(module: ModuleBuilder, block: RowDot) -> str:
    """The name of a block's routine."""
    return routine(module, block, block.name, lambda f: _Emitter(f, block).emit())


class _Emitter:
    """Writes the routine of a block."""

    def __init__(self, f: Function, block: RowDot) -> None:
        self.f = f
        self.block = block
        self.v = Lanes(f, block.type, block.width)
        at = 3 * block.levels
        self.inner = at - 3
        self.rows = [moved(f, "%a", word(f, at + r)) for r in range(block.rows)]
        at += block.rows
        self.columns = [moved(f, "%b", word(f, at + n)) for n in range(block.columns)]
        self.first_c = at + block.columns

    def emit(self) -> None:
        block, v, f = self.block, self.v, self.f
        totals = self._nest(0, "0", "0", [v.zero()] * (block.sums * block.sets))
        for s in range(1, block.sets):
            part = totals[s * block.sums : (s + 1) * block.sums]
            totals[: block.sums] = [v.add(x, y) for x, y in zip(totals[: block.sums], part, strict=True)]
        for n in range(block.rows * block.columns):
            at = moved(f, "%c", word(f, self.first_c + n))
            if block.is_complex:
                like, unlike = totals[2 * n : 2 * n + 2]
                store(f, block.c_type, at, 0, _sum(v, v.times(like, (1.0, -1.0))))
                store(f, block.c_type, at, 1, _sum(v, unlike))
            else:
                store(f, block.c_type, at, 0, _sum(v, totals[n]))

    def _nest(self, level: int, a: str, b: str, totals: list[str]) -> list[str]:
        """The loops over depth from `level` inwards; `a` and `b` are the offsets in all rows and columns."""
        f, block = self.f, self.block
        if level == block.levels - 1:
            return self._inner(a, b, totals)
        size, a_step, b_step = (word(f, 3 * level + k) for k in range(3))
        with f.carried(size, [("i64", a), ("i64", b), *((self.v.kind, t) for t in totals)]) as loop:
            here, there, *now = loop.values
            now = self._nest(level + 1, here, there, now)
            loop.next = [f.let(f"add i64 {here}, {a_step}"), f.let(f"add i64 {there}, {b_step}"), *now]
        return loop.values[2:]

    def _inner(self, a: str, b: str, totals: list[str]) -> list[str]:
        block, f = self.block, self.f
        rounds, rest, lanes = (word(f, self.inner + k) for k in range(3))
        a, b, *totals = self._vectors(rounds, a, b, totals, block.sets)
        if block.sets > 1:
            a, b, *totals = self._vectors(rest, a, b, totals, 1)
        if block.tail:
            totals = self._step(a, b, block.tail if block.tail > 0 else self.v.first(lanes), totals, 0)
        return totals

    def _vectors(self, count: str, a: str, b: str, totals: list[str], unroll: int) -> list[str]:
        """A loop over whole vectors: (offset in a, offset in b, totals) after it."""
        f, block = self.f, self.block
        sizes = (block.width * block.a_type.byte_size, block.width * block.b_type.byte_size)
        carried = [("i64", a), ("i64", b), *((self.v.kind, t) for t in totals)]
        with f.carried(count, carried, guarded=True) as loop:
            here, there, *now = loop.values
            for s in range(unroll):
                now = self._step(here, there, block.width, now, s)
                here, there = (f.let(f"add i64 {x}, {n}") for x, n in zip((here, there), sizes, strict=True))
            loop.next = [here, there, *now]
        return loop.values

    def _step(self, a: str, b: str, lanes: int | str, totals: list[str], which: int) -> list[str]:
        """Up to a vector of depth, `lanes` elements of it, for all pairs of a row and a column."""
        block, v, f = self.block, self.v, self.f
        out = list(totals)
        left = [v.load(block.a_type, moved(f, row, a), 0, lanes) for row in self.rows]
        right = [v.load(block.b_type, moved(f, column, b), 0, lanes) for column in self.columns]
        n = which * block.sums
        if block.is_complex:
            right = [y for column in right for y in (column, v.exchanged(column))]
        for x in left:
            for y in right:
                out[n] = v.multiply_add(out[n], x, y)
                n += 1
        return out


def _sum(v: Lanes, total: str) -> str:
    """The sum of a vector's lanes."""
    f, kind = v.f, register(v.t)
    if v.width == 1:
        return f.let(f"extractelement {v.kind} {total}, i64 0")
    if not v.t.is_floating:
        return f.call(kind, f"llvm.vector.reduce.add.v{v.width}{kind}", (v.kind, total))
    suffix = "f32" if kind == "float" else "f64"
    return f.call(kind, f"llvm.vector.reduce.fadd.v{v.width}{suffix}", (kind, "-0.0"), (v.kind, total), flags="reassoc")

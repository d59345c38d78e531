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

from xlanb.codegen.elements import store
from xlanb.codegen.function import Function
from xlanb.codegen.lanes import Mask
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.routines import moved, routine, word
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import Axis
from xlanb.cpu.emitters.matmul.lanes import Lanes
from xlanb.cpu.emitters.matmul.shared import ROUTINE, types_text
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
    return routine(module, block, block.name, lambda f: _Emitter(f, block).emit(), ROUTINE)


class _Emitter:
    """Writes the routine of a block."""

    def __init__(self, f: Function, block: RowDot) -> None:
        self.f = f
        self.block = block
        self.v = Lanes(f, block.type, block.width)
        a, b, self.c, self.p = map(f.argument, ROUTINE)
        at = 3 * block.levels
        self.inner = at - 3
        self.rows = [moved(a, word(self.p, at + r)) for r in range(block.rows)]
        at += block.rows
        self.columns = [moved(b, word(self.p, at + n)) for n in range(block.columns)]
        self.first_c = at + block.columns

    def emit(self) -> None:
        block, v, f = self.block, self.v, self.f
        totals = self._nest(0, f.zero(I64), f.zero(I64), [v.zero()] * (block.sums * block.sets))
        for s in range(1, block.sets):
            part = totals[s * block.sums : (s + 1) * block.sums]
            totals[: block.sums] = [x + y for x, y in zip(totals[: block.sums], part, strict=True)]
        for n in range(block.rows * block.columns):
            at = moved(self.c, word(self.p, self.first_c + n))
            if block.is_complex:
                like, unlike = totals[2 * n : 2 * n + 2]
                store(block.c_type, at, 0, _sum(v.times(like, (1.0, -1.0))))
                store(block.c_type, at, 1, _sum(unlike))
            else:
                store(block.c_type, at, 0, _sum(totals[n]))

    def _nest(self, level: int, a: Value, b: Value, totals: Sequence[Value]) -> list[Value]:
        """The loops over depth from `level` inwards; `a` and `b` are the offsets in all rows and columns."""
        f, block = self.f, self.block
        if level == block.levels - 1:
            return self._inner(a, b, totals)
        size, a_step, b_step = (word(self.p, 3 * level + k) for k in range(3))
        with f.carried(size, [a, b, *totals]) as loop:
            here, there, *now = loop.values
            now = self._nest(level + 1, here, there, now)
            loop.next = [here + a_step, there + b_step, *now]
        return list(loop.values[2:])

    def _inner(self, a: Value, b: Value, totals: Sequence[Value]) -> list[Value]:
        block, f = self.block, self.f
        rounds, rest, lanes = (word(self.p, self.inner + k) for k in range(3))
        a, b, *now = self._vectors(rounds, a, b, totals, block.sets)
        if block.sets > 1:
            a, b, *now = self._vectors(rest, a, b, now, 1)
        if block.tail:
            mask = self.v.some(block.tail) if block.tail > 0 else Mask.first(f, block.width, lanes)
            now = self._step(a, b, mask, now, 0)
        return now

    def _vectors(self, count: Value, a: Value, b: Value, totals: Sequence[Value], unroll: int) -> list[Value]:
        """A loop over whole vectors: (offset in a, offset in b, totals) after it."""
        f, block = self.f, self.block
        sizes = (block.width * block.a_type.byte_size, block.width * block.b_type.byte_size)
        with f.carried(count, [a, b, *totals], guarded=True) as loop:
            here, there, *now = loop.values
            for s in range(unroll):
                now = self._step(here, there, None, now, s)
                here, there = (x + n for x, n in zip((here, there), sizes, strict=True))
            loop.next = [here, there, *now]
        return list(loop.values)

    def _step(self, a: Value, b: Value, mask: Mask | None, totals: Sequence[Value], which: int) -> list[Value]:
        """A vector of depth, the elements of the mask, for all pairs of a row and a column."""
        block, v = self.block, self.v
        out = list(totals)
        left = [v.load(block.a_type, moved(row, a), 0, mask) for row in self.rows]
        right = [v.load(block.b_type, moved(column, b), 0, mask) for column in self.columns]
        n = which * block.sums
        if block.is_complex:
            right = [y for column in right for y in (column, v.exchanged(column))]
        for x in left:
            for y in right:
                out[n] = v.multiply_add(out[n], x, y)
                n += 1
        return out


def _sum(total: Value) -> Value:
    """The sum of a vector's lanes, in any order."""
    f = total.function
    if total.type.lanes == 1:
        return f.extract(total, 0)
    return f.reduce("fadd", total, "reassoc") if total.type.is_float else f.reduce("add", total)

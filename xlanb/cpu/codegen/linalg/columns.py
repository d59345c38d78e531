"""A tile of a matrix by columns: a vector of its rows in each of a few columns, in registers, what the routines of linear algebra are made of.

    update       tile[:, j] -= sum over k of a[:, k] c[k, j]       a vector of a times one element of c in all lanes
    divide       tile = tile / c for an upper triangular c: columns are solved from left to right

Matrices are addresses with steps in elements, which may be negative; a tile at the edge has a mask of the rows that there are, and its columns beyond the last one
are the last one again: they are computed and stored before it, so that nothing has to be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul.lanes import Lanes, lanes_of
from xlanb.cpu.codegen.types import memory
from xlanb.shape import PrimitiveType

_WIDEST = 8
"""Columns of a tile: as many sums as are under way at once, so that no unit waits for its own results."""


class Columns:
    """Writes tiles of `width` columns and `lanes` rows into a function."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.t = t
        self.element = memory(t)
        self.lanes = lanes_of(f.target, t.bits)
        self.width = min(_WIDEST, self.lanes)
        self.v = Lanes(f, t, self.lanes)

    # -- numbers and addresses -----------------------------------------------------------------------------------

    def index(self, op: str, a: Ix, b: Ix) -> str:
        """Arithmetic on i64 that may be negative."""
        return self.f.let(f"{op} i64 {a}, {b}")

    def least(self, a: Ix, b: Ix) -> str:
        """The smaller of two i64."""
        return self.f.call("i64", "llvm.smin.i64", ("i64", str(a)), ("i64", str(b)))

    def rounds(self, count: Ix, each: int) -> str:
        """How many times `each` covers a count; below 1 of a count that is not positive."""
        return self.index("sdiv", self.index("add", count, each - 1), each)

    def at(self, pointer: str, offset: Ix) -> str:
        """The address so many elements further."""
        return pointer if offset == 0 else self.f.let(f"getelementptr {self.element}, ptr {pointer}, i64 {offset}")

    def column_numbers(self, first: str, end: str) -> list[str]:
        """The columns of a tile from `first` on; those that are not below `end` are the last one again."""
        last = self.index("sub", end, 1)
        return [first, *(self.least(self.index("add", first, j), last) for j in range(1, self.width))]

    def steps(self, numbers: Sequence[str], step: Ix) -> list[str]:
        """Numbers times a step."""
        return [self.index("mul", n, step) for n in numbers]

    # -- elements and vectors ------------------------------------------------------------------------------------

    def load(self, pointer: str, mask: str) -> str:
        """A vector of rows; zeros where there are none. Without a mask all are there."""
        return self.v.load(self.t, pointer, 0, mask or self.lanes)

    def store(self, pointer: str, value: str, mask: str) -> None:
        """Set the rows that there are."""
        self.v.store(self.t, pointer, 0, value, mask)

    def scalar(self, pointer: str) -> str:
        """An element."""
        return self.f.let(f"load {self.element}, ptr {pointer}")

    def set(self, pointer: str, value: str) -> None:
        """Set an element."""
        self.f.do(f"store {self.element} {value}, ptr {pointer}")

    def lane(self, vector: str, k: int) -> str:
        """Lane k in all lanes."""
        which = ", ".join([f"i32 {k}"] * self.lanes)
        return self.f.let(f"shufflevector {self.v.kind} {vector}, {self.v.kind} poison, <{self.lanes} x i32> <{which}>")

    def lane_mask(self, wanted: Callable[[int], bool]) -> str:
        """The constant mask of the lanes for which `wanted` holds."""
        return f"<{', '.join(f'i1 {str(wanted(k)).lower()}' for k in range(self.lanes))}>"

    def from_lane(self, first: str) -> str:
        """The mask of the lanes from `first` on, which may be negative."""
        n, f = self.lanes, self.f
        one = f.let(f"insertelement <{n} x i64> poison, i64 {first}, i64 0")
        all_ = f.let(f"shufflevector <{n} x i64> {one}, <{n} x i64> poison, <{n} x i32> zeroinitializer")
        return f.let(f"icmp sge <{n} x i64> <{', '.join(f'i64 {k}' for k in range(n))}>, {all_}")

    def both(self, mask: str, other: str) -> str:
        """The lanes that two masks have."""
        return self.f.let(f"and <{self.lanes} x i1> {mask}, {other}")

    def times(self, a: str, b: str) -> str:
        """The product of two vectors."""
        return self.f.let(f"fmul {self.v.kind} {a}, {b}")

    def minus(self, total: str, a: str, b: str) -> str:
        """total - a * b."""
        return self.v.multiply_add(total, self.f.let(f"fneg {self.v.kind} {a}"), b)

    def minus_where(self, mask: str, total: str, a: str, b: str) -> str:
        """total - a * b in the lanes of a mask, total in the others, whatever a and b are there."""
        kind = self.v.kind
        return self.f.let(f"select <{self.lanes} x i1> {mask}, {kind} {self.minus(total, a, b)}, {kind} {total}")

    # -- tiles ---------------------------------------------------------------------------------------------------

    def load_tile(self, pointers: Sequence[str], mask: str) -> list[str]:
        """A vector of each column."""
        return [self.load(p, mask) for p in pointers]

    def store_tile(self, pointers: Sequence[str], tile: Sequence[str], mask: str) -> None:
        """Set the columns, the last first: of those that are the same it is the first that counts."""
        for p, value in reversed(list(zip(pointers, tile, strict=True))):
            self.store(p, value, mask)

    def update(
        self, tile: Sequence[str], mask: str, a: tuple[str, Ix], c: tuple[str, Ix], columns: Sequence[str], count: Ix
    ) -> list[str]:
        """tile[:, j] -= a[:, k] c[k, j] for k < count: `a` and `c` are (address, step from k to k + 1), `columns` the offsets of c's columns."""
        f, v = self.f, self.v
        carried = [("ptr", a[0]), ("ptr", c[0]), *((v.kind, x) for x in tile)]
        with f.carried(count, carried, guarded=True) as loop:
            pa, pc, *now = loop.values
            column = f.let(f"fneg {v.kind} {self.load(pa, mask)}")
            now = [
                v.multiply_add(x, column, v.broadcast(self.t, self.at(pc, at), 0))
                for x, at in zip(now, columns, strict=True)
            ]
            loop.next = [self.at(pa, a[1]), self.at(pc, c[1]), *now]
        return loop.values[2:]

    def divide(
        self, tile: Sequence[str], element: Callable[[int, int], str], inverse: Callable[[int], str]
    ) -> list[str]:
        """tile c^-1: `element(k, j)` is the address of c[k, j] for k < j, `inverse(j)` that of 1 / c[j, j]."""
        made = list(tile)
        for k in range(self.width):
            made[k] = self.times(made[k], self.v.broadcast(self.t, inverse(k), 0))
            for j in range(k + 1, self.width):
                made[j] = self.minus(made[j], made[k], self.v.broadcast(self.t, element(k, j), 0))
        return made

"""What the routines of Fourier transforms are written with: vectors of one type, complex numbers as pairs of them, and the lanes of scratch.

An element of scratch stands for the same number of many lines, one in each lane: a cache line of real parts, then one of imaginary parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.types import float_text

PART = 64
"""Bytes of the real, or of the imaginary, parts of an element of scratch."""
ELEMENT = 2 * PART

Pair = tuple[str, str]


def lanes_of(part_bytes: int) -> int:
    """Lines that lie side by side in scratch."""
    return PART // part_bytes


@dataclass(frozen=True)
class Simd:
    """Statements on vectors of `width` elements of a type, in the function that is being written."""

    f: Function
    element: str
    width: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return 4 if self.element == "float" else 8

    @property
    def kind(self) -> str:
        """The vector's type."""
        return f"<{self.width} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The vector's type in the names of intrinsics."""
        return f"v{self.width}{'f32' if self.size == 4 else 'f64'}"

    def wider(self, times: int) -> Simd:
        """The same for vectors of so many times the elements."""
        return Simd(self.f, self.element, self.width * times)

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def number(self, value: float) -> str:
        """A constant in each lane."""
        return f"splat ({self.element} {float_text(value, self.element)})"

    def op(self, name: str, a: str, b: str) -> str:
        """One instruction."""
        return self.f.plain(f"{name} {self.kind} {a}, {b}")

    def neg(self, a: str) -> str:
        """-a."""
        return self.f.plain(f"fneg {self.kind} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """a b + c."""
        return self.f.plain_call(self.kind, f"llvm.fmuladd.{self.suffix}", [(self.kind, v) for v in (a, b, c)])

    def add(self, a: Pair, b: Pair) -> Pair:
        """a + b."""
        return self.op("fadd", a[0], b[0]), self.op("fadd", a[1], b[1])

    def sub(self, a: Pair, b: Pair) -> Pair:
        """a - b."""
        return self.op("fsub", a[0], b[0]), self.op("fsub", a[1], b[1])

    def times(self, a: Pair, w: Pair) -> Pair:
        """a w."""
        re = self.fma(a[0], w[0], self.neg(self.op("fmul", a[1], w[1])))
        return re, self.fma(a[0], w[1], self.op("fmul", a[1], w[0]))

    def scaled(self, a: Pair, by: str) -> Pair:
        """Both parts times a vector."""
        return self.op("fmul", a[0], by), self.op("fmul", a[1], by)

    # -- lanes ------------------------------------------------------------------------------------------------------

    def splat(self, value: str, type_: str = "") -> str:
        """A scalar in each lane."""
        type_ = type_ or self.element
        vector = f"<{self.width} x {type_}>"
        first = self.f.plain(f"insertelement {vector} poison, {type_} {value}, i64 0")
        return self.f.plain(f"shufflevector {vector} {first}, {vector} poison, <{self.width} x i32> zeroinitializer")

    def shuffle(self, a: str, b: str, which: Sequence[int]) -> str:
        """Lanes of two vectors."""
        order = ", ".join(f"i32 {k}" for k in which)
        return self.f.plain(f"shufflevector {self.kind} {a}, {self.kind} {b}, <{len(which)} x i32> <{order}>")

    def below(self, limit: str, first: int = 0) -> str:
        """The lanes whose number, counted from `first`, is below a limit."""
        numbers = ", ".join(f"i64 {first + k}" for k in range(self.width))
        return self.f.plain(f"icmp slt <{self.width} x i64> <{numbers}>, {self.splat(limit, 'i64')}")

    def apart(self, low: str, high: str) -> Pair:
        """(real, imaginary) parts of the complex numbers in two vectors."""
        re, im = (self.shuffle(low, high, range(odd, 2 * self.width, 2)) for odd in (0, 1))
        return re, im

    def together(self, value: Pair) -> tuple[str, str]:
        """Two vectors of complex numbers of their parts."""
        w = self.width
        order = [k // 2 + (k % 2) * w for k in range(2 * w)]
        return self.shuffle(*value, order[:w]), self.shuffle(*value, order[w:])

    def transposed(self, rows: Sequence[str]) -> list[str]:
        """As many vectors as there are lanes, of 64 bytes: element k of vector j becomes element j of vector k.

        First within pieces of 16 bytes, then whole pieces: what machines have shuffles for.
        """
        piece = 16 // self.size
        groups = [self._within(rows[k : k + piece]) for k in range(0, len(rows), piece)]
        made = [""] * len(rows)
        for c in range(piece):
            one, two = ([self._pieces(groups[k][c], groups[k + 1][c], odd) for odd in (0, 1)] for k in (0, 2))
            for odd in (0, 1):
                made[odd * piece + c] = self._pieces(one[odd], two[odd], 0)
                made[(odd + 2) * piece + c] = self._pieces(one[odd], two[odd], 1)
        return made

    def _within(self, rows: Sequence[str]) -> list[str]:
        """The rows of a piece transposed."""
        low = [self._merged(rows[0], rows[1], 1, half) for half in (0, 1)]
        if len(rows) == 2:
            return low
        high = [self._merged(rows[2], rows[3], 1, half) for half in (0, 1)]
        return [self._merged(low[h], high[h], 2, half) for h in (0, 1) for half in (0, 1)]

    def _merged(self, a: str, b: str, unit: int, half: int) -> str:
        """Of each piece's lower or upper half the units of two vectors in turns."""
        piece = 16 // self.size
        begins = [p + half * piece // 2 + u for p in range(0, self.width, piece) for u in range(0, piece // 2, unit)]
        return self.shuffle(a, b, [v + at + k for at in begins for v in (0, self.width) for k in range(unit)])

    def _pieces(self, a: str, b: str, odd: int) -> str:
        """Pieces `odd` and odd + 2 of two vectors."""
        piece = 16 // self.size
        begins = [v + p * piece for v in (0, self.width) for p in (odd, odd + 2)]
        return self.shuffle(a, b, [at + k for at in begins for k in range(piece)])

    # -- memory -----------------------------------------------------------------------------------------------------

    def load(self, at: str, align: int = 0) -> str:
        """A vector of memory."""
        return self.f.plain(f"load {self.kind}, ptr {at}, align {align or self.size}")

    def store(self, at: str, value: str, align: int = 0) -> None:
        """Set a vector of memory."""
        self.f.do(f"store {self.kind} {value}, ptr {at}, align {align or self.size}")

    def load_some(self, at: str, mask: str) -> str:
        """The lanes of a mask, zeros in the others."""
        bits = f"<{self.width} x i1>"
        given = [("ptr", at), ("i32", str(self.size)), (bits, mask), (self.kind, "zeroinitializer")]
        return self.f.plain_call(self.kind, f"llvm.masked.load.{self.suffix}.p0", given)

    def store_some(self, at: str, value: str, mask: str) -> None:
        """Set the lanes of a mask."""
        name, bits = f"llvm.masked.store.{self.suffix}.p0", f"<{self.width} x i1>"
        self.f.module.declare("void", name, f"{self.kind}, ptr, i32, {bits}")
        self.f.do(f"call void @{name}({self.kind} {value}, ptr {at}, i32 {self.size}, {bits} {mask})")

    def load_pair(self, at: str) -> Pair:
        """An element of scratch, or of a table of that form."""
        return self.load(at, PART), self.load(moved(self.f, at, PART), PART)


def moved(f: Function, pointer: str, offset: Ix) -> str:
    """The address so many bytes further."""
    return pointer if offset == 0 else f.plain(f"getelementptr i8, ptr {pointer}, i64 {offset}")


def item(f: Function, pointer: str, index: Ix, size: Ix) -> str:
    """The address of an item of an array of items of so many bytes."""
    return moved(f, pointer, f.mul(index, size, wrap=True))

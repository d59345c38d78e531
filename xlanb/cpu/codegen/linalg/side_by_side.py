"""Small matrices of a batch side by side: one in each lane of a vector, so that what is done to an element is done to those of all of them.

Their elements are interleaved in scratch (element k of all matrices lies in vector k), worked on there by plain loops, and put back. Where there are fewer matrices than lanes,
the last one stands in the lanes left over too; so no memory beyond is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.linalg.columns import Columns
from xlanb.cpu.codegen.matmul.lanes import Lanes
from xlanb.cpu.codegen.matmul.shared import moved
from xlanb.cpu.codegen.transpose import turned
from xlanb.cpu.codegen.types import part
from xlanb.shape import PrimitiveType

T = PrimitiveType
LARGEST = 640
"""Elements of what is small: more of them side by side do not stay in the first cache."""
_LARGEST_COMPLEX = 4 * LARGEST
"""The same of complex numbers, whose alternative is no kernel but a call."""
LINE = 64
"""Bytes of a vector in scratch, at most."""
_PADDING = 16


Value = tuple[str, ...]
"""An element of all matrices: a vector, or the vectors of its real and imaginary parts."""


def vectors_bytes(t: PrimitiveType, elements: int) -> int:
    """Scratch of so many elements of each matrix."""
    return (elements * (2 if t.is_complex else 1) + _PADDING) * LINE


def least_matrices(t: PrimitiveType, elements: int, n: int) -> int:
    """How many matrices of rank n, with so many elements, must be there to be worth doing side by side; 0 where no number is enough."""
    if t.is_complex:
        return 1 if 2 * elements <= _LARGEST_COMPLEX else 0
    return max(2, n // 4) if elements <= LARGEST else 0


@dataclass
class Interleaved:
    """Elements of matrices side by side: `pointer` is that of vector 0 in scratch."""

    s: SideBySide
    pointer: str

    def place(self, number: Ix) -> str:
        """The address of vector `number`."""
        return self.s.c.at(self.pointer, self.s.c.index("mul", number, self.s.c.lanes))

    def get(self, number: Ix) -> Value:
        """Element `number` of all."""
        v, t = self.s.c.v, self.s.t
        return tuple(v.load(t, at, 0, self.s.c.lanes) for at in self._parts(number))

    def set(self, number: Ix, value: Value) -> None:
        """Set element `number` of all."""
        v, t = self.s.c.v, self.s.t
        for at, vector in zip(self._parts(number), value, strict=True):
            v.store(t, at, 0, vector, self.s.c.lanes)

    def _parts(self, number: Ix) -> list[str]:
        """The addresses of the parts of an element."""
        c, parts = self.s.c, self.s.parts
        first = number if parts == 1 else c.index("mul", number, 2)
        return [self.place(first), *(self.place(c.index("add", first, k)) for k in range(1, parts))]


class SideBySide:
    """Writes a routine for `%count` matrices at most; `body(first, count)` is written once, for as many matrices as there are lanes."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.t = part(t)
        self.parts = 2 if t.is_complex else 1
        self.c = Columns(f, self.t)

    def each(self, body: Callable[[str, str], None]) -> None:
        """`body(first, count)` for the first of each few matrices, and how many of them there are."""
        c = self.c
        with self.f.loop(c.rounds("%count", c.lanes), guarded=True) as few:
            first = c.index("mul", few, c.lanes)
            body(first, c.least(c.index("sub", "%count", first), c.lanes))

    def take(self, pointer: str, first: str, count: str, elements: str, target: str) -> Interleaved:
        """Interleave all elements of the matrices at a pointer."""
        size = self.c.index("mul", elements, self.parts)
        self.gather(self.matrices(pointer, first, count, size, self.t.bits), size, target)
        return Interleaved(self, target)

    def put(self, pointer: str, first: str, count: str, elements: str, source: str) -> None:
        """Put all elements of the matrices back."""
        size = self.c.index("mul", elements, self.parts)
        self.scatter(self.matrices(pointer, first, count, size, self.t.bits), size, source)

    def matrices(self, pointer: str, first: str, count: str, size: str, bits: int) -> list[str]:
        """The addresses of the matrices of `size` elements of so many bits, one for each lane."""
        c = self.c
        last = c.index("sub", count, 1)
        numbers = [first, *(c.index("add", first, c.least(lane, last)) for lane in range(1, c.lanes))]
        step = c.index("mul", size, bits // 8)
        return [moved(self.f, pointer, c.index("mul", n, step)) for n in numbers]

    def gather(self, matrices: list[str], size: str, target: str) -> None:
        """Interleave all elements of the matrices."""
        t = self._integer(self.t.bits)
        v = Lanes(self.f, t, self.c.lanes)
        with self._chunks(size) as (first, mask):
            rows = [v.load(t, self._at(p, first, t), 0, mask) for p in matrices]
            for k, value in enumerate(turned(self.f, t.bits, rows)):
                v.store(t, self._vector(target, first, k, t), 0, value, self.c.lanes)

    def scatter(self, matrices: list[str], size: str, source: str, bits: int = 0) -> None:
        """Put all elements of the matrices back; `bits` are those of an element where it is of another type."""
        t = self._integer(bits or self.t.bits)
        v = Lanes(self.f, t, self.c.lanes)
        with self._chunks(size) as (first, mask):
            found = [v.load(t, self._vector(source, first, k, t), 0, self.c.lanes) for k in range(self.c.lanes)]
            for p, value in reversed(list(zip(matrices, turned(self.f, t.bits, found), strict=True))):
                v.store(t, self._at(p, first, t), 0, value, mask)

    def numbers(self, vector: str, pointer: str, first: str, count: str) -> None:
        """Store a vector of i32, one for each matrix."""
        at = self.f.let(f"getelementptr i32, ptr {pointer}, i64 {first}")
        Lanes(self.f, T.S32, self.c.lanes).store(T.S32, at, 0, vector, self.c.v.first(count))

    @property
    def integers(self) -> str:
        """LLVM's type of an i32 for each matrix."""
        return f"<{self.c.lanes} x i32>"

    def choose(self, mask: str, kind: str, then: str, otherwise: str) -> str:
        """Lane by lane one of two vectors."""
        return self.f.let(f"select <{self.c.lanes} x i1> {mask}, {kind} {then}, {kind} {otherwise}")

    # -- arithmetic ----------------------------------------------------------------------------------------------

    def chosen(self, mask: str, then: Value, otherwise: Value) -> Value:
        """Lane by lane one of two values."""
        return tuple(self.choose(mask, self.c.v.kind, x, y) for x, y in zip(then, otherwise, strict=True))

    def scaled(self, x: Value, by: str) -> Value:
        """A value times a real vector."""
        return tuple(self.c.times(v, by) for v in x)

    def negative(self, x: str) -> str:
        """A real vector with the other sign."""
        return self.f.let(f"fneg {self.c.v.kind} {x}")

    def adjoint(self, x: Value) -> Value:
        """The conjugate."""
        return (x[0], *(self.negative(v) for v in x[1:]))

    def minus(self, total: Value, a: Value, b: Value) -> Value:
        """total - a * b."""
        c = self.c
        if self.parts == 1:
            return (c.minus(total[0], a[0], b[0]),)
        real = c.v.multiply_add(c.minus(total[0], a[0], b[0]), a[1], b[1])
        return real, c.minus(c.minus(total[1], a[0], b[1]), a[1], b[0])

    def times(self, a: Value, b: Value) -> Value:
        """The product."""
        c = self.c
        if self.parts == 1:
            return (c.times(a[0], b[0]),)
        return c.minus(c.times(a[0], b[0]), a[1], b[1]), c.v.multiply_add(c.times(a[0], b[1]), a[1], b[0])

    def inverse(self, x: Value) -> Value:
        """One over a value: complex ones are brought to the size of one first, so that squares stay in range."""
        f, kind = self.f, self.c.v.kind
        one = self.c.v.splat("1.0")
        if self.parts == 1:
            return (f.let(f"fdiv {kind} {one}, {x[0]}"),)
        scale = f.let(f"fdiv {kind} {one}, {self.size(x)}")
        re, im = self.scaled(x, scale)
        square = self.c.v.multiply_add(self.c.times(re, re), im, im)
        factor = f.let(f"fdiv {kind} {scale}, {square}")
        return self.scaled(self.adjoint((re, im)), factor)

    def size(self, x: Value) -> str:
        """What LAPACK compares: |x|, of complex numbers |Re x| + |Im x|."""
        c = self.c
        suffix = f"v{c.lanes}{'f32' if c.element == 'float' else 'f64'}"
        sizes = [self.f.call(c.v.kind, f"llvm.fabs.{suffix}", (c.v.kind, v)) for v in x]
        return sizes[0] if len(sizes) == 1 else c.v.add(*sizes)

    def splat(self, number: Ix) -> str:
        """An i64 as an i32 in all lanes."""
        f = self.f
        value = f.let(f"trunc i64 {number} to i32")
        one = f.let(f"insertelement {self.integers} poison, i32 {value}, i64 0")
        return f.let(f"shufflevector {self.integers} {one}, {self.integers} poison, {self.integers} zeroinitializer")

    @contextmanager
    def _chunks(self, size: str) -> Iterator[tuple[str, str]]:
        """As many elements at a time as there are lanes: the first of them, and the mask of those that there are."""
        c = self.c
        with self.f.loop(c.rounds(size, c.lanes), guarded=True) as chunk:
            first = c.index("mul", chunk, c.lanes)
            yield first, c.v.first(c.index("sub", size, first))

    def _integer(self, bits: int) -> PrimitiveType:
        return T.U32 if bits == 32 else T.U64

    def _at(self, pointer: str, number: str, t: PrimitiveType) -> str:
        return self.f.let(f"getelementptr i{t.bits}, ptr {pointer}, i64 {number}")

    def _vector(self, pointer: str, first: str, k: int, t: PrimitiveType) -> str:
        return self._at(pointer, self.c.index("mul", self.c.index("add", first, k), self.c.lanes), t)

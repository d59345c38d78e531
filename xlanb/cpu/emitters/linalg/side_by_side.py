"""Small matrices of a batch side by side: one in each lane of a vector, so that what is done to an element is done to those of all of them.

Their elements are interleaved in scratch memory (element k of all matrices lies in vector k), worked on there by plain
loops, and put back. If there are fewer matrices than lanes, the lanes left over hold the last one too, so no memory
beyond is touched. LAPACK's calls cost more than the arithmetic on such matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32, Type, integer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import transposed
from xlanb.cpu.emitters.linalg.routine import LINE, number
from xlanb.cpu.emitters.matmul.lanes import lanes_of
from xlanb.shape import PrimitiveType

_LARGEST = 640
"""Elements of a matrix beyond which several of them side by side do not stay in the caches."""
_PADDING = 16

Element = tuple[Value, ...]
"""An element of all matrices: a vector, or the vectors of its real and imaginary parts."""


def vectors_bytes(t: PrimitiveType, elements: int) -> int:
    """Bytes of scratch memory for so many elements of each matrix."""
    return (elements * (2 if t.is_complex else 1) + _PADDING) * LINE


def least_matrices(t: PrimitiveType, elements: int, n: int) -> int:
    """How many matrices of order n, with so many elements, a batch must have for this to pay; 0 if it never does."""
    return max(2, n // 4) if elements * (2 if t is PrimitiveType.C128 else 1) <= _LARGEST else 0


@dataclass
class Interleaved:
    """Elements of matrices side by side, from a pointer to vectors in scratch memory on."""

    s: SideBySide
    pointer: Pointer

    def get(self, index: Ix) -> Element:
        """Element `index` of all matrices."""
        return tuple(self.pointer.load(at, self.s.lanes) for at in self._parts(index))

    def set(self, index: Ix, value: Element) -> None:
        """Set element `index` of all matrices."""
        for at, vector in zip(self._parts(index), value, strict=True):
            self.pointer.store(at, vector)

    def _parts(self, index: Ix) -> list[Value]:
        """The offsets of the parts of an element."""
        s = self.s
        first = s.f.value(index) * (s.parts * s.lanes)
        return [first + k * s.lanes if k else first for k in range(s.parts)]


class SideBySide:
    """Writes a routine for `count` matrices; `each` takes as many of them at a time as a vector has lanes."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.kind = number(t)
        self.parts = 2 if t.is_complex else 1
        self.lanes = lanes_of(f.target, self.kind.bits)
        self.zeros = f.zero(self.kind.times(self.lanes))
        self.ones = f.const(self.kind.times(self.lanes), 1.0)
        self.integers = I32.times(self.lanes)

    def each(self, count: Value, body: Callable[[Value, Value], None]) -> None:
        """`body(first, some)` for the number of the first of each few matrices, and how many of them there are."""
        with self.f.loop(self._rounds(count), guarded=True) as few:
            first = self.f.value(few) * self.lanes
            body(first, (count - first).smin(self.lanes))

    def take(self, source: Value, first: Value, some: Value, elements: Value, target: Value) -> Interleaved:
        """Interleave all elements of some matrices."""
        size = elements * self.parts
        rows = self._matrices(source, self.kind, first, some, size)
        into = Pointer(target, integer(self.kind.bits))
        with self._chunks(size) as (at, mask):
            for k, value in enumerate(transposed([p.load(at, self.lanes, mask) for p in rows])):
                into.store((at + k) * self.lanes, value)
        return Interleaved(self, Pointer(target, self.kind))

    def put(self, target: Value, first: Value, some: Value, elements: Value, source: Interleaved) -> None:
        """Put all elements of some matrices back."""
        self._scatter(target, self.kind, first, some, elements * self.parts, source.pointer.base)

    def put_integers(self, target: Value, first: Value, some: Value, size: Value, source: Value) -> None:
        """Put `size` integers of each matrix, interleaved in scratch memory, where they belong."""
        self._scatter(target, I32, first, some, size, source)

    def put_numbers(self, target: Value, first: Value, some: Value, vector: Value) -> None:
        """Store a vector of i32, one for each matrix."""
        Pointer(target, I32).store(first, vector, Mask.first(self.f, self.lanes, some))

    def _scatter(self, target: Value, kind: Type, first: Value, some: Value, size: Value, source: Value) -> None:
        rows = self._matrices(target, kind, first, some, size)
        given = Pointer(source, integer(kind.bits))
        with self._chunks(size) as (at, mask):
            found = [given.load((at + k) * self.lanes, self.lanes) for k in range(self.lanes)]
            # The last lanes may be the last matrix again: it is stored before it itself.
            for p, value in reversed(list(zip(rows, transposed(found), strict=True))):
                p.store(at, value, mask)

    def _matrices(self, pointer: Value, kind: Type, first: Value, some: Value, size: Value) -> list[Pointer]:
        """The places of the matrices of `size` elements, one for each lane."""
        given, last = Pointer(pointer, integer(kind.bits)), some - 1
        numbers = [first, *(first + last.smin(lane) for lane in range(1, self.lanes))]
        return [given.by(n * size) for n in numbers]

    @contextmanager
    def _chunks(self, size: Value) -> Iterator[tuple[Value, Mask]]:
        """As many elements at a time as there are lanes: the first of them, and the mask of those that there are."""
        with self.f.loop(self._rounds(size), guarded=True) as chunk:
            first = self.f.value(chunk) * self.lanes
            yield first, Mask.first(self.f, self.lanes, size - first)

    def _rounds(self, count: Value) -> Value:
        return (count + (self.lanes - 1)).sdiv(self.lanes)

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def one(self) -> Element:
        """1 in all matrices."""
        return (self.ones, *(self.zeros for _ in range(1, self.parts)))

    def chosen(self, mask: Value, then: Element, otherwise: Element) -> Element:
        """Lane by lane one of two elements; that of all lanes by an i1."""
        return tuple(mask.select(x, y) for x, y in zip(then, otherwise, strict=True))

    def scaled(self, x: Element, by: Value) -> Element:
        """An element times a real vector."""
        return tuple(v * by for v in x)

    def adjoint(self, x: Element) -> Element:
        """The conjugate."""
        return (x[0], *(-v for v in x[1:]))

    def minus(self, total: Element, a: Element, b: Element) -> Element:
        """total - a * b."""
        if self.parts == 1:
            return ((-a[0]).times_plus(b[0], total[0]),)
        real = a[1].times_plus(b[1], (-a[0]).times_plus(b[0], total[0]))
        return real, (-a[1]).times_plus(b[0], (-a[0]).times_plus(b[1], total[1]))

    def times(self, a: Element, b: Element) -> Element:
        """The product."""
        if self.parts == 1:
            return (a[0] * b[0],)
        return (-a[1]).times_plus(b[1], a[0] * b[0]), a[1].times_plus(b[0], a[0] * b[1])

    def inverse(self, x: Element) -> Element:
        """One over an element: complex ones are scaled to the size of one first, so that squares stay in range."""
        if self.parts == 1:
            return (self.ones / x[0],)
        scale = self.ones / self.size(x)
        re, im = self.scaled(x, scale)
        return self.scaled(self.adjoint((re, im)), scale / im.times_plus(im, re * re))

    def size(self, x: Element) -> Value:
        """What LAPACK compares: |x|, of complex numbers |Re x| + |Im x|."""
        return abs(x[0]) if self.parts == 1 else abs(x[0]) + abs(x[1])

    def everywhere(self, index: Ix) -> Value:
        """An index as an i32 in all lanes."""
        return self.f.value(index).trunc(I32).repeated(self.lanes)

    def none(self) -> Value:
        """Zero as an i32 in all lanes."""
        return self.f.zero(self.integers)

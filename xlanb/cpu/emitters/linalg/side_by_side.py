"""Small matrices of a batch, one per lane of a vector, so that one operation updates all.

Their elements are interleaved in scratch memory (element k of all matrices is vector k), processed
there by plain loops, and copied back. LAPACK calls cost more than the arithmetic on such matrices.
"""

from __future__ import annotations

from xlanb.codegen import costs
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I32
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.interleaved import PADDING, VECTOR_BYTES, interleave, lanes_of
from xlanb.cpu.emitters.linalg.routine import RoutineCall, number
from xlanb.shape import PrimitiveType

Element = tuple[Value, ...]
"""An element of all matrices: a vector, or the vectors of its real and imaginary parts."""


def vectors_bytes(t: PrimitiveType, elements: int) -> int:
    """Bytes of scratch memory for a number of elements of each matrix."""
    return (elements * (2 if t.is_complex else 1) + PADDING) * VECTOR_BYTES


def least_matrices(t: PrimitiveType, elements: int, n: int) -> int:
    """Minimum batch size for which this pays, for matrices of order n with this number of elements;
    0 if it never does.
    """
    fits = elements * (2 if t is PrimitiveType.C128 else 1) <= costs.COMMON.interleaved_elements
    return max(2, n // 4) if fits else 0


def copy(call: RoutineCall, matrices: Value, scratch: Value, elements: int, *, out: bool = False) -> None:
    """Interleave all elements of the matrices of a call, or copy them back if `out`."""
    even, parts = call.numbers(scratch), elements * (2 if call.type.is_complex else 1)
    odd = even.by(lanes_of(even.element.bytes))
    interleave(call.f, call.numbers(matrices), even, odd, parts, parts, call.count, 1, out, None)


class SideBySide:
    """Emits arithmetic on elements of interleaved matrices at an address of scratch memory."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.kind = number(t)
        self.parts = 2 if t.is_complex else 1
        self.lanes = lanes_of(self.kind.bytes)
        self.zeros = f.zero(self.kind.times(self.lanes))
        self.ones = f.const(self.kind.times(self.lanes), 1.0)

    def get(self, matrices: Value, index: Ix) -> Element:
        """Load element `index` of all matrices."""
        first = self._element(matrices, index)
        return tuple(first.load(k * self.lanes, self.lanes) for k in range(self.parts))

    def set(self, matrices: Value, index: Ix, value: Element) -> None:
        """Store element `index` of all matrices."""
        first = self._element(matrices, index)
        for k, vector in enumerate(value):
            first.store(k * self.lanes, vector)

    def _element(self, matrices: Value, index: Ix) -> Pointer:
        return Pointer(matrices, self.kind).by(self.f.value(index) * (self.parts * self.lanes))

    def store_integers(self, target: Value, vector: Value, count: Value) -> None:
        """Store an i32 for each matrix."""
        Pointer(target, I32).store(0, vector, Mask.first(self.f, self.lanes, count))

    def one(self) -> Element:
        """One, in all matrices."""
        return (self.ones, *(self.zeros for _ in range(1, self.parts)))

    def chosen(self, mask: Value, then: Element, otherwise: Element) -> Element:
        """Select between two elements lane by lane, or for all lanes by an i1."""
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
        """The reciprocal of an element.

        Complex ones are scaled first, so that squares stay in range.
        """
        if self.parts == 1:
            return (self.ones / x[0],)
        scale = self.ones / self.size(x)
        re, im = self.scaled(x, scale)
        return self.scaled(self.adjoint((re, im)), scale / im.times_plus(im, re * re))

    def size(self, x: Element) -> Value:
        """The magnitude that LAPACK compares: |x|, or |Re x| + |Im x| of complex numbers."""
        return abs(x[0]) if self.parts == 1 else abs(x[0]) + abs(x[1])

    def everywhere(self, index: Ix) -> Value:
        """An index as an i32 in all lanes."""
        return self.f.value(index).trunc(I32).repeated(self.lanes)

    def none(self) -> Value:
        """Zero as an i32 in all lanes."""
        return self.f.zero(I32.times(self.lanes))

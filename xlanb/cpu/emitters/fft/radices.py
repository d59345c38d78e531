"""Passes of Stockham's algorithm over scratch, a routine for each radix (see codegen.routines).

    b[q + s (R p + k)] = w^(p k) sum over j of a[q + s (p + j m)] e^(-2 pi i j k / R)

for p < m, q < s, k < R. The table `factors` holds w^(p k), k > 0, for p > 0 (Van Loan,
Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7). Primes without a
butterfly share a routine; their cosines and sines precede their factors, which begin with p = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from xlanb.codegen.complex_math import Complex
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I8, Type
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.interleaved import VECTOR_BYTES, lanes_of

ELEMENT = 2 * VECTOR_BYTES
"""Bytes of an element of scratch, a number per lane: the real parts, then the imaginary parts."""

BUTTERFLIES = (2, 3, 4, 5, 7, 8, 11, 13)
"""Radices that have a routine of their own."""
LARGEST = 251
"""The largest prime factor that has a pass."""


def call_pass(f: Function, radix: int, a: Pointer, b: Pointer, factors: Pointer, m: int, s: int) -> None:
    """Emit the call of a pass from a to b, pointers to bytes."""
    if radix in BUTTERFLIES:
        _pass(f, str(radix), a, b, factors, m, s)
    else:
        _prime_pass(f, a, b, factors, m, s, radix)


class _Vectors:
    """The machine's vectors; several may make up the real parts of an element of scratch."""

    def __init__(self, f: Function, element: Type, m: Ix, s: Ix) -> None:
        self.f = f
        self.width = min(lanes_of(element.bytes), f.target.vector_bits // element.bits)
        self.kind = element.times(self.width)
        self.align = self.kind.bytes * self.width
        self.row = f.mul(s, ELEMENT)
        self.far = f.mul(m, self.row)

    def of(self, q: Ix) -> list[Ix]:
        """The byte offsets of the vectors of element q."""
        first = self.f.mul(q, ELEMENT)
        return [self.f.add(first, part) for part in range(0, VECTOR_BYTES, self.align)]

    def factor(self, factors: Pointer, k: Ix) -> Complex:
        """Number k of a table, broadcast to all lanes."""
        at = factors.by(self.f.mul(k, 2))
        return Complex(*(self.f.splat(at[part], self.width) for part in (0, 1)))

    def load(self, p: Pointer, at: Ix) -> Complex:
        """Load the vectors at a byte offset of scratch memory."""
        re = p.by(at)
        return Complex(*(self.f.load(self.kind, re.address(part), self.align) for part in (0, VECTOR_BYTES)))

    def store(self, p: Pointer, at: Ix, value: Complex) -> None:
        """Store the vectors at a byte offset of scratch memory."""
        re = p.by(at)
        self.f.store(value.re, re.address(0), self.align)
        self.f.store(value.im, re.address(VECTOR_BYTES), self.align)


@shared("fft.pass")
def _pass(f: Function, radix: str, a: Pointer, b: Pointer, factors: Pointer, m: Ix, s: Ix) -> None:
    """Emit the butterflies of p = 0, whose factors are one, then all others."""
    v, r = _Vectors(f, factors.element, m, s), int(radix)
    _butterflies(v, r, s, a, b, [])
    with f.loop(m, 1, guarded=True) as p:
        row = factors.by(f.mul(f.sub(p, 1), 2 * (r - 1)))
        w = [v.factor(row, k) for k in range(r - 1)]
        begin = f.mul(p, v.row)
        _butterflies(v, r, s, a.by(begin), b.by(f.mul(begin, r)), w)


def _butterflies(v: _Vectors, radix: int, s: Ix, a: Pointer, b: Pointer, w: Sequence[Complex]) -> None:
    f = v.f
    with f.loop(s) as q:
        for here in v.of(q):
            given = [v.load(a, f.add(here, f.mul(v.far, j))) for j in range(radix)]
            for k, value in enumerate(_WRITTEN.get(radix, _odd)(given)):
                v.store(b, f.add(here, f.mul(v.row, k)), value.times(w[k - 1]) if w and k else value)


def _two(a: Sequence[Complex]) -> list[Complex]:
    return [a[0] + a[1], a[0] - a[1]]


def _four(a: Sequence[Complex]) -> list[Complex]:
    (e, d), (o, p) = _two(a[::2]), _two(a[1::2])
    return [e + o, d.minus_i(p), e - o, d.plus_i(p)]


def _eight(a: Sequence[Complex]) -> list[Complex]:
    even, odd = _four(a[::2]), _four(a[1::2])
    # e^(-pi i / 4) and e^(-3 pi i / 4) are (1 - i) and -(1 + i) times a root, which goes into the
    # additions.
    one, three, root = odd[1].minus_i(odd[1]), odd[3].plus_i(odd[3]), math.sqrt(0.5)
    pairs = [
        _two([even[0], odd[0]]),
        [even[1].plus_scaled(one, by) for by in (root, -root)],
        [even[2].minus_i(odd[2]), even[2].plus_i(odd[2])],
        [even[3].plus_scaled(three, by) for by in (-root, root)],
    ]
    return [*(first for first, _ in pairs), *(second for _, second in pairs)]


def _odd(a: Sequence[Complex]) -> list[Complex]:
    """Compute an odd radix by sums and differences of opposite numbers."""
    r, half = len(a), range(1, len(a) // 2 + 1)
    sums, differences = [a[j] + a[r - j] for j in half], [a[j] - a[r - j] for j in half]
    made = [reduce(Complex.__add__, sums, a[0])] * r
    for k in half:
        angles = [2 * math.pi * (j * k % r) / r for j in half]
        even, odd = a[0], differences[0].scaled(math.sin(angles[0]))
        for total, angle in zip(sums, angles, strict=True):
            even = even.plus_scaled(total, math.cos(angle))
        for difference, angle in zip(differences[1:], angles[1:], strict=True):
            odd = odd.plus_scaled(difference, math.sin(angle))
        made[k], made[r - k] = even.minus_i(odd), even.plus_i(odd)
    return made


_WRITTEN: dict[int, Callable[[Sequence[Complex]], list[Complex]]] = {2: _two, 4: _four, 8: _eight}


@shared("fft.pass.prime")
def _prime_pass(f: Function, a: Pointer, b: Pointer, factors: Pointer, m: Ix, s: Ix, radix: Ix) -> None:
    """Emit a pass of any odd radix by loops, with the algorithm of `_odd`.

    The cosines and sines of j k, for 0 < k, j <= r / 2, precede the factors.
    """
    v, r = _Vectors(f, factors.element, m, s), f.value(radix)
    half = r.lshr(1)
    folded = Pointer(f.alloca(I8, 2 * ELEMENT * (LARGEST // 2)), I8)
    turns = factors.by(f.mul(f.mul(half, half), 2))
    with f.loop(m) as p, f.loop(s) as q:
        begin, w = f.mul(p, v.row), turns.by(f.mul(p, f.mul(half, 4)))
        for here in v.of(q):
            given, made = a.by(f.add(begin, here)), b.by(f.add(f.mul(begin, r), here))
            first = _fold(v, given, r, half, folded, made)
            _prime_outputs(v, made, r, half, folded, first, factors, w)


def _fold(v: _Vectors, a: Pointer, r: Value, half: Value, folded: Pointer, b: Pointer) -> Complex:
    """Store sums and differences of opposite numbers to `folded` and the total to b.

    Returns the first number.
    """
    f, first = v.f, v.load(a, 0)
    with f.carried(half, [first.re, first.im]) as loop:
        j = f.add(loop.index, 1)
        one, two = (v.load(a, f.mul(v.far, at)) for at in (j, f.sub(r, j)))
        for k, x in enumerate((one + two, one - two)):
            v.store(folded, f.add(f.mul(loop.index, 2 * ELEMENT), k * ELEMENT), x)
        total = Complex(*loop.values) + (one + two)
        loop.next = [total.re, total.im]
    v.store(b, 0, Complex(*loop.values))
    return first


def _prime_outputs(
    v: _Vectors, b: Pointer, r: Value, half: Value, folded: Pointer, first: Complex, angles: Pointer, w: Pointer
) -> None:
    """Compute the results k and r - k for all k."""
    f, zero = v.f, v.f.zero(v.kind)
    with f.loop(half) as k:
        row = angles.by(f.mul(k, f.mul(half, 2)))
        with f.carried(half, [first.re, first.im, zero, zero]) as loop:
            angle, at = v.factor(row, loop.index), f.mul(loop.index, 2 * ELEMENT)
            even = Complex(*loop.values[:2]).plus_scaled(v.load(folded, at), angle.re)
            odd = Complex(*loop.values[2:]).plus_scaled(v.load(folded, f.add(at, ELEMENT)), angle.im)
            loop.next = [even.re, even.im, odd.re, odd.im]
        even, odd = Complex(*loop.values[:2]), Complex(*loop.values[2:])
        j = f.add(k, 1)
        for at, value in ((j, even.minus_i(odd)), (f.sub(r, j), even.plus_i(odd))):
            v.store(b, f.mul(v.row, at), value.times(v.factor(w, f.sub(at, 1))))

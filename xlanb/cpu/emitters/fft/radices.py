"""Passes of Stockham's algorithm over scratch, a routine for each radix (see codegen.routines).

    fft.pass.R (a, b, factors, m, s, R)     b[q + s (R p + k)] = w^(p k) sum over j of a[q + s (p + j m)] e^(-2 pi i j k / R)      p < m, q < s, k < R

The table `factors` has w^(p k), k > 0, for p > 0 (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7). Primes without a butterfly of their
own share fft.pass.prime, whose cosines and sines precede its factors, which begin with p = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

from xlanb.codegen.complex_math import Complex
from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.routines import moved, routine, table
from xlanb.codegen.types import I8, I64, PTR, Type
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.interleaved import VECTOR_BYTES, lanes_of

PART = VECTOR_BYTES
"""Bytes of the real parts, and of the imaginary parts, of an element of scratch: a number of one line per lane."""
ELEMENT = 2 * PART

BUTTERFLIES = (2, 3, 4, 5, 7, 8, 11, 13)
"""Radices that have a routine of their own."""
LARGEST = 61
"""The largest prime that is worth a pass."""


_PASS = [*(Parameter(PTR, name) for name in ("a", "b", "factors")), *(Parameter(I64, name) for name in "msr")]
_ALL = [
    Parameter(kind, name) for kind, name in ((PTR, "list"), (I64, "count"), (PTR, "a"), (PTR, "b"), (PTR, "factors"))
]


def call_passes(
    f: Function, element: Type, passes: Sequence[tuple[int, int, int, int]], a: Value, b: Value, factors: Value
) -> None:
    """Call passes of (radix, byte offset of its factors, m, s), from a to b, from b to a, ..."""
    words = [w for r, at, m, s in passes for w in (f"@{_pass(f.module, element, r)}", at, m, s, r)]
    called = routine(f.module, "fft.passes", "fft.passes", _emit_all, _ALL)
    f.call_own(called, table(f.module, words)(f), f.const(I64, len(passes)), a, b, factors)


def _emit_all(f: Function) -> None:
    listed, count, first, second, factors = map(f.argument, _ALL)
    with f.carried(count, [first, second]) as loop:
        a, b = loop.values
        entry = Pointer(listed, I64).by(f.mul(loop.index, 5))
        offset, *sizes = (entry[k] for k in (1, 2, 3, 4))
        f.call_pointer(Pointer(entry.base, PTR)[0], a, b, moved(factors, offset), *sizes)
        loop.next = [b, a]


def _pass(module: ModuleBuilder, element: Type, radix: int) -> str:
    """The name of a pass's routine."""
    name = f"fft.pass.{radix if radix in BUTTERFLIES else 'prime'}.{element.mangled}"
    made = _Pass if radix in BUTTERFLIES else _PrimePass
    return routine(module, name, name, lambda f: made(f, element).emit(radix), _PASS)


class _Pass:
    """Writes a pass: an element of scratch is as many vectors as it takes to fill a cache line."""

    def __init__(self, f: Function, element: Type) -> None:
        self.f = f
        self.width = min(lanes_of(element.bytes), f.target.vector_bits // element.bits)
        self.kind = element.times(self.width)
        a, b, factors, self.m, self.s, self.r = map(f.argument, _PASS)
        self.a, self.b, self.factors = Pointer(a, I8), Pointer(b, I8), Pointer(factors, element)
        self.row = f.mul(self.s, ELEMENT)
        self.far = f.mul(self.m, self.row)

    def emit(self, radix: int) -> None:
        """The butterflies of p = 0, whose factors are ones, and the others."""
        f = self.f
        self._butterflies(radix, self.a, self.b, [])
        with f.loop(self.m, 1, guarded=True) as p:
            factors = self.factors.by(f.mul(f.sub(p, 1), 2 * (radix - 1)))
            w = [self.factor(factors, k) for k in range(radix - 1)]
            begin = f.mul(p, self.row)
            self._butterflies(radix, self.a.by(begin), self.b.by(f.mul(begin, radix)), w)

    def _butterflies(self, radix: int, a: Pointer, b: Pointer, w: Sequence[Complex]) -> None:
        f = self.f
        with f.loop(self.s) as q:
            for here in self.vectors(q):
                given = [self.load(a, f.add(here, f.mul(self.far, j))) for j in range(radix)]
                for k, value in enumerate(butterfly(given)):
                    self.store(b, f.add(here, f.mul(self.row, k)), value.times(w[k - 1]) if w and k else value)

    def vectors(self, q: Ix) -> list[Ix]:
        """Where the vectors of element q are."""
        first = self.f.mul(q, ELEMENT)
        return [self.f.add(first, part) for part in range(0, PART, self._align)]

    def factor(self, factors: Pointer, k: Ix) -> Complex:
        """Number k of a table, in all lanes."""
        at = factors.by(self.f.mul(k, 2))
        return Complex(*(self.f.splat(at[part], self.width) for part in (0, 1)))

    def load(self, p: Pointer, at: Ix) -> Complex:
        """The vectors at a byte offset of scratch."""
        re = p.by(at)
        return Complex(*(self.f.load(self.kind, re.address(part), self._align) for part in (0, PART)))

    def store(self, p: Pointer, at: Ix, value: Complex) -> None:
        """Set them."""
        re = p.by(at)
        self.f.store(value.re, re.address(0), self._align)
        self.f.store(value.im, re.address(PART), self._align)

    @property
    def _align(self) -> int:
        return self.width * self.kind.bytes


# -- butterflies ------------------------------------------------------------------------------------------------------


def butterfly(a: Sequence[Complex]) -> list[Complex]:
    """The transform of a few numbers."""
    return _WRITTEN.get(len(a), _odd)(a)


def _two(a: Sequence[Complex]) -> list[Complex]:
    return [a[0] + a[1], a[0] - a[1]]


def _four(a: Sequence[Complex]) -> list[Complex]:
    (e, d), (o, p) = _two(a[::2]), _two(a[1::2])
    return [e + o, d.minus_i(p), e - o, d.plus_i(p)]


def _eight(a: Sequence[Complex]) -> list[Complex]:
    even, odd = _four(a[::2]), _four(a[1::2])
    # e^(-pi i / 4) and e^(-3 pi i / 4) are (1 - i) and -(1 + i) times a root, which goes into the additions.
    one, three, root = odd[1].minus_i(odd[1]), odd[3].plus_i(odd[3]), math.sqrt(0.5)
    made = [
        even[0] + odd[0],
        even[1].plus_scaled(one, root),
        even[2].minus_i(odd[2]),
        even[3].plus_scaled(three, -root),
    ]
    made += [
        even[0] - odd[0],
        even[1].plus_scaled(one, -root),
        even[2].plus_i(odd[2]),
        even[3].plus_scaled(three, root),
    ]
    return made


def _odd(a: Sequence[Complex]) -> list[Complex]:
    """An odd radix by sums and differences of opposite numbers."""
    r, half = len(a), range(1, len(a) // 2 + 1)
    sums, differences = [a[j] + a[r - j] for j in half], [a[j] - a[r - j] for j in half]
    made = [reduce(Complex.__add__, sums, a[0])] * r
    for k in half:
        angles = [2 * math.pi * (j * k % r) / r for j in half]
        even, turned = a[0], differences[0].scaled(math.sin(angles[0]))
        for total, angle in zip(sums, angles, strict=True):
            even = even.plus_scaled(total, math.cos(angle))
        for difference, angle in zip(differences[1:], angles[1:], strict=True):
            turned = turned.plus_scaled(difference, math.sin(angle))
        made[k], made[r - k] = even.minus_i(turned), even.plus_i(turned)
    return made


_WRITTEN: dict[int, Callable[[Sequence[Complex]], list[Complex]]] = {2: _two, 4: _four, 8: _eight}


class _PrimePass(_Pass):
    """Writes a pass of any odd radix r as `_odd`, by loops: the cosine and sine of j k, for 0 < k, j <= r / 2, precede the factors."""

    def emit(self, _radix: int) -> None:
        """All butterflies, one after the other."""
        f, half = self.f, self.r.lshr(1)
        folded = Pointer(f.alloca(I8, 2 * ELEMENT * (LARGEST // 2)), I8)
        factors = self.factors.by(f.mul(f.mul(half, half), 2))
        with f.loop(self.m) as p, f.loop(self.s) as q:
            begin, w = f.mul(p, self.row), factors.by(f.mul(p, f.mul(half, 4)))
            for here in self.vectors(q):
                a, b = self.a.by(f.add(begin, here)), self.b.by(f.add(f.mul(begin, self.r), here))
                first = self._fold(a, half, folded, b)
                self._outputs(b, half, folded, first, w)

    def _fold(self, a: Pointer, half: Value, folded: Pointer, b: Pointer) -> Complex:
        """Sums and differences of opposite numbers into `folded`, the sum of all into b; gives the first number."""
        f, first = self.f, self.load(a, 0)
        with f.carried(half, [first.re, first.im]) as loop:
            j = f.add(loop.index, 1)
            one, two = (self.load(a, f.mul(self.far, at)) for at in (j, f.sub(self.r, j)))
            for k, v in enumerate((one + two, one - two)):
                self.store(folded, f.add(f.mul(loop.index, 2 * ELEMENT), k * ELEMENT), v)
            total = Complex(*loop.values) + (one + two)
            loop.next = [total.re, total.im]
        self.store(b, 0, Complex(*loop.values))
        return first

    def _outputs(self, b: Pointer, half: Value, folded: Pointer, first: Complex, w: Pointer) -> None:
        """Results k and r - k of all k."""
        f, zero = self.f, self.f.zero(self.kind)
        with f.loop(half) as k:
            angles = self.factors.by(f.mul(k, f.mul(half, 2)))
            with f.carried(half, [first.re, first.im, zero, zero]) as loop:
                angle, at = self.factor(angles, loop.index), f.mul(loop.index, 2 * ELEMENT)
                even = Complex(*loop.values[:2]).plus_scaled(self.load(folded, at), angle.re)
                turned = Complex(*loop.values[2:]).plus_scaled(self.load(folded, f.add(at, ELEMENT)), angle.im)
                loop.next = [even.re, even.im, turned.re, turned.im]
            even, turned = Complex(*loop.values[:2]), Complex(*loop.values[2:])
            j = f.add(k, 1)
            for at, value in ((j, even.minus_i(turned)), (f.sub(self.r, j), even.plus_i(turned))):
                self.store(b, f.mul(self.row, at), value.times(self.factor(w, f.sub(at, 1))))

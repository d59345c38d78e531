"""Routines that copy lines into scratch and out of it, and that turn spectra of complex lines into those of real ones.

Numbers 0, 1, ... of a line per lane: numbers of a place lie side by side (`beside`), or lines lie one after the other (see
emitters/interleaved.py). A pointer to elements of two parts is one to complex numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xlanb.codegen.complex_math import Complex
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import vectors
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value, Vector
from xlanb.cpu.emitters.fft.radices import ELEMENT
from xlanb.cpu.emitters.interleaved import lanes_of


@dataclass(frozen=True, slots=True)
class Scratch:
    """Elements of scratch, given by the real parts and the imaginary parts of the first: number k of a line per lane."""

    re: Pointer
    im: Pointer

    @staticmethod
    def at(base: Pointer) -> Scratch:
        """The elements from an address on."""
        return Scratch(base, base.by(lanes_of(base.element.bytes)))

    @property
    def swapped(self) -> Scratch:
        """Real and imaginary parts exchanged: an inverse transform is one of exchanged parts, exchanged again."""
        return Scratch(self.im, self.re)

    @property
    def reals(self) -> Scratch:
        """Every second real part, and those between: for rows of real numbers."""
        return Scratch(self.re, self.re.by(ELEMENT // self.re.element.bytes))

    def load(self, k: Ix) -> Complex:
        """Number k of all lines."""
        width = lanes_of(self.re.element.bytes)
        at = self.re.base.function.mul(k, 2 * width)
        return Complex(self.re.load(at, width), self.im.load(at, width))

    def store(self, k: Ix, value: Complex) -> None:
        """Set number k of all lines."""
        at = self.re.base.function.mul(k, 2 * lanes_of(self.re.element.bytes))
        self.re.store(at, value.re)
        self.im.store(at, value.im)

    def each(self, begin: Ix, end: Ix, body: Callable[[Ix], None]) -> None:
        """`body` for the numbers begin, ..., end - 1; perhaps there are none."""
        with self.re.base.function.loop(end, begin, guarded=True) as k:
            body(k)


@dataclass(frozen=True, slots=True)
class Line:
    """Complex numbers of one line that lie one after the other: number k is a vector where k is a lane index."""

    numbers: Pointer

    def load(self, k: Ix) -> Complex:
        """Number k."""
        return Complex(*self.numbers.base.function.apart(self.numbers[k]))

    def store(self, k: Ix, value: Complex) -> None:
        """Set number k."""
        re, im = value.re, value.im
        self.numbers[k] = re.in_turns(im) if isinstance(re, Vector) else re.function.joined(re, im)

    def each(self, begin: Ix, end: Ix, body: Callable[[Ix], None]) -> None:
        """The same, in vectors."""
        vectors(self.numbers.base.function, begin, end, _width(self.numbers), body)


def _width(p: Pointer) -> int:
    return lanes_of(p.element.bytes)


def _first(p: Pointer, count: Ix) -> Mask:
    """A mask of the first so many numbers, none where that is negative."""
    f, size = p.base.function, _width(p) * p.parts
    return Mask(size, None, f.constants(I64, range(size)) < f.value(f.mul(count, p.parts, wrap=True)))


def _load(p: Pointer, at: Ix, mask: Mask) -> Complex:
    f = p.base.function
    value = p.load(at, mask.lanes, mask)
    return Complex(*f.apart(value)) if p.parts == 2 else Complex(value, f.zero(value.type))


def _store(p: Pointer, at: Ix, value: Complex, mask: Mask) -> None:
    re, im = value.re, value.im
    p.store(at, re.in_turns(im) if p.parts == 2 and isinstance(re, Vector) else re, mask)


@shared("fft.beside")
def beside(
    f: Function, a: Pointer, s: Scratch, n: Ix, stride: Ix, lines: Ix, out: bool, by: Value | Pointer | None, limit: Ix
) -> None:
    """Numbers of the first `lines` lines, number j at a[j stride], to scratch or `out` of it, times a number.

    With a table each is multiplied by the number at the same place of it; those from `limit` on are zero, and are not written.
    """
    mask = _first(a, lines)
    with f.loop(n) as j:
        at, factor = f.mul(j, stride), by if isinstance(by, Value) else None
        if isinstance(by, Pointer):
            left = f.value(f.sub(limit, at)).smin(lines)
            mask = _first(a, left)
        value = s.load(j) if out else _load(a, at, mask)
        if isinstance(by, Pointer):
            value = value.times(_load(by, at, _first(by, left)))
        elif factor is not None:
            value = value.scaled(factor)
        if out:
            _store(a, at, value, mask)
        else:
            s.store(j, value)


@shared("fft.out.turned")
def out_turned(
    f: Function, b: Pointer, s: Scratch, n: Ix, stride: Ix, lines: Ix, high: Pointer, low: Pointer, part: Ix, step: Ix
) -> None:
    """Numbers back, as by `beside`, times high[j / part] low[j mod part], tables of a number per lane whose rows are `step` elements."""
    mask, factors = _first(b, lines), [Scratch.at(table) for table in (high, low)]
    groups = f.value(f.sub(f.add(n, part), 1)).udiv(f.value(part))
    with f.loop(groups) as group:
        first, begin = factors[0].load(f.mul(group, step)), f.mul(group, part)
        with f.loop(f.value(part).smin(f.value(f.sub(n, begin)))) as k:
            j, factor = f.add(begin, k), first.times(factors[1].load(f.mul(k, step)))
            _store(b, f.mul(j, stride), s.load(j).times(factor), mask)


@shared("fft.strided")
def strided(f: Function, a: Pointer, b: Pointer, n: Ix, from_: Ix, to: Ix) -> None:
    """b[k to] = a[k from_] for k < n."""
    with f.loop(n) as k:
        b[f.mul(k, to)] = a[f.mul(k, from_)]


@shared("fft.product")
def product(f: Function, a: Scratch, table: Line, b: Scratch, n: Ix) -> None:
    """b[k] = a[k] table[k] for k < n."""
    with f.loop(n) as k:
        b.store(k, a.load(k).times(table.load(k)))


@shared("fft.mirror")
def mirror(
    f: Function,
    a: Scratch | Line,
    table: Line,
    b: Scratch | Line,
    h: Ix,
    forward: bool,
    begin: Ix | None = None,
    end: Ix = 0,
) -> None:
    """Of complex lines of h numbers the spectra of real ones of 2 h, or back: all numbers, or begin, ..., end - 1, and with begin = 1 also 0 and h.

    b[k] = c (a[k] + conj a[h - k]) + table[k - 1] (a[k] - conj a[h - k]) for 0 < k < h, with c = 1/2 forward and 1 back.
    Numbers 0 and h of a spectrum are real: their imaginary parts are set to zero, and are not read.
    """

    def write(k: Ix) -> None:
        one, two = a.load(k), a.load(f.sub(h, k))
        turn = Complex(one.re - two.re, one.im + two.im).times(table.load(f.sub(k, 1)))
        b.store(k, turn.plus_scaled(Complex(one.re + two.re, one.im - two.im), 0.5 if forward else 1.0))

    if begin is None:
        _ends(f, a, b, h, forward)
        a.each(1, h, write)
    else:
        with f.when(f.value(begin).equals(1)):
            _ends(f, a, b, h, forward)
        a.each(begin, end, write)


def _ends(f: Function, a: Scratch | Line, b: Scratch | Line, h: Ix, forward: bool) -> None:
    first, last = a.load(0), a.load(0 if forward else h)
    if forward:
        zero = f.zero(first.re.type)
        b.store(0, Complex(first.re + first.im, zero))
        b.store(h, Complex(first.re - first.im, zero))
    else:
        b.store(0, Complex(first.re + last.re, first.re - last.re))


@shared("fft.conjugates")
def conjugates(f: Function, a: Scratch | Line, n: Ix) -> None:
    """The spectrum of n real numbers, n odd, from its first half; the imaginary part of number 0 counts as zero."""
    first = a.load(0)
    a.store(0, Complex(first.re, f.zero(first.re.type)))
    with f.loop(f.div(f.add(n, 1), 2), 1, guarded=True) as k:
        value = a.load(k)
        a.store(f.sub(n, k), Complex(value.re, -value.im))

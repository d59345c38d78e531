"""Routines that copy lines to and from scratch, and convert between complex and real spectra.

Scratch holds a line per lane. In memory, either number k of all lines is contiguous (`strided`) or
each line is (see interleaved.py). A pointer to elements of two parts points to complex numbers.
"""

from __future__ import annotations

from xlanb.codegen.complex_math import Complex
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import vectors
from xlanb.codegen.routines import shared
from xlanb.codegen.values import Value, Vector
from xlanb.cpu.emitters.fft.radices import ELEMENT
from xlanb.cpu.emitters.interleaved import lanes_of
from xlanb.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Scratch:
    """Vectors in scratch memory, one line per lane: the first real and imaginary parts."""

    re: Pointer
    im: Pointer

    @staticmethod
    def at(base: Pointer) -> Scratch:
        """The elements from an address on."""
        return Scratch(base, base.by(lanes_of(base.element.bytes)))

    @property
    def swapped(self) -> Scratch:
        """Exchange real and imaginary parts, to run inverse transforms as forward ones."""
        return Scratch(self.im, self.re)

    @property
    def reals(self) -> Scratch:
        """Even numbers of a row of real numbers as real parts, odd ones as imaginary parts."""
        return Scratch(self.re, self.re.by(ELEMENT // self.re.element.bytes))

    def load(self, k: Ix) -> Complex:
        """Load number k of all lines."""
        width = lanes_of(self.re.element.bytes)
        at = self.re.base.function.mul(k, 2 * width)
        return Complex(self.re.load(at, width), self.im.load(at, width))

    def store(self, k: Ix, value: Complex) -> None:
        """Store number k of all lines."""
        at = self.re.base.function.mul(k, 2 * lanes_of(self.re.element.bytes))
        self.re.store(at, value.re)
        self.im.store(at, value.im)


@dataclass(frozen=True, slots=True)
class FftLine:
    """Contiguous complex numbers of one line: number k is a vector if k is a lane index."""

    numbers: Pointer

    def load(self, k: Ix) -> Complex:
        """Load number k."""
        return Complex(*self.numbers.base.function.apart(self.numbers[k]))

    def store(self, k: Ix, value: Complex) -> None:
        """Store number k."""
        self.numbers[k] = _in_turns(value)


def _width(p: Pointer) -> int:
    return lanes_of(p.element.bytes)


@shared("fft.strided")
def strided(f: Function, a: Pointer, s: Scratch, n: Ix, stride: Ix, lines: Ix, out: bool, scale: Value | None) -> None:
    """Copy the first `lines` lines to scratch memory, or from it if `out`, perhaps scaled.

    Number j of the lines in memory is at a[j stride].
    """
    size = a.parts * _width(a)
    mask = Mask.first(f, size, f.mul(lines, a.parts))
    with f.loop(n) as j:
        at = f.mul(j, stride)
        if out:
            value = s.load(j) if scale is None else s.load(j).scaled(scale)
            a.store(at, value.re if a.parts == 1 else _in_turns(value), mask)
        else:
            x = a.load(at, size, mask)
            s.store(j, Complex(x, f.zero(x.type)) if a.parts == 1 else Complex(*f.apart(x)))


@shared("fft.out.twiddled")
def out_twiddled(
    f: Function, b: Pointer, s: Scratch, n: Ix, stride: Ix, lines: Ix, high: Pointer, low: Pointer, part: Ix, step: Ix
) -> None:
    """Copy from scratch as `strided` does, times high[j / part] low[j mod part].

    Both tables hold a number per lane; their rows are `step` elements apart.
    """
    mask, factors = Mask.first(f, 2 * _width(b), f.mul(lines, 2)), [Scratch.at(table) for table in (high, low)]
    groups = f.value(f.sub(f.add(n, part), 1)).udiv(f.value(part))
    with f.loop(groups) as group:
        first, begin = factors[0].load(f.mul(group, step)), f.mul(group, part)
        with f.loop(f.value(part).smin(f.value(f.sub(n, begin)))) as k:
            j, factor = f.add(begin, k), first.times(factors[1].load(f.mul(k, step)))
            b.store(f.mul(j, stride), _in_turns(s.load(j).times(factor)), mask)


def _in_turns(value: Complex) -> Value:
    """A vector that interleaves real and imaginary parts, or a pair of scalars."""
    re, im = value.re, value.im
    return re.in_turns(im) if isinstance(re, Vector) else re.function.joined(re, im)


@shared("fft.mirror")
def mirror(
    f: Function, a: Scratch | FftLine, table: FftLine, b: Scratch | FftLine, h: Ix, forward: bool, begin: Ix, end: Ix
) -> None:
    """Compute spectra of real lines of 2 h numbers from those of complex lines of h, or back.

    b[k] = c (a[k] + conj a[h - k]) + table[k - 1] (a[k] - conj a[h - k]) for 0 < k < h,
    with c = 1/2 forward and 1 back. Writes numbers begin, ..., end - 1, and 0 and h if begin = 1.
    Numbers 0 and h of a spectrum are real: their imaginary parts are set to zero, and never read.
    """

    def write(k: Ix) -> None:
        one, two = a.load(k), a.load(f.sub(h, k))
        turn = Complex(one.re - two.re, one.im + two.im).times(table.load(f.sub(k, 1)))
        b.store(k, turn.plus_scaled(Complex(one.re + two.re, one.im - two.im), 0.5 if forward else 1.0))

    with f.when(f.value(begin).equals(1)):
        first, last = a.load(0), a.load(0 if forward else h)
        if forward:
            zero = f.zero(first.re.type)
            b.store(0, Complex(first.re + first.im, zero))
            b.store(h, Complex(first.re - first.im, zero))
        else:
            b.store(0, Complex(first.re + last.re, first.re - last.re))
    if isinstance(a, FftLine):
        vectors(f, begin, end, _width(a.numbers), write)
        return
    with f.loop(end, begin, guarded=True) as k:
        write(k)


@shared("fft.times")
def times(f: Function, s: Scratch, table: Pointer, n: Ix, conjugate: bool) -> None:
    """Multiply number k < n of all lines by table[k], and conjugate the product if asked."""
    width = _width(s.re)
    with f.loop(n) as k:
        factor = Complex(*(f.splat(table.by(f.mul(k, 2))[part], width) for part in (0, 1)))
        s.store(k, _product(s.load(k), factor, conjugate))


@shared("fft.times.line")
def times_line(f: Function, a: Pointer, table: FftLine, b: Pointer, conjugate: bool, begin: Ix, end: Ix) -> None:
    """b[k] = a[k] table[k] for begin <= k < end, conjugated if asked.

    Elements of one part are real numbers, or the real parts of the results.
    """

    def write(k: Ix) -> None:
        value = FftLine(a).load(k) if a.parts == 2 else Complex(a[k], f.zero(a[k].type))
        made = _product(value, table.load(k), conjugate)
        b[k] = _in_turns(made) if b.parts == 2 else made.re

    vectors(f, begin, end, _width(a), write)


def _product(value: Complex, factor: Complex, conjugate: bool) -> Complex:
    made = value.times(factor)
    return Complex(made.re, -made.im) if conjugate else made


@shared("fft.conjugates")
def conjugates(f: Function, a: Scratch | FftLine, n: Ix) -> None:
    """Complete the spectrum of n real numbers, n odd, from its first half.

    The imaginary part of number 0 is set to zero.
    """
    first = a.load(0)
    a.store(0, Complex(first.re, f.zero(first.re.type)))
    with f.loop(f.div(f.add(n, 1), 2), 1, guarded=True) as k:
        value = a.load(k)
        a.store(f.sub(n, k), Complex(value.re, -value.im))

"""How lines of a length are transformed: which algorithm, which radices, what it costs.

Lines in lanes: a line per lane of a vector, by Stockham's passes (`Lanes`). One line by itself: a matrix, whose columns are lines in lanes, then its rows (`Line`; the four
steps of D. Bailey, FFTs in External or Hierarchical Memory, 1990). Lengths with a large prime factor become convolutions of a length without one (L. Bluestein, 1970).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, cached_property

from xlanb.codegen import costs
from xlanb.codegen.plan import Choice, time_text
from xlanb.cpu.emitters.fft.radices import ELEMENT, LARGEST
from xlanb.cpu.emitters.interleaved import PADDING, lanes_of

_PASS = {2: 0.9, 3: 1.1, 4: 1.2, 5: 1.7, 7: 2.6, 8: 1.9, 11: 5.0, 13: 6.5}
"""Nanoseconds of a pass for an element of scratch."""
_CACHES = ((32 << 10, 1.0), (768 << 10, 1.4), (1 << 62, 2.5))
"""How much longer a pass takes where its scratch has more bytes than a cache."""


def primes_of(n: int) -> list[int]:
    """The prime factors of a number, ascending."""
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return [*found, n] if n > 1 else found


@cache
def radices_of(n: int) -> tuple[int, ...] | None:
    """Radices whose product is n; None where a prime factor is too large for a pass."""
    primes = primes_of(n)
    if primes and primes[-1] > LARGEST:
        return None
    twos = primes.count(2)
    eights, rest = divmod(twos, 3)
    powers = [8] * eights + [4] * (rest == 2)
    if rest == 1:
        powers = [*[8] * (eights - 1), 4, 4] if eights else [2]
    return (*powers[::-1], *primes[twos:])


def padded(n: int) -> int:
    """Elements of scratch for lines of n: whole tiles of rows, real ones too, and the halves of a spectrum beside each other."""
    return -(-n // 16) * 16 + 2 * PADDING


def _smooth(least: int) -> Iterator[int]:
    """Lengths of at least so many that have small factors only: powers of two times little, none of them much longer."""
    for odd in (1, 3, 5, 7, 9, 15, 25, 27, 45, 75, 81, 125):
        m = odd << max(0, (-(-least // odd) - 1).bit_length())
        if least <= m <= least * 3 // 2 + 4:
            yield m


@dataclass(frozen=True)
class Lanes:
    """Lines of n numbers in lanes: passes of these radices, or a convolution in lines of another length."""

    n: int
    radices: tuple[int, ...]
    chirp: Lanes | None = None

    @property
    def buffer_bytes(self) -> int:
        """Bytes of each of the two buffers in scratch."""
        return padded(self.chirp.n if self.chirp else self.n) * ELEMENT

    @cached_property
    def cost(self) -> float:
        """Nanoseconds of a transform in scratch."""
        if self.chirp is not None:
            return 2 * self.chirp.cost + (2 * self.n + self.chirp.n) * costs.COMMON.chirped_ns
        slower = next(by for size, by in _CACHES if 2 * self.n * ELEMENT <= size)
        return self.n * slower * sum(_PASS.get(r, r * costs.COMMON.prime_pass_ns) for r in self.radices)


@cache
def lanes(n: int) -> Lanes:
    """The best way for lines in lanes."""
    radices = radices_of(n)
    ways = [] if radices is None else [Lanes(n, radices)]
    if radices is None or max(radices, default=1) > costs.COMMON.convolved_prime:
        ways += [Lanes(n, (), Lanes(m, radices_of(m) or ())) for m in _smooth(2 * n - 1)]
    return min(ways, key=lambda way: way.cost)


@dataclass(frozen=True)
class Line:
    """One line of n numbers: a matrix of `first.n` rows and `second.n` columns, or a convolution in a line of another length.

    Of the columns, and of the rows, there are `blocks` that are in lanes at once; `costs` are the nanoseconds of one.
    """

    n: int
    first: Lanes
    second: Lanes
    width: int
    chirp: Line | None = None

    @property
    def blocks(self) -> tuple[int, int]:
        return -(-self.second.n // self.width), -(-self.first.n // self.width)

    @property
    def costs(self) -> tuple[float, float]:
        rows = self.second.cost + self.second.n * (costs.COMMON.interleaved_ns + costs.COMMON.beside_ns)
        return self.first.cost + self.first.n * 2 * costs.COMMON.beside_ns, rows

    @property
    def vectors(self) -> int:
        """Vectors that hold the line."""
        return -(-self.n // self.width)

    @cached_property
    def cost(self) -> float:
        """Nanoseconds of a transform."""
        if self.chirp is not None:
            return 2 * self.chirp.cost + (2 * self.vectors + self.chirp.vectors) * 2 * costs.COMMON.chirped_ns
        return sum(count * cost for count, cost in zip(self.blocks, self.costs, strict=True))

    @property
    def row_bytes(self) -> int:
        """Bytes from a row of the matrix to the next: not a multiple of a page, whose lines would share a few places of the cache."""
        size = -(-self.second.n * ELEMENT // self.width // 64) * 64
        return size + (64 if size % 1024 == 0 else 0)

    @property
    def part(self) -> int:
        """Rows of the matrix that share one of two factors of their roots of unity."""
        return math.isqrt(self.first.n - 1) + 1 if self.first.n > 1 else 1


@cache
def line(n: int, part_bytes: int) -> Line:
    """The best way for one line."""
    width = lanes_of(part_bytes)
    found = _matrix(n, width)
    if found is not None and max(found.first.radices + found.second.radices, default=1) <= costs.COMMON.convolved_prime:
        return found
    inner = [way for m in _smooth(2 * n - 1) if (way := _matrix(m, width)) is not None]
    return min(
        [*([found] if found else []), *(replace(way, n=n, chirp=way) for way in inner)], key=lambda way: way.cost
    )


def _matrix(n: int, width: int) -> Line | None:
    """The best rows times columns; None where a prime factor is too large for a pass."""
    if radices_of(n) is None:
        return None
    divisors = {1}
    for p in primes_of(n):
        divisors |= {d * p for d in divisors}
    near = [d for d in sorted(divisors) if n <= 64 * d * d and d * d <= 64 * n] or sorted(divisors)
    ways = [Line(n, Lanes(d, radices_of(d) or ()), Lanes(n // d, radices_of(n // d) or ()), width) for d in near]
    return min(ways, key=lambda way: way.cost)


@dataclass(frozen=True)
class Axis:
    """The transform of all lines along a dimension: `outer` times `inner` lines of n numbers, of which `sizes` are read and written in memory.

    With a `line` each is transformed by itself, otherwise they are in lanes; a real line of even length as a complex one of half of it.
    """

    n: int
    outer: int
    inner: int
    sizes: tuple[int, int]
    part_bytes: int
    inverse: bool
    is_real: bool
    line: Line | None = None

    @cached_property
    def choice(self) -> Choice:
        """What was decided, to be shown."""
        way: Lanes | Line = self.line or lanes(self.length)
        inside = way.chirp or way
        passes = [inside] if isinstance(inside, Lanes) else [inside.first, inside.second]
        radices = ", then ".join(" x ".join(map(str, p.radices)) or "1" for p in passes)
        convolved = f", convolved in lines of {inside.n}" if way.chirp else ""
        ways = f"{self.width} lines at once", "each line as a matrix"
        taken, other = ways if self.line is None else ways[::-1]
        times = [time_text(count * cost) for count, cost in (self.rounds, self.other.rounds)]
        what = f"{self.lines} line{'s' * (self.lines > 1)} of {self.n}"
        return Choice(what, taken, f"{times[0]}, radices {radices}{convolved}", ((other, times[1]),))

    @property
    def other(self) -> Axis:
        """The axis with the other way for its lines."""
        return replace(self, line=line(self.length, self.part_bytes) if self.line is None else None)

    @property
    def is_half(self) -> bool:
        """Whether real lines are complex ones of half the length."""
        return self.is_real and self.n % 2 == 0

    @property
    def length(self) -> int:
        """The length of the complex lines."""
        return self.n // 2 if self.is_half else self.n

    @property
    def reals(self) -> tuple[bool, bool]:
        """Whether the lines that are read, and those that are written, are real."""
        return self.is_real and not self.inverse, self.is_real and self.inverse

    @property
    def parts(self) -> tuple[int, int]:
        """Parts of numbers in a line that is read, and in one that is written."""
        return self.sizes[0] * (2 - self.reals[0]), self.sizes[1] * (2 - self.reals[1])

    @property
    def lines(self) -> int:
        return self.outer * self.inner

    @property
    def width(self) -> int:
        """Lines in lanes at once."""
        return lanes_of(self.part_bytes)

    @cached_property
    def rounds(self) -> tuple[int, float]:
        """Blocks of lines in lanes or, with a `line`, lines; and the nanoseconds of each."""
        if self.line is not None:
            extra = 1.5 if self.is_half else 4.0 if self.is_real else 16.0 if self.inner > 1 else 0.0
            return self.lines, self.line.cost + extra * self.line.vectors
        blocks = self.outer * -(-self.inner // self.width) if self.inner > 1 else -(-self.outer // self.width)
        copies = 2 * (costs.COMMON.beside_ns if self.inner > 1 else costs.COMMON.interleaved_ns)
        return blocks, lanes(self.length).cost + self.length * (copies + (2.0 if self.is_real else 0.0))

    @property
    def is_whole(self) -> bool:
        """Whether threads share each line: there are few of them, and they are long."""
        return (
            self.line is not None
            and self.lines < costs.COMMON.shared_lines
            and self.rounds[1] >= costs.COMMON.shared_line_ns
        )

    @property
    def spare_bytes(self) -> int:
        """Bytes of the line in scratch that a line by itself needs; two cache lines more keep the matrix off the buffers' places in the cache."""
        if self.line is None:
            return 0
        numbers = self.line.chirp.n if self.line.chirp else self.length if self.is_real or self.inner > 1 else 0
        return -(-numbers * 2 * self.part_bytes // 64) * 64 + 128

    @cached_property
    def line_bytes(self) -> int:
        """Bytes of scratch of a line by itself, besides those of its lanes."""
        return 0 if self.line is None else self.spare_bytes + self.line.first.n * self.line.row_bytes

    @cached_property
    def buffer_bytes(self) -> int:
        """Bytes of each of the two buffers in lanes that a thread has."""
        ways = (lanes(self.length),) if self.line is None else (self.line.first, self.line.second)
        return max(way.buffer_bytes for way in ways)

    @cached_property
    def scratch_bytes(self) -> tuple[int, int]:
        """Bytes of scratch: once, and for each thread."""
        own = 2 * self.buffer_bytes
        return (self.lines * self.line_bytes, own) if self.is_whole else (0, own + self.line_bytes)


def planned(axis: Axis) -> Axis:
    """An axis of lines in lanes, or with the better way for them if two threads share the work."""
    single = axis.other
    by_lines, by_lanes = (cost * -(-count // min(2, count)) for count, cost in (single.rounds, axis.rounds))
    most = costs.COMMON.lane_elements * (1 if axis.inner == 1 else costs.COMMON.wider_lanes) * ELEMENT
    is_long = axis.n >= 2 * axis.width
    return single if is_long and (axis.buffer_bytes > most or by_lines < by_lanes) else axis

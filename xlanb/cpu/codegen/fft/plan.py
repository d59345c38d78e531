"""How lines of a length are transformed: which algorithm, which radices, what it costs.

Lines in lanes: as many lines at once as a vector has elements, by Stockham's passes (`Lanes`). One line by itself: as a matrix of rows times columns, whose columns are lines in
lanes, then its rows (`Line`; the four steps of D. Bailey, FFTs in External or Hierarchical Memory, 1990). Lengths with a large prime factor become convolutions of a
length without one (L. Bluestein, 1970), in either way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from xlanb.cpu.codegen.fft.radices import LARGEST
from xlanb.cpu.codegen.fft.simd import ELEMENT, lanes_of

_PASS = {2: 0.9, 3: 1.1, 4: 1.2, 5: 1.7, 7: 2.6, 8: 1.9, 11: 5.0, 13: 6.5}
"""Nanoseconds of a pass for an element of scratch."""
_PRIME = 0.7
"""The same of another prime, for each unit of it."""
_BESIDE, _ROWS, _PRODUCT = 1.2, 2.2, 1.0
"""Of bringing an element in or out, and of multiplying it."""
_CACHES = ((32 << 10, 1.0), (768 << 10, 1.4), (1 << 62, 2.5))
"""How much longer a pass takes where its scratch has more bytes than a cache."""
LONGEST_IN_LANES = 4096
"""Elements of scratch that lines in lanes may take, twice."""


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
    return -(-n // 16) * 16 + 32


@dataclass(frozen=True)
class Lanes:
    """Lines of n numbers in lanes: passes of so many radices, or a convolution in lines of another length."""

    n: int
    radices: tuple[int, ...]
    chirp: Lanes | None = None

    @property
    def elements(self) -> int:
        """Elements of each of the two buffers in scratch."""
        return padded(max(self.n, self.chirp.n if self.chirp else 0))

    @cached_property
    def cost(self) -> float:
        """Nanoseconds of a transform in scratch."""
        if self.chirp is not None:
            return 2 * self.chirp.cost + (2 * self.n + self.chirp.n) * _PRODUCT
        slower = next(by for size, by in _CACHES if 2 * self.n * ELEMENT <= size)
        return self.n * slower * sum(_PASS.get(r, r * _PRIME) for r in self.radices)


@cache
def lanes(n: int) -> Lanes:
    """The best way for lines in lanes."""
    radices = radices_of(n)
    ways = [] if radices is None else [Lanes(n, radices)]
    if radices is None or max(radices, default=1) > _CONVOLVED:
        ways += [Lanes(n, (), Lanes(m, radices_of(m) or ())) for m in _smooth(2 * n - 1)]
    return min(ways, key=lambda way: way.cost)


_CONVOLVED = 13
"""A prime beyond which a convolution may cost less."""


def _smooth(least: int) -> Iterator[int]:
    """Lengths of at least so many that have small factors only: powers of two times little, none of them much longer."""
    most = least * 3 // 2 + 4
    for odd in (1, 3, 5, 7, 9, 15, 25, 27, 45, 75, 81, 125):
        m = odd << max(0, (-(-least // odd) - 1).bit_length())
        if least <= m <= most:
            yield m


@dataclass(frozen=True)
class Line:
    """One line of n numbers: a matrix, its columns of `first.n` and its rows of `second.n`; or a convolution in a line of another length."""

    n: int
    first: Lanes
    second: Lanes
    lanes: int
    chirp: Line | None = None

    @property
    def column_blocks(self) -> int:
        """Blocks of columns that are in lanes at once."""
        return -(-self.second.n // self.lanes)

    @property
    def row_blocks(self) -> int:
        """The same of rows."""
        return -(-self.first.n // self.lanes)

    @property
    def column_cost(self) -> float:
        """Nanoseconds of a block of columns."""
        return self.first.cost + self.first.n * 2 * _BESIDE

    @property
    def row_cost(self) -> float:
        """The same of rows."""
        return self.second.cost + self.second.n * (_ROWS + _BESIDE)

    @property
    def vectors(self) -> int:
        """How often as many numbers as there are lanes."""
        return -(-self.n // self.lanes)

    @cached_property
    def cost(self) -> float:
        """Nanoseconds of a transform."""
        if self.chirp is not None:
            return 2 * self.chirp.cost + (2 * self.vectors + self.chirp.vectors) * 2 * _PRODUCT
        return self.column_blocks * self.column_cost + self.row_blocks * self.row_cost

    @property
    def row_bytes(self) -> int:
        """Bytes from a row of the matrix to the next: not a multiple of a page, whose lines would share a few places of the cache."""
        size = -(-self.second.n * ELEMENT // self.lanes // 64) * 64
        return size + (64 if size % 1024 == 0 else 0)

    @property
    def matrix_bytes(self) -> int:
        """Bytes of the matrix."""
        return self.first.n * self.row_bytes

    @property
    def part(self) -> int:
        """Rows of the matrix that share a factor of their turns."""
        return math.isqrt(self.first.n - 1) + 1 if self.first.n > 1 else 1

    @property
    def smooth(self) -> Line:
        """The line that is a matrix: this one, or that of the convolution."""
        return self.chirp or self


@cache
def line(n: int, part_bytes: int) -> Line:
    """The best way for one line."""
    count = lanes_of(part_bytes)
    found = _matrix(n, count)
    if (
        found is not None
        and max(max(found.first.radices, default=1), max(found.second.radices, default=1)) <= _CONVOLVED
    ):
        return found
    ways = [found] if found else []
    for m in _smooth(2 * n - 1):
        inner = _matrix(m, count)
        if inner is not None:
            ways.append(Line(n, inner.first, inner.second, count, inner))
    return min(ways, key=lambda way: way.cost)


def _matrix(n: int, count: int) -> Line | None:
    """The best rows times columns; None where a prime factor is too large for a pass."""
    if radices_of(n) is None:
        return None
    divisors = [1]
    for p in primes_of(n):
        divisors = sorted({d * q for d in divisors for q in (1, p)})
    near = [d for d in divisors if n <= 64 * d * d and d * d <= 64 * n] or divisors
    ways = [Line(n, _direct(d), _direct(n // d), count) for d in near]
    return min(ways, key=lambda way: way.cost)


@cache
def _direct(n: int) -> Lanes:
    return Lanes(n, radices_of(n) or ())


@dataclass(frozen=True)
class Axis:
    """The transform of all lines along a dimension: `outer` times `inner` lines of n numbers, of which there are `read` and `written` in memory.

    With a `line` each is transformed for itself, otherwise they are in lanes; a real line of an even length as a complex one of half of it.
    """

    n: int
    outer: int
    inner: int
    read: int
    written: int
    part_bytes: int
    inverse: bool
    real_in: bool = False
    real_out: bool = False
    line: Line | None = None

    @property
    def is_real(self) -> bool:
        """Whether there are real lines."""
        return self.real_in or self.real_out

    @property
    def lines(self) -> int:
        """Lines in all."""
        return self.outer * self.inner

    @property
    def width(self) -> int:
        """Lines in the lanes of scratch."""
        return lanes_of(self.part_bytes)

    @property
    def length(self) -> int:
        """The length of the complex lines."""
        return self.n // 2 if self.is_half else self.n

    @property
    def beside(self) -> bool:
        """Whether the numbers of a place lie side by side in memory, enough of them for the lanes."""
        return 2 * self.inner >= self.width

    @property
    def blocks(self) -> int:
        """Blocks of lines in lanes."""
        if self.beside:
            return self.outer * -(-self.inner // self.width)
        return -(-self.lines // self.width)

    @property
    def block_cost(self) -> float:
        """Nanoseconds of a block."""
        ways = 2 * (_BESIDE if self.beside else _ROWS if self.inner == 1 else 4 * _ROWS)
        return lanes(self.length).cost + self.length * (ways + (2.0 if self.is_real else 0.0))

    @property
    def is_half(self) -> bool:
        """Whether real lines are complex ones of half the length."""
        return self.is_real and self.n % 2 == 0

    @property
    def line_cost(self) -> float:
        """Nanoseconds of a line by itself."""
        if self.line is None:
            return 0.0
        extra = 1.5 if self.is_half else 4.0 if self.is_real else 16.0 if self.inner > 1 else 0.0
        return self.line.cost + extra * self.line.vectors

    @property
    def is_whole(self) -> bool:
        """Whether threads share each line: there are few of them, and they are long."""
        return self.line is not None and self.lines < _FEW and self.line_cost >= _LONG

    @property
    def spare(self) -> int:
        """Numbers of each of the two lines that a line by itself needs in scratch."""
        if self.line is None:
            return 0
        if self.line.chirp is not None:
            return self.line.chirp.n
        return self.line.n if self.is_real or self.inner > 1 else 0

    @property
    def spare_bytes(self) -> int:
        """Bytes of one of them."""
        return -(-self.spare * 2 * self.part_bytes // 64) * 64 + 64

    @property
    def line_bytes(self) -> int:
        """Bytes of scratch of a line by itself, besides those of its lanes."""
        if self.line is None:
            return 0
        return 2 * self.spare_bytes + -(-self.line.smooth.matrix_bytes // 64) * 64

    @property
    def lane_elements(self) -> int:
        """Elements of each of the two buffers that a thread has."""
        if self.line is None:
            return lanes(self.length).elements
        return max(self.line.smooth.first.elements, self.line.smooth.second.elements)

    @property
    def rounds(self) -> tuple[int, float]:
        """Rounds, and nanoseconds of each, of the loop that threads share."""
        if self.is_whole:
            return 2, self.line_cost
        return (self.blocks, self.block_cost) if self.line is None else (self.lines, self.line_cost)

    @property
    def scratch_bytes(self) -> tuple[int, int]:
        """Bytes of scratch: once, and for each thread."""
        own = 2 * self.lane_elements * ELEMENT
        return (self.lines * self.line_bytes, own) if self.is_whole else (0, own + self.line_bytes)


_FEW = 4
_LONG = 60_000
"""Nanoseconds of a line that threads share."""


def axis(made: Axis) -> Axis:
    """An axis with the better way for its lines."""
    n, threads = made.n, 2
    if n < 2 * lanes_of(made.part_bytes):
        return made
    single = Axis(**(made.__dict__ | {"line": line(made.length, made.part_bytes)}))
    by_lines = single.line_cost * -(-single.lines // min(threads, single.lines))
    by_lanes = made.block_cost * -(-made.blocks // min(threads, made.blocks))
    return single if lanes(made.length).elements > LONGEST_IN_LANES + 64 or by_lines < by_lanes else made

"""Choose how to transform lines of a length: the algorithm, the radices, the cost.

Lines in lanes: one line per lane of a vector, by Stockham's passes. One line alone: a matrix whose
columns, then rows, are lines in lanes (`FftMatrix`; the four-step method of D. Bailey, FFTs in
External or Hierarchical Memory, 1990). Lengths with a large prime factor become a convolution of a
length without one (L. Bluestein, 1970); only the longest of them fall back to SciPy.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, cached_property

from xlanb.codegen import costs
from xlanb.codegen.plan import Choice, time_text
from xlanb.cpu.emitters.fft.radices import ELEMENT, LARGEST
from xlanb.cpu.emitters.interleaved import PADDING, lanes_of
from xlanb.lazy_dataclass import dataclass

_PASS = {2: 1.6, 3: 2.0, 4: 2.2, 5: 3.1, 7: 4.7, 8: 3.4, 11: 9.0, 13: 11.5}
"""Nanoseconds of a pass per element of scratch, by radix."""
_CACHES = ((32 << 10, 1.0), (768 << 10, 1.4), (1 << 62, 2.5))
"""(bytes, factor): how much slower a pass is if its scratch memory fits this many bytes."""
_FACTOR_NS = 5.0
"""Nanoseconds to multiply an element of scratch by a convolution's factor."""
_LONGEST = 1 << 24
"""The longest line, in numbers."""
_LONGEST_CONVOLVED = 1 << 18
"""The longest line that is convolved: tables take 3 to 6 times its memory."""
_DIRECT = 31
"""The largest prime factor with which a line is never convolved."""


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
    """Radices with the product n; None if a prime factor is too large for a pass."""
    primes = primes_of(n)
    if primes and primes[-1] > LARGEST:
        return None
    twos = primes.count(2)
    eights, rest = divmod(twos, 3)
    powers = [8] * eights + [4] * (rest == 2)
    if rest == 1:
        powers = [*[8] * (eights - 1), 4, 4] if eights else [2]
    return (*powers[::-1], *primes[twos:])


def buffer_bytes(n: int) -> int:
    """Bytes of each of the two scratch buffers for lines of n numbers.

    They have room for whole tiles of rows, real ones too, and for both halves of a spectrum.
    """
    return (-(-n // 16) * 16 + 2 * PADDING) * ELEMENT


def lanes_ns(n: int) -> float:
    """Nanoseconds of a transform of lines in lanes, in scratch memory."""
    slower = next(by for size, by in _CACHES if 2 * n * ELEMENT <= size)
    return n * sum(slower * _PASS[r] if r in _PASS else r * costs.COMMON.prime_pass_ns for r in radices_of(n) or ())


@dataclass(frozen=True)
class FftMatrix:
    """One line as a matrix; `width` columns, or rows, are in lanes at once."""

    rows: int
    columns: int
    width: int

    @property
    def blocks(self) -> tuple[int, int]:
        """The number of blocks of columns and of rows."""
        return -(-self.columns // self.width), -(-self.rows // self.width)

    @cached_property
    def block_ns(self) -> tuple[float, float]:
        """Nanoseconds of a block of columns and of rows."""
        c = costs.COMMON
        of_rows = lanes_ns(self.columns) + self.columns * (c.interleaved_ns + c.beside_ns)
        return lanes_ns(self.rows) + self.rows * 2 * c.beside_ns, of_rows

    @property
    def nanoseconds(self) -> float:
        """Nanoseconds of a transform."""
        return sum(count * cost for count, cost in zip(self.blocks, self.block_ns, strict=True))

    @property
    def row_bytes(self) -> int:
        """Bytes between rows: not a multiple of a page, to avoid cache conflicts."""
        size = -(-self.columns * ELEMENT // self.width // 64) * 64
        return size + (64 if size % 1024 == 0 else 0)

    @property
    def part(self) -> int:
        """Rows that share one of the two factors of their roots of unity."""
        return math.isqrt(self.rows - 1) + 1


@cache
def matrix(n: int, width: int) -> FftMatrix:
    """The cheapest matrix for a line of n numbers, close to square if possible."""
    root = math.isqrt(n)
    rows = [d for d in range(max(root // 8, 1), 8 * root + 8) if n % d == 0] or [1, n]
    return min((FftMatrix(d, n // d, width) for d in rows), key=lambda way: way.nanoseconds)


@dataclass(frozen=True)
class FftAxis:
    """The transform of all lines along a dimension: `outer` times `inner` lines of n numbers.

    `sizes` are the numbers read from and written to memory per line. With a `matrix` each line is
    transformed alone, otherwise lines are in lanes. A real line of even length is handled as a
    complex line of half the length. With `convolved`, lines are convolved by transforms of that
    length.
    """

    n: int
    outer: int
    inner: int
    sizes: tuple[int, int]
    part_bytes: int
    inverse: bool
    is_real: bool
    matrix: FftMatrix | None = None
    convolved: int = 0

    @cached_property
    def choice(self) -> Choice:
        """The decision and its alternatives, for display."""
        passes = [self.transformed] if self.matrix is None else [self.matrix.rows, self.matrix.columns]
        radices = ", then ".join(" x ".join(map(str, radices_of(n) or ())) or "1" for n in passes)
        ways = (self, *(way for way in replace(self, matrix=None, convolved=0).ways if way != self))
        (taken, time), *others = ((way.title, time_text(math.prod(way.rounds))) for way in ways)
        lines = self.outer * self.inner
        return Choice(
            f"{lines} line{'s' * (lines > 1)} of {self.n}", taken, f"{time}, radices {radices}", tuple(others)
        )

    @property
    def title(self) -> str:
        """The algorithm, for display."""
        title = "each line as a matrix" if self.matrix else f"{self.width} lines at once"
        return f"{title}, convolved ({self.convolved})" if self.convolved else title

    @property
    def ways(self) -> tuple[FftAxis, ...]:
        """What can be chosen: lines in lanes or each as a matrix, direct or convolved."""
        made, most = list[FftAxis](), costs.COMMON.lane_elements * ELEMENT
        for lengths in self._lengths:
            every = [replace(self, convolved=m) for m in lengths]
            single = [by for way in every if way.n >= 2 * way.width and (by := way.by_matrix)]
            room = most if single else most * costs.COMMON.wider_lanes
            for kind in ([way for way in every if way.buffer_bytes <= room], single):
                if kind:
                    made.append(min(kind, key=lambda way: way.rounds[1]))
        return tuple(made)

    @property
    def _lengths(self) -> tuple[tuple[int, ...], ...]:
        """Lengths of convolutions, one of which may be chosen; zero is direct."""
        if self.n > _LONGEST:  # it may be too long for a search of factors, too
            return ()
        direct = ((0,),) if radices_of(self.length) is not None else ()
        if max(primes_of(self.length), default=1) <= _DIRECT or self.length > _LONGEST_CONVOLVED:
            return direct
        least = 2 * self.length - 1
        return (*direct, tuple(odd << max((-(-least // odd) - 1).bit_length(), 3) for odd in (1, 3, 5, 7, 9, 15)))

    @property
    def by_matrix(self) -> FftAxis | None:
        """The axis with a matrix for each line; None if lines interleave in memory."""
        return replace(self, matrix=matrix(self.transformed, self.width)) if self.inner == 1 else None

    @property
    def transformed(self) -> int:
        """The length that passes transform: that of the complex lines, or of the convolution."""
        return self.convolved or self.length

    @property
    def is_half(self) -> bool:
        """Whether real lines are handled as complex ones of half the length."""
        return self.is_real and self.n % 2 == 0

    @property
    def length(self) -> int:
        """The length of the complex lines."""
        return self.n // 2 if self.is_half else self.n

    @property
    def reals(self) -> tuple[bool, bool]:
        """Whether the input lines are real, and whether the output lines are."""
        return self.is_real and not self.inverse, self.is_real and self.inverse

    @property
    def parts(self) -> tuple[int, int]:
        """The real numbers in an input line, and in an output line."""
        return self.sizes[0] * (2 - self.reals[0]), self.sizes[1] * (2 - self.reals[1])

    @property
    def width(self) -> int:
        """Lines in lanes at once."""
        return lanes_of(self.part_bytes)

    @cached_property
    def rounds(self) -> tuple[int, float]:
        """Blocks of lines in lanes or, with a matrix, lines; and the nanoseconds of each."""
        runs = 2 if self.convolved else 1
        if self.matrix is not None:
            extra = 1.5 if self.is_half else 4.0 if self.is_real else 0.0
            factors = 3 * _FACTOR_NS * self.convolved / self.width
            return self.outer, runs * self.matrix.nanoseconds + factors + extra * self.length / self.width
        blocks = self.outer * -(-self.inner // self.width) if self.inner > 1 else -(-self.outer // self.width)
        copies = 2 * (costs.COMMON.beside_ns if self.inner > 1 else costs.COMMON.interleaved_ns)
        transforms = runs * lanes_ns(self.transformed) + 3 * _FACTOR_NS * self.convolved
        return blocks, transforms + self.length * (copies + (2.0 if self.is_real else 0.0))

    @property
    def is_whole(self) -> bool:
        """Whether threads share each line: lines are few and long."""
        few = self.matrix is not None and self.outer < costs.COMMON.shared_lines
        return few and self.rounds[1] >= costs.COMMON.shared_line_ns

    @property
    def spare_bytes(self) -> int:
        """Bytes of the complex numbers of a real line.

        Two more cache lines keep the matrix from conflicting with the buffers in the cache.
        """
        return (self._bytes_of(self.length) if self.is_real else 0) + 128

    @property
    def convolved_bytes(self) -> int:
        """Bytes of the line that is convolved."""
        return self._bytes_of(self.convolved) + 128 if self.convolved else 0

    def _bytes_of(self, numbers: int) -> int:
        return -(-numbers * 2 * self.part_bytes // 64) * 64

    @cached_property
    def line_bytes(self) -> int:
        """Bytes of scratch memory of a matrix, without the buffers of its lanes."""
        if self.matrix is None:
            return 0
        return self.spare_bytes + self.convolved_bytes + self.matrix.rows * self.matrix.row_bytes

    @cached_property
    def buffer_bytes(self) -> int:
        """Bytes of each of a thread's two buffers of lines in lanes."""
        return buffer_bytes(max(self.matrix.rows, self.matrix.columns) if self.matrix else self.transformed)

    @cached_property
    def scratch_bytes(self) -> tuple[int, int]:
        """Bytes of scratch memory: shared, and per thread."""
        own = 2 * self.buffer_bytes
        return (self.outer * self.line_bytes, own) if self.is_whole else (0, own + self.line_bytes)

    def planned(self) -> FftAxis | None:
        """The axis with the cheapest algorithm for two threads; None if none fits."""

        def cost(way: FftAxis) -> float:
            count, nanoseconds = way.rounds
            is_shared = count > 1 and count * nanoseconds >= costs.COMMON.wake_ns
            return nanoseconds * (-(-count // 2) if is_shared else count)

        return min(self.ways, key=cost, default=None)

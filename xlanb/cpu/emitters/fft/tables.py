"""Tables of transforms: roots of unity e^(-2 pi i k / n) in the orders that the routines read.

They are computed in doubles. The most recently used ones are cached in the process.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.emitters.fft.plan import FftMatrix, radices_of
from xlanb.cpu.emitters.fft.radices import BUTTERFLIES
from xlanb.shape import Literal

Complex = NDArray[np.complex128]


def turns(exponents: NDArray[np.int64], n: int) -> Complex:
    """e^(-2 pi i exponents / n), from angles of at most an eighth turn for full accuracy."""
    fours = 4 * (exponents % n)
    quarters = (fours + n // 2) // n
    angles = (fours - quarters * n) * (np.pi / 2 / n)
    made: Complex = (np.cos(angles) - 1j * np.sin(angles)) * np.array([1, -1j, -1, 1j])[quarters % 4]
    return made


def _literal(table: Complex | NDArray[np.float64], part_bytes: int) -> Literal:
    """Floats of 4 or 8 bytes; complex numbers as interleaved real and imaginary parts."""
    return Literal.of(table.ravel().view(np.float64).astype(np.float32 if part_bytes == 4 else np.float64))


@lru_cache(maxsize=64)
def passes(n: int, part_bytes: int) -> tuple[tuple[int, int, int, Literal], ...]:
    """The radix, m, s and the factors of each pass (see radices.py)."""
    made, s = [], 1
    for r in radices_of(n) or ():
        m, first = n // r, int(r in BUTTERFLIES)
        factors = turns(np.outer(np.arange(first, m), np.arange(1, r)), n).ravel()
        if not first:
            j = np.arange(1, r // 2 + 1)
            factors = np.concatenate([turns(np.outer(j, j), r).conj().ravel(), factors])
        made.append((r, m, s, _literal(factors, part_bytes)))
        n, s = m, s * r
    return tuple(made)


@lru_cache(maxsize=64)
def matrix(way: FftMatrix, high: bool, part_bytes: int) -> Literal:
    """Factors of a matrix, in the layout of scratch memory.

    `high`: those of each part's first row; otherwise those of the rows within a part.
    """
    rows = np.arange(0, way.rows, way.part) if high else np.arange(min(way.part, way.rows))
    columns = np.arange(way.blocks[0] * way.width)
    values = turns(np.outer(rows, columns), way.rows * way.columns).reshape(len(rows), -1, way.width)
    return _literal(np.stack([values.real, values.imag], -2), part_bytes)


@lru_cache(maxsize=8)
def mirror(h: int, inverse: bool, part_bytes: int) -> Literal:
    """Factors of a[k] - conj a[h - k] for k = 1, ..., h - 1 of a real line's spectrum."""
    k = turns(np.arange(1, h), 2 * h)
    return _literal(1j * k.conj() if inverse else -0.5j * k, part_bytes)


@lru_cache(maxsize=16)
def chirp(n: int, inverse: bool, conjugate: bool, part_bytes: int) -> Literal:
    """Factors e^(-pi i k^2 / n) of a convolved line; of inverse transforms, their conjugates."""
    return _literal(_chirp(n, inverse != conjugate), part_bytes)


def _chirp(n: int, conjugate: bool) -> Complex:
    k = np.arange(n)
    made = turns(k * k, 2 * n)
    return made.conj() if conjugate else made


@lru_cache(maxsize=16)
def spectrum(n: int, m: int, inverse: bool, scale: float, part_bytes: int) -> Literal:
    """The scaled transform of length m of what lines of n times their chirp are convolved with."""
    line = np.zeros(m, np.complex128)
    line[:n] = _chirp(n, not inverse)
    line[m - n + 1 :] = line[1:n][::-1]
    return _literal(np.fft.fft(line) * scale, part_bytes)

"""Tables of transforms: roots of unity e^(-2 pi i k / n) in the orders in which routines read them, and the chirps of convolutions.

They are computed in doubles, and the last ones used are kept for other programs of the process.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.emitters.fft.plan import Lanes, Line
from xlanb.cpu.emitters.fft.radices import BUTTERFLIES
from xlanb.shape import Literal

Complex = NDArray[np.complex128]
Table = Complex | NDArray[np.float64]
_KEPT_BYTES = 64 << 20
_kept: OrderedDict[object, Literal] = OrderedDict()


def kept(key: object, make: Callable[[], Table], part_bytes: int) -> Literal:
    """The table of a key, in floats of 4 or 8 bytes: of complex numbers real and imaginary parts in turns."""
    full = (key, part_bytes)
    found = _kept.pop(full, None)
    if found is None:
        found = Literal.of(make().ravel().view(np.float64).astype(np.float32 if part_bytes == 4 else np.float64))
        size = found.array.nbytes + sum(x.array.nbytes for x in tuple(_kept.values()))
        while size > _KEPT_BYTES and _kept:
            size -= _kept.popitem(last=False)[1].array.nbytes
    _kept[full] = found
    return found


def turns(exponents: NDArray[np.int64], n: int) -> Complex:
    """e^(-2 pi i exponents / n), each by an angle of at most an eighth of a turn: as exact as its type."""
    fours = 4 * (exponents % n)
    quarters = (fours + n // 2) // n
    angles = (fours - quarters * n) * (np.pi / 2 / n)
    made: Complex = (np.cos(angles) - 1j * np.sin(angles)) * np.array([1, -1j, -1, 1j])[quarters % 4]
    return made


def steps(way: Lanes, number_bytes: int) -> list[tuple[int, int, int, int]]:
    """The radix, the byte offset of its factors, m and s of each pass (see radices.py)."""
    made, at, n, s = [], 0, way.n, 1
    for r in way.radices:
        m = n // r
        made.append((r, at, m, s))
        at += number_bytes * ((m - 1) * (r - 1) if r in BUTTERFLIES else (r // 2) ** 2 + m * (r - 1))
        n, s = m, s * r
    return made


def passes(way: Lanes) -> Complex:
    """The factors of all passes one after the other."""
    found, n = [], way.n
    for r in way.radices:
        first = 1 if r in BUTTERFLIES else 0
        if not first:
            j = np.arange(1, r // 2 + 1)
            found.append(turns(np.outer(j, j), r).conj().ravel())
        found.append(turns(np.outer(np.arange(first, n // r), np.arange(1, r)), n).ravel())
        n //= r
    return np.concatenate(found)


def matrix(way: Line, *, high: bool) -> NDArray[np.float64]:
    """Factors of a matrix: of the first row of each part, or of the rows of a part from its first on; in the form of scratch."""
    rows = np.arange(0, way.first.n, way.part) if high else np.arange(min(way.part, way.first.n))
    columns = np.arange(way.blocks[0] * way.width)
    values = turns(np.outer(rows, columns), way.n).reshape(len(rows), -1, way.width)
    return np.stack([values.real, values.imag], -2)


def mirror(h: int, *, inverse: bool) -> Complex:
    """Factors of the difference of a number and its mirror, for numbers 1, ..., h - 1 of a real line's spectrum."""
    k = turns(np.arange(1, h), 2 * h)
    return 1j * k.conj() if inverse else -0.5j * k


def chirp(n: int, scale: float = 1.0, *, inverse: bool = False) -> Complex:
    """e^(-pi i k^2 / n) times a number."""
    k = np.arange(n, dtype=np.int64)
    made: Complex = turns(k * k % (2 * n), 2 * n) * scale
    return made.conj() if inverse else made


def kernel(n: int, m: int, *, inverse: bool = False) -> Complex:
    """The spectrum of what a line that was multiplied by its chirp is convolved with, divided by m."""
    back = np.zeros(m, np.complex128)
    back[:n] = chirp(n, inverse=not inverse)
    back[m - n + 1 :] = back[n - 1 : 0 : -1]
    made: Complex = np.fft.fft(back) / m
    return made

"""Numbers that transforms of a length need: turns e^(-2 pi i k / n) in the orders in which the routines read them, and the chirps of convolutions.

They are computed in doubles and kept, the last ones used first to stay, for the programs of a process that want the same.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.codegen.fft.plan import Lanes, Line
from xlanb.cpu.codegen.fft.radices import BUTTERFLIES
from xlanb.shape import Literal

Complex = NDArray[np.complex128]
Whole = NDArray[np.int64]
_KEPT_BYTES = 64 << 20
_kept: OrderedDict[object, Literal] = OrderedDict()


def kept(key: object, make: Callable[[], NDArray[np.float64]], part_bytes: int) -> Literal:
    """The table of a key, as numbers of 4 or 8 bytes."""
    full = (key, part_bytes)
    found = _kept.pop(full, None)
    if found is None:
        found = Literal.of(make().ravel().astype(np.float32 if part_bytes == 4 else np.float64))
    _kept[full] = found
    size = sum(x.array.nbytes for x in tuple(_kept.values()))
    while size > _KEPT_BYTES and len(_kept) > 1:
        size -= _kept.popitem(last=False)[1].array.nbytes
    return found


def turns(exponents: Whole, n: int) -> Complex:
    """e^(-2 pi i exponents / n), each by an angle of at most an eighth of a turn: as exact as its type."""
    fours = 4 * (exponents % n)
    quarters = (fours + n // 2) // n
    angles = (fours - quarters * n) * (np.pi / 2 / n)
    made: Complex = (np.cos(angles) - 1j * np.sin(angles)) * np.array([1, -1j, -1, 1j])[quarters % 4]
    return made


def pairs(values: Complex) -> NDArray[np.float64]:
    """Real and imaginary part of each number in turns."""
    return np.stack([values.real, values.imag], -1)


def parted(values: Complex, lanes: int) -> NDArray[np.float64]:
    """Along the last dimension as many real parts as there are lanes, then as many imaginary ones; zeros at the end."""
    missing = -values.shape[-1] % lanes
    values = np.concatenate([values, np.zeros((*values.shape[:-1], missing))], -1)
    values = values.reshape(*values.shape[:-1], -1, lanes)
    return np.stack([values.real, values.imag], -2)


# -- passes -----------------------------------------------------------------------------------------------------------


def pass_tables(way: Lanes) -> tuple[list[int], Callable[[], NDArray[np.float64]]]:
    """Where the table of each pass begins, in parts, and all of them one after the other."""
    begins, at, n = [], 0, way.n
    for r in way.radices:
        begins.append(at)
        half = r // 2
        at += 2 * (n // r - 1) * (r - 1) if r in BUTTERFLIES else 2 * half * half + 2 * (n // r) * (r - 1)
        n //= r
    return begins, lambda: _passes(way)


def _passes(way: Lanes) -> NDArray[np.float64]:
    found, n = [np.zeros(0)], way.n
    for r in way.radices:
        first = 1 if r in BUTTERFLIES else 0
        if not first:
            steps = np.arange(1, r // 2 + 1)
            angles = turns(np.outer(steps, steps), r)
            found.append(pairs(angles.conj()).ravel())
        found.append(pairs(turns(np.outer(np.arange(first, n // r), np.arange(1, r)), n)).ravel())
        n //= r
    return np.concatenate(found)


# -- the four steps ---------------------------------------------------------------------------------------------------


def high_turns(way: Line) -> NDArray[np.float64]:
    """Turns of the first row of each part of a matrix."""
    rows = np.arange(0, way.first.n, way.part)
    return parted(turns(np.outer(rows, np.arange(way.second.n)), way.n), way.lanes)


def low_turns(way: Line) -> NDArray[np.float64]:
    """Turns of the rows of a part from its first on."""
    rows = np.arange(min(way.part, way.first.n))
    return parted(turns(np.outer(rows, np.arange(way.second.n)), way.n), way.lanes)


def mirror(h: int, *, inverse: bool) -> Complex:
    """What the differences of a number and its mirror are multiplied by, for numbers 1, ..., h - 1 of a real line's spectrum."""
    k = turns(np.arange(1, h), 2 * h)
    made: Complex = 1j * k.conj() if inverse else -0.5j * k
    return made


# -- convolutions -----------------------------------------------------------------------------------------------------


def chirp(n: int, m: int, *, inverse: bool, scale: float = 1.0) -> Complex:
    """e^(-pi i k^2 / n), zeros up to m numbers."""
    k = np.arange(n, dtype=np.int64)
    made = np.zeros(m, np.complex128)
    made[:n] = turns(k * k % (2 * n), 2 * n) * scale
    return made.conj() if inverse else made


def kernel(n: int, m: int, *, inverse: bool) -> Complex:
    """The spectrum of what a line that was multiplied by its chirp is convolved with, divided by m."""
    back = chirp(n, m, inverse=inverse).conj()
    back[m - n + 1 :] = back[n - 1 : 0 : -1]
    made: Complex = np.fft.fft(back) / m
    return made

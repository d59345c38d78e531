"""The Schur form a = Z T Z^H by QR iterations on a Hessenberg matrix: Francis's double shift for real matrices, Wilkinson's shift for complex ones.

After Golub and Van Loan, Matrix Computations (4th ed.), section 7.5, with the tests for small subdiagonals of Ahues and Tisseur (1997). Two by two blocks of a real T have
equal diagonal elements and off-diagonal elements of opposite sign, as LAPACK's gees leaves them.
"""

from __future__ import annotations

import cmath
import math

import numpy as np

from xlanb.evaluator.factorizations import from_left, from_right, hessenberg, reflected, reflection, size1
from xlanb.evaluator.values import Array

_ROUNDS = 30
"""Iterations for an eigenvalue, after which there is none."""
_STUCK = 10
"""Iterations after which other shifts are tried."""


def schur(a: Array) -> tuple[Array, Array, Array, int]:
    """(T, Z, eigenvalues as complex numbers, 0 or the number of eigenvalues that were not found) of a square matrix, in its own precision."""
    n = len(a)
    if not np.isfinite(a).all():
        nothing = np.full_like(a, np.nan)
        return nothing, nothing, np.full(n, np.nan, np.result_type(a.dtype, np.complex64)), n
    exponent = int(np.frexp(size1(a).max(initial=0))[1])
    packed, scales = hessenberg(_scaled(a, -exponent), 1, n)
    t, z = np.triu(packed, -1), np.eye(n, dtype=a.dtype)
    if n > 1:
        z[1:, 1:] = reflected(packed[1:, :-1], scales, z[1:, 1:])
    iteration = _Iteration(t, z)
    left = iteration.run()
    return _scaled(t, exponent), z, _scaled(iteration.eigenvalues(), exponent), left


def _scaled(x: Array, exponent: int) -> Array:
    """The elements times 2^exponent."""
    parts = np.ascontiguousarray(x).view(x.real.dtype)
    made: Array = np.ldexp(parts, exponent).view(x.dtype)
    return made


class _Iteration:
    """The state of the iteration; rows and columns `low..high` are the block at work."""

    def __init__(self, t: Array, z: Array) -> None:
        self.t, self.z = t, z
        self.is_complex = t.dtype.kind == "c"
        limits = np.finfo(t.dtype)
        self.eps = float(limits.eps)
        self.tiny = float(limits.tiny) * max(len(t), 1) / self.eps

    def run(self) -> int:
        """Iterate to the end; the number of eigenvalues that were not found."""
        high = len(self.t) - 1
        while high >= 0:
            for count in range(_ROUNDS * max(_STUCK, len(self.t))):
                low = self._low(high)
                if low >= high - (not self.is_complex):
                    break
                if self.is_complex:
                    self._single(low, high, count)
                else:
                    self._double(low, high, count)
            else:
                return high + 1
            if low < high:
                self._standardize(low)
            high = low - 1
        return 0

    def _low(self, high: int) -> int:
        """The first row of the block that ends at `high`; the subdiagonal before it is made zero."""
        t = self.t
        for k in range(high, 0, -1):
            if self._is_negligible(k):
                t[k, k - 1] = 0
                return k
        return 0

    def _is_negligible(self, k: int) -> bool:
        t = self.t
        sub = float(size1(t[k, k - 1]))
        if sub <= self.tiny:
            return True
        around = float(size1(t[k - 1, k - 1]) + size1(t[k, k]))
        if around == 0:
            around = float(sum(size1(t[i + 1, i]) for i in (k - 2, k) if 0 <= i < len(t) - 1))
        if sub > self.eps * around:
            return False
        over, gap = float(size1(t[k - 1, k])), float(size1(t[k - 1, k - 1] - t[k, k]))
        large, small = max(sub, over), min(sub, over)
        corner = float(size1(t[k, k]))
        wide, narrow = max(corner, gap), min(corner, gap)
        total = wide + large
        return small * (large / total) <= max(self.tiny, self.eps * (narrow * (wide / total)))

    def _apply(self, v: Array, tau: Array, at: int, first: int, last: int) -> None:
        """A similarity by the reflection (1 - tau v v^H) of rows and columns from `at` on; columns from `first`, rows to `last` are not zero."""
        rows = slice(at, at + len(v))
        from_left(self.t[rows, first:], v, tau.conj())
        from_right(self.t[: last + 1, rows], v, tau)
        from_right(self.z[:, rows], v, tau)

    # -- real -------------------------------------------------------------------------------------------------------

    def _shifts(self, low: int, high: int, count: int) -> tuple[float, float]:
        """(sum, product) of the two shifts."""
        t = self.t
        if count % (2 * _STUCK) == _STUCK or (count and count % (2 * _STUCK) == 0):
            at, step = (low, 1) if count % (2 * _STUCK) == _STUCK else (high, -1)
            s = abs(float(t[high, high - 1])) + abs(float(t[high - 1, high - 2]))
            if step == 1:
                s = abs(float(t[low + 1, low])) + abs(float(t[low + 2, low + 1]))
            corner = 0.75 * s + float(t[at, at])
            return 2 * corner, corner * corner + 0.4375 * s * s
        a, b, c, d = (float(x) for x in t[high - 1 : high + 1, high - 1 : high + 1].ravel())
        mean = (a + d) / 2
        square = (a - mean) * (d - mean) - b * c
        if square >= 0:
            return a + d, a * d - b * c
        # Two real ones: the closer to the corner, twice.
        root = math.sqrt(-square)
        near = min(mean + root, mean - root, key=lambda x: abs(x - d))
        return 2 * near, near * near

    def _double(self, low: int, high: int, count: int) -> None:
        """One sweep of Francis's double shift."""
        t = self.t
        total, product = self._shifts(low, high, count)
        for start in range(high - 2, low - 1, -1):
            a, b, c, d = (float(x) for x in t[start : start + 2, start : start + 2].ravel())
            # The first column of (t - s1)(t - s2), divided by t[start + 1, start].
            head = (a * (a - total) + product) / c + b if c else b
            v = np.array([head, a + d - total, float(t[start + 2, start + 1])])
            if start == low:
                break
            across = abs(float(t[start, start - 1])) * (abs(v[1]) + abs(v[2]))
            sizes = abs(float(t[start - 1, start - 1])) + abs(a) + abs(d)
            if across <= self.eps * abs(v[0]) * sizes:
                break
        v = (v / (np.abs(v).sum() or 1)).astype(t.dtype)
        for k in range(start, high):
            column = t[k : min(k + 3, high + 1), k - 1] if k > start else v
            w, tau, beta = reflection(column)
            if k > start:
                t[k, k - 1] = beta
                t[k + 1 : k + len(w), k - 1] = 0
            elif start > low:
                t[k, k - 1] *= 1 - tau
            self._apply(w, tau, k, k, min(k + 3, high))

    def _standardize(self, k: int) -> None:
        """Make the block at k triangular, or give it equal diagonal elements."""
        t = self.t
        a, b, c, d = (float(x) for x in t[k : k + 2, k : k + 2].ravel())
        cs, sn = _rotation(a, b, c, d)
        turn = np.array([[cs, sn], [-sn, cs]], t.dtype)
        t[k : k + 2, k:] = turn @ t[k : k + 2, k:]
        t[: k + 2, k : k + 2] = t[: k + 2, k : k + 2] @ turn.T
        self.z[:, k : k + 2] = self.z[:, k : k + 2] @ turn.T
        p = (a - d) / 2
        if p * p + b * c >= 0:
            t[k + 1, k] = 0
        else:
            t[k, k] = t[k + 1, k + 1] = (t[k, k] + t[k + 1, k + 1]) / 2

    # -- complex ----------------------------------------------------------------------------------------------------

    def _single(self, low: int, high: int, count: int) -> None:
        """One sweep with Wilkinson's shift."""
        t = self.t
        shift = complex(t[high, high])
        if count % _STUCK == 0 and count:
            top = count % (2 * _STUCK) == _STUCK
            at = low if top else high
            shift = complex(t[at, at]) + 0.75 * abs(complex(t[low + 1, low] if top else t[high, high - 1]))
        else:
            u = cmath.sqrt(complex(t[high - 1, high])) * cmath.sqrt(complex(t[high, high - 1]))
            if u != 0:
                x = (complex(t[high - 1, high - 1]) - shift) / 2
                y = cmath.sqrt(x * x + u * u)
                if (x * y.conjugate()).real < 0:
                    y = -y
                shift -= u * (u / (x + y))
        column = np.array([t[low, low] - shift, t[low + 1, low]], t.dtype)
        for k in range(low, high):
            w, tau, beta = reflection(t[k : k + 2, k - 1] if k > low else column)
            if k > low:
                t[k, k - 1], t[k + 1, k - 1] = beta, 0
            self._apply(w, tau, k, k, min(k + 2, high))

    def eigenvalues(self) -> Array:
        """The eigenvalues, in the order of the diagonal; of a pair the one with the positive imaginary part first."""
        values = self.t.diagonal().astype(np.result_type(self.t.dtype, np.complex64))
        if not self.is_complex:
            for k in np.flatnonzero(self.t.diagonal(-1)):
                size = math.sqrt(abs(float(self.t[k, k + 1]))) * math.sqrt(abs(float(self.t[k + 1, k])))
                values[k] += 1j * size
                values[k + 1] -= 1j * size
        return values


def _rotation(a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """(cosine, sine) that make c zero where the eigenvalues are real, and else the diagonal elements equal."""
    if c == 0:
        return 1.0, 0.0
    p = (a - d) / 2
    size = max(abs(p), abs(b), abs(c))
    square = (p / size) * p + (b / size) * c
    if square >= 0:
        z = p + math.copysign(math.sqrt(size) * math.sqrt(square), p)
        length = math.hypot(c, z)
        return z / length, c / length
    if p == 0:
        return 1.0, 0.0
    sigma = b + c
    length = math.hypot(sigma, 2 * p)
    cs = math.sqrt((1 + abs(sigma) / length) / 2)
    return cs, -(p / (length * cs)) * math.copysign(1, sigma)

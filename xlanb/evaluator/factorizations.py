"""Factorizations that NumPy does not give, as LAPACK's users' guide defines their results: LU, reflections and what is made of them, tridiagonal systems.

Matrices are the last two dimensions; `lu`, `substitute`, `reflected` and `tridiagonal_solve` take any batch before them, the others a single matrix. Nothing is written to an argument.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlanb.evaluator.values import Array

_BLOCK = 64
"""Columns that are factored, or rows that are solved for, one by one before a matrix product does the rest."""


def substitute(a: Array, b: Array, *, lower: bool) -> Array:
    """x with a x = b for a triangular a, by forward or back substitution; the other triangle of a is not read."""
    x = np.array(b)
    n = a.shape[-1]
    starts = range(0, n, _BLOCK)
    for start in starts if lower else reversed(starts):
        stop = min(start + _BLOCK, n)
        known = slice(0, start) if lower else slice(stop, n)
        if known.start < known.stop:
            x[..., start:stop, :] -= a[..., start:stop, known] @ x[..., known, :]
        x[..., start:stop, :] = _solved(a[..., start:stop, start:stop], x[..., start:stop, :], lower=lower)
    return x


def _solved(a: Array, b: Array, *, lower: bool) -> Array:
    """The same for a block: of single precision by LAPACK in double precision, else, and where nothing finite comes of it, a row at a time."""
    # With a zero on the diagonal, what does not depend on it is still to be right; LAPACK's pivots would be rounding errors.
    is_regular = bool(np.all(np.diagonal(a, axis1=-2, axis2=-1)))
    if a.dtype in (np.float32, np.complex64) and a.shape[-1] > 1 and is_regular:
        found = np.linalg.solve((np.tril if lower else np.triu)(a), b)
        if np.isfinite(found).all():
            return found.astype(b.dtype)
    x = np.array(b)
    n = a.shape[-1]
    for k in range(n) if lower else reversed(range(n)):
        known = slice(0, k) if lower else slice(k + 1, n)
        row = x[..., k, :] - np.matmul(a[..., k : k + 1, known], x[..., known, :])[..., 0, :]
        x[..., k, :] = row / a[..., k, k, None]
    return x


def size1(x: Array) -> Array:
    """What LAPACK compares when it chooses a pivot: |x|, of complex numbers |Re x| + |Im x|."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def lu(a: Array) -> tuple[Array, Array, Array]:
    """(L below the diagonal and U, for each row the row that it was exchanged with from 1 on, the first k with U[k, k] = 0 or 0), with partial pivoting."""
    *batch, m, n = a.shape
    packed = np.array(a).reshape(-1, m, n)
    count = min(m, n)
    pivots = np.zeros((len(packed), count), np.int32)
    info = np.zeros(len(packed), np.int32)
    for start in range(0, count, _BLOCK):
        stop = min(start + _BLOCK, count)
        _lu_panel(packed, start, stop, pivots, info)
        if stop < n:
            unit = np.tril(packed[:, start:stop, start:stop], -1) + np.eye(stop - start, dtype=a.dtype)
            right = substitute(unit, packed[:, start:stop, stop:], lower=True)
            packed[:, start:stop, stop:] = right
            packed[:, stop:, stop:] -= packed[:, stop:, start:stop] @ right
    return packed.reshape(a.shape), pivots.reshape(*batch, count), info.reshape(tuple(batch))


def _lu_panel(packed: Array, start: int, stop: int, pivots: Array, info: Array) -> None:
    """Factor the columns from `start` to `stop`; rows are exchanged in whole."""
    each = np.arange(len(packed))
    for k in range(start, stop):
        best = np.argmax(size1(packed[:, k:, k]), axis=1) + k
        pivots[:, k] = best + 1
        row = packed[each, best]
        packed[each, best] = packed[:, k]
        packed[:, k] = row
        pivot = packed[:, k, k]
        is_zero = pivot == 0
        info[is_zero & (info == 0)] = k + 1
        packed[:, k + 1 :, k] /= np.where(is_zero, 1, pivot)[:, None]
        packed[:, k + 1 :, k + 1 : stop] -= packed[:, k + 1 :, k, None] * packed[:, k, None, k + 1 : stop]


# -- reflections --------------------------------------------------------------------------------------------------


def reflection(x: Array) -> tuple[Array, Array, Array]:
    """(v with v[0] = 1, tau, beta) with (1 - tau v v^H)^H x = (beta, 0, ...), beta real (LAPACK's larfg)."""
    alpha, tail = x[0], x[1:]
    largest = np.abs(tail).max(initial=0)
    rest = largest * np.linalg.norm(tail / largest) if 0 < largest < np.inf else largest
    if rest == 0 and alpha.imag == 0:
        return np.concatenate([[x.dtype.type(1)], np.zeros_like(tail)]), x.dtype.type(0), x.dtype.type(alpha.real)
    beta = -np.copysign(np.hypot(np.abs(alpha), rest), alpha.real)
    v = np.concatenate([[x.dtype.type(1)], tail / (alpha - beta)])
    tau = (beta - alpha.real) / beta - (1j * alpha.imag / beta if x.dtype.kind == "c" else 0)
    return v, x.dtype.type(tau), x.dtype.type(beta)


def from_left(a: Array, v: Array, tau: Array) -> None:
    """a := (1 - tau v v^H) a, in place."""
    a -= np.outer(tau * v, v.conj() @ a)


def from_right(a: Array, v: Array, tau: Array) -> None:
    """a := a (1 - tau v v^H), in place."""
    a -= np.outer(a @ v, tau * v.conj())


def reflected(packed: Array, scales: Array, c: Array, *, left: bool = True, adjoint: bool = False) -> Array:
    """Q c, or c Q where not `left`, Q = H(0) H(1) ... of the reflections below the diagonal of `packed`; its adjoint on request (LAPACK's ormqr).

    The product is 1 - V T V^H with a triangular T (Schreiber and Van Loan, 1989).
    """
    count = scales.shape[-1]
    v = np.tril(packed[..., :count], -1) + np.eye(packed.shape[-2], count, dtype=packed.dtype)
    vh = v.conj().swapaxes(-1, -2)
    gram = vh @ v
    t = np.zeros((*scales.shape, count), packed.dtype)
    for k in range(count):
        before = t[..., :k, :k] @ gram[..., :k, k, None]
        t[..., :k, k] = -scales[..., k, None] * before[..., 0]
        t[..., k, k] = scales[..., k]
    middle = t.conj().swapaxes(-1, -2) if adjoint else t
    return c - v @ (middle @ (vh @ c)) if left else c - ((c @ v) @ middle) @ vh


def pivoted_qr(a: Array, wanted: Array) -> tuple[Array, Array, Array]:
    """(the packed factors, the columns in their new order from 1 on, the scales); columns with `wanted` != 0 go first and stay, then the longest goes first (LAPACK's geqp3)."""
    order = np.concatenate([np.flatnonzero(wanted), np.flatnonzero(wanted == 0)])
    packed, fixed = np.array(a[:, order]), np.count_nonzero(wanted)
    count = min(a.shape)
    scales = np.zeros(count, a.dtype)
    for k in range(count):
        if k >= fixed:
            best = k + int(np.argmax(np.linalg.norm(packed[k:, k:], axis=0)))
            packed[:, [k, best]], order[[k, best]] = packed[:, [best, k]], order[[best, k]]
        v, scales[k], beta = reflection(packed[k:, k])
        from_left(packed[k:, k + 1 :], v, scales[k].conj())
        packed[k:, k] = v
        packed[k, k] = beta
    return packed, (order + 1).astype(np.int32), scales


def hessenberg(a: Array, low: int, high: int) -> tuple[Array, Array]:
    """(H with the reflections below its subdiagonal, their scales) of rows and columns low..high, counted from 1 (LAPACK's gehrd)."""
    packed = np.array(a)
    scales = np.zeros(max(len(a) - 1, 0), a.dtype)
    for k in range(low - 1, high - 1):
        v, scales[k], beta = reflection(packed[k + 1 : high, k])
        from_right(packed[:high, k + 1 : high], v, scales[k])
        from_left(packed[k + 1 : high, k + 1 :], v, scales[k].conj())
        packed[k + 1 : high, k] = v
        packed[k + 1, k] = beta
    return packed, scales


def tridiagonal(a: Array, *, lower: bool) -> tuple[Array, Array, Array, Array]:
    """(the packed reflections in one triangle, diagonal, off-diagonal, scales) of a Hermitian matrix of which one triangle is read (LAPACK's sytrd and hetrd)."""
    n = len(a)
    half = np.tril(a, -1) if lower else np.triu(a, 1)
    full = half + half.conj().T + np.diag(a.diagonal().real)
    packed = np.array(a)
    off, scales = np.zeros(max(n - 1, 0), a.real.dtype), np.zeros(max(n - 1, 0), a.dtype)
    for k in range(n - 1) if lower else reversed(range(n - 1)):
        # The column's part that is to vanish, the element that stays first.
        rows = np.arange(k + 1, n) if lower else np.arange(k, -1, -1)
        column = k if lower else k + 1
        v, scales[k], beta = reflection(full[rows, column])
        off[k] = beta.real
        packed[rows, column] = v
        packed[rows[0], column] = beta
        within = np.ix_(rows, rows)
        block = full[within]
        from_right(block, v, scales[k])
        from_left(block, v, scales[k].conj())
        full[within] = block
    diagonal = full.diagonal().real
    np.fill_diagonal(packed, diagonal)
    return packed, diagonal, off, scales


def tridiagonal_solve(
    below: Array, diagonal: Array, above: Array, b: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """(second superdiagonal, diagonal and superdiagonal of U; x; the first k with U[k, k] = 0 or 0) with partial pivoting (LAPACK's gtsv).

    All diagonals have n elements: below[0] and above[-1] are outside of the matrix.
    """
    n = diagonal.shape[-1]
    second, d, u, x = _eliminated(below, diagonal, above, b)
    for k in reversed(range(n)):
        known = x[..., k, :].copy()
        if k < n - 1:
            known -= u[..., k, None] * x[..., k + 1, :]
        if k < n - 2:
            known -= second[..., k, None] * x[..., k + 2, :]
        x[..., k, :] = known / d[..., k, None]
    is_zero = d == 0
    info = np.where(is_zero.any(axis=-1), np.argmax(is_zero, axis=-1) + 1, 0).astype(np.int32)
    return second, d, u, x, info


def _eliminated(below: Array, diagonal: Array, above: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """(Second superdiagonal, diagonal and superdiagonal of U; what U x is to be.)"""
    n = diagonal.shape[-1]
    d, u, x = np.array(diagonal), np.array(above), np.array(b)
    second = np.zeros_like(d)
    for k in range(n - 1):
        low = below[..., k + 1]
        swap = size1(d[..., k]) < size1(low)
        top, bottom = np.where(swap, low, d[..., k]), np.where(swap, d[..., k], low)
        factor = bottom / np.where(top == 0, 1, top)
        next_d, this_u = d[..., k + 1], u[..., k]
        d[..., k], u[..., k], d[..., k + 1] = (
            top,
            np.where(swap, next_d, this_u),
            np.where(swap, this_u - factor * next_d, next_d - factor * this_u),
        )
        if k < n - 2:
            second[..., k] = np.where(swap, u[..., k + 1], 0)
            u[..., k + 1] = np.where(swap, -factor * u[..., k + 1], u[..., k + 1])
        first, other = x[..., k, :], x[..., k + 1, :]
        chosen = swap[..., None]
        x[..., k, :], x[..., k + 1, :] = (
            np.where(chosen, other, first),
            np.where(chosen, first, other) - factor[..., None] * np.where(chosen, other, first),
        )
    return second, d, u, x


def perturbed_tridiagonal_solve(below: Array, diagonal: Array, above: Array, b: Array) -> Array:
    """The solution for one matrix, which may be singular: pivots that are too small to divide by are moved away from 0 by some epsilon of the largest element (LAPACK's lagts)."""
    n = len(diagonal)
    second, d, u, x = _eliminated(below, diagonal, above, b)
    limits = np.finfo(size1(d).dtype)
    largest = max(np.abs(d).max(), np.abs(u[: n - 1]).max(initial=0), np.abs(second[: max(n - 2, 0)]).max(initial=0))
    least = max(float(limits.eps * largest), float(limits.tiny))
    for k in reversed(range(n)):
        known = x[k].copy()
        if k < n - 1:
            known -= u[k] * x[k + 1]
        if k < n - 2:
            known -= second[k] * x[k + 2]
        x[k] = _divided(known, d[k], least, float(limits.tiny))
    return x


def _divided(row: Array, pivot: Any, by: float, tiny: float) -> Array:
    """A row by a pivot, which is moved away from 0 by twice as much each time until nothing overflows."""
    by = math.copysign(by, pivot.real)
    largest = float(np.abs(row).max(initial=0))
    while (size := abs(pivot)) < 1 and (size < tiny or largest * tiny > size):
        if size < tiny and size > 0 and largest * tiny <= size:
            return row / tiny / (pivot / tiny)  # type: ignore[no-any-return]
        pivot, by = pivot + by, 2 * by
    return row / pivot  # type: ignore[no-any-return]

"""Factorizations of single matrices by SciPy's LAPACK and BLAS; tridiagonal systems.

They follow the conventions of jaxlib's custom calls. Arguments are never modified. A matrix with
non-finite elements is not passed to an iteration, which might not end: its results are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from xlanb.evaluator.values import Array

NOT_FINITE = -4
"""The info value for a matrix with non-finite elements."""
_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
_WORK = 64
"""The number of columns that LAPACK processes at once, for workspace sizes."""


@cache
def _routine(name: str, kind: str) -> Callable[..., Any]:
    """A LAPACK or BLAS routine for NumPy's type character; imports SciPy on first use."""
    module = import_module("scipy.linalg.blas" if name == "trsm" else "scipy.linalg.lapack")
    return getattr(module, _LETTERS[kind] + name)  # type: ignore[no-any-return]


def _lapack(name: str, a: Array) -> Callable[..., Any]:
    """The routine for an array's type; or* and sy* have other names for complex numbers."""
    if a.dtype.kind == "c":
        name = {"or": "un", "sy": "he"}.get(name[:2], name[:2]) + name[2:]
    return _routine(name, a.dtype.char)


def each_matrix(compute: Callable[..., tuple[Any, ...]], a: Array, *others: Array) -> tuple[Array, ...]:
    """Apply a function of one matrix to a batch, with the matching parts of the other arrays."""
    batch = a.shape[:-2]
    flat = a.reshape(-1, *a.shape[-2:])
    rest = [x.reshape(-1, *x.shape[len(batch) :]) for x in others]
    each = [compute(*given) for given in zip(flat, *rest, strict=True)]
    return tuple(np.stack(x).reshape((*batch, *np.shape(x[0]))) for x in zip(*each, strict=True))


# -- systems and factors ---------------------------------------------------------------------------


def cholesky(a: Array, *, upper: bool) -> tuple[Array, np.int32]:
    """Cholesky factor of one matrix, and info.

    The other triangle is unchanged. info is 0, or the order of the first minor that is not
    positive; then the factor is NaN.
    """
    factor, info = _lapack("potrf", a)(a, lower=not upper, clean=False)
    if info > 0:
        (factor.T if upper else factor)[np.tril_indices(len(a))] = np.nan
    return factor, np.int32(info)


def lu(a: Array) -> tuple[Array, Array, np.int32]:
    """LU factorization with partial pivoting.

    Returns L (below the diagonal) and U packed; per row, the 1-based row that it was exchanged
    with; and the first k with U[k, k] = 0, or 0.
    """
    packed, pivots, info = _lapack("getrf", a)(a)
    return packed, pivots + 1, np.int32(info)


def substitute(
    a: Array, b: Array, *, lower: bool, left: bool = True, unit: bool = False, transpose: str = "N"
) -> Array:
    """x with op(a) x = b, or x op(a) = b unless `left`, for a triangular a.

    op transposes ("T"), conjugates and transposes ("C") or does nothing ("N"). The other triangle
    of a is not read.
    """
    if not b.size:
        return np.array(b)
    solve, how = _lapack("trsm", a), "NTC".index(transpose)
    a = np.broadcast_to(a, (*b.shape[:-2], *a.shape[-2:]))

    def one(m: Array, x: Array) -> tuple[Array, ...]:
        is_regular = unit or np.diagonal(m).all()
        if is_regular and np.isfinite(m).all() and np.isfinite(x).all():
            return (solve(1, m, x, side=not left, lower=lower, trans_a=how, diag=unit),)
        return (_substitute_one_by_one(m, x, lower=lower, left=left, unit=unit, transpose=transpose),)

    return each_matrix(one, a, b)[0]


def _substitute_one_by_one(a: Array, b: Array, *, lower: bool, left: bool, unit: bool, transpose: str) -> Array:
    """As `substitute`, for one matrix, with NaN only in dependent elements.

    In a BLAS, which elements become NaN depends on its tiles.
    """
    if transpose != "N":
        a, lower = a.conj().T if transpose == "C" else a.T, not lower
    if not left:
        a, b, lower = a.T, b.T, not lower
    x, size = np.array(b), len(a)
    for n in range(size):
        k, solved = (n, slice(0, n)) if lower else (size - 1 - n, slice(size - n, size))
        with np.errstate(all="ignore"):
            x[k] = x[k] - a[k, solved] @ x[solved]
            if not unit:
                x[k] = x[k] / a[k, k]
    return x if left else x.T


def tridiagonal_solve(
    below: Array, diagonal: Array, above: Array, b: Array
) -> tuple[Array, Array, Array, Array, np.int32]:
    """Solve a tridiagonal system with partial pivoting.

    Returns the second superdiagonal, diagonal and superdiagonal of U; x; and the first k with U[k,
    k] = 0, or 0. All diagonals have n elements: below[0] and above[-1] are outside the matrix.
    """
    n = len(diagonal)
    if n == 1:
        x = b / diagonal if diagonal[0] else b
        return np.zeros_like(below), diagonal, above, x, np.int32(diagonal[0] == 0)
    second, d, u, x, info = _lapack("gtsv", diagonal)(below[1:], diagonal, above[:-1], b)
    made = np.concatenate([second, np.zeros(n - len(second), d.dtype)])
    return made, d, np.append(u, above[-1:]), x, np.int32(info)


# -- reflections -----------------------------------------------------------------------------------


def reflected(packed: Array, scales: Array, c: Array, *, left: bool = True, adjoint: bool = False) -> Array:
    """Q c, or c Q unless `left`; with `adjoint` the adjoint of Q.

    Q = H(0) H(1) ... are the reflections below the diagonal of `packed`. LAPACK gets copies of
    them: it changes and restores them, and `scales` may be a view of the same array.
    """
    count = scales.shape[-1]
    if not (count and c.size):
        return np.array(c)
    letters = "L" if left else "R", ("C" if c.dtype.kind == "c" else "T") if adjoint else "N"
    apply, work = _lapack("ormqr", c), _WORK * max(c.shape[-2], c.shape[-1])

    def one(x: Array, v: Array, tau: Array) -> tuple[Array, ...]:
        return (apply(*letters, np.array(v[:, :count], order="F"), tau, x, work)[0],)

    made = each_matrix(one, c, packed, scales)
    return made[0]


def pivoted_qr(a: Array, wanted: Array) -> tuple[Array, Array, Array]:
    """QR factorization with column pivoting.

    Returns the packed factors, the 1-based columns in their new order, and the scales. Columns with
    `wanted` != 0 come first and stay; then the longest column comes first.
    """
    order = np.concatenate([np.flatnonzero(wanted), np.flatnonzero(wanted == 0)])
    fixed = int(np.count_nonzero(wanted))
    packed, done = a[:, order], min(fixed, len(a))
    scales = np.zeros(0, a.dtype)
    if fixed:
        head, scales = np.linalg.qr(packed[:, :fixed], mode="raw")
        packed[:, :fixed] = head.T
        packed[:, fixed:] = reflected(head.T, scales, packed[:, fixed:], adjoint=True)
    if fixed < len(order) and done < len(a):
        tail, pivots, more, _, _ = _lapack("geqp3", a)(packed[done:, fixed:])
        packed[:, fixed:] = packed[:, fixed:][:, pivots - 1]
        packed[done:, fixed:] = tail
        order[fixed:] = order[fixed:][pivots - 1]
        scales = np.concatenate([scales, more])
    return packed, (order + 1).astype(np.int32), scales


def hessenberg(a: Array, low: int, high: int) -> tuple[Array, Array]:
    """Hessenberg form of rows and columns low..high, counted from 1.

    Returns H with the reflections below its subdiagonal, and their scales.
    """
    packed, scales, _ = _lapack("gehrd", a)(a, low - 1, high - 1)
    return packed, scales[: max(len(a) - 1, 0)]


def tridiagonal(a: Array, *, lower: bool) -> tuple[Array, Array, Array, Array]:
    """Tridiagonal form of a Hermitian matrix, of which one triangle is read.

    Returns the packed reflections in one triangle, diagonal, off-diagonal and scales.
    """
    if len(a) == 1:
        nothing = np.zeros(0, a.dtype)
        return a, a.diagonal().real, nothing.real, nothing
    packed, d, e, scales, _ = _lapack("sytrd", a)(a, lower=lower, lwork=_WORK * len(a))
    return packed, d, e, scales


# -- eigenvalues -----------------------------------------------------------------------------------


def schur(a: Array) -> tuple[Array, Array, Array, np.int32]:
    """The Schur form a = Z T Z^H of a square matrix: T, Z, complex eigenvalues, info."""
    wide = np.result_type(a.dtype, np.complex64)
    if not np.isfinite(a).all():
        nothing = np.full_like(a, np.nan)
        return nothing, nothing, np.full(len(a), np.nan, wide), np.int32(NOT_FINITE)
    t, _, *values, z, _, info = _lapack("gees", a)(lambda *_: False, a, sort_t=0)
    made = values[0] if a.dtype.kind == "c" else values[0] + 1j * values[1]
    return t, z, made.astype(wide), np.int32(info)


def eigenvectors(a: Array) -> tuple[Array, Array, Array, np.int32]:
    """Complex eigenvalues, left and right eigenvectors, and info, of a square matrix."""
    wide = np.result_type(a.dtype, np.complex64)
    if not np.isfinite(a).all():
        nothing = np.full(a.shape, np.nan, wide)
        return nothing[0], nothing, nothing, np.int32(NOT_FINITE)
    *values, left, right, info = _lapack("geev", a)(a)
    if a.dtype.kind == "c":
        return values[0], left, right, np.int32(info)
    made = (values[0] + 1j * values[1]).astype(wide)
    return made, _paired(left, values[1], wide), _paired(right, values[1], wide), np.int32(info)


def _paired(v: Array, imaginary: Array, wide: Any) -> Array:
    """Complex eigenvectors from LAPACK's real ones.

    Those of a conjugate pair are v[:, j] + i v[:, j + 1] and its conjugate.
    """
    made = v.astype(wide)
    for j in np.flatnonzero(imaginary > 0):
        made[:, j] = v[:, j] + 1j * v[:, j + 1]
        made[:, j + 1] = made[:, j].conj()
    return made


# -- tridiagonal systems that may be singular ------------------------------------------------------


def size1(x: Array) -> Array:
    """The magnitude by which LAPACK chooses pivots: |x|, or |Re x| + |Im x| if complex."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def _eliminated(below: Array, diagonal: Array, above: Array, b: Array) -> tuple[Array, Array, Array, Array]:
    """Second superdiagonal, diagonal and superdiagonal of U; the right-hand side of U x."""
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
    """The solution for one matrix, which may be singular (LAPACK's lagts).

    Pivots too small to divide by are perturbed by some epsilon of the largest element.
    """
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
    """Divide a row by a pivot, perturbed by doubling amounts until nothing overflows."""
    by = math.copysign(by, pivot.real)
    largest = float(np.abs(row).max(initial=0))
    while (size := abs(pivot)) < 1 and (size < tiny or largest * tiny > size):
        if size < tiny and size > 0 and largest * tiny <= size:
            return row / tiny / (pivot / tiny)  # type: ignore[no-any-return]
        pivot, by = pivot + by, 2 * by
    return row / pivot  # type: ignore[no-any-return]

"""fft, cholesky and triangular-solve."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.factorizations import substitute
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, narrow, widen
from xlanb.hlo.instruction import HloInstruction

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("fft")
def _fft(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    lengths = i.ints("fft_length")
    axes = tuple(range(x.ndim - len(lengths), x.ndim))
    dtype = i.array_shape.dtype
    kind = str(i.attributes["fft_type"]).removeprefix("FFT_TYPE_")
    if kind not in ("FFT", "IFFT", "RFFT", "IRFFT"):
        raise EvaluationError(f"no such fft_type: {kind}")
    if 0 in x.shape or 0 in lengths:
        return np.zeros(i.array_shape.dimensions, dtype)
    # SciPy transforms several lines at once; import it on first use.
    transform = getattr(import_module("scipy.fft"), f"{kind.lower()}n")
    return transform(widen(x), lengths, axes).astype(dtype, copy=False)  # type: ignore[no-any-return]


def _adjoint(a: Array) -> Array:
    return np.conj(np.swapaxes(a, -1, -2))


@rule("cholesky")
def _cholesky(ev: Evaluator, i: HloInstruction, a: Array) -> Array:
    """The factor L of a = L L^H from the lower triangle, or its adjoint from the upper.

    NaN if a matrix is not positive definite.
    """
    is_lower = bool(i.get("lower"))
    wide = widen(a) if is_lower else _adjoint(widen(a))
    lower = np.tril(wide)
    diagonal = np.real(np.einsum("...ii->...i", wide))
    full = lower + _adjoint(np.tril(wide, -1))
    np.einsum("...ii->...i", full)[...] = diagonal
    factor = _cholesky_lower(full) if is_lower else _adjoint(_cholesky_lower(full))
    # a NaN in the triangle that is read propagates to the last pivot
    has_nan = np.isnan(factor[..., -1:, -1:])
    return narrow(np.where(has_nan, factor.dtype.type(np.nan), factor), a.dtype)


def _cholesky_lower(a: Array) -> Array:
    """The lower factors; all NaN if a matrix is not positive definite."""
    try:
        return np.linalg.cholesky(a)
    except np.linalg.LinAlgError:
        if a.ndim == 2:
            return np.full_like(a, np.nan)
    matrices = a.reshape(-1, *a.shape[-2:])
    return np.stack([_cholesky_lower(m) for m in matrices]).reshape(a.shape)


@rule("triangular-solve")
def _triangular_solve(ev: Evaluator, i: HloInstruction, a: Array, b: Array) -> Array:
    """x with op(a) x = b, or x op(a) = b unless left_side; reads only the named triangle."""
    wide = widen(b)
    how = str(i.get("transpose_a") or "NO_TRANSPOSE")
    solved = substitute(
        widen(a),
        wide,
        lower=bool(i.get("lower")),
        left=bool(i.get("left_side")),
        unit=bool(i.get("unit_diagonal")),
        transpose={"TRANSPOSE": "T", "ADJOINT": "C"}.get(how, "N"),
    )
    return narrow(solved, b.dtype)

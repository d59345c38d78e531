"""LAPACK custom calls as JAX emits them on CPUs (`lapack_sgetrf_ffi`).

Operands and results are those of jaxlib's lapack_kernels. NumPy and SciPy compute them, in the
precision of the operands. Option characters are numbers (76 is "L"). `info` is LAPACK's: 0 for
success, k > 0 for the k-th pivot, minor or eigenvalue that failed, -4 for NaN or inf in an argument
of an iteration. If LAPACK leaves a result undefined, it is the operand that it overwrites, or
zeros; factors and vectors that it did not find are NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator import factorizations
from xlanb.evaluator.factorizations import each_matrix, reflected, substitute
from xlanb.evaluator.values import Array, Value, describe
from xlanb.hlo.instruction import HloInstruction
from xlanb.patterns import pattern

Options = Mapping[str, int]

_TARGET = pattern(r"lapack_([sdcz])([a-z0-9]+)_ffi")
_TYPES = frozenset("fdFD")
"""NumPy's characters of the types that LAPACK supports."""
_OPTION = pattern(r"(\w+)\s*=\s*(true|false|-?\d+)")


def lapack_name(target: str) -> tuple[str, str] | None:
    """The type letter and routine of a custom-call target, or None.

    The letter is s, d, c or z: `lapack_sgetrf_ffi` is ("s", "getrf").
    """
    found = _TARGET.fullmatch(target)
    return (found[1], found[2]) if found else None


def lapack_routine(target: str) -> Callable[..., Value] | None:
    """The function of a custom-call target, or None.

    It is called with the instruction and its operands.
    """
    found = lapack_name(target)
    name = found[1] if found else ""
    routine = _ROUTINES.get(name)
    if routine is None:
        return None

    def run(i: HloInstruction, *operands: Array) -> Value:
        options = lapack_options(i)
        check_operands(name, _operands(name, options), operands)
        if operands[0].dtype.char not in _TYPES:
            raise EvaluationError(f"LAPACK computes in f32, f64, c64 or c128, not in {describe(operands[0])}")
        leaves = [shape.as_array() for _, shape in i.shape.leaves()]
        results: Value = [None] * len(leaves)
        if operands[0].size:
            results = routine(options, *operands)
        if len(results) != len(leaves):
            raise EvaluationError(f"{name} has {len(results)} results, not {len(leaves)}")
        made = tuple(
            np.zeros(leaf.dimensions, leaf.dtype) if value is None else np.asarray(value).astype(leaf.dtype, copy=False)
            for value, leaf in zip(results, leaves, strict=True)
        )
        return made[0] if i.shape.is_array else made

    return run


def check_operands(name: str, letters_of_each: str, operands: Sequence[Any]) -> None:
    """Raise if the number or dimensions of operands don't match a routine's.

    Dimensions, after those of a batch, are letters: `mk t` are those of a matrix and a vector.
    Equal letters are equal sizes; t is at most m and k.

    Raises:
        EvaluationError: they do not match.
    """
    wanted = letters_of_each.split()
    if len(wanted) != len(operands) or not all(isinstance(x, np.ndarray) for x in operands):
        raise EvaluationError(f"{name} takes {len(wanted)} arrays, not {', '.join(map(describe, operands)) or 'none'}")
    if not operands:
        return
    batch = operands[0].shape[: max(operands[0].ndim - len(wanted[0]), 0)]
    sizes: dict[str, int] = {}
    fits = True
    for letters, x in zip(wanted, operands, strict=True):
        fits = fits and x.ndim == len(batch) + len(letters) and x.shape[: len(batch)] == batch
        for letter, size in zip(letters, x.shape[len(batch) :], strict=False):
            fits = fits and sizes.setdefault(letter, size) == size
    if not fits or ("t" in sizes and sizes["t"] > min(sizes["m"], sizes["k"])):
        shapes = ", ".join(map(describe, operands))
        raise EvaluationError(f"{name} expected batches of arrays with dimensions {', '.join(wanted)}, got {shapes}")


def _operands(name: str, options: Options) -> str:
    """The dimensions of a routine's operands, for `check_operands`."""
    if name == "trsm":
        return "nn nk" if options.get("side") == ord("L") else "nn kn"
    if name in ("ormqr", "unmqr"):
        return "mk t mn" if options.get("left", 1) else "mk t nm"
    return {"gtsv": "n n n nk", "geqp3": "mn n", "orgqr": "mk t", "ungqr": "mk t"}.get(
        name, "mn" if name in _OF_ANY_MATRIX else "nn"
    )


_OF_ANY_MATRIX = frozenset("geqrf gesdd gesvd getrf".split())


def lapack_options(i: HloInstruction) -> dict[str, int]:
    """The options of a custom-call as numbers.

    `{uplo = 76 : ui8, left = true}` is {"uplo": 76, "left": True}.
    """
    found = _OPTION.findall(i.backend_config)
    return {name: value == "true" if value in ("true", "false") else int(value) for name, value in found}


def _is(options: Options, name: str, letter: str) -> bool:
    if name not in options:
        raise EvaluationError(f"the option {name} is missing")
    return options[name] == ord(letter)


def _adjoint(a: Array) -> Array:
    return a.swapaxes(-1, -2).conj()


def _safely(compute: Callable[[Array], tuple[Array, ...]], a: Array, read: Array) -> tuple[tuple[Array, ...], Array]:
    """(results, info) of an iteration of NumPy's for all matrices.

    `read` is the part that it reads. For a matrix with non-finite elements it is not started, since
    it might not end; there, and if it fails, results are NaN and info is not 0.
    """
    batch = a.shape[:-2]
    is_finite = bool(np.isfinite(read).all())
    if is_finite:
        try:
            return compute(a), np.zeros(batch, np.int32)
        except np.linalg.LinAlgError:
            pass
    if not batch:
        like = compute(np.eye(*a.shape, dtype=a.dtype))
        return tuple(np.full_like(x, np.nan) for x in like), np.asarray(1 if is_finite else -4, np.int32)
    pairs = zip(*(x.reshape(-1, *x.shape[-2:]) for x in (a, read)), strict=True)
    each = [_safely(compute, m, part) for m, part in pairs]
    results = tuple(np.stack(x).reshape((*batch, *x[0].shape)) for x in zip(*(r for r, _ in each), strict=True))
    return results, np.stack([info for _, info in each]).reshape(batch)


# -- systems and factorizations --------------------------------------------------------------------


def _potrf(options: Options, a: Array) -> Value:
    is_upper = _is(options, "uplo", "U")
    return each_matrix(lambda x: factorizations.cholesky(x, upper=is_upper), a)


def _getrf(options: Options, a: Array) -> Value:
    return each_matrix(factorizations.lu, a)


def _trsm(options: Options, a: Array, b: Array) -> Value:
    left, lower, unit = _is(options, "side", "L"), _is(options, "uplo", "L"), _is(options, "diag", "U")
    how = "N" if _is(options, "trans_x", "N") else "C" if _is(options, "trans_x", "C") else "T"
    return (substitute(a, b, lower=lower, left=left, unit=unit, transpose=how),)


def _gtsv(options: Options, below: Array, diagonal: Array, above: Array, b: Array) -> Value:
    n = diagonal.shape[-1]
    given = zip(*(v.reshape(-1, n) for v in (below, diagonal, above)), b.reshape(-1, *b.shape[-2:]), strict=True)
    each = [factorizations.tridiagonal_solve(*g) for g in given]
    wanted = [*(v.shape for v in (below, diagonal, above)), b.shape, diagonal.shape[:-1]]
    return tuple(np.stack(x).reshape(shape) for x, shape in zip(zip(*each, strict=True), wanted, strict=True))


def tridiagonal_solve_perturbed(i: HloInstruction, below: Array, diagonal: Array, above: Array, b: Array) -> Value:
    """The solutions of tridiagonal systems that may be singular, the only result."""
    if not b.size:
        return np.array(b)
    n = diagonal.shape[-1]
    given = zip(*(v.reshape(-1, n) for v in (below, diagonal, above)), b.reshape(-1, *b.shape[-2:]), strict=True)
    return np.stack([factorizations.perturbed_tridiagonal_solve(*g) for g in given]).reshape(b.shape)


def _geqrf(options: Options, a: Array) -> Value:
    packed, scales = np.linalg.qr(a, mode="raw")
    return packed.swapaxes(-1, -2), scales


def _geqp3(options: Options, a: Array, wanted: Array) -> Value:
    return each_matrix(factorizations.pivoted_qr, a, wanted)


def _orgqr(options: Options, a: Array, scales: Array) -> Value:
    return (reflected(a, scales, np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)),)


def _ormqr(options: Options, a: Array, scales: Array, c: Array) -> Value:
    left, adjoint = bool(options.get("left", 1)), bool(options.get("transpose", 0))
    return (reflected(a, scales, c, left=left, adjoint=adjoint),)


# -- eigenvalues and singular values ---------------------------------------------------------------


def _gesdd(options: Options, a: Array) -> Value:
    if _is(options, "mode", "N"):
        (s,), info = _safely(lambda x: (np.linalg.svd(x, compute_uv=False),), a, a)
        return a, s, None, None, info
    is_full = _is(options, "mode", "A")
    (u, s, vh), info = _safely(lambda x: tuple(np.linalg.svd(x, full_matrices=is_full)), a, a)
    return a, s, u, vh, info


def _syevd(options: Options, a: Array) -> Value:
    uplo: Any = "L" if _is(options, "uplo", "L") else "U"
    triangle = np.tril(a) if uplo == "L" else np.triu(a)
    if _is(options, "mode", "N"):
        (values,), info = _safely(lambda x: (np.linalg.eigvalsh(x, uplo),), a, triangle)
        return a, values, info
    (values, vectors), info = _safely(lambda x: tuple(np.linalg.eigh(x, uplo)), a, triangle)
    return vectors, values, info


def _geev(options: Options, a: Array) -> Value:
    sides = {side: _is(options, f"compute_{side}", "V") for side in ("left", "right")}
    values, left, right, info = each_matrix(factorizations.eigenvectors, a)
    vectors = (found if sides[side] else None for side, found in (("left", left), ("right", right)))
    return *((values,) if a.dtype.kind == "c" else (values.real, values.imag)), *vectors, info


def _gees(options: Options, a: Array) -> Value:
    t, z, values, info = each_matrix(factorizations.schur, a)
    parts = (values,) if a.dtype.kind == "c" else (values.real, values.imag)
    return t, z if _is(options, "mode", "V") else None, *parts, np.zeros_like(info), info


def _gehrd(options: Options, a: Array) -> Value:
    packed, scales = each_matrix(lambda x: factorizations.hessenberg(x, options["low"], options["high"]), a)
    return packed, scales, np.zeros(a.shape[:-2])


def _sytrd(options: Options, a: Array) -> Value:
    lower = _is(options, "uplo", "L")
    return *each_matrix(lambda x: factorizations.tridiagonal(x, lower=lower), a), np.zeros(a.shape[:-2])


_ROUTINES: dict[str, Callable[..., Value]] = {
    "gees": _gees,
    "geev": _geev,
    "gehrd": _gehrd,
    "geqp3": _geqp3,
    "geqrf": _geqrf,
    "gesdd": _gesdd,
    "gesvd": _gesdd,
    "getrf": _getrf,
    "gtsv": _gtsv,
    "heevd": _syevd,
    "hetrd": _sytrd,
    "orgqr": _orgqr,
    "ormqr": _ormqr,
    "potrf": _potrf,
    "syevd": _syevd,
    "sytrd": _sytrd,
    "trsm": _trsm,
    "ungqr": _orgqr,
    "unmqr": _ormqr,
}

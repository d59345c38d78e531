"""tf.svd, tf.cholesky_solve and the functions of tf.linalg that are made of several ops.

Source: python/ops/{linalg_ops,math_ops}.py and python/ops/linalg/linalg_impl.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import expand_dims, matrix_transpose, squeeze, stack
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor
from xlanb.tf.arrays import eye, norm


def svd(tensor: Any, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Return descending singular values and, on request, left and right vectors."""
    s, u, v = call_op("Svd", tensor, compute_uv=compute_uv, full_matrices=full_matrices, name=name).outputs
    return (s, u, v) if compute_uv else s


def self_adjoint_eig(tensor: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues, rising, and eigenvectors in columns."""
    e, v = call_op("SelfAdjointEigV2", tensor, compute_v=True, name=name).outputs
    return e, v


def self_adjoint_eigvals(tensor: Any, name: str | None = None) -> Tensor:
    """Eigenvalues, rising."""
    return call_op("SelfAdjointEigV2", tensor, compute_v=False, name=name).outputs[0]


def cholesky_solve(chol: Any, rhs: Any, name: str | None = None) -> Tensor:
    """The x of A x = rhs, by A's Cholesky factor."""
    with name_scope(name, "cholesky_solve", [chol, rhs]):
        y = call("MatrixTriangularSolve", chol, rhs, adjoint=False, lower=True)
        return call("MatrixTriangularSolve", chol, y, adjoint=True, lower=True)


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of the last two dimensions."""
    return matrix_transpose(matrix, name=name or "adjoint", conjugate=True)


def slogdet(input: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Sign and logarithm of the absolute value of determinants of [..., n, n]: each [...]."""
    sign, log_abs = call_op("LogMatrixDeterminant", input, name=name).outputs
    return sign, log_abs


def logdet(matrix: Any, name: str | None = None) -> Tensor:
    """The logarithm of determinants of Hermitian positive definite matrices [..., n, n]: [...]."""
    with name_scope(name, "logdet", [matrix]):
        diagonal = call("MatrixDiagPart", call("Cholesky", matrix))
        found: Tensor = 2.0 * math_ops.reduce_sum(call("Log", math_ops.real(diagonal)), [-1])
        return found


def matvec(
    a: Any, b: Any, transpose_a: bool = False, adjoint_a: bool = False, name: str | None = None, **sparse: Any
) -> Tensor:
    """Products of matrices [..., m, n] and vectors [..., n]: [..., m]."""
    with name_scope(name, "MatVec", [a, b]):
        column = expand_dims(convert_to_tensor(b), -1)
        return squeeze(math_ops.matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a, **sparse), [-1])


def normalize_by_norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """tf.linalg.normalize: the tensor divided by its norm along `axis`, and that norm."""
    with name_scope(name, "normalize", [tensor]):
        found = convert_to_tensor(tensor)
        length = math_ops.cast(norm(found, ord, axis, keepdims=True), found.dtype.base_dtype)
        return found / length, length


def matrix_rank(a: Any, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """How many singular values of [..., m, n] exceed `tol`: s32[...].

    By default `tol` is the largest singular value times max(m, n) times the type's precision.
    """
    with name_scope(name, "matrix_rank", [a]):
        found = convert_to_tensor(a)
        values = svd(found, compute_uv=False)
        if tol is None:
            tol = _precision(found) * math_ops.reduce_max(values, -1, keepdims=True)
        return math_ops.reduce_sum(math_ops.cast(values > tol, dtypes.int32), -1)


def pinv(a: Any, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The Moore-Penrose inverse of matrices [..., m, n]: [..., n, m].

    Singular values up to `rcond` times the largest count as zero; by default `rcond` is ten times
    max(m, n) times the type's precision.
    """
    with name_scope(name, "pinv", [a]):
        found = convert_to_tensor(a)
        values, left, right = svd(found, full_matrices=False)
        cutoff = (10 * _precision(found) if rcond is None else rcond) * math_ops.reduce_max(values, -1, keepdims=True)
        safe = call("SelectV2", values > cutoff, values, constant(float("inf"), values.dtype.base_dtype))
        scaled = right / expand_dims(math_ops.cast(safe, right.dtype.base_dtype), -2)
        return math_ops.matmul(scaled, left, adjoint_b=True)


def _sizes(matrix: Tensor) -> tuple[int, int]:
    """Rows and columns. Raises GraphValueError if one is unknown."""
    rows, columns = matrix.shape.as_list()[-2:]
    if rows is None or columns is None:
        raise GraphValueError(f"the last two sizes of {matrix.name!r} must be known, not {matrix.shape}")
    return rows, columns


def _precision(matrix: Tensor) -> float:
    """max(m, n) times the distance from 1 to the next number of the type."""
    return max(_sizes(matrix)) * float(np.finfo(matrix.dtype.base_dtype.as_numpy_dtype).eps)


def matrix_solve_ls(
    matrix: Any, rhs: Any, l2_regularizer: float = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Least-squares solutions x of A x = b, for A [..., m, n] and b [..., m, k]: [..., n, k].

    `fast` solves the normal equations, with `l2_regularizer` on their diagonal; otherwise the
    solution has the least norm among the best ones.
    """
    with name_scope(name, "matrix_solve_ls", [matrix, rhs]):
        a = convert_to_tensor(matrix)
        b = convert_to_tensor(rhs, a.dtype.base_dtype)
        if not fast:
            return math_ops.matmul(pinv(a), b)
        rows, columns = _sizes(a)
        is_tall = rows >= columns
        gram = math_ops.matmul(a, a, adjoint_a=is_tall, adjoint_b=not is_tall)
        if l2_regularizer:
            gram += constant(l2_regularizer, a.dtype.base_dtype) * eye(min(rows, columns), dtype=a.dtype.base_dtype)
        factor = call("Cholesky", gram)
        if is_tall:
            return cholesky_solve(factor, math_ops.matmul(a, b, adjoint_a=True))
        return math_ops.matmul(a, cholesky_solve(factor, b), adjoint_a=True)


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
) -> Tensor:
    """Solve systems of tridiagonal matrices.

    `diagonals` is [..., 3, m] (compact: above, on and below the diagonal), a list of these three,
    or the matrices [..., m, m]. `rhs` is [..., m] or [..., m, k] ([..., k, m] with
    `transpose_rhs`); the result is [..., m] or [..., m, k]. XLA has no partial pivoting for
    tridiagonal systems: with it, the full matrices are solved.

    Raises:
        GraphValueError: `diagonals_format` is not "compact", "sequence" or "matrix".
    """
    with name_scope(name, "tridiagonal_solve", [rhs]):
        if diagonals_format == "matrix":
            bands = call("MatrixDiagPartV3", diagonals, [-1, 1], _zero(diagonals), align="LEFT_RIGHT")
        elif diagonals_format == "sequence":
            bands = stack(list(diagonals), -2)
        elif diagonals_format == "compact":
            bands = convert_to_tensor(diagonals)
        else:
            raise GraphValueError(
                f"diagonals_format must be 'compact', 'sequence' or 'matrix', not {diagonals_format!r}"
            )
        right = convert_to_tensor(rhs, bands.dtype.base_dtype)
        is_vector = right.shape.rank == (bands.shape.rank or 0) - 1
        if is_vector:
            right = expand_dims(right, -1)
        elif transpose_rhs:
            right = matrix_transpose(right, conjugate=conjugate_rhs)
        if conjugate_rhs and (is_vector or not transpose_rhs):
            right = math_ops.conj(right)
        if partial_pivoting:
            full = call("MatrixDiagV3", bands, [-1, 1], -1, -1, _zero(bands), align="LEFT_RIGHT")
            found = call("MatrixSolve", full, right)
        else:
            found = call("TridiagonalSolve", bands, right, partial_pivoting=False)
        return squeeze(found, [-1]) if is_vector else found


def _zero(like: Any) -> Tensor:
    return constant(0, convert_to_tensor(like).dtype.base_dtype)

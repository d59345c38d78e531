"""tf.svd, tf.self_adjoint_eig and tf.cholesky_solve (python/ops/linalg_ops.py)."""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Tensor


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

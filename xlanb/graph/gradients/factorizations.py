"""Gradients of QR and singular value decompositions, and of tridiagonal matrices.

Source: python/ops/linalg_grad.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph.builders.array_ops import concat, expand_dims, matrix_transpose, stack, zeros_like
from xlanb.graph.builders.math_ops import cast, conj, matmul, real, reduce_sum
from xlanb.graph.convert import constant
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose of matrices."""
    return conj(matrix_transpose(x))


def _band(x: Tensor, lower: int, upper: int) -> Tensor:
    return call("MatrixBandPart", x, constant(lower, "int64"), constant(upper, "int64"))


def _size(op: Operation) -> tuple[int, int]:
    """Return rows and columns of the factored matrix.

    Raises UnimplementedError if unknown statically.
    """
    dims = op.inputs[0].shape.as_tuple()
    if dims is None or dims[-1] is None or dims[-2] is None:
        raise UnimplementedError(f"the gradient of {op.type} needs known sizes of its matrix: {op.describe()}")
    return dims[-2], dims[-1]


@register_gradient("Qr")
def _qr(op: Operation, by_q: Tensor, by_r: Tensor) -> Any:
    """Differentiate a = q [u, v], u square (Roberts and Roberts, 2020).

    The gradient by v goes to a's last columns, which are q v; the gradient by u is that of a square
    matrix.
    """
    rows, columns = _size(op)
    q, r = op.outputs
    if op.get_attr("full_matrices") and rows != columns:
        raise UnimplementedError(
            f"the gradient of Qr with full_matrices=True needs a square matrix, not {rows} x {columns}: {op.describe()}"
        )
    if rows >= columns:
        return _tall_qr(q, r, by_q, by_r)
    by_rest = by_r[..., rows:]
    rest = op.inputs[0][..., rows:]
    inner = _tall_qr(q, r[..., :rows], by_q + matmul(rest, by_rest, adjoint_b=True), by_r[..., :rows])
    return concat([inner, matmul(q, by_rest)], -1)


def _tall_qr(q: Tensor, r: Tensor, by_q: Tensor, by_r: Tensor) -> Tensor:
    """(by_q + q s) r^-*, s the Hermitian matrix with the lower triangle of r by_r* - by_q* q."""
    inner = matmul(r, by_r, adjoint_b=True) - matmul(by_q, q, adjoint_a=True)
    lower = _band(inner, -1, 0)
    strict = call("MatrixSetDiag", lower, zeros_like(call("MatrixDiagPart", lower)))
    made = by_q + matmul(q, lower + adjoint(strict))
    return adjoint(call("MatrixTriangularSolve", r, adjoint(made), lower=False, adjoint=False))


def _real(x: Tensor) -> Tensor:
    found: Tensor = real(x) if x.dtype.is_complex else x
    return found


def _safe_inverse(x: Tensor) -> Tensor:
    """1 / x, and 0 at 0: finite for gradients of any order."""
    found: Tensor = x / (x * x + constant(1e-20, x.dtype))
    return found


@register_gradient("Svd")
def _svd(op: Operation, by_s: Tensor, by_u: Tensor, by_v: Tensor) -> Any:
    """Townsend, Differentiating the singular value decomposition (2016).

    With full matrices, the last vector is orthogonal to the others.
    """
    kind = op.inputs[0].dtype
    by_s = cast(_real(by_s), kind)  # singular values are real, in complex numbers too
    if not op.get_attr("compute_uv"):
        _, u, v = call_n("Svd", op.inputs[0], compute_uv=True, full_matrices=False)
        return matmul(u * expand_dims(by_s, -2), v, adjoint_b=True)
    rows, columns = _size(op)
    if op.get_attr("full_matrices") and abs(rows - columns) > 1:
        raise UnimplementedError(
            f"the gradient of Svd with full_matrices=True is not defined for {rows} x {columns}: {op.describe()}"
        )
    count = min(rows, columns)
    _, u, v = op.outputs
    values = _real(op.outputs[0])
    u, by_u = _thin(u, by_u, count)
    v, by_v = _thin(v, by_v, count)
    s = expand_dims(cast(values, kind), -2)
    inverse = cast(expand_dims(_safe_inverse(values), -2), kind)
    squares = values * values
    apart = expand_dims(squares, -2) - expand_dims(squares, -1)
    f = cast(call("MatrixSetDiag", _safe_inverse(apart), zeros_like(values)), kind)
    in_u, in_v = matmul(u, by_u, adjoint_a=True), matmul(v, by_v, adjoint_a=True)
    middle = f * (in_u - adjoint(in_u)) * s + matrix_transpose(s) * (f * (in_v - adjoint(in_v)))
    middle += call("MatrixDiag", by_s)
    if kind.is_complex:  # a phase of the vectors, which the first of each pair carries
        phase = (in_u - adjoint(in_u)) * constant(0.5, kind) * inverse
        middle += call("MatrixDiag", call("MatrixDiagPart", phase))
    made = matmul(u, middle)
    made += (by_u - matmul(u, in_u)) * inverse
    found: Tensor = matmul(made, v, adjoint_b=True)
    return found + matmul(u * inverse, by_v - matmul(v, in_v), adjoint_b=True)


def _thin(x: Tensor, by_x: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first vectors, and their gradient with that of the others, which are
    orthogonal.
    """
    width = x.shape.as_tuple()
    if width is None or width[-1] == count:
        return x, by_x
    first, rest = x[..., :count], x[..., count:]
    by_first, by_rest = by_x[..., :count], by_x[..., count:]
    return first, by_first - matmul(rest, matmul(by_rest, first, adjoint_a=True))


# ----------------------------------------------------------------------------- tridiagonal matrices


def _after(x: Tensor, axis: int) -> Tensor:
    """x[i + 1] at i, and 0 at the end."""
    return _shifted(x, axis, -1)


def _before(x: Tensor, axis: int) -> Tensor:
    """x[i - 1] at i, and 0 at the start."""
    return _shifted(x, axis, 1)


def _shifted(x: Tensor, axis: int, by: int) -> Tensor:
    edge = (slice(None),) * (-axis - 1)
    kept, gone = (slice(1, None), slice(0, 1)) if by < 0 else (slice(None, -1), slice(-1, None))
    part, zero = x[(..., kept, *edge)], zeros_like(x[(..., gone, *edge)])
    return concat([part, zero] if by < 0 else [zero, part], axis)


def _products(grad: Tensor, x: Tensor) -> list[Tensor]:
    """Multiply each row of grad with the rows of x above, on and below the diagonal: [..., M]
    each.
    """
    neighbors = (_after(x, -2), x, _before(x, -2))
    return [reduce_sum(grad * conj(n), -1) for n in neighbors]


@register_gradient("TridiagonalMatMul")
def _tridiagonal_matmul(op: Operation, grad: Tensor) -> Any:
    above, main, below, right = op.inputs
    by_diagonals = [expand_dims(p, -2) for p in _products(grad, right)]
    transposed = (_after(conj(below), -1), conj(main), _before(conj(above), -1))
    return (*by_diagonals, call("TridiagonalMatMul", *transposed, grad))


@register_gradient("TridiagonalSolve")
def _tridiagonal_solve(op: Operation, grad: Tensor) -> Any:
    diagonals, found = op.inputs[0], op.outputs[0]
    above, main, below = (conj(diagonals[..., i, :]) for i in range(3))
    transposed = stack([_after(below, -1), main, _before(above, -1)], axis=-2)
    attrs = {n: op.get_attr(n) for n in ("partial_pivoting", "perturb_singular")}
    by_right = call("TridiagonalSolve", transposed, grad, **attrs)
    return -stack(_products(by_right, found), axis=-2), by_right

"""Gradients of factorizations, inverses, solves, diagonals and sums of products.

They have the nodes of TensorFlow's python/ops/{linalg_grad,array_grad}.py.
"""

from __future__ import annotations

from string import ascii_letters
from typing import Any

from xlanb.errors import UnimplementedError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    broadcast_to,
    concat,
    expand_dims,
    matrix_transpose,
    ones,
    reshape,
    shape,
    zeros,
    zeros_like,
)
from xlanb.graph.builders.math_ops import conj, matmul, reduce_sum
from xlanb.graph.convert import constant
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor


def _adjoint(x: Tensor) -> Tensor:
    return conj(matrix_transpose(x))


def _band(x: Tensor, lower: int, upper: int) -> Tensor:
    return call("MatrixBandPart", x, constant(lower, "int64"), constant(upper, "int64"))


def _halved(x: Tensor) -> Tensor:
    """The matrix with half of its diagonal."""
    return call("MatrixSetDiag", x, call("MatrixDiagPart", x) * constant(0.5, x.dtype))


@register_gradient("Cholesky")
def _cholesky(op: Operation, grad: Tensor) -> Any:
    """Return half of s + s* with s = l^-* phi(l* grad) l^-1.

    phi keeps the lower triangle and halves the diagonal (Murray, 2016).
    """
    low = op.outputs[0]
    unit = call("MatrixDiag", ones(shape(low)[:-1], low.dtype))
    inverse = call("MatrixTriangularSolve", low, unit, lower=True)
    middle = _band(_halved(matmul(low, grad, adjoint_a=True)), -1, 0)
    found = matmul(matmul(inverse, middle, adjoint_a=True), inverse)
    return (found + _adjoint(found)) * constant(0.5, low.dtype)


@register_gradient("MatrixInverse")
def _inverse(op: Operation, grad: Tensor) -> Any:
    inverse, adjoint = op.outputs[0], op.get_attr("adjoint")
    inner = matmul(grad, inverse, adjoint_a=adjoint, adjoint_b=not adjoint)
    return -matmul(inverse, inner, adjoint_a=not adjoint)


def _as_factor(x: Tensor) -> Tensor:
    return expand_dims(expand_dims(x, -1), -1)


@register_gradient("MatrixDeterminant")
def _determinant(op: Operation, grad: Tensor) -> Any:
    return _as_factor(grad * conj(op.outputs[0])) * call("MatrixInverse", op.inputs[0], adjoint=True)


@register_gradient("LogMatrixDeterminant")
def _log_determinant(op: Operation, _: Tensor, grad: Tensor) -> Any:
    return _as_factor(grad) * call("MatrixInverse", op.inputs[0], adjoint=True)


@register_gradient("MatrixSolve")
def _solve(op: Operation, grad: Tensor) -> Any:
    adjoint, found = op.get_attr("adjoint"), op.outputs[0]
    by_right = call("MatrixSolve", op.inputs[0], grad, adjoint=not adjoint)
    pair = (found, by_right) if adjoint else (by_right, found)
    return -matmul(*pair, adjoint_b=True), by_right


@register_gradient("MatrixTriangularSolve")
def _triangular_solve(op: Operation, grad: Tensor) -> Any:
    a, right = op.inputs
    adjoint, lower, found = op.get_attr("adjoint"), op.get_attr("lower"), op.outputs[0]
    by_right = call("MatrixTriangularSolve", a, grad, lower=lower, adjoint=not adjoint)
    pair = (found, by_right) if adjoint else (by_right, found)
    by_a = -matmul(*pair, adjoint_b=True)
    by_a = _band(by_a, -1, 0) if lower else _band(by_a, 0, -1)
    dims = [t.shape.as_tuple() for t in (a, right)]
    if all(d is not None and len(d) == 2 for d in dims) or (dims[0] and dims[1] and dims[0][:-2] == dims[1][:-2]):
        return by_a, by_right
    axes = call_n("BroadcastGradientArgs", shape(a)[:-2], shape(right)[:-2])
    return (
        reshape(reduce_sum(by_a, axes[0]), shape(a)),
        reshape(reduce_sum(by_right, axes[1]), shape(right)),
    )


@register_gradient("SelfAdjointEigV2")
def _self_adjoint_eig(op: Operation, by_values: Tensor, by_vectors: Tensor) -> Any:
    """Return v (diag(by_values) + f * (v* by_vectors)) v*, f the inverse differences of
    eigenvalues.

    The gradient above the diagonal is zero, because the op does not read those elements.
    """
    if not op.get_attr("compute_v"):
        _, v = call_n("SelfAdjointEigV2", op.inputs[0])
        inner = call("MatrixDiag", by_values)
    else:
        e, v = op.outputs
        apart = expand_dims(e, -2) - expand_dims(e, -1)
        # 1 / apart, but finite where eigenvalues are one, for the second order
        f = call("MatrixSetDiag", apart / (apart * apart + constant(1e-20, apart.dtype)), zeros_like(e))
        inner = call("MatrixDiag", by_values) + f * matmul(v, by_vectors, adjoint_a=True)
    found = matmul(v, matmul(inner, v, adjoint_b=True))
    return _halved(_band(found + _adjoint(found), -1, 0))


# ---------------------------------------------------------------------------------------- diagonals


@register_gradient("MatrixDiag")
def _matrix_diag(_: Operation, grad: Tensor) -> Any:
    return call("MatrixDiagPart", grad)


def _aligned(op: Operation) -> dict[str, Any]:
    return {"align": op.get_attr("align")} if op.type.endswith("V3") else {}


@register_gradient("MatrixDiagV2", "MatrixDiagV3")
def _matrix_diag_wide(op: Operation, grad: Tensor) -> Any:
    version = op.type[-2:]
    part = call(f"MatrixDiagPart{version}", grad, op.inputs[1], zeros([], grad.dtype), **_aligned(op))
    return part, None, None, None, None


@register_gradient("MatrixDiagPart")
def _matrix_diag_part(op: Operation, grad: Tensor) -> Any:
    return call("MatrixSetDiag", zeros_like(op.inputs[0]), grad)


@register_gradient("MatrixDiagPartV2", "MatrixDiagPartV3")
def _matrix_diag_part_wide(op: Operation, grad: Tensor) -> Any:
    version = op.type[-2:]
    return call(f"MatrixSetDiag{version}", zeros_like(op.inputs[0]), grad, op.inputs[1], **_aligned(op)), None, None


@register_gradient("MatrixSetDiag")
def _matrix_set_diag(op: Operation, grad: Tensor) -> Any:
    return call("MatrixSetDiag", grad, zeros_like(op.inputs[1])), call("MatrixDiagPart", grad)


@register_gradient("MatrixSetDiagV2", "MatrixSetDiagV3")
def _matrix_set_diag_wide(op: Operation, grad: Tensor) -> Any:
    version, k = op.type[-2:], op.inputs[2]
    rest = call(op.type, grad, zeros_like(op.inputs[1]), k, **_aligned(op))
    return rest, call(f"MatrixDiagPart{version}", grad, k, zeros([], grad.dtype), **_aligned(op)), None


# ------------------------------------------------------------------------------------------- einsum


@register_gradient("Einsum", "XlaEinsum")
def _einsum(op: Operation, grad: Tensor) -> Any:
    """Sum the products of the result's gradient and the other operand.

    Labels of one operand only are broadcast.
    """
    terms, result = _spelled_out(op)
    if any(len(set(t)) != len(t) for t in (*terms, result)):
        raise UnimplementedError(
            f"an einsum with a repeated label in one operand has no gradient: take the diagonal first: {op.describe()}"
        )
    if len(terms) == 1:
        return [_by_operand(op, op.inputs[0], terms[0], [(result, grad)])]
    found = []
    for i in range(2):
        other = (terms[1 - i], conj(op.inputs[1 - i]))
        found.append(_by_operand(op, op.inputs[i], terms[i], [(result, grad), other]))
    return found


def _spelled_out(op: Operation) -> tuple[list[str], str]:
    """Return the operands' and the result's labels, with an ellipsis as new labels, aligned
    right.
    """
    left, _, result = str(op.get_attr("equation")).replace(" ", "").partition("->")
    terms = left.split(",")
    if "..." not in left:
        return terms, result
    spare = [c for c in ascii_letters if c not in left]
    hidden = [_hidden_dims(op, x, t) for x, t in zip(op.inputs, terms, strict=True)]
    most = max(hidden, key=len)
    if any(h and most[-len(h) :] != h for h in hidden):
        raise UnimplementedError(
            f"an einsum whose ellipsis broadcasts an operand has no gradient: broadcast it first: {op.describe()}"
        )
    names = "".join(spare[: len(most)])
    spelled = [t.replace("...", names[len(most) - len(h) :]) for t, h in zip(terms, hidden, strict=True)]
    return spelled, result.replace("...", names)


def _hidden_dims(op: Operation, x: Tensor, term: str) -> list[int | None]:
    """Return the sizes of the dimensions of an operand's ellipsis."""
    head, dots, tail = term.partition("...")
    dims = x.shape.as_tuple()
    if not dots:
        return []
    if dims is None:
        raise UnimplementedError(
            f"an einsum with an ellipsis of unknown rank has no gradient: set the shapes of its inputs: {op.describe()}"
        )
    return list(dims[len(head) : len(dims) - len(tail)])


def _by_operand(op: Operation, x: Tensor, term: str, given: list[tuple[str, Tensor]]) -> Tensor:
    """Multiply and sum the given tensors to the shape of an operand."""
    there = {c for labels, _ in given for c in labels}
    kept = "".join(c for c in term if c in there)
    found = call("Einsum", [t for _, t in given], equation=",".join(labels for labels, _ in given) + f"->{kept}")
    if kept == term:
        return found
    dims = x.shape.as_tuple()
    if dims is None or None in dims:
        raise UnimplementedError(
            f"an einsum of unknown shapes has no gradient: set the shapes of its inputs: {op.describe()}"
        )
    shaped = [d if c in kept else 1 for c, d in zip(term, dims, strict=True)]
    return broadcast_to(reshape(found, shaped), shape(x))


# ------------------------------------------------------------------------------------------ spectra


def _count(x: Tensor, rank: int) -> Tensor:
    """Return the number of elements of a transform."""
    found: Tensor = math_ops.cast(math_ops.reduce_prod(shape(x)[-rank:]), x.dtype)
    return found


_FORWARD = {"FFT": ("IFFT", 1), "FFT2D": ("IFFT2D", 2), "FFT3D": ("IFFT3D", 3)}
_BACKWARD = {inverse: (name, rank) for name, (inverse, rank) in _FORWARD.items()}


@register_gradient(*_FORWARD)
def _fft(op: Operation, grad: Tensor) -> Any:
    inverse, rank = _FORWARD[op.type]
    return call(inverse, grad) * _count(grad, rank)


@register_gradient(*_BACKWARD)
def _ifft(op: Operation, grad: Tensor) -> Any:
    forward, rank = _BACKWARD[op.type]
    return call(forward, grad) * call("Reciprocal", _count(grad, rank))


@register_gradient("RFFT", "RFFT2D", "RFFT3D")
def _rfft(op: Operation, grad: Tensor) -> Any:
    """Scale the real inverse transform of the half spectrum; undo padding and truncation."""
    rank = {"RFFT": 1, "RFFT2D": 2, "RFFT3D": 3}[op.type]
    x, lengths = op.inputs
    have = shape(grad)
    nothing = constant(0, "int32")
    ends = concat([have[:-1], reshape(lengths[rank - 1] - have[-1], [1])], 0)
    whole = concat([grad, call("Fill", ends, constant(0, grad.dtype))], -1)
    real = math_ops.real(call("I" + op.type[1:], whole) * _count(whole, rank))
    size = shape(real)
    fitted = call("Slice", real, zeros_like(size), call("Minimum", size, shape(x)))
    missing = call("Maximum", shape(x) - shape(fitted), nothing)
    return call("Pad", fitted, call("Pack", [zeros_like(missing), missing], axis=1)), None


@register_gradient("IRFFT", "IRFFT2D")
def _irfft(op: Operation, grad: Tensor) -> Any:
    """Divide the transform by the number of elements; double the columns that represent two.

    These are all but the first and, for an even length, the last.
    """
    rank = 1 if op.type == "IRFFT" else 2
    length = op.inputs[1][rank - 1]
    half = length // 2 + 1
    is_odd = length % 2
    count = math_ops.cast(math_ops.reduce_prod(op.inputs[1]), grad.dtype)
    twos = call("Fill", reshape(half - 2 + is_odd, [1]), constant(2.0, grad.dtype))
    last = ones(reshape(1 - is_odd, [1]), grad.dtype)
    mask = concat([ones([1], grad.dtype), twos, last], 0)
    transformed = call(op.type[1:], grad, op.inputs[1], Tcomplex=op.inputs[0].dtype)
    found = transformed * math_ops.cast(mask / count, op.inputs[0].dtype)
    size = shape(op.inputs[0])
    fitted = call("Slice", found, zeros_like(size), call("Minimum", shape(found), size))
    missing = call("Maximum", size - shape(fitted), constant(0, "int32"))
    return call("Pad", fitted, call("Pack", [zeros_like(missing), missing], axis=1)), None

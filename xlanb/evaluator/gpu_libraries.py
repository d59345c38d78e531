"""custom-call: cuDNN convolutions and cuBLAS matrix products, which XLA:GPU's passes call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlanb.analysis import cublas_gemm, cublas_triangular_solve, cudnn_convolution
from xlanb.analysis.cublas_gemm import Gemm
from xlanb.analysis.cudnn_convolution import Activation
from xlanb.errors import EvaluationError
from xlanb.evaluator.bits import convert
from xlanb.evaluator.convolution import convolve
from xlanb.evaluator.dot import dot_general
from xlanb.evaluator.factorizations import substitute
from xlanb.evaluator.lapack import check_operands
from xlanb.evaluator.values import Array, Value, describe, narrow, widen
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import Shape, TupleShape


def _with_workspace(shape: Shape, made: Array) -> Value:
    """A result and the library's workspace memory, whose contents are undefined: zeros."""
    if not isinstance(shape, TupleShape):
        return made
    return (made, *(np.zeros(s.as_array().dimensions, s.as_array().dtype) for s in shape.shapes[1:]))


def _check_arrays(i: HloInstruction, operands: Sequence[Any]) -> None:
    """Raise if operands are tuples or tokens: the verifier does not check custom calls."""
    if not all(isinstance(x, np.ndarray) for x in operands):
        raise EvaluationError(f"{i.name} expected arrays, got {', '.join(map(describe, operands))}")


def _convolution(i: HloInstruction, *operands: Array) -> Value:
    _check_arrays(i, operands)
    numbers = i.attributes.get("dim_labels")
    ranks = {cudnn_convolution.result_shape(i).rank, *(a.ndim for a in operands[:2])}
    if numbers is None or len(operands) < 2 or ranks != {2 + len(numbers.input_spatial)}:
        raise EvaluationError(f"{i.name}: a convolution needs dim_labels, and two arrays and a result of the same rank")
    try:
        return _convolved(i, *operands)
    except ValueError as error:  # the verifier does not check a custom call's shapes
        raise EvaluationError(f"{i.name}: its arrays do not fit its window: {error}") from None


def _convolved(i: HloInstruction, lhs: Array, rhs: Array, *rest: Array) -> Value:
    c = cudnn_convolution.as_convolution(i)
    dtype = cudnn_convolution.result_shape(i).dtype
    if c.filter_groups > 1:
        rhs = _regrouped(rhs, c.numbers.kernel_input_feature, c.numbers.kernel_output_feature, c.filter_groups)
    made = convolve(lhs, rhs, c.window, c.numbers, dtype, feature_groups=c.feature_groups, batch_groups=c.batch_groups)
    if i.get("custom_call_target") == cudnn_convolution.FUSED:
        made = _activated(i, made, rest, c.numbers.output_feature)
    return _with_workspace(i.shape, made)


def _regrouped(x: Array, outer: int, inner: int, groups: int) -> Array:
    """Split dimension `outer` into groups, and move the groups before dimension `inner`."""
    moved = np.moveaxis(x, (outer, inner), (0, 1))
    parts = moved.reshape(groups, moved.shape[0] // groups, *moved.shape[1:])
    joined = np.moveaxis(parts, 0, 1)
    joined = joined.reshape(joined.shape[0], groups * joined.shape[2], *joined.shape[3:])
    return np.moveaxis(joined, (0, 1), (outer, inner))


def _activated(i: HloInstruction, made: Array, rest: tuple[Array, ...], feature: int) -> Array:
    """The scaled products plus bias and side input, after the activation."""
    a = cudnn_convolution.activation(i)
    if len(rest) not in (1, 2):
        raise EvaluationError(
            f"a fused convolution takes a bias and an optional side input, got {len(rest)} more operands"
        )
    bias, *side = rest
    total = widen(made) * a.scale + np.expand_dims(widen(bias), tuple(d for d in range(made.ndim) if d != feature))
    if side:
        total = total + widen(side[0]) * a.side_scale
    return convert(_ACTIVATIONS[_mode(a)](total, a.alpha).astype(total.dtype), made.dtype)


def _mode(a: Activation) -> str:
    if a.mode not in _ACTIVATIONS:
        raise EvaluationError(f"unknown activation {a.mode} of a fused convolution")
    return a.mode


_ACTIVATIONS: dict[str, Callable[[Any, float], Any]] = {
    "kNone": lambda x, _: x,
    "kRelu": lambda x, _: np.maximum(x, 0),
    "kRelu6": lambda x, _: np.clip(x, 0, 6),
    "kElu": lambda x, _: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "kLeakyRelu": lambda x, alpha: np.where(x > 0, x, x * alpha),
}


def _gemm(i: HloInstruction, *operands: Array) -> Value:
    g = cublas_gemm.gemm_of(i) if cublas_gemm.is_gemm(i) else None
    if g is None:
        raise EvaluationError(f"{i.name}: its backend config does not describe a known matrix product")
    wanted = 2 + bool(g.beta) + g.epilogue.startswith("BIAS")
    if len(operands) != wanted:
        raise EvaluationError(f"{i.name} takes {wanted} arrays, not {len(operands)}")
    _check_arrays(i, operands)
    try:
        return _multiplied(i, g, *operands)
    except (ValueError, IndexError) as error:  # the verifier does not check a custom call's shapes
        raise EvaluationError(f"{i.name}: its arrays do not fit its dimension numbers: {error}") from None


def _multiplied(i: HloInstruction, g: Gemm, lhs: Array, rhs: Array, *rest: Array) -> Value:
    dtype = cublas_gemm.result_shape(i).dtype
    total: Any = widen(dot_general(lhs, rhs, g.batch, g.contracting, dtype))
    more = list(rest)
    total = total * np.asarray(g.alpha if total.dtype.kind == "c" else g.alpha.real, total.dtype)
    if g.beta:
        total = total + widen(more.pop(0)) * np.asarray(g.beta, total.dtype)
    if g.epilogue.startswith("BIAS"):
        total = total + widen(more.pop(0))
    if g.epilogue.endswith("GELU"):
        total = 0.5 * total * (1 + np.tanh(0.7978845608028654 * (total + 0.044715 * total**3)))
    elif g.epilogue.endswith("RELU"):
        total = np.maximum(total, 0)
    return _with_workspace(i.shape, convert(np.asarray(total), dtype))


def _triangular_solve(i: HloInstruction, *operands: Array) -> Value:
    """x with op(a) x = b, or x op(a) = b, by the options in the backend config."""
    o = cublas_triangular_solve.options_of(i)
    check_operands(cublas_triangular_solve.TARGET, "nn nk" if o.left_side else "nn kn", operands)
    a, b = operands
    if a.dtype != b.dtype or widen(a).dtype.kind not in "fc":
        raise EvaluationError(
            f"{i.name} expected floating-point or complex operands of one type, got {a.dtype} and {b.dtype}"
        )
    solved = substitute(
        widen(a),
        widen(b),
        lower=o.lower,
        left=o.left_side,
        unit=o.unit_diagonal,
        transpose={"TRANSPOSE": "T", "ADJOINT": "C"}.get(o.transpose_a, "N"),
    )
    return _with_workspace(i.shape, narrow(solved, b.dtype))


TARGETS: dict[str, Callable[..., Value]] = {
    **dict.fromkeys(cudnn_convolution.TARGETS, _convolution),
    **dict.fromkeys(cublas_gemm.TARGETS, _gemm),
    cublas_triangular_solve.TARGET: _triangular_solve,
}
"""Functions by custom-call target."""

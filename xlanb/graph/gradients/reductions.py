"""Gradients of reductions, running sums, products of matrices and segments."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    broadcast_to,
    concat,
    gather,
    ones,
    ones_like,
    rank,
    reshape,
    shape,
    size,
    tile,
    transpose,
    where_v2,
    zeros_like,
)
from xlanb.graph.builders.math_ops import cast, conj, divide, matmul, reduce_sum, truediv
from xlanb.graph.constant_value import constant_value
from xlanb.graph.convert import constant
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor


def sum_gradient(op: Operation, grad: Tensor) -> Tensor:
    """Broadcast the gradient to the input: Reshape and Tile if all is static, else BroadcastTo."""
    x = op.inputs[0]
    dims, axes = x.shape.as_tuple(), constant_value(op.inputs[1])
    if dims is not None and axes is not None:
        if np.array_equal(axes, np.arange(len(dims))):
            grad = reshape(grad, [1] * len(dims))
            target = constant(list(dims), int32) if None not in dims else shape(x)
            return tile(grad, target)
        if None not in dims:
            kept, repeats = _tiling([int(d) for d in dims if d is not None], [int(a) for a in axes.reshape(-1)])
            return tile(reshape(grad, kept), repeats)
    x_shape = shape(x)
    if not op.get_attr("keep_dims"):
        with get_default_graph().colocate_with(x_shape):
            kept = math_ops.reduced_shape(x_shape, op.inputs[1])
        grad = reshape(grad, kept)
    return broadcast_to(grad, x_shape)


_SPREAD = "__reduced_shapes"


def _tiling(dims: list[int], axes: list[int]) -> tuple[list[int], list[int]]:
    """Return the shape with 1 for the summed dimensions, and the repeat counts.

    TensorFlow computes the counts by unused nodes, once for each pair in a graph; they are created
    here too, so that names agree.
    """
    found = get_default_graph().get_collection_ref(_SPREAD)
    known: dict[Any, Any] = found[0] if found else {}
    if not found:
        found.append(known)
    key = tuple(dims), tuple(axes)
    if key not in known:
        kept = math_ops.reduced_shape(np.asarray(dims, np.int32), np.asarray(axes, np.int32))
        _ = np.asarray(dims, np.int32) // call("Maximum", kept, 1)
        known[key] = [int(k) for k in kept], [d // max(int(k), 1) for d, k in zip(dims, kept, strict=True)]
    result: tuple[list[int], list[int]] = known[key]
    return result


@register_gradient("Sum")
def _sum(op: Operation, grad: Tensor) -> Any:
    return sum_gradient(op, grad), None


@register_gradient("Mean")
def _mean(op: Operation, grad: Tensor) -> Any:
    total = sum_gradient(op, grad)
    x_shape, y_shape = op.inputs[0].shape, op.outputs[0].shape
    if x_shape.is_fully_defined() and y_shape.is_fully_defined():
        factor = constant(math.prod(map(int, x_shape)) // max(math.prod(map(int, y_shape)), 1), total.dtype)
    else:
        dims = shape(op.inputs[0])
        count = size(dims)
        axes = (cast(op.inputs[1], count.dtype) + count) % count
        factor = math_ops.reduce_prod(gather(dims, axes))
    return truediv(total, cast(factor, total.dtype)), None


@register_gradient("Max", "Min")
def _extremum(op: Operation, grad: Tensor) -> Any:
    """Shared evenly between the elements that are the extremum."""
    x_shape = shape(op.inputs[0])
    y = op.outputs[0]
    if op.get_attr("keep_dims"):
        kept: Any = shape(y)
    else:
        kept = math_ops.reduced_shape(x_shape, op.inputs[1])
        y, grad = reshape(y, kept), reshape(grad, kept)
    chosen = cast(call("Equal", y, op.inputs[0]), grad.dtype)
    count = reshape(reduce_sum(chosen, op.inputs[1]), kept)
    return divide(chosen, count) * grad, None


@register_gradient("Prod")
def _prod(op: Operation, grad: Tensor) -> Any:
    """The product of all others: running products from both ends, so that a zero does no harm."""
    x = op.inputs[0]
    x_shape = shape(x)
    indices = reshape(op.inputs[1], [-1])
    if not op.get_attr("keep_dims"):
        grad = reshape(grad, math_ops.reduced_shape(x_shape, op.inputs[1]))
    grad = broadcast_to(grad, x_shape)
    with get_default_graph().device("/cpu:0"):
        count = rank(x)
        reduced = (cast(indices, count.dtype) + count) % count
        other = call("ListDiff", math_ops.range(0, count), reduced, out_idx=reduced.dtype)
        order = concat([reduced, other], 0)
        counts = [math_ops.reduce_prod(gather(x_shape, part)) for part in (reduced, other)]
    moved = transpose(x, order)
    moved_shape = shape(moved)
    flat = reshape(moved, counts)
    left = math_ops.cumprod(flat, axis=0, exclusive=True)
    right = math_ops.cumprod(flat, axis=0, exclusive=True, reverse=True)
    others = reshape(conj(left) * conj(right), moved_shape)
    return reshape(grad * transpose(others, call("InvertPermutation", order)), x_shape), None


@register_gradient("Cumsum")
def _cumsum(op: Operation, grad: Tensor) -> Any:
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    return math_ops.cumsum(grad, op.inputs[1], exclusive=exclusive, reverse=not reverse), None


@register_gradient("Cumprod")
def _cumprod(op: Operation, grad: Tensor) -> Any:
    x, axis = op.inputs
    exclusive, reverse = op.get_attr("exclusive"), op.get_attr("reverse")
    product = math_ops.cumprod(x, axis, exclusive=exclusive, reverse=reverse)
    out = math_ops.cumsum(product * grad, axis, exclusive=exclusive, reverse=not reverse)
    return math_ops.div_no_nan(out, x), None


# ----------------------------------------------------------------------------------------- products


@register_gradient("MatMul")
def _matmul(op: Operation, grad: Tensor) -> Any:
    """C = op(A) op(B): dA and dB are products of grad and the other matrix, transposed as
    needed.
    """
    t_a, t_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    a, b = conj(op.inputs[0]), conj(op.inputs[1])
    if t_a:
        grad_a = call("MatMul", b, grad, transpose_a=t_b, transpose_b=True, grad_a=True)
    else:
        grad_a = call("MatMul", grad, b, transpose_b=not t_b, grad_a=True)
    if t_b:
        return grad_a, call("MatMul", grad, a, transpose_a=True, transpose_b=t_a, grad_b=True)
    return grad_a, call("MatMul", a, grad, transpose_a=not t_a, grad_b=True)


@register_gradient("SparseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> Any:
    """As for MatMul, in the types of the operands, which may be bfloat16; products are float32."""
    t_a, t_b = op.get_attr("transpose_a"), op.get_attr("transpose_b")
    a, b = (cast(t, grad.dtype) for t in op.inputs)
    by_a = matmul(b, grad, transpose_a=t_b, transpose_b=True) if t_a else matmul(grad, b, transpose_b=not t_b)
    by_b = matmul(grad, a, transpose_a=True, transpose_b=t_a) if t_b else matmul(a, grad, transpose_a=not t_a)
    return cast(by_a, op.inputs[0].dtype), cast(by_b, op.inputs[1].dtype)


def _batch_products(op: Operation, grad: Tensor, *, marked: bool = False) -> tuple[Tensor, Tensor]:
    """Like MatMul's, with adjoints.

    `marked`: TensorFlow sets grad_a and grad_b on the two products.
    """
    x, y = op.inputs
    adj_x, adj_y = op.get_attr("adj_x"), op.get_attr("adj_y")
    if adj_x:
        grad_x = matmul(y, grad, adjoint_a=adj_y, adjoint_b=True, grad_a=marked)
    else:
        grad_x = matmul(grad, y, adjoint_b=not adj_y, grad_a=marked)
    if adj_y:
        return grad_x, matmul(grad, x, adjoint_a=True, adjoint_b=adj_x, grad_b=marked)
    return grad_x, matmul(x, grad, adjoint_a=not adj_x, grad_b=marked)


@register_gradient("BatchMatMul")
def _batch_matmul(op: Operation, grad: Tensor) -> Any:
    return _batch_products(op, grad)


@register_gradient("BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul_v2(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs
    grad_x, grad_y = _batch_products(op, grad, marked=True)
    batched = any(t.shape.rank is None or t.shape.rank > 2 for t in (x, y))
    same = x.shape[:-2].is_fully_defined() and y.shape[:-2].is_fully_defined() and x.shape[:-2] == y.shape[:-2]
    if not batched or same:
        return grad_x, grad_y
    x_shape, y_shape = shape(x), shape(y)
    x_axes, y_axes = call_n("BroadcastGradientArgs", x_shape[:-2], y_shape[:-2])
    grad_x = reshape(reduce_sum(grad_x, x_axes), x_shape)
    return grad_x, reshape(reduce_sum(grad_y, y_axes), y_shape)


@register_gradient("Cross")
def _cross(op: Operation, grad: Tensor) -> Any:
    u, v = op.inputs
    return call("Cross", v, grad), call("Cross", grad, u)


@register_gradient("SegmentSum")
def _segment_sum(op: Operation, grad: Tensor) -> Any:
    return gather(grad, op.inputs[1]), None


@register_gradient("UnsortedSegmentSum")
def _unsorted_segment_sum(op: Operation, grad: Tensor) -> Any:
    """The gradient of each row's segment; 0 for rows of negative segment, which were left out."""
    ids = op.inputs[1]
    clipped = call("Maximum", ids, zeros_like(ids))
    gathered = gather(grad, clipped)
    positive = call("GreaterEqual", ids, 0)
    positive_shape = shape(positive)
    padding = ones([rank(gathered) - rank(positive)], positive_shape.dtype)
    mask = reshape(positive, concat([positive_shape, padding], 0)) & ones_like(gathered, "bool")
    return where_v2(mask, gathered, zeros_like(gathered)), None, None

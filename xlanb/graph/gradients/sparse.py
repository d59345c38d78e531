"""Gradients of ops on sparse tensors (python/ops/sparse_grad.py)."""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.array_ops import concat, expand_dims, fill, gather, ones, reshape, shape, where_v2, zeros_like
from xlanb.graph.builders.math_ops import cast, reduce_sum
from xlanb.graph.builders.math_ops import range as range_of
from xlanb.graph.convert import constant
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor


@register_gradient("SparseTensorDenseMatMul")
def _sparse_matmul(op: Operation, grad: Tensor) -> list[Any]:
    """Multiply gradient rows by matching dense rows, and the sparse adjoint by the gradient.

    The first is the gradient by the sparse values, the second by the dense matrix.
    """
    indices, values, shape, dense = op.inputs
    adjoint_a, adjoint_b = bool(op.attrs.get("adjoint_a")), bool(op.attrs.get("adjoint_b"))
    b_grad = call("SparseTensorDenseMatMul", indices, values, shape, grad, adjoint_a=not adjoint_a)
    if adjoint_b:
        b_grad = call("Transpose", b_grad, [1, 0])
    rows, columns = indices[:, 0], indices[:, 1]
    of_grad = call("GatherV2", grad, columns if adjoint_a else rows, 0)
    source = call("Transpose", dense, [1, 0]) if adjoint_b else dense
    of_dense = call("GatherV2", source, rows if adjoint_a else columns, 0)
    return [None, call("Sum", of_grad * of_dense, 1), None, b_grad]


@register_gradient("SparseToDense")
def _sparse_to_dense(op: Operation, grad: Tensor) -> list[Any]:
    """Gather the gradient at the indices; the default value's gradient is the sum of the rest."""
    indices, size, values, _ = op.inputs
    at_places = call("GatherNd", grad, indices) if indices.shape.rank == 2 else call("GatherV2", grad, indices, 0)
    elsewhere = call("Sum", grad, call("Range", 0, call("Rank", grad), 1)) - call(
        "Sum", at_places, call("Range", 0, call("Rank", at_places), 1)
    )
    del size, values
    return [None, None, at_places, elsewhere]


# ----------------------------------------------------------------------------------------- segments


@register_gradient("SparseSegmentSum", "SparseSegmentSumWithNumSegments")
def _segment_sum(op: Operation, grad: Tensor) -> list[Any]:
    return _to_rows(op, gather(grad, op.inputs[2]))


@register_gradient("SparseSegmentMean", "SparseSegmentMeanWithNumSegments")
def _segment_mean(op: Operation, grad: Tensor) -> list[Any]:
    return _to_rows(op, gather(grad / _counts(op, grad), op.inputs[2]))


@register_gradient("SparseSegmentSqrtN", "SparseSegmentSqrtNWithNumSegments")
def _segment_sqrt_n(op: Operation, grad: Tensor) -> list[Any]:
    return _to_rows(op, gather(grad / call("Sqrt", _counts(op, grad)), op.inputs[2]))


def _counts(op: Operation, grad: Tensor) -> Tensor:
    """Return each segment's number of rows, at least 1, to divide the gradient by."""
    ids = op.inputs[2]
    found = call("UnsortedSegmentSum", ones(shape(ids), grad.dtype), ids, shape(grad)[0])
    padding = fill(expand_dims(call("Rank", grad) - 1, 0), 1)
    return reshape(call("Maximum", found, constant(1, grad.dtype)), concat([shape(found), padding], 0))


def _to_rows(op: Operation, by_row: Tensor) -> list[Any]:
    data, indices = op.inputs[:2]
    by_data = call("UnsortedSegmentSum", by_row, indices, shape(data)[0])
    return [by_data, *[None] * (len(op.inputs) - 1)]


# --------------------------------------------------------------------------- sparse and ragged rows

not_differentiable("RaggedRange")


@register_gradient("SparseReorder")
def _reorder(op: Operation, _: Any, grad: Tensor) -> list[Any]:
    """Gather each value's gradient from its destination, found by sorting numbers the same way."""
    indices, values, size = op.inputs
    count = shape(values)[0]
    places = call_n("SparseReorder", indices, range_of(count), size)[1]
    return [None, call("UnsortedSegmentSum", grad, places, count), None]


@register_gradient("SparseFillEmptyRows")
def _fill_empty_rows(op: Operation, _: Any, grad: Tensor, *__: Any) -> list[Any]:
    """Gather the gradient of the values; the default's gradient is the sum of the rest."""
    by_values = gather(grad, op.outputs[3])
    return [None, by_values, None, reduce_sum(grad) - reduce_sum(by_values)]


@register_gradient("RaggedTensorToSparse")
def _ragged_to_sparse(op: Operation, _: Any, grad: Tensor, __: Any) -> list[Any]:
    values = op.inputs[-1]
    return [*[None] * (len(op.inputs) - 1), reshape(grad, shape(values))]


@register_gradient("RaggedTensorToTensor")
def _ragged_to_tensor(op: Operation, grad: Tensor) -> list[Any]:
    """Differentiate by values and by the default value.

    By values: gather from the rows' destinations. By the default: sum over positions without a row.
    """
    wanted, values, default, *partitions = op.inputs
    inner = shape(values)[1:]
    depth, rows = len(values.shape) - 1, shape(values)[0]
    outer = shape(grad)[:-depth] if depth else shape(grad)
    numbers = call(
        "RaggedTensorToTensor", cast(outer, wanted.dtype), range_of(rows), constant(-1), partitions,
        row_partition_types=op.get_attr("row_partition_types"),
    )  # fmt: skip
    by_row = reshape(grad, concat([[-1], inner], 0))
    flat = reshape(numbers, [-1])
    by_values = call("UnsortedSegmentSum", by_row, flat, rows)
    is_default = reshape(call("Less", flat, 0), concat([[-1], fill([depth], 1)], 0))
    left = reduce_sum(where_v2(is_default, by_row, zeros_like(by_row)), 0)
    axes = call("BroadcastGradientArgs", shape(default), inner)
    by_default = reshape(reduce_sum(left, axes), shape(default))
    return [None, by_values, by_default, *[None] * len(partitions)]

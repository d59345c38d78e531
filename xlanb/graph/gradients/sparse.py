"""Gradients of ops on sparse tensors (python/ops/sparse_grad.py)."""

from __future__ import annotations

from typing import Any

from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call
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

"""Gradients of reading variables, and of ops that no gradient flows through."""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.array_ops import concat, expand_dims, reshape, size, squeeze
from xlanb.graph.builders.indexed_slices import IndexedSlices
from xlanb.graph.convert import constant
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation
from xlanb.graph.shapes import handle_shape
from xlanb.graph.tensor_shape import TensorShape

not_differentiable(
    "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "VarIsInitializedOp", "VariableShape",
    "VarHandleOp", "VariableV2", "Variable", "IsVariableInitialized", "ScatterUpdate", "ScatterAdd", "ScatterSub",
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "Multinomial",
    "StatelessRandomUniform", "StatelessRandomNormal", "StatelessTruncatedNormal", "StatelessRandomUniformInt",
    "NoOp", "Assert", "Print", "InTopK", "InTopKV2", "HistogramSummary", "ScalarSummary", "MergeSummary",
)  # fmt: skip


@register_gradient("ReadVariableOp")
def _read_variable(_: Operation, grad: Any) -> Any:
    return grad


@register_gradient("ResourceGather")
def _resource_gather(op: Operation, grad: Any) -> Any:
    """These rows, at these indices, of a tensor of the variable's shape."""
    handle, indices = op.inputs
    known = TensorShape(handle_shape(op))
    params_shape = constant(known, name="Const") if known.is_fully_defined() else call("VariableShape", handle)
    count = expand_dims(size(indices), 0)
    values_shape = concat([count, params_shape[1:]], 0)
    return IndexedSlices(reshape(grad, values_shape), reshape(indices, count), params_shape), None


@register_gradient("ResourceGatherNd")
def _resource_gather_nd(op: Operation, grad: Any) -> Any:
    """Return IndexedSlices if an index has one component, else a tensor of the variable's shape."""
    handle, indices = op.inputs
    params_shape = call("VariableShape", handle, out_type=indices.dtype)
    if (indices.shape.as_tuple() or ())[-1:] == (1,):
        return IndexedSlices(grad, squeeze(indices, axis=[-1]), params_shape), None
    return call("ScatterNd", indices, grad, params_shape), None

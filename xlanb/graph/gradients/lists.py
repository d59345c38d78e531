"""Gradients of tensor lists (python/ops/list_ops.py): lists of the elements' gradients."""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.array_ops import shape, zeros_like
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor

not_differentiable("EmptyTensorList", "TensorListReserve", "TensorListLength", "TensorListElementShape")


def _kind(op: Operation) -> dict[str, Any]:
    return {"element_dtype": op.get_attr("element_dtype")}


@register_gradient("TensorListPushBack")
def _push(op: Operation, grad: Tensor) -> Any:
    return call_n("TensorListPopBack", grad, shape(op.inputs[1]), **_kind(op))


@register_gradient("TensorListPopBack")
def _pop(_: Operation, rest: Tensor, element: Tensor) -> Any:
    return call("TensorListPushBack", rest, element), None


@register_gradient("TensorListFromTensor")
def _from_tensor(op: Operation, grad: Tensor) -> Any:
    return call("TensorListStack", grad, shape(op.inputs[0])[1:], **_kind(op)), None


@register_gradient("TensorListStack")
def _stack(op: Operation, grad: Tensor) -> Any:
    return call("TensorListFromTensor", grad, shape(grad)[1:]), None


@register_gradient("TensorListGetItem")
def _get(op: Operation, grad: Tensor) -> Any:
    count = call("TensorListLength", op.inputs[0])
    empty = call("TensorListReserve", shape(grad), count, **_kind(op))
    return call("TensorListSetItem", empty, op.inputs[1], grad), None, None


@register_gradient("TensorListSetItem")
def _set(op: Operation, grad: Tensor) -> Any:
    index, item = op.inputs[1:3]
    rest = call("TensorListSetItem", grad, index, zeros_like(item))
    if op.attrs.get("resize_if_index_out_of_bounds"):
        rest = call("TensorListResize", rest, call("TensorListLength", op.inputs[0]))
    return rest, None, call("TensorListGetItem", grad, index, shape(item), **_kind(op))


@register_gradient("TensorListResize")
def _resize(op: Operation, grad: Tensor) -> Any:
    return call("TensorListResize", grad, call("TensorListLength", op.inputs[0])), None


@register_gradient("TensorListGather")
def _gather(op: Operation, grad: Tensor) -> Any:
    count = call("TensorListLength", op.inputs[0])
    return call("TensorListScatterV2", grad, op.inputs[1], shape(grad)[1:], count, **_kind(op)), None, None


@register_gradient("TensorListScatter", "TensorListScatterV2")
def _scatter(op: Operation, grad: Tensor) -> Any:
    items, indices = op.inputs[:2]
    by_items = call("TensorListGather", grad, indices, shape(items)[1:], **_kind(op))
    return [by_items, *[None] * (len(op.inputs) - 1)]


@register_gradient("TensorListScatterIntoExistingList")
def _scatter_into(op: Operation, grad: Tensor) -> Any:
    _, items, indices = op.inputs
    rest = call("TensorListScatterIntoExistingList", grad, zeros_like(items), indices)
    return rest, call("TensorListGather", grad, indices, shape(items)[1:], **_kind(op)), None


@register_gradient("TensorListConcat", "TensorListConcatV2")
def _concat(op: Operation, grad: Tensor, _: Tensor) -> Any:
    by_list = call("TensorListSplit", grad, shape(grad)[1:], op.outputs[1])
    return [by_list, *[None] * (len(op.inputs) - 1)]


@register_gradient("TensorListSplit")
def _split(op: Operation, grad: Tensor) -> Any:
    tensor, _, lengths = op.inputs
    joined = call_n("TensorListConcatV2", grad, shape(tensor)[1:], lengths, **_kind(op))
    return joined[0], None, None

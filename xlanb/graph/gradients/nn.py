"""Gradients of neural-network ops (the nodes of TensorFlow's python/ops/nn_grad.py)."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import (
    concat,
    expand_dims,
    gather,
    ones_like,
    rank,
    reshape,
    shape,
    shape_n,
    size,
    squeeze,
    stack,
    stop_gradient,
    tile,
    transpose,
    where,
    zeros,
    zeros_like,
)
from xlanb.graph.constant_value import constant_value
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import int32, int64
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Operation, Tensor

_CONV2D = ("strides", "padding", "explicit_paddings", "use_cudnn_on_gpu", "data_format", "dilations")
_DEPTHWISE = ("strides", "padding", "explicit_paddings", "data_format", "dilations")
_CONV3D = ("strides", "padding", "data_format", "dilations")
_POOL = ("ksize", "strides", "padding", "data_format")


def _attrs(op: Operation, names: tuple[str, ...]) -> dict[str, Any]:
    return {n: op.get_attr(n) for n in names}


# -------------------------------------------------------------------------------------- activations


@register_gradient("Relu")
def _relu(op: Operation, grad: Tensor) -> Any:
    return call("ReluGrad", grad, op.outputs[0])


@register_gradient("ReluGrad")
def _relu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return call("ReluGrad", grad, x), zeros_like(x)


@register_gradient("Relu6")
def _relu6(op: Operation, grad: Tensor) -> Any:
    return call("Relu6Grad", grad, op.outputs[0])


@register_gradient("Relu6Grad")
def _relu6_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return call("Relu6Grad", grad, x), zeros_like(x)


@register_gradient("LeakyRelu")
def _leaky_relu(op: Operation, grad: Tensor) -> Any:
    return call("LeakyReluGrad", grad, op.inputs[0], alpha=op.get_attr("alpha"))


@register_gradient("LeakyReluGrad")
def _leaky_relu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return call("LeakyReluGrad", grad, x, alpha=op.get_attr("alpha")), zeros_like(x)


@register_gradient("Elu")
def _elu(op: Operation, grad: Tensor) -> Any:
    return call("EluGrad", grad, op.outputs[0])


@register_gradient("EluGrad")
def _elu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return call("EluGrad", grad, x), where(x < 0, grad * op.inputs[0], zeros_like(x))


@register_gradient("Selu")
def _selu(op: Operation, grad: Tensor) -> Any:
    return call("SeluGrad", grad, op.outputs[0])


@register_gradient("SeluGrad")
def _selu_grad(op: Operation, grad: Tensor) -> Any:
    x = op.inputs[1]
    return call("SeluGrad", grad, x), where(x < 0.0, grad * op.inputs[0], zeros_like(x))


@register_gradient("Softplus")
def _softplus(op: Operation, grad: Tensor) -> Any:
    return grad * math_ops.sigmoid(op.inputs[0])


@register_gradient("SoftplusGrad")
def _softplus_grad(op: Operation, grad: Tensor) -> Any:
    dy, x = op.inputs
    with get_default_graph().control_dependencies([grad]):
        by_dy = call("SoftplusGrad", grad, x)
        return by_dy, grad * dy / (call("Exp", -x) + 2.0 + call("Exp", x))


@register_gradient("Softsign")
def _softsign(op: Operation, grad: Tensor) -> Any:
    return call("SoftsignGrad", grad, op.inputs[0])


# ------------------------------------------------------------------------------------------ softmax


@register_gradient("Softmax")
def _softmax(op: Operation, grad: Tensor) -> Any:
    """(grad - sum(grad * softmax)) * softmax."""
    softmax = op.outputs[0]
    total = math_ops.reduce_sum(grad * softmax, -1, keepdims=True)
    return (grad - total) * softmax


@register_gradient("LogSoftmax")
def _log_softmax(op: Operation, grad: Tensor) -> Any:
    softmax = call("Exp", op.outputs[0])
    return grad - math_ops.reduce_sum(grad, -1, keepdims=True) * softmax


def _times_rows(vector: Tensor, matrix: Tensor) -> Tensor:
    """Each row of the matrix times the vector's element."""
    result: Tensor = expand_dims(vector, -1) * matrix
    return result


def _is_zeros(tensor: Tensor) -> bool:
    """Whether the tensor is zeros, which mean no gradient."""
    value = constant_value(tensor)
    return tensor.op.type == "ZerosLike" or (value is not None and not np.any(value))


def _by_logits(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Tensor:
    """Differentiate by the logits: the loss's gradient times output 1.

    If output 1 has a gradient of its own, add the softmax's derivative.
    """
    grad = _times_rows(grad_loss, op.outputs[1])
    if not _is_zeros(grad_grad):
        softmax = call("Softmax", op.inputs[0])
        product = math_ops.matmul(expand_dims(grad_grad, 1), expand_dims(softmax, 2))
        grad += (grad_grad - squeeze(product, axis=[1])) * softmax
    return grad


@register_gradient("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    grad = _by_logits(op, grad_loss, grad_grad)
    return grad, _times_rows(grad_loss, -call("LogSoftmax", op.inputs[0]))


@register_gradient("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(op: Operation, grad_loss: Tensor, grad_grad: Tensor) -> Any:
    return _by_logits(op, grad_loss, grad_grad), None


@register_gradient("L2Loss")
def _l2_loss(op: Operation, grad: Tensor) -> Any:
    return op.inputs[0] * grad


# --------------------------------------------------------------------------------------------- bias


@register_gradient("BiasAdd")
def _bias_add(op: Operation, grad: Tensor) -> Any:
    return grad, call("BiasAddGrad", grad, data_format=op.get_attr("data_format"))


@register_gradient("BiasAddV1")
def _bias_add_v1(_: Operation, grad: Tensor) -> Any:
    return grad, math_ops.reduce_sum(grad, math_ops.range(rank(grad) - 1))


@register_gradient("BiasAddGrad")
def _bias_add_grad(op: Operation, grad: Tensor) -> Any:
    dims, bias = shape(op.inputs[0]), shape(grad)
    if op.get_attr("data_format") == "NCHW":
        expanded = concat([ones_like(dims[:1]), bias, ones_like(dims[2:])], 0)
        repeats = concat([dims[:1], [1], dims[2:]], 0)
    else:
        expanded = concat([ones_like(dims[:-1]), bias], 0)
        repeats = concat([dims[:-1], [1]], 0)
    return tile(reshape(grad, expanded), repeats)


# ------------------------------------------------------------------------------------- convolutions


@register_gradient("Conv2D")
def _conv2d(op: Operation, grad: Tensor) -> Any:
    x, kernel = op.inputs
    x_shape, kernel_shape = shape_n([x, kernel])
    attrs = _attrs(op, _CONV2D)
    by_x = call("Conv2DBackpropInput", x_shape, kernel, grad, **attrs)
    return by_x, call("Conv2DBackpropFilter", x, kernel_shape, grad, **attrs)


@register_gradient("DepthwiseConv2dNative")
def _depthwise_conv2d(op: Operation, grad: Tensor) -> Any:
    x, kernel = op.inputs
    attrs = _attrs(op, _DEPTHWISE)
    by_x = call("DepthwiseConv2dNativeBackpropInput", shape(x), kernel, grad, **attrs)
    return by_x, call("DepthwiseConv2dNativeBackpropFilter", x, shape(kernel), grad, **attrs)


@register_gradient("Conv3D")
def _conv3d(op: Operation, grad: Tensor) -> Any:
    x, kernel = op.inputs
    x_shape, kernel_shape = shape_n([x, kernel])
    attrs = _attrs(op, _CONV3D)
    by_x = call("Conv3DBackpropInputV2", x_shape, kernel, grad, **attrs)
    return by_x, call("Conv3DBackpropFilterV2", x, kernel_shape, grad, **attrs)


def _register_backprops(forward: str, by_input: str, by_filter: str, names: tuple[str, ...]) -> None:
    """The gradients of a convolution's own gradients, which are convolutions too."""

    @register_gradient(by_input)
    def _backprop_input(op: Operation, grad: Tensor) -> Any:
        _, kernel, back = op.inputs
        attrs = _attrs(op, names)
        by_kernel = call(by_filter, grad, shape(kernel), back, **attrs)
        return None, by_kernel, call(forward, grad, kernel, **attrs)

    @register_gradient(by_filter)
    def _backprop_filter(op: Operation, grad: Tensor) -> Any:
        x, _, back = op.inputs
        attrs = _attrs(op, names)
        by_x = call(by_input, shape(x), grad, back, **attrs)
        return by_x, None, call(forward, x, grad, **attrs)


_register_backprops("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", _CONV2D)
_register_backprops("Conv3D", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", _CONV3D)
_register_backprops(
    "DepthwiseConv2dNative", "DepthwiseConv2dNativeBackpropInput", "DepthwiseConv2dNativeBackpropFilter", _DEPTHWISE
)


# ------------------------------------------------------------------------------------------ pooling


@register_gradient("MaxPool")
def _max_pool(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, (*_POOL, "explicit_paddings"))
    return call("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, **attrs)


@register_gradient("MaxPoolGrad")
def _max_pool_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[:2]
    nothing = zeros_like(x), zeros_like(y)
    return (*nothing, call("MaxPoolGradGrad", x, y, grad, **_attrs(op, _POOL)))


@register_gradient("AvgPool")
def _avg_pool(op: Operation, grad: Tensor) -> Any:
    return call("AvgPoolGrad", shape(op.inputs[0]), grad, **_attrs(op, _POOL))


@register_gradient("AvgPoolGrad")
def _avg_pool_grad(op: Operation, grad: Tensor) -> Any:
    stopped = stop_gradient(op.inputs[0])
    return stopped, call("AvgPool", grad, **_attrs(op, _POOL))


@register_gradient("MaxPool3D")
def _max_pool_3d(op: Operation, grad: Tensor) -> Any:
    return call("MaxPool3DGrad", op.inputs[0], op.outputs[0], grad, **_attrs(op, _POOL))


@register_gradient("AvgPool3D")
def _avg_pool_3d(op: Operation, grad: Tensor) -> Any:
    return call("AvgPool3DGrad", shape(op.inputs[0]), grad, **_attrs(op, _POOL))


@register_gradient("AvgPool3DGrad")
def _avg_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    return stop_gradient(op.inputs[0]), call("AvgPool3D", grad, **_attrs(op, _POOL))


@register_gradient("MaxPool3DGrad")
def _max_pool_3d_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[:2]
    return zeros_like(x), zeros_like(y), call("MaxPool3DGradGrad", x, y, grad, **_attrs(op, _POOL))


@register_gradient("MaxPoolGradGrad")
def _max_pool_grad_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[:2]
    return zeros_like(x), zeros_like(y), call("MaxPoolGrad", x, y, grad, **_attrs(op, _POOL))


@register_gradient("MaxPool3DGradGrad")
def _max_pool_3d_grad_grad(op: Operation, grad: Tensor) -> Any:
    x, y = op.inputs[:2]
    return zeros_like(x), zeros_like(y), call("MaxPool3DGrad", x, y, grad, **_attrs(op, _POOL))


@register_gradient("MaxPoolV2")
def _max_pool_v2(op: Operation, grad: Tensor) -> Any:
    sizes, strides = op.inputs[1:3]
    by_x = call("MaxPoolGradV2", op.inputs[0], op.outputs[0], grad, sizes, strides, **_attrs(op, _POOL[2:]))
    return by_x, None, None


@register_gradient("MaxPoolGradV2")
def _max_pool_grad_v2(op: Operation, grad: Tensor) -> Any:
    x, y, _, sizes, strides = op.inputs
    second = call("MaxPoolGradGradV2", x, y, grad, sizes, strides, **_attrs(op, _POOL[2:]))
    return zeros_like(x), zeros_like(y), second, None, None


@register_gradient("LRN")
def _lrn(op: Operation, grad: Tensor) -> Any:
    attrs = _attrs(op, ("depth_radius", "bias", "alpha", "beta"))
    return call("LRNGrad", grad, op.inputs[0], op.outputs[0], **attrs)


# ------------------------------------------------------------------------------ batch normalisation


@register_gradient("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _fused_batch_norm(op: Operation, *grads: Tensor) -> Any:
    version = op.type.removeprefix("FusedBatchNorm")
    x, grad_y = op.inputs[0], grads[0]
    data_format, training = op.get_attr("data_format"), op.get_attr("is_training")
    moved = not training and data_format.startswith("NC")
    if moved:
        order = [0, *range(2, len(data_format)), 1]
        x, grad_y = transpose(x, order), transpose(grad_y, order)
        data_format = data_format.replace("C", "", 1) + "C"
    reserve = op.outputs[3:5] if training else op.inputs[3:5]
    extra = op.outputs[5:6] if version == "V3" else []
    attrs = {"epsilon": op.get_attr("epsilon"), "data_format": data_format, "is_training": training}
    dx, dscale, doffset = call_n(f"FusedBatchNormGrad{version}", grad_y, x, op.inputs[1], *reserve, *extra, **attrs)[:3]
    if moved:
        dx = transpose(dx, [0, len(data_format) - 1, *range(1, len(data_format) - 1)])
    return dx, dscale, doffset, None, None


# -------------------------------------------------------------------------------------------- top k


@register_gradient("TopK", "TopKV2")
def _top_k(op: Operation, grad: Tensor, _: Tensor) -> Any:
    """Scatter to the values' origins, by indices into the flattened input."""
    x_shape, index_shape = shape(op.inputs[0]), shape(op.outputs[1])
    index_last = gather(math_ops.cast(index_shape, int64), size(index_shape) - 1)
    indices = reshape(op.outputs[1], stack([-1, index_last]))
    last = gather(math_ops.cast(x_shape, int64), size(x_shape) - 1)
    rows = shape(indices)[0]
    starts = math_ops.range(0, math_ops.cast(rows, int64) * last, last)
    flat = reshape(indices + math_ops.cast(expand_dims(starts, -1), int32), [-1])
    scattered = call("ScatterNd", expand_dims(flat, -1), reshape(grad, [-1]), [math_ops.reduce_prod(x_shape)])
    by_x = reshape(scattered, x_shape)
    return (by_x, zeros([], int32))[: len(op.inputs)] if len(op.inputs) > 1 else by_x


@register_gradient("ApproxTopK")
def _approx_top_k(op: Operation, grad: Tensor, _: Tensor) -> Any:
    """Added at the places that the indices name along the reduced dimension."""
    x, places = op.inputs[0], op.outputs[1]
    rank_of_x = len(x.shape)
    axis = op.get_attr("reduction_dimension") % rank_of_x
    order = [*(i for i in range(rank_of_x) if i != axis), axis]
    back, places = transpose(grad, order), transpose(places, order)
    dims, kept = gather(shape(x), order), shape(places)
    rows = math_ops.reduce_prod(dims[:-1])
    starts = math_ops.range(rows) * dims[-1]
    flat = reshape(reshape(places, stack([rows, kept[-1]])) + expand_dims(starts, -1), [-1, 1])
    scattered = call("ScatterNd", flat, reshape(back, [-1]), stack([rows * dims[-1]]))
    return transpose(reshape(scattered, dims), [order.index(i) for i in range(rank_of_x)])

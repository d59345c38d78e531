"""Second-order gradients of batch normalization: the first order, written out and differentiated.

Source: python/ops/nn_grad.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.graph.builders.array_ops import identity, reshape, zeros_like
from xlanb.graph.builders.math_ops import cast, reduce_mean, reduce_sum
from xlanb.graph.convert import constant
from xlanb.graph.gradients.backprop import gradients
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor


@register_gradient("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _fused_batch_norm_grad(op: Operation, *grads: Tensor) -> Any:
    back, x, scale = (identity(t) for t in op.inputs[:3])
    made = _written_out(op, back, x, scale)
    found = gradients(made, [back, x, scale], list(grads[:3]), unconnected_gradients="zero")
    return [*found, *[None] * (len(op.inputs) - 3)]


def _written_out(op: Operation, back: Tensor, x: Tensor, scale: Tensor) -> list[Tensor]:
    """Return the gradients by x, scale and offset, written as sums and products."""
    axis = op.get_attr("data_format").index("C")
    rank = len(op.get_attr("data_format"))
    axes = [i for i in range(rank) if i != axis]
    along = [-1 if i == axis else 1 for i in range(rank)]
    wide, kind = scale.dtype, x.dtype
    dy, x = cast(back, wide), cast(x, wide)
    epsilon = constant(op.get_attr("epsilon"), wide)
    if op.get_attr("is_training"):
        centered = x - reduce_mean(x, axes, keepdims=True)
        inverse = call("Rsqrt", reduce_mean(centered * centered, axes, keepdims=True) + epsilon)
        together = reduce_mean(dy * centered, axes, keepdims=True)
        slope = dy - reduce_mean(dy, axes, keepdims=True) - centered * together * inverse * inverse
    else:
        centered = x - reshape(op.inputs[3], along)
        inverse = call("Rsqrt", reshape(op.inputs[4], along) + epsilon)
        slope = dy
    by_x = cast(slope * inverse * reshape(scale, along), kind)
    return [by_x, reduce_sum(dy * centered * inverse, axes), reduce_sum(dy, axes)]


@register_gradient("BatchNormWithGlobalNormalization")
def _global_normalization(op: Operation, grad: Tensor) -> Any:
    x, mean, variance, _, scale = op.inputs
    axes = list(range(len(x.shape) - 1))
    inverse = call("Rsqrt", variance + constant(op.get_attr("variance_epsilon"), x.dtype))
    is_scaled = op.get_attr("scale_after_normalization")
    factor = inverse * scale if is_scaled else inverse
    centered = x - mean
    total = reduce_sum(grad, axes)
    by_factor = reduce_sum(grad * centered, axes)
    by_inverse = by_factor * scale if is_scaled else by_factor
    by_variance = by_inverse * inverse * inverse * inverse * constant(-0.5, x.dtype)
    by_scale = by_factor * inverse if is_scaled else zeros_like(scale)
    return grad * factor, -total * factor, by_variance, total, by_scale

"""Fused batch normalisation and its gradients (tf2xla/kernels/batch_norm_op.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar, sum_type
from xlanb.tf2xla.registry import register


def _feature(ctx: OpContext) -> int:
    """The channels' dimension."""
    return str(ctx.attr("data_format", "NHWC")).index("C")


def _nothing(ctx: OpContext) -> HloInstruction:
    """Return an empty array, for outputs that only other devices' gradient kernels read."""
    return ctx.b.constant(np.zeros([0], np.float32))


@register("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _fused_batch_norm(ctx: OpContext) -> list[HloInstruction]:
    return normalized(ctx, ctx.inputs, is_last_version=ctx.op.type == "FusedBatchNormV3")


def normalized(ctx: OpContext, given: Sequence[HloInstruction], *, is_last_version: bool) -> list[HloInstruction]:
    """Return y, mean, variance, then mean and biased variance for the gradient.

    In training, mean and (unbiased) variance are the batch's. The last version has one more output.
    """
    x, *parameters = given
    b = ctx.b
    small = parameters[0].array_shape.element_type
    scale, offset, mean, variance = (b.convert(p, sum_type(small)) for p in parameters)
    kind, feature = x.array_shape.element_type, _feature(ctx)
    wide = b.convert(x, scale.array_shape.element_type)
    attributes: dict[str, Any] = {"epsilon": float(ctx.attr("epsilon", 1e-4)), "feature_index": feature}
    rest = [_nothing(ctx)] if is_last_version else []
    if not ctx.attr("is_training", True):
        y = b.instruction(HloOpcode.BATCH_NORM_INFERENCE, (wide, scale, offset, mean, variance), **attributes)
        return [b.convert(b.convert(y, small), kind), *(b.convert(v, small) for v in (mean, variance) * 2), *rest]
    made = b.instruction(HloOpcode.BATCH_NORM_TRAINING, (wide, scale, offset), **attributes)
    y, batch_mean, batch_variance = (b.get_tuple_element(made, i) for i in range(3))
    count = prod(d for i, d in enumerate(x.array_shape.dimensions) if i != feature)
    unbiased = b.multiply(batch_variance, scalar(ctx, batch_variance, count / max(count - 1, 1)))
    factor = float(ctx.attr("exponential_avg_factor", 1.0))
    running = [_blended(ctx, old, new, factor) for old, new in ((mean, batch_mean), (variance, unbiased))]
    return [
        b.convert(b.convert(y, small), kind),
        *(b.convert(v, small) for v in (*running, batch_mean, batch_variance)),
        *rest,
    ]


def _blended(ctx: OpContext, old: HloInstruction, new: HloInstruction, factor: float) -> HloInstruction:
    if factor == 1:
        return new
    return ctx.b.add(ctx.b.multiply(old, scalar(ctx, old, 1 - factor)), ctx.b.multiply(new, scalar(ctx, new, factor)))


@register("FusedBatchNormGrad", "FusedBatchNormGradV2", "FusedBatchNormGradV3")
def _fused_batch_norm_grad(ctx: OpContext) -> list[HloInstruction]:
    """Gradients by x, scale and offset; when not training mean and variance are constants."""
    gradient, x, scale, mean, variance = ctx.inputs[:5]
    b = ctx.b
    kind, feature, epsilon = x.array_shape.element_type, _feature(ctx), float(ctx.attr("epsilon", 1e-4))
    gradient, x = (b.convert(v, scale.array_shape.element_type) for v in (gradient, x))
    if ctx.attr("is_training", True):
        made = b.instruction(
            HloOpcode.BATCH_NORM_GRAD, (x, scale, mean, variance, gradient), epsilon=epsilon, feature_index=feature
        )
        by_x, by_scale, by_offset = (b.get_tuple_element(made, i) for i in range(3))
    else:
        dims = x.array_shape.dimensions
        others = [i for i in range(len(dims)) if i != feature]
        zero = scalar(ctx, x, 0)
        deviation = b.unary(HloOpcode.RSQRT, b.add(variance, scalar(ctx, variance, epsilon)))
        centered = b.subtract(x, b.broadcast_in_dim(mean, dims, [feature]))
        by_x = b.multiply(gradient, b.broadcast_in_dim(b.multiply(deviation, scale), dims, [feature]))
        by_scale = b.multiply(deviation, b.reduce(b.multiply(gradient, centered), zero, others, HloOpcode.ADD))
        by_offset = b.reduce(gradient, zero, others, HloOpcode.ADD)
    return [b.convert(by_x, kind), by_scale, by_offset, _nothing(ctx), _nothing(ctx)]


@register("BatchNormWithGlobalNormalization")
def _global_normalization(ctx: OpContext) -> HloInstruction:
    """(t - m) * rsqrt(v + epsilon) [* gamma] + beta, over the last dimension."""
    x, mean, variance, beta, gamma = ctx.inputs
    dims = x.array_shape.dimensions
    factor = ctx.b.unary(
        HloOpcode.RSQRT, ctx.b.add(variance, scalar(ctx, variance, float(ctx.attr("variance_epsilon", 1e-3))))
    )
    if ctx.attr("scale_after_normalization", False):
        factor = ctx.b.multiply(factor, gamma)
    centered = ctx.b.subtract(x, broadcast_to(ctx.b, mean, dims))
    return ctx.b.add(ctx.b.multiply(centered, broadcast_to(ctx.b, factor, dims)), broadcast_to(ctx.b, beta, dims))


@register("_FusedBatchNormEx")
def _fused_batch_norm_ex(ctx: OpContext) -> list[HloInstruction]:
    """Batch normalization, plus a side input, with an activation."""
    made = normalized(ctx, ctx.inputs[:5], is_last_version=True)
    y, b = made[0], ctx.b
    for side in ctx.inputs[5:]:
        y = b.add(y, side)
    activation = str(ctx.attr("activation_mode", "Identity"))
    if activation not in ("Identity", "Relu"):
        ctx.fail(f"unknown activation {activation}: expected Identity or Relu")
    return [y if activation == "Identity" else b.maximum(y, filled(ctx, y, 0)), *made[1:]]

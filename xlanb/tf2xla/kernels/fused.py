"""Fused ops of Grappler's remapper: a convolution or product with its bias and activation.

Source: core/kernels/{conv_ops_fused_impl.h,matmul_op_fused.cc}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.kernels.convolution import convolution
from xlanb.tf2xla.kernels.matmul import product
from xlanb.tf2xla.registry import register


def _positive(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.compare(x, filled(ctx, x, 0), "GT")


def _leaky(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    alpha = float(ctx.attr("leakyrelu_alpha", 0.2))
    return ctx.b.select(_positive(ctx, x), x, ctx.b.multiply(x, filled(ctx, x, alpha)))


_ACTIVATIONS: Final[dict[str, Callable[[OpContext, HloInstruction], HloInstruction]]] = {
    "Relu": lambda ctx, x: ctx.b.maximum(filled(ctx, x, 0), x),
    "Relu6": lambda ctx, x: ctx.b.clamp(scalar(ctx, x, 0), x, scalar(ctx, x, 6)),
    "Elu": lambda ctx, x: ctx.b.select(_positive(ctx, x), x, ctx.b.expm1(x)),
    "LeakyRelu": _leaky,
    "Tanh": lambda ctx, x: ctx.b.unary(HloOpcode.TANH, x),
    "Sigmoid": lambda ctx, x: ctx.b.unary(HloOpcode.LOGISTIC, x),
}


@register("_FusedConv2D", "_FusedMatMul")
def _fused(ctx: OpContext) -> HloInstruction:
    """The fused_ops one after another: BiasAdd or FusedBatchNorm, then an activation."""
    value = convolution(ctx) if ctx.op.type == "_FusedConv2D" else product(ctx, ctx.input(0), ctx.input(1))
    rank = value.array_shape.rank
    axis = 1 if ctx.attr("data_format", "NHWC") == "NCHW" and rank == 4 else rank - 1
    for name in map(str, ctx.attr("fused_ops", ())):
        if name in ("BiasAdd", "FusedBatchNorm"):
            vectors = [_spread(ctx, k, value, axis) for k in range(2, ctx.input_count)]
            if len(vectors) != (1 if name == "BiasAdd" else 4):
                ctx.fail(f"{name} does not take {len(vectors)} vectors")
            value = ctx.b.add(value, vectors[0]) if name == "BiasAdd" else _norm(ctx, value, vectors)
        elif name in _ACTIVATIONS:
            value = _ACTIVATIONS[name](ctx, value)
        else:
            ctx.fail(f"the fused op {name!r} is not supported, only BiasAdd, FusedBatchNorm, {', '.join(_ACTIVATIONS)}")
    return value


def _spread(ctx: OpContext, index: int, like: HloInstruction, axis: int) -> HloInstruction:
    vector, dims = ctx.input(index), like.array_shape.dimensions
    if vector.array_shape.dimensions != (dims[axis],):
        ctx.fail(f"input {index} of shape {vector.shape} does not match dimension {axis} of {like.shape}")
    return ctx.b.broadcast_in_dim(vector, dims, [axis])


def _norm(ctx: OpContext, x: HloInstruction, vectors: list[HloInstruction]) -> HloInstruction:
    scale, offset, mean, variance = vectors
    b = ctx.b
    inverse = b.unary(HloOpcode.RSQRT, b.add(variance, filled(ctx, x, float(ctx.attr("epsilon", 1e-4)))))
    return b.add(b.multiply(b.subtract(x, mean), b.multiply(inverse, scale)), offset)

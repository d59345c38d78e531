"""Neural network ops (tf2xla/kernels/{matmul_op,relu_op,bias_ops,softmax_op,...}.cc)."""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import lowest, scalar
from xlanb.tf2xla.registry import register


@register("MatMul")
def _matmul(ctx: OpContext) -> HloInstruction:
    a, b = ctx.inputs
    if a.array_shape.rank != 2 or b.array_shape.rank != 2:
        ctx.fail(f"operands must be matrices, not {a.shape} and {b.shape}")
    lhs, rhs = int(not ctx.attr("transpose_a", False)), int(ctx.attr("transpose_b", False))
    if a.array_shape.dimensions[lhs] != b.array_shape.dimensions[rhs]:
        ctx.fail(f"inner dimensions {a.array_shape.dimensions[lhs]} and {b.array_shape.dimensions[rhs]} differ")
    return ctx.b.dot_general(a, b, lhs_contracting_dims=[lhs], rhs_contracting_dims=[rhs])


@register("Relu")
def _relu(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.maximum(broadcast_to(ctx.b, scalar(ctx, x, 0), x.array_shape.dimensions), x)


@register("ReluGrad")
def _relu_grad(ctx: OpContext) -> HloInstruction:
    gradient, feature = ctx.inputs
    zero = broadcast_to(ctx.b, scalar(ctx, feature, 0), feature.array_shape.dimensions)
    return ctx.b.select(ctx.b.compare(feature, zero, "GT"), gradient, zero)


@register("BiasAdd", "BiasAddV1")
def _bias_add(ctx: OpContext) -> HloInstruction:
    x, bias = ctx.inputs
    dims = x.array_shape.dimensions
    axis = 1 if ctx.attr("data_format") == "NCHW" else len(dims) - 1
    if bias.array_shape.rank != 1 or bias.array_shape.dimensions[0] != dims[axis]:
        ctx.fail(f"bias {bias.shape} does not fit dimension {axis} of {x.shape}")
    return ctx.b.add(x, ctx.b.broadcast_in_dim(bias, dims, [axis]))


@register("BiasAddGrad")
def _bias_add_grad(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    rank = x.array_shape.rank
    axis = 1 if ctx.attr("data_format") == "NCHW" else rank - 1
    return ctx.b.reduce(x, scalar(ctx, x, 0), [i for i in range(rank) if i != axis], HloOpcode.ADD)


def _shifted(ctx: OpContext, x: HloInstruction) -> tuple[HloInstruction, HloInstruction, list[int]]:
    """Logits less their row maximum, the exponentials of that, and the kept axes."""
    dims = x.array_shape.dimensions
    rows = list(range(len(dims) - 1))
    top = ctx.b.reduce(x, ctx.b.constant(lowest(x.array_shape.element_type)), [len(dims) - 1], HloOpcode.MAXIMUM)
    shifted = ctx.b.subtract(x, ctx.b.broadcast_in_dim(top, dims, rows))
    return shifted, ctx.b.unary(HloOpcode.EXPONENTIAL, shifted), rows


@register("Softmax", "LogSoftmax")
def _softmax(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    dims = x.array_shape.dimensions
    shifted, exponentials, rows = _shifted(ctx, x)
    total = ctx.b.reduce(exponentials, scalar(ctx, x, 0), [len(dims) - 1], HloOpcode.ADD)
    if ctx.op.type == "LogSoftmax":
        return ctx.b.subtract(shifted, ctx.b.broadcast_in_dim(ctx.b.unary(HloOpcode.LOG, total), dims, rows))
    return ctx.b.divide(exponentials, ctx.b.broadcast_in_dim(total, dims, rows))


@register("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(ctx: OpContext) -> list[HloInstruction]:
    """Loss per row, and softmax(logits) - labels, the gradient."""
    logits, labels = ctx.inputs
    dims = logits.array_shape.dimensions
    labels = broadcast_to(ctx.b, labels, dims)
    shifted, exponentials, rows = _shifted(ctx, logits)
    zero = scalar(ctx, logits, 0)
    total = ctx.b.reduce(exponentials, zero, [len(dims) - 1], HloOpcode.ADD)
    log_total = ctx.b.broadcast_in_dim(ctx.b.unary(HloOpcode.LOG, total), dims, rows)
    surprise = ctx.b.multiply(labels, ctx.b.subtract(log_total, shifted))
    loss = ctx.b.reduce(surprise, zero, [len(dims) - 1], HloOpcode.ADD)
    gradient = ctx.b.subtract(ctx.b.divide(exponentials, ctx.b.broadcast_in_dim(total, dims, rows)), labels)
    return [loss, gradient]


@register("L2Loss")
def _l2_loss(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    total = ctx.b.reduce(ctx.b.multiply(x, x), scalar(ctx, x, 0), list(range(x.array_shape.rank)), HloOpcode.ADD)
    return ctx.b.multiply(total, ctx.b.constant(np.asarray(0.5).astype(x.array_shape.dtype)))

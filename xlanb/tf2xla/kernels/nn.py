"""Neural network ops (tf2xla/kernels/{matmul_op,bias_ops,softmax_op,...}.cc)."""

from __future__ import annotations

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.tf2xla.broadcasting import broadcast_dimensions, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, lowest, scalar, sum_type
from xlanb.tf2xla.kernels.indices import one_hot
from xlanb.tf2xla.registry import register


@register("BiasAdd", "BiasAddV1", ranks="2+ 1")
def _bias_add(ctx: OpContext) -> HloInstruction:
    x, bias = ctx.inputs
    dims = x.array_shape.dimensions
    axis = 1 if ctx.attr("data_format") == "NCHW" else len(dims) - 1
    if bias.array_shape.rank != 1 or bias.array_shape.dimensions[0] != dims[axis]:
        ctx.fail(f"bias {bias.shape} does not match dimension {axis} of {x.shape}")
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
    dims = broadcast_dimensions(logits.array_shape.dimensions, labels.array_shape.dimensions)
    return _cross_entropy(ctx, broadcast_to(ctx.b, logits, dims), broadcast_to(ctx.b, labels, dims))


def _cross_entropy(ctx: OpContext, logits: HloInstruction, labels: HloInstruction) -> list[HloInstruction]:
    dims = logits.array_shape.dimensions
    shifted, exponentials, rows = _shifted(ctx, logits)
    zero = scalar(ctx, logits, 0)
    total = ctx.b.reduce(exponentials, zero, [len(dims) - 1], HloOpcode.ADD)
    log_total = ctx.b.broadcast_in_dim(ctx.b.unary(HloOpcode.LOG, total), dims, rows)
    surprise = ctx.b.multiply(labels, ctx.b.subtract(log_total, shifted))
    loss = ctx.b.reduce(surprise, zero, [len(dims) - 1], HloOpcode.ADD)
    gradient = ctx.b.subtract(ctx.b.divide(exponentials, ctx.b.broadcast_in_dim(total, dims, rows)), labels)
    return [loss, gradient]


@register("SparseSoftmaxCrossEntropyWithLogits")
def _sparse_softmax_cross_entropy(ctx: OpContext) -> list[HloInstruction]:
    """As with dense labels that are one-hot; a label out of range makes its row NaN."""
    logits, labels = ctx.inputs
    dims = logits.array_shape.dimensions
    if len(dims) != 2 or labels.array_shape.dimensions != dims[:1]:
        ctx.fail(f"logits {logits.shape} must be a matrix with a row for each label of {labels.shape}")
    b = ctx.b
    hot = one_hot(ctx, labels, dims[1], 1, scalar(ctx, logits, 1), scalar(ctx, logits, 0))
    known = b.and_(
        b.compare(labels, scalar(ctx, labels, 0), "GE"), b.compare(labels, scalar(ctx, labels, dims[1]), "LT")
    )
    marked = b.select(known, filled_vector(ctx, logits, 0, dims[0]), filled_vector(ctx, logits, float("nan"), dims[0]))
    return _cross_entropy(ctx, logits, b.add(hot, b.broadcast_in_dim(marked, dims, [0])))


def filled_vector(ctx: OpContext, like: HloInstruction, value: float, size: int) -> HloInstruction:
    """A vector of one value, of the element type of `like`."""
    return broadcast_to(ctx.b, scalar(ctx, like, value), [size])


@register("L2Loss")
def _l2_loss(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    total = ctx.b.reduce(ctx.b.multiply(x, x), scalar(ctx, x, 0), list(range(x.array_shape.rank)), HloOpcode.ADD)
    return ctx.b.multiply(total, ctx.b.constant(np.asarray(0.5).astype(x.array_shape.dtype)))


def _squares_nearby(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """Return LRN's base: bias + alpha * the sum over nearby channels of x^2."""
    return ctx.b.add(
        ctx.b.multiply(_sum_nearby(ctx, ctx.b.multiply(x, x)), scalar(ctx, x, float(ctx.attr("alpha", 1.0)))),
        scalar(ctx, x, float(ctx.attr("bias", 1.0))),
    )


def _sum_nearby(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """Each channel's sum over the channels not farther than depth_radius."""
    radius = int(ctx.attr("depth_radius", 5))
    window = Window(
        (*[WindowDimension(1)] * (x.array_shape.rank - 1), WindowDimension(2 * radius + 1, 1, radius, radius))
    )
    return ctx.b.reduce_window(x, scalar(ctx, x, 0), window, HloOpcode.ADD)


@register("LRN")
def _lrn(ctx: OpContext) -> HloInstruction:
    """x (bias + alpha sum x^2)^-beta, the sum over nearby channels."""
    x = ctx.input(0)
    wide = ctx.b.convert(x, sum_type(x.array_shape.element_type))
    factor = ctx.b.power(_squares_nearby(ctx, wide), filled(ctx, wide, -float(ctx.attr("beta", 0.5))))
    return ctx.b.convert(ctx.b.multiply(wide, factor), x.array_shape.element_type)


@register("LRNGrad")
def _lrn_grad(ctx: OpContext) -> HloInstruction:
    """dx = dy n^-beta - 2 alpha beta x sum(dy y / n), with n the base of LRN's power.

    The sum is over nearby channels.
    """
    kind = ctx.shape(1).element_type
    dy, x, y = (ctx.b.convert(v, sum_type(kind)) for v in ctx.inputs)
    norm = _squares_nearby(ctx, x)
    alpha, beta = float(ctx.attr("alpha", 1.0)), float(ctx.attr("beta", 0.5))
    shared = _sum_nearby(ctx, ctx.b.divide(ctx.b.multiply(dy, y), norm))
    direct = ctx.b.multiply(dy, ctx.b.power(norm, filled(ctx, norm, -beta)))
    indirect = ctx.b.multiply(ctx.b.multiply(x, scalar(ctx, x, 2 * alpha * beta)), shared)
    return ctx.b.convert(ctx.b.subtract(direct, indirect), kind)

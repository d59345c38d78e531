"""Activation functions and their gradients
(tf2xla/kernels/{relu_op,elu_op,unary_ops,binary_ops}.cc).
"""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import register

# Klambauer et al., "Self-normalizing neural networks" (2017)
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717


def _positive(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.compare(x, filled(ctx, x, 0), "GT")


@register("Relu")
def _relu(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.maximum(filled(ctx, x, 0), x)


@register("ReluGrad")
def _relu_grad(ctx: OpContext) -> HloInstruction:
    gradient, feature = ctx.inputs
    return ctx.b.select(_positive(ctx, feature), gradient, filled(ctx, gradient, 0))


@register("Relu6")
def _relu6(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.clamp(scalar(ctx, x, 0), x, scalar(ctx, x, 6))


@register("Relu6Grad")
def _relu6_grad(ctx: OpContext) -> HloInstruction:
    gradient, feature = ctx.inputs
    within = ctx.b.binary(HloOpcode.AND, _positive(ctx, feature), ctx.b.compare(feature, filled(ctx, feature, 6), "LT"))
    return ctx.b.select(within, gradient, filled(ctx, gradient, 0))


@register("LeakyRelu")
def _leaky_relu(ctx: OpContext) -> HloInstruction:
    x, alpha = ctx.input(0), float(ctx.attr("alpha", 0.2))
    scaled = ctx.b.multiply(x, scalar(ctx, x, alpha))
    return ctx.b.maximum(x, scaled) if alpha <= 1 else ctx.b.select(_positive(ctx, x), x, scaled)


@register("LeakyReluGrad")
def _leaky_relu_grad(ctx: OpContext) -> HloInstruction:
    gradient, feature = ctx.inputs
    return ctx.b.select(
        _positive(ctx, feature),
        gradient,
        ctx.b.multiply(gradient, scalar(ctx, gradient, float(ctx.attr("alpha", 0.2)))),
    )


@register("Elu")
def _elu(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.select(_positive(ctx, x), x, ctx.b.expm1(x))


@register("EluGrad")
def _elu_grad(ctx: OpContext) -> HloInstruction:
    """From the result y: dy where y > 0, else dy (y + 1)."""
    gradient, y = ctx.inputs
    return ctx.b.select(_positive(ctx, y), gradient, ctx.b.multiply(gradient, ctx.b.add(y, scalar(ctx, y, 1))))


@register("Selu")
def _selu(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    right = ctx.b.multiply(x, scalar(ctx, x, _SELU_SCALE))
    left = ctx.b.multiply(ctx.b.expm1(x), scalar(ctx, x, _SELU_SCALE * _SELU_ALPHA))
    return ctx.b.select(_positive(ctx, x), right, left)


@register("SeluGrad")
def _selu_grad(ctx: OpContext) -> HloInstruction:
    """From the result y: dy scale where y > 0, else dy (y + scale alpha)."""
    gradient, y = ctx.inputs
    right = ctx.b.multiply(gradient, scalar(ctx, y, _SELU_SCALE))
    left = ctx.b.multiply(gradient, ctx.b.add(y, scalar(ctx, y, _SELU_SCALE * _SELU_ALPHA)))
    return ctx.b.select(_positive(ctx, y), right, left)


@register("Softplus")
def _softplus(ctx: OpContext) -> HloInstruction:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which cannot overflow."""
    x = ctx.input(0)
    tail = ctx.b.log1p(ctx.b.exp(ctx.b.negate(ctx.b.abs(x))))
    return ctx.b.add(ctx.b.maximum(x, filled(ctx, x, 0)), tail)


@register("SoftplusGrad")
def _softplus_grad(ctx: OpContext) -> HloInstruction:
    gradient, x = ctx.inputs
    return ctx.b.multiply(gradient, ctx.b.logistic(x))


def _one_plus_abs(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.add(ctx.b.abs(x), scalar(ctx, x, 1))


@register("Softsign")
def _softsign(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.divide(x, _one_plus_abs(ctx, x))


@register("SoftsignGrad")
def _softsign_grad(ctx: OpContext) -> HloInstruction:
    gradient, x = ctx.inputs
    bottom = _one_plus_abs(ctx, x)
    return ctx.b.divide(gradient, ctx.b.multiply(bottom, bottom))


def conjugate(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """Return the complex conjugate, or `x` itself if it is real."""
    if not x.array_shape.element_type.is_complex:
        return x
    return ctx.b.complex(ctx.b.real(x), ctx.b.negate(ctx.b.imag(x)))


@register("TanhGrad")
def _tanh_grad(ctx: OpContext) -> HloInstruction:
    """dy (1 - y^2); TensorFlow does not conjugate here."""
    y, dy = ctx.inputs
    return ctx.b.multiply(dy, ctx.b.subtract(filled(ctx, y, 1), ctx.b.multiply(y, y)))


@register("SigmoidGrad")
def _sigmoid_grad(ctx: OpContext) -> HloInstruction:
    """dy y (1 - y); TensorFlow does not conjugate here."""
    y, dy = ctx.inputs
    return ctx.b.multiply(ctx.b.multiply(dy, y), ctx.b.subtract(filled(ctx, y, 1), y))


@register("ReciprocalGrad", "InvGrad")
def _reciprocal_grad(ctx: OpContext) -> HloInstruction:
    """-dy y^2, y conjugated."""
    y, dy = conjugate(ctx, ctx.input(0)), ctx.input(1)
    return ctx.b.multiply(ctx.b.negate(dy), ctx.b.multiply(y, y))


@register("SqrtGrad")
def _sqrt_grad(ctx: OpContext) -> HloInstruction:
    """dy / 2 / y, y conjugated."""
    y, dy = conjugate(ctx, ctx.input(0)), ctx.input(1)
    return ctx.b.divide(ctx.b.multiply(dy, scalar(ctx, dy, 0.5)), y)


@register("RsqrtGrad")
def _rsqrt_grad(ctx: OpContext) -> HloInstruction:
    """-dy / 2 y^3, y conjugated."""
    y, dy = conjugate(ctx, ctx.input(0)), ctx.input(1)
    return ctx.b.multiply(ctx.b.multiply(y, ctx.b.multiply(y, y)), ctx.b.multiply(dy, scalar(ctx, dy, -0.5)))

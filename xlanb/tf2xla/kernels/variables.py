"""Variables, by reference and as resources, and the optimizers' updates (tf2xla/kernels/{variable_ops,training_ops}.cc).

Ops on ref variables have no kernel for XLA_CPU_JIT in TensorFlow: they are lowered here for running op by op, and never clustered.
"""

from __future__ import annotations

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.broadcasting import binary, broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


@register("ReadVariableOp")
def _read(ctx: OpContext) -> HloInstruction:
    return ctx.read_variable(0)


@register("AssignVariableOp")
def _assign_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.input(1))


@register("AssignAddVariableOp")
def _assign_add_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.add(ctx.read_variable(0), ctx.input(1)))


@register("AssignSubVariableOp")
def _assign_sub_resource(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.subtract(ctx.read_variable(0), ctx.input(1)))


@register("Assign", is_compilable=False)
def _assign(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.input(1))


@register("AssignAdd", is_compilable=False)
def _assign_add(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.add(ctx.read_variable(0), ctx.input(1)))


@register("AssignSub", is_compilable=False)
def _assign_sub(ctx: OpContext) -> None:
    ctx.assign_variable(0, ctx.b.subtract(ctx.read_variable(0), ctx.input(1)))


def _times(ctx: OpContext, factor: HloInstruction, x: HloInstruction) -> HloInstruction:
    """A scalar times an array."""
    return ctx.b.multiply(x, broadcast_to(ctx.b, factor, x.array_shape.dimensions))


def _gradient_descent(ctx: OpContext) -> None:
    """var -= alpha * delta"""
    variable = ctx.read_variable(0)
    ctx.assign_variable(0, ctx.b.subtract(variable, _times(ctx, ctx.input(1), ctx.input(2))))


def _momentum(ctx: OpContext) -> None:
    """accum = accum * momentum + grad; var -= lr * accum (Nesterov: lr * (grad + momentum * accum))"""
    variable, accumulated = ctx.read_variable(0), ctx.read_variable(1)
    rate, gradient, momentum = ctx.input(2), ctx.input(3), ctx.input(4)
    accumulated = ctx.b.add(_times(ctx, momentum, accumulated), gradient)
    step = ctx.b.add(gradient, _times(ctx, momentum, accumulated)) if ctx.attr("use_nesterov", False) else accumulated
    ctx.assign_variable(1, accumulated)
    ctx.assign_variable(0, ctx.b.subtract(variable, _times(ctx, rate, step)))


def _adam(ctx: OpContext) -> None:
    """m, v: running means of grad and grad^2; var -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon)"""
    variable, m, v = (ctx.read_variable(i) for i in range(3))
    power1, power2, rate, beta1, beta2, epsilon, gradient = (ctx.input(i) for i in range(3, 10))
    b = ctx.b
    one = b.constant(variable.array_shape.dtype.type(1))
    scale = b.divide(b.multiply(rate, b.unary(HloOpcode.SQRT, b.subtract(one, power2))), b.subtract(one, power1))
    m_new = b.add(m, _times(ctx, b.subtract(one, beta1), b.subtract(gradient, m)))
    v_new = b.add(v, _times(ctx, b.subtract(one, beta2), b.subtract(b.multiply(gradient, gradient), v)))
    if ctx.attr("use_nesterov", False):
        top = b.add(_times(ctx, beta1, m_new), _times(ctx, b.subtract(one, beta1), gradient))
    else:
        top = m_new
    bottom = binary(b, HloOpcode.ADD, b.unary(HloOpcode.SQRT, v_new), epsilon)
    ctx.assign_variable(1, m_new)
    ctx.assign_variable(2, v_new)
    ctx.assign_variable(0, b.subtract(variable, b.divide(_times(ctx, scale, top), bottom)))


for _name, _lower in {"GradientDescent": _gradient_descent, "Momentum": _momentum, "Adam": _adam}.items():
    register(f"Apply{_name}", is_compilable=False)(_lower)
    register(f"ResourceApply{_name}")(_lower)

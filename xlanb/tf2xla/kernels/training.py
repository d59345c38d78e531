"""Optimizers' updates of reference and resource variables (tf2xla/kernels/training_ops.cc).

In TensorFlow, ops on reference variables have no kernel for XLA_CPU_JIT: they are lowered here to
run op by op, and never clustered.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.scattering import scatter_rows
from xlanb.tf2xla.registry import register

Values = list[HloInstruction]


class _UpdateBuilder:
    """Arithmetic of one update; scalars are broadcast to the variable's shape.

    The inputs are `slots` variables, then the others.
    """

    def __init__(self, ctx: OpContext, slots: int) -> None:
        self.ctx, self.b = ctx, ctx.b
        self.variables = [ctx.read_variable(i) for i in range(slots)]
        self.dims = self.variables[0].array_shape.dimensions
        self.given = [ctx.input(i) for i in range(slots, ctx.input_count)]
        for slot in self.variables[1:]:
            if slot.array_shape.dimensions != self.dims:
                ctx.fail(f"the variables' shapes differ: {self.variables[0].shape} and {slot.shape}")

    def wide(self, x: HloInstruction) -> HloInstruction:
        """Broadcast a scalar; return an array unchanged. Fails if it does not fit the variable."""
        if x.array_shape.rank and x.array_shape.dimensions != self.dims and prod(x.array_shape.dimensions) != 1:
            self.ctx.fail(f"{x.shape} does not match the variable {self.variables[0].shape}")
        return broadcast_to(self.b, self.b.reshape(x, []) if not self._fits(x) else x, self.dims)

    def _fits(self, x: HloInstruction) -> bool:
        return x.array_shape.dimensions == self.dims

    def mul(self, *xs: HloInstruction) -> HloInstruction:
        out = self.wide(xs[0])
        for x in xs[1:]:
            out = self.b.multiply(out, self.wide(x))
        return out

    def add(self, *xs: HloInstruction) -> HloInstruction:
        out = self.wide(xs[0])
        for x in xs[1:]:
            out = self.b.add(out, self.wide(x))
        return out

    def sub(self, x: HloInstruction, y: HloInstruction) -> HloInstruction:
        return self.b.subtract(self.wide(x), self.wide(y))

    def div(self, x: HloInstruction, y: HloInstruction) -> HloInstruction:
        return self.b.divide(self.wide(x), self.wide(y))

    def number(self, value: float) -> HloInstruction:
        return scalar(self.ctx, self.variables[0], value)

    def one_less(self, x: HloInstruction) -> HloInstruction:
        """1 - x."""
        return self.b.subtract(self.number(1), x)

    def mean(self, factor: HloInstruction, old: HloInstruction, new: HloInstruction) -> HloInstruction:
        """factor * old + (1 - factor) * new."""
        return self.add(self.mul(factor, old), self.mul(self.one_less(factor), new))

    def shrunk(self, x: HloInstruction, by: HloInstruction) -> HloInstruction:
        """sign(x) * max(|x| - by, 0)."""
        rest = self.b.maximum(self.sub(self.b.abs(x), by), filled(self.ctx, self.variables[0], 0))
        return self.b.multiply(self.b.sign(x), rest)


def _gradient_descent(u: _UpdateBuilder) -> Values:
    """var -= alpha * delta"""
    alpha, delta = u.given
    return [u.sub(u.variables[0], u.mul(alpha, delta))]


def _proximal_gradient_descent(u: _UpdateBuilder) -> Values:
    alpha, l1, l2, delta = u.given
    moved = u.sub(u.variables[0], u.mul(alpha, delta))
    return [u.div(u.shrunk(moved, u.mul(alpha, l1)), u.add(u.number(1), u.mul(alpha, l2)))]


def _momentum(u: _UpdateBuilder) -> Values:
    """accum = accum * momentum + grad; var -= lr * accum.

    Nesterov: var -= lr * (grad + momentum * accum).
    """
    (var, accum), (rate, grad, momentum) = u.variables, u.given
    accum = u.add(u.mul(momentum, accum), grad)
    step = u.add(grad, u.mul(momentum, accum)) if u.ctx.attr("use_nesterov", False) else accum
    return [u.sub(var, u.mul(rate, step)), accum]


def _keras_momentum(u: _UpdateBuilder) -> Values:
    """accum = accum * momentum - lr * grad; var += accum.

    Nesterov: var += accum * momentum - lr * grad.
    """
    (var, accum), (rate, grad, momentum) = u.variables, u.given
    pull = u.mul(rate, grad)
    accum = u.sub(u.mul(momentum, accum), pull)
    step = u.sub(u.mul(momentum, accum), pull) if u.ctx.attr("use_nesterov", False) else accum
    return [u.add(var, step), accum]


def _adam(u: _UpdateBuilder) -> Values:
    """var -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + epsilon).

    m, v: running means of grad and grad^2.
    """
    (var, m, v), (power1, power2, rate, beta1, beta2, epsilon, grad) = u.variables, u.given
    b = u.b
    scale = b.divide(b.multiply(rate, b.sqrt(u.one_less(power2))), u.one_less(power1))
    m = u.add(m, u.mul(u.one_less(beta1), u.sub(grad, m)))
    v = u.add(v, u.mul(u.one_less(beta2), u.sub(u.mul(grad, grad), v)))
    top = u.add(u.mul(beta1, m), u.mul(u.one_less(beta1), grad)) if u.ctx.attr("use_nesterov", False) else m
    return [u.sub(var, u.div(u.mul(scale, top), u.add(b.sqrt(v), epsilon))), m, v]


def _ada_max(u: _UpdateBuilder) -> Values:
    """v = max(beta2 * v, |grad|); var -= lr / (1 - beta1^t) * m / (v + epsilon)"""
    (var, m, v), (power1, rate, beta1, beta2, epsilon, grad) = u.variables, u.given
    m = u.mean(beta1, m, grad)
    v = u.b.maximum(u.mul(beta2, v), u.b.abs(u.wide(grad)))
    return [u.sub(var, u.mul(u.b.divide(rate, u.one_less(power1)), u.div(m, u.add(v, epsilon)))), m, v]


def _adagrad(u: _UpdateBuilder) -> Values:
    """accum += grad^2; var -= lr * grad / sqrt(accum)"""
    (var, accum), (rate, grad) = u.variables, u.given
    if u.ctx.attr("update_slots", True):
        accum = u.add(accum, u.mul(grad, grad))
    return [u.sub(var, u.mul(rate, grad, u.b.rsqrt(accum))), accum]


def _adagrad_v2(u: _UpdateBuilder) -> Values:
    """accum += grad^2; var -= lr * grad / (sqrt(accum) + epsilon)"""
    (var, accum), (rate, epsilon, grad) = u.variables, u.given
    if u.ctx.attr("update_slots", True):
        accum = u.add(accum, u.mul(grad, grad))
    return [u.sub(var, u.div(u.mul(rate, grad), u.add(u.b.sqrt(accum), epsilon))), accum]


def _proximal_adagrad(u: _UpdateBuilder) -> Values:
    (var, accum), (rate, l1, l2, grad) = u.variables, u.given
    accum = u.add(accum, u.mul(grad, grad))
    adapted = u.mul(rate, u.b.rsqrt(accum))
    moved = u.sub(var, u.mul(grad, adapted))
    return [u.div(u.shrunk(moved, u.mul(adapted, l1)), u.add(u.number(1), u.mul(adapted, l2))), accum]


def _adagrad_da(u: _UpdateBuilder) -> Values:
    """Dual averaging: var = -lr * shrunk sum of grad / (l2 * step * lr + sqrt(sum of squares))."""
    (_, total, squares), (grad, rate, l1, l2, step) = u.variables, u.given
    step = u.b.convert(step, grad.array_shape.element_type)
    total = u.add(total, grad)
    squares = u.add(squares, u.mul(grad, grad))
    top = u.b.negate(u.mul(rate, u.shrunk(total, u.mul(l1, step))))
    return [u.div(top, u.add(u.mul(l2, step, rate), u.b.sqrt(squares))), total, squares]


def _rms_prop(u: _UpdateBuilder) -> Values:
    """ms = rho * ms + (1 - rho) * grad^2.

    mom = momentum * mom + lr * grad / sqrt(ms + epsilon); var -= mom
    """
    (var, ms, mom), (rate, rho, momentum, epsilon, grad) = u.variables, u.given
    ms = u.add(ms, u.mul(u.sub(u.mul(grad, grad), ms), u.one_less(rho)))
    mom = u.add(u.mul(mom, momentum), u.mul(grad, rate, u.b.rsqrt(u.add(ms, epsilon))))
    return [u.sub(var, mom), ms, mom]


def _centered_rms_prop(u: _UpdateBuilder) -> Values:
    """As RMSProp, about the mean gradient mg: ms - mg^2 in place of ms"""
    (var, mg, ms, mom), (rate, rho, momentum, epsilon, grad) = u.variables, u.given
    ms = u.add(ms, u.mul(u.sub(u.mul(grad, grad), ms), u.one_less(rho)))
    mg = u.add(mg, u.mul(u.sub(grad, mg), u.one_less(rho)))
    bottom = u.b.rsqrt(u.add(u.sub(ms, u.mul(mg, mg)), epsilon))
    mom = u.add(u.mul(mom, momentum), u.mul(grad, rate, bottom))
    return [u.sub(var, mom), mg, ms, mom]


def _adadelta(u: _UpdateBuilder) -> Values:
    """step = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * grad.

    accum: mean of grad^2; accum_update: mean of step^2
    """
    (var, accum, accum_update), (rate, rho, epsilon, grad) = u.variables, u.given
    accum = u.mean(rho, accum, u.mul(grad, grad))
    step = u.mul(u.b.sqrt(u.add(accum_update, epsilon)), u.b.rsqrt(u.add(accum, epsilon)), grad)
    accum_update = u.mean(rho, accum_update, u.mul(step, step))
    return [u.sub(var, u.mul(step, rate)), accum, accum_update]


def _signed(u: _UpdateBuilder, m: HloInstruction, decay: HloInstruction) -> tuple[HloInstruction, HloInstruction]:
    """Return the gradient's new mean, and decay if its sign is the gradient's, else -decay."""
    beta, grad = u.given[-2:]
    m = u.mean(beta, m, grad)
    return m, u.mul(decay, u.b.sign(u.wide(grad)), u.b.sign(m))


def _add_sign(u: _UpdateBuilder) -> Values:
    (var, m), (rate, alpha, decay, _, grad) = u.variables, u.given
    m, agreement = _signed(u, m, decay)
    return [u.sub(var, u.mul(rate, u.add(alpha, agreement), grad)), m]


def _power_sign(u: _UpdateBuilder) -> Values:
    (var, m), (rate, log_base, decay, _, grad) = u.variables, u.given
    m, agreement = _signed(u, m, decay)
    return [u.sub(var, u.mul(rate, u.b.exp(u.mul(agreement, log_base)), grad)), m]


def _ftrl(u: _UpdateBuilder) -> Values:
    """Follow the regularized leader: McMahan et al., "Ad Click Prediction" (2013).

    V2 adds shrinkage of the gradient.
    """
    (var, accum, linear), (grad, rate, l1, l2, *shrinkage, power) = u.variables, u.given
    b = u.b
    pulled = u.add(grad, u.mul(u.number(2), shrinkage[0], var)) if shrinkage else grad
    squares = u.add(accum, u.mul(grad, grad))
    exponent = b.negate(power)
    old, new = (b.power(u.wide(a), u.wide(exponent)) for a in (accum, squares))
    if u.ctx.attr("multiply_linear_by_lr", False):
        linear = u.sub(u.add(linear, u.mul(pulled, rate)), u.mul(u.sub(new, old), var))
        limit, bottom = u.mul(l1, rate), u.add(new, u.mul(u.number(2), l2, rate))
    else:
        linear = u.sub(u.add(linear, pulled), u.mul(u.div(u.sub(new, old), rate), var))
        limit, bottom = u.wide(l1), u.add(u.div(new, rate), u.mul(u.number(2), l2))
    clipped = b.clamp(b.negate(limit), linear, limit)
    return [u.div(u.sub(clipped, linear), bottom), squares, linear]


_UPDATES: dict[str, tuple[int, Callable[[_UpdateBuilder], Values]]] = {
    "GradientDescent": (1, _gradient_descent),
    "ProximalGradientDescent": (1, _proximal_gradient_descent),
    "Momentum": (2, _momentum),
    "KerasMomentum": (2, _keras_momentum),
    "Adam": (3, _adam),
    "AdaMax": (3, _ada_max),
    "Adagrad": (2, _adagrad),
    "AdagradV2": (2, _adagrad_v2),
    "ProximalAdagrad": (2, _proximal_adagrad),
    "AdagradDA": (3, _adagrad_da),
    "RMSProp": (3, _rms_prop),
    "CenteredRMSProp": (4, _centered_rms_prop),
    "Adadelta": (3, _adadelta),
    "AddSign": (2, _add_sign),
    "PowerSign": (2, _power_sign),
    "Ftrl": (3, _ftrl),
    "FtrlV2": (3, _ftrl),
}


def _lowering(slots: int, update: Callable[[_UpdateBuilder], Values]) -> Callable[[OpContext], None]:
    def lower(ctx: OpContext) -> None:
        for index, value in enumerate(update(_UpdateBuilder(ctx, slots))):
            ctx.assign_variable(index, value)

    return lower


for _name, (_slots, _update) in _UPDATES.items():
    register(f"Apply{_name}", is_compilable=False)(_lowering(_slots, _update))
    register(f"ResourceApply{_name}")(_lowering(_slots, _update))


@register("SparseApplyAdagrad", "ResourceSparseApplyAdagrad", is_compilable=False)
def _sparse_adagrad(ctx: OpContext) -> None:
    """Adagrad on rows; the gradients of a row that comes twice are applied together."""
    var, accum, rate, grad, indices = ctx.read_variable(0), ctx.read_variable(1), *(ctx.input(i) for i in (2, 3, 4))
    if ctx.attr("update_slots", True):
        accum = scatter_rows(ctx, accum, indices, ctx.b.multiply(grad, grad), HloOpcode.ADD)
        ctx.assign_variable(1, accum)
    rows = gather_slices(ctx, accum, indices, 0)
    step = ctx.b.multiply(
        ctx.b.multiply(grad, broadcast_to(ctx.b, rate, grad.array_shape.dimensions)), ctx.b.rsqrt(rows)
    )
    ctx.assign_variable(0, scatter_rows(ctx, var, indices, step, HloOpcode.SUBTRACT))

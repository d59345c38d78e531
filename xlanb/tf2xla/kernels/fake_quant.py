"""Round to the values of a quantized type.

Source: tf2xla/kernels/fake_quantize_ops.cc, core/kernels/fake_quant_ops_functor.h.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, scalar
from xlanb.tf2xla.registry import register

Bounds = tuple[HloInstruction, HloInstruction]


def _levels(ctx: OpContext) -> tuple[float, float]:
    """The least and the largest quantised value."""
    bits = int(ctx.attr("num_bits", 8))
    if not 2 <= bits <= 16:
        ctx.fail(f"num_bits must be 2 to 16, not {bits}")
    return float(ctx.attr("narrow_range", False)), float(2**bits - 1)


def _nudged(
    ctx: OpContext, low: HloInstruction, high: HloInstruction
) -> tuple[HloInstruction, HloInstruction, HloInstruction]:
    """Shift the bounds so that 0 is exactly a quantized value; return them and the step."""
    b = ctx.b
    least, most = (filled(ctx, low, v) for v in _levels(ctx))
    step = b.divide(b.subtract(high, low), b.subtract(most, least))
    zero_at = b.subtract(least, b.divide(low, step))
    rounded = b.floor(b.add(zero_at, filled(ctx, low, 0.5)))
    zero = b.select(b.compare(zero_at, least, "LE"), least, b.select(b.compare(zero_at, most, "GE"), most, rounded))
    return b.multiply(b.subtract(least, zero), step), b.multiply(b.subtract(most, zero), step), step


def _attributes(ctx: OpContext) -> Bounds:
    x = ctx.input(0)
    return scalar(ctx, x, float(ctx.attr("min", -6.0))), scalar(ctx, x, float(ctx.attr("max", 6.0)))


def _bounds(ctx: OpContext) -> Bounds:
    """The last two inputs; of channels, one for each element of the last dimension."""
    return ctx.input(-2), ctx.input(-1)


def _quantize(bounds: Callable[[OpContext], Bounds]) -> Callable[[OpContext], HloInstruction]:
    def lower(ctx: OpContext) -> HloInstruction:
        x, b = ctx.input(0), ctx.b
        low, high, step = (broadcast_to(b, v, x.array_shape.dimensions) for v in _nudged(ctx, *bounds(ctx)))
        kept = b.minimum(b.maximum(x, low), high)
        place = b.floor(b.add(b.divide(b.subtract(kept, low), step), filled(ctx, x, 0.5)))
        return b.add(b.multiply(place, step), low)

    return lower


def _between(ctx: OpContext, bounds: Bounds) -> tuple[HloInstruction, HloInstruction]:
    """Return masks of inputs below and above the nudged bounds."""
    x, b = ctx.input(1), ctx.b
    low, high, _ = (broadcast_to(b, v, x.array_shape.dimensions) for v in _nudged(ctx, *bounds))
    return b.compare(x, low, "LT"), b.compare(x, high, "GT")


@register("FakeQuantWithMinMaxArgsGradient")
def _args_gradient(ctx: OpContext) -> HloInstruction:
    """The gradient between the bounds, 0 beyond."""
    below, above = _between(ctx, _attributes(ctx))
    gradient = ctx.input(0)
    return ctx.b.select(ctx.b.or_(below, above), filled(ctx, gradient, 0), gradient)


@register("FakeQuantWithMinMaxVarsGradient", "FakeQuantWithMinMaxVarsPerChannelGradient")
def _vars_gradient(ctx: OpContext) -> list[HloInstruction]:
    """Sum the gradients of elements beyond a bound into the bound's gradient."""
    below, above = _between(ctx, _bounds(ctx))
    gradient, b = ctx.input(0), ctx.b
    zero = filled(ctx, gradient, 0)
    rank = gradient.array_shape.rank
    axes = range(rank - 1 if "PerChannel" in ctx.op.type else rank)
    ends = [
        b.reduce(b.select(where, gradient, zero), scalar(ctx, gradient, 0), axes, HloOpcode.ADD)
        for where in (below, above)
    ]
    return [b.select(b.or_(below, above), zero, gradient), *ends]


register("FakeQuantWithMinMaxArgs")(_quantize(_attributes))
register("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")(_quantize(_bounds))

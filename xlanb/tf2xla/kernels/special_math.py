"""Special functions, which hlo/special_functions.py has as formulas over elementary ones."""

from __future__ import annotations

import math

from xlanb.hlo import HloInstruction, special_functions
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import filled, sum_type
from xlanb.tf2xla.registry import register


def _widened(ctx: OpContext) -> HloInstruction:
    x = ctx.input(0)
    return ctx.b.convert(x, sum_type(x.array_shape.element_type))


def _narrowed(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    return ctx.b.convert(x, ctx.shape(0).element_type)


@register("Erfinv")
def _erfinv(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.erf_inv(ctx.b, _widened(ctx)))


@register("Ndtri")
def _ndtri(ctx: OpContext) -> HloInstruction:
    """sqrt(2) erfinv(2 x - 1)"""
    x = _widened(ctx)
    inner = ctx.b.subtract(ctx.b.multiply(x, filled(ctx, x, 2)), filled(ctx, x, 1))
    return _narrowed(ctx, ctx.b.multiply(special_functions.erf_inv(ctx.b, inner), filled(ctx, x, math.sqrt(2))))


@register("Lgamma")
def _lgamma(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.lgamma(ctx.b, _widened(ctx)))


@register("Digamma")
def _digamma(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.digamma(ctx.b, _widened(ctx)))


@register("BesselI0e")
def _bessel_i0e(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.bessel_i0e(ctx.b, _widened(ctx)))


@register("BesselI1e")
def _bessel_i1e(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.bessel_i1e(ctx.b, _widened(ctx)))


@register("BesselI0", "BesselI1", is_compilable=False)
def _bessel_grown(ctx: OpContext) -> HloInstruction:
    """Multiply the scaled Bessel function by its exponential."""
    scaled = _bessel_i0e(ctx) if ctx.op.type == "BesselI0" else _bessel_i1e(ctx)
    return ctx.b.multiply(scaled, ctx.b.exp(ctx.b.abs(ctx.input(0))))


@register("Erfc")
def _erfc(ctx: OpContext) -> HloInstruction:
    return _narrowed(ctx, special_functions.erfc(ctx.b, _widened(ctx)))

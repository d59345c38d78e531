"""Stateful random ops (tf2xla/kernels/random_ops.cc): HLO's rng, whose state is hidden.

Sessions run these on the host, where a seed can be kept between runs; the lowerings say their shapes, and serve whole programs that are compiled as one.
"""

from __future__ import annotations

import math

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.registry import register


def _drawn(ctx: OpContext, distribution: str, low: float, high: float) -> HloInstruction:
    kind = ctx.element_type("dtype")
    a, b = (ctx.b.constant(np.asarray(v).astype(kind.dtype)) for v in (low, high))
    return ctx.b.rng(distribution, a, b, array(kind, ctx.ints(0)))


@register("RandomUniform", constants=(0,))
def _uniform(ctx: OpContext) -> HloInstruction:
    return _drawn(ctx, "rng_uniform", 0, 1)


@register("RandomStandardNormal", constants=(0,))
def _normal(ctx: OpContext) -> HloInstruction:
    return _drawn(ctx, "rng_normal", 0, 1)


@register("RandomUniformInt", constants=(0,))
def _uniform_int(ctx: OpContext) -> HloInstruction:
    low, high = ctx.input(1), ctx.input(2)
    return ctx.b.rng("rng_uniform", low, high, array(low.array_shape.element_type, ctx.ints(0)))


@register("TruncatedNormal", constants=(0,))
def _truncated_normal(ctx: OpContext) -> HloInstruction:
    """The normal distribution's inverse at uniform numbers between its values at -2 and 2: sqrt(2) erf^-1(u)."""
    edge = math.erf(2 / math.sqrt(2))
    return _scaled(ctx, erf_inv(ctx, _drawn(ctx, "rng_uniform", -edge, edge)), math.sqrt(2))


# Giles, "Approximating the erfinv function" (2010), single precision: polynomials in w = -log((1 - x)(1 + x)), highest power first.
_CENTRAL = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)


def erf_inv(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """The inverse of the error function, to single precision."""
    b = ctx.b
    w = b.unary(HloOpcode.NEGATE, b.unary(HloOpcode.LOG_PLUS_ONE, b.unary(HloOpcode.NEGATE, b.multiply(x, x))))
    central = b.compare(w, _filled(ctx, w, 5.0), "LT")
    near = b.subtract(w, _filled(ctx, w, 2.5))
    far = b.subtract(b.unary(HloOpcode.SQRT, w), _filled(ctx, w, 3.0))
    t = b.select(central, near, far)
    result = b.select(central, _filled(ctx, w, _CENTRAL[0]), _filled(ctx, w, _TAIL[0]))
    for c, d in zip(_CENTRAL[1:], _TAIL[1:], strict=True):
        result = b.add(b.select(central, _filled(ctx, w, c), _filled(ctx, w, d)), b.multiply(result, t))
    return b.multiply(result, x)


def _filled(ctx: OpContext, like: HloInstruction, value: float) -> HloInstruction:
    constant = ctx.b.constant(np.asarray(value).astype(like.array_shape.dtype))
    return broadcast_to(ctx.b, constant, like.array_shape.dimensions)


def _scaled(ctx: OpContext, x: HloInstruction, factor: float) -> HloInstruction:
    return ctx.b.multiply(x, _filled(ctx, x, factor))

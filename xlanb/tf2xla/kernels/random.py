"""Stateful random ops (tf2xla/kernels/random_ops.cc): HLO's rng, whose state is hidden.

Sessions run these on the host, where a seed persists between runs. The lowerings give their shapes,
and are used when a whole program is compiled.
"""

from __future__ import annotations

import math

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.hlo.special_functions import erf_inv
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import sum_type
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.indices import arg_reduce
from xlanb.tf2xla.registry import register


def _drawn(ctx: OpContext, distribution: str, low: float, high: float) -> HloInstruction:
    kind = ctx.element_type("dtype")
    a, b = (ctx.b.constant(np.asarray(v).astype(kind.dtype)) for v in (low, high))
    return ctx.b.rng(distribution, a, b, array(kind, ctx.sizes(0)))


@register("RandomUniform", constants=(0,))
def _uniform(ctx: OpContext) -> HloInstruction:
    return _drawn(ctx, "rng_uniform", 0, 1)


@register("RandomStandardNormal", constants=(0,))
def _normal(ctx: OpContext) -> HloInstruction:
    return _drawn(ctx, "rng_normal", 0, 1)


@register("RandomUniformInt", constants=(0,))
def _uniform_int(ctx: OpContext) -> HloInstruction:
    low, high = ctx.input(1), ctx.input(2)
    return ctx.b.rng("rng_uniform", low, high, array(low.array_shape.element_type, ctx.sizes(0)))


@register("RandomShuffle")
def _shuffle(ctx: OpContext) -> HloInstruction:
    """Rows in the order of random numbers drawn for them."""
    x = ctx.input(0)
    if not x.array_shape.rank or x.array_shape.dimensions[0] < 2:
        return x
    rows = [x.array_shape.dimensions[0]]
    b = ctx.b
    low, high = (b.constant(np.uint32(v)) for v in (0, 2**32 - 1))
    keys = b.rng("rng_uniform", low, high, array(PrimitiveType.U32, rows))
    order = b.get_tuple_element(b.sort([keys, b.iota(array(PrimitiveType.S32, rows), 0)], 0, "LT"), 1)
    return gather_slices(ctx, x, order, 0)


@register("Multinomial", constants=(1,), ranks="2")
def _multinomial(ctx: OpContext) -> HloInstruction:
    """Classes drawn by their logits: the largest of logits plus Gumbel noise, -log(-log(u))."""
    logits, count = ctx.input(0), int(ctx.number(1))
    b = ctx.b
    rows, classes = logits.array_shape.dimensions
    wide = b.convert(logits, sum_type(logits.array_shape.element_type))
    kind = wide.array_shape.element_type
    tiny = b.constant(np.finfo(kind.dtype).tiny)
    drawn = b.rng("rng_uniform", tiny, b.constant(kind.dtype.type(1)), array(kind, [rows, count, classes]))
    noise = b.negate(b.log(b.negate(b.log(drawn))))
    total = b.add(noise, b.broadcast_in_dim(wide, [rows, count, classes], [0, 2]))
    return arg_reduce(ctx, total, 2, largest=True, kind=ctx.element_type("output_dtype"))


@register("TruncatedNormal", constants=(0,))
def _truncated_normal(ctx: OpContext) -> HloInstruction:
    """Invert the normal CDF at uniform numbers between its values at -2 and 2: sqrt(2)
    erf^-1(u).
    """
    edge = math.erf(2 / math.sqrt(2))
    return _scaled(ctx, erf_inv(ctx.b, _drawn(ctx, "rng_uniform", -edge, edge)), math.sqrt(2))


def _filled(ctx: OpContext, like: HloInstruction, value: float) -> HloInstruction:
    constant = ctx.b.constant(np.asarray(value).astype(like.array_shape.dtype))
    return broadcast_to(ctx.b, constant, like.array_shape.dimensions)


def _scaled(ctx: OpContext, x: HloInstruction, factor: float) -> HloInstruction:
    return ctx.b.multiply(x, _filled(ctx, x, factor))

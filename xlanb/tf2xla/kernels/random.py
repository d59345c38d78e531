"""Stateful random ops (tf2xla/kernels/random_ops.cc): HLO's rng, whose state is hidden.

Sessions run these on the host, where a seed can be kept between runs; the lowerings say their shapes, and serve whole programs that are compiled as one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
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


@register("Multinomial", constants=(1,))
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
    """The normal distribution's inverse at uniform numbers between its values at -2 and 2: sqrt(2) erf^-1(u)."""
    edge = math.erf(2 / math.sqrt(2))
    return _scaled(ctx, erf_inv(ctx, _drawn(ctx, "rng_uniform", -edge, edge)), math.sqrt(2))


# Giles, "Approximating the erfinv function" (2010), single precision: polynomials in w = -log((1 - x)(1 + x)), highest power first.
_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


# The same in double precision, for w < 6.25, w < 16 and above, of w - 3.125, sqrt w - 3.25 and sqrt w - 5 (Giles, 2012)
_WIDE: tuple[tuple[float, ...], ...] = (
    (
        -3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18, 1.115787767802518096e-17, -1.333171662854620906e-16,
        2.0972767875968561637e-17, 6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14, 2.6335093153082322977e-12,
        -1.2975133253453532498e-11, -5.4154120542946279317e-11, 1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
        4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05, 0.0001867342080340571352, -0.00074070253416626697512,
        -0.0060336708714301490533, 0.24015818242558961693, 1.6536545626831027356,
    ),
    (
        2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07, 1.8239629214389227755e-08, 1.5027403968909827627e-06,
        -4.013867526981545969e-06, 2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05, 6.8284851459573175448e-05,
        2.4031110387097893999e-05, -0.0003550375203628474796, 0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
        -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334, 3.0838856104922207635,
    ),
    (
        -2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09, -3.7894654401267369937e-09, 7.6157012080783393804e-09,
        -1.4960026627149240478e-08, 2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07, -9.9298272942317002539e-07,
        4.5260625972231537039e-06, -1.9681778105531670567e-05, 7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
        1.0103004648645343977, 4.8499064014085844221,
    ),
)  # fmt: skip


def _polynomial(ctx: OpContext, t: HloInstruction, coefficients: Sequence[float]) -> HloInstruction:
    result = _filled(ctx, t, coefficients[0])
    for c in coefficients[1:]:
        result = ctx.b.add(_filled(ctx, t, c), ctx.b.multiply(result, t))
    return result


def _erf_inv_wide(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    b = ctx.b
    w = b.negate(b.log1p(b.negate(b.multiply(x, x))))
    root = b.unary(HloOpcode.SQRT, w)
    parts = [
        _polynomial(ctx, b.subtract(v, _filled(ctx, w, c)), coefficients)
        for v, c, coefficients in zip((w, root, root), (3.125, 3.25, 5.0), _WIDE, strict=True)
    ]
    rest = b.select(b.compare(w, _filled(ctx, w, 16.0), "LT"), parts[1], parts[2])
    value = b.multiply(b.select(b.compare(w, _filled(ctx, w, 6.25), "LT"), parts[0], rest), x)
    is_end = b.compare(b.abs(x), _filled(ctx, x, 1.0), "EQ")
    return b.select(is_end, b.multiply(x, _filled(ctx, x, float("inf"))), value)


def erf_inv(ctx: OpContext, x: HloInstruction) -> HloInstruction:
    """The inverse of the error function: of double precision to double precision, else to single."""
    if x.array_shape.element_type is PrimitiveType.F64:
        return _erf_inv_wide(ctx, x)
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

"""Stateless random ops: the Philox numbers of TensorFlow's CPU kernels.

Source: tensorflow/core/kernels/stateless_random_ops{,_v2}.cc.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlanb.hlo import HloInstruction, special_functions
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels import philox
from xlanb.tf2xla.kernels.constants import filled, scalar_of
from xlanb.tf2xla.kernels.gathering import gather_slices
from xlanb.tf2xla.kernels.loops import repeat
from xlanb.tf2xla.registry import register

PHILOX, AUTO = 1, 3

Draw = Callable[[OpContext, philox.Generator, tuple[int, ...], PrimitiveType], HloInstruction]


def _dims(ctx: OpContext) -> tuple[int, ...]:
    dims = tuple(ctx.sizes(0))
    if any(d < 0 for d in dims):
        ctx.fail(f"shape {list(dims)} has a negative dimension")
    return dims


def _from_seed(draw: Draw) -> Callable[[OpContext], HloInstruction]:
    """Inputs: shape, seed, ..."""
    return lambda ctx: _drawn(ctx, draw, philox.seeded(ctx, ctx.input(1)))


def _from_key(draw: Draw) -> Callable[[OpContext], HloInstruction]:
    """Inputs: shape, key, counter, algorithm, ..."""

    def lower(ctx: OpContext) -> HloInstruction:
        algorithm = int(ctx.number(3))
        if algorithm not in (PHILOX, AUTO):
            ctx.fail(f"random algorithm {algorithm} is unknown: expected 1 (Philox) or 3 (automatic)")
        return _drawn(ctx, draw, philox.given(ctx, ctx.input(1), ctx.input(2)))

    return lower


def _drawn(ctx: OpContext, draw: Draw, g: philox.Generator) -> HloInstruction:
    dims = _dims(ctx)
    kind = ctx.element_type("dtype")
    if any(d == 0 for d in dims):
        return broadcast_to(ctx.b, scalar_of(ctx, kind, 0), dims)
    return draw(ctx, g, dims, kind)


def _within(ctx: OpContext, g: philox.Generator, dims: tuple[int, ...], kind: PrimitiveType) -> HloInstruction:
    """low + bits mod (high - low), unsigned; low and high are the last two inputs."""
    b = ctx.b
    unsigned = PrimitiveType.U64 if kind.bits == 64 else PrimitiveType.U32
    low, high = (
        b.reshape(x if kind is unsigned else b.bitcast_convert(x, unsigned), []) for x in (ctx.input(-2), ctx.input(-1))
    )
    span = broadcast_to(b, b.subtract(high, low), dims)
    drawn = b.add(b.remainder(philox.full_range(ctx, g, dims, unsigned), span), broadcast_to(b, low, dims))
    return drawn if kind is unsigned else b.bitcast_convert(drawn, kind)


DRAWS: dict[str, Draw] = {
    "RandomUniform": philox.uniform,
    "RandomNormal": philox.normal,
    "TruncatedNormal": philox.truncated_normal,
    "RandomUniformFullInt": philox.full_range,
    "RandomUniformInt": _within,
}

for _name, _draw in DRAWS.items():
    register(f"Stateless{_name}", constants=(0,))(_from_seed(_draw))
    register(f"Stateless{_name}V2", constants=(0, 3))(_from_key(_draw))


@register("StatelessParameterizedTruncatedNormal", constants=(0,))
def _parameterized_truncated_normal(ctx: OpContext) -> HloInstruction:
    """Invert the normal CDF at uniform numbers between its values at the bounds.

    Means, deviations and bounds are broadcast to the shape.
    """
    b, dims = ctx.b, _dims(ctx)
    kind = ctx.element_type("dtype")
    wide = PrimitiveType.F64 if kind is PrimitiveType.F64 else PrimitiveType.F32
    if any(d == 0 for d in dims):
        return broadcast_to(b, scalar_of(ctx, kind, 0), dims)
    mean, deviation, low, high = (broadcast_to(b, b.convert(ctx.input(i), wide), dims) for i in range(2, 6))
    drawn = philox.uniform(ctx, philox.seeded(ctx, ctx.input(1)), dims, wide)

    def below(bound: HloInstruction) -> HloInstruction:
        """The share of standard normal numbers below a bound, less 1/2, doubled."""
        standard = b.divide(b.subtract(bound, mean), deviation)
        return b.erf(b.multiply(standard, filled(ctx, standard, math.sqrt(0.5))))

    first, last = below(low), below(high)
    share = b.add(first, b.multiply(drawn, b.subtract(last, first)))
    number = b.multiply(special_functions.erf_inv(b, share), filled(ctx, share, math.sqrt(2)))
    made = b.add(mean, b.multiply(deviation, number))
    return b.convert(b.clamp(low, made, high), kind)


@register("StatelessRandomGetAlg")
def _get_algorithm(ctx: OpContext) -> HloInstruction:
    return scalar_of(ctx, PrimitiveType.S32, PHILOX)


@register("StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg")
def _get_key_counter(ctx: OpContext) -> list[HloInstruction]:
    g = philox.seeded(ctx, ctx.input(0))
    b = ctx.b
    counter = b.concatenate([b.reshape(x, [1]) for x in (g.low, g.high)], 0)
    return [b.reshape(g.key, [1]), counter, scalar_of(ctx, PrimitiveType.S32, PHILOX)]


@register("StatelessShuffle", constants=(3,), is_compilable=False)
def _shuffle(ctx: OpContext) -> HloInstruction:
    """Swap each row with one of those from it on, chosen by the next random number."""
    x = ctx.input(0)
    if not x.array_shape.rank or x.array_shape.dimensions[0] < 2:
        return x
    algorithm, count = int(ctx.number(3)), x.array_shape.dimensions[0]
    if algorithm not in (PHILOX, AUTO):
        ctx.fail(f"random algorithm {algorithm} is unknown: expected 1 (Philox) or 3 (automatic)")
    drawn = philox.full_range(ctx, philox.given(ctx, ctx.input(1), ctx.input(2)), (count,), PrimitiveType.U32)
    order = ctx.b.iota(array(PrimitiveType.S32, [count]), 0)

    def swap(inner: OpContext, index: HloInstruction, state: list[HloInstruction]) -> list[HloInstruction]:
        b, (rows, numbers) = inner.b, state
        number = b.reshape(b.dynamic_slice(numbers, [index], [1]), [])
        left = b.convert(b.subtract(b.constant(np.int32(count)), index), PrimitiveType.U32)
        other = b.add(index, b.convert(b.remainder(number, left), PrimitiveType.S32))
        here, there = (b.dynamic_slice(rows, [i], [1]) for i in (index, other))
        return [b.dynamic_update_slice(b.dynamic_update_slice(rows, there, [index]), here, [other]), numbers]

    order = repeat(ctx, count - 1, [order, drawn], swap, "shuffle")[0]
    return gather_slices(ctx, x, order, 0)

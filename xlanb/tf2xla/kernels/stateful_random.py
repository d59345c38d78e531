"""Random ops whose generator is a variable, and draws of classes and bounded normal numbers.

The variable holds a Philox counter of 128 bits and a key, three s64. Each draw advances the counter
by 256 blocks per number, as TensorFlow's CPU kernels do (core/kernels/stateful_random_ops.cc,
multinomial_op.cc).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.hlo.special_functions import erf_inv
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.tf2xla.broadcasting import broadcast_to
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels import philox
from xlanb.tf2xla.kernels.constants import filled, scalar, scalar_of, sum_type
from xlanb.tf2xla.kernels.stateless_random import AUTO, DRAWS, PHILOX, Draw
from xlanb.tf2xla.registry import register

_U64 = PrimitiveType.U64
_BLOCKS = 256  # that the counter moves on by for each number


def _generator(ctx: OpContext) -> philox.Generator:
    algorithm = int(ctx.number(1))
    if algorithm not in (PHILOX, AUTO):
        ctx.fail(f"random algorithm {algorithm} is unknown: expected 1 (Philox) or 3 (automatic)")
    state = ctx.read_variable(0)
    if state.array_shape.rank != 1 or state.array_shape.dimensions[0] < 3:
        ctx.fail(f"the state of a generator must be a vector of three numbers, not {state.shape}")
    b = ctx.b
    words = state if state.array_shape.element_type is _U64 else b.bitcast_convert(state, _U64)
    low, high, key = (b.reshape(b.slice(words, [i], [i + 1]), []) for i in range(3))
    return philox.Generator(key, low, high)


def _skip(ctx: OpContext, g: philox.Generator, blocks: HloInstruction) -> None:
    b = ctx.b
    low = b.add(g.low, blocks)
    high = b.add(g.high, b.convert(b.compare(low, g.low, "LT"), _U64))
    state = ctx.read_variable(0)
    after = b.concatenate([b.reshape(w, [1]) for w in (low, high, g.key)], 0)
    kind, size = state.array_shape.element_type, state.array_shape.dimensions[0]
    after = after if kind is _U64 else b.bitcast_convert(after, kind)
    ctx.assign_variable(0, after if size == 3 else b.concatenate([after, b.slice(state, [3], [size])], 0))


def _from_variable(draw: Draw) -> Callable[[OpContext], HloInstruction]:
    """Inputs: state, algorithm, shape, ..."""

    def lower(ctx: OpContext) -> HloInstruction:
        g = _generator(ctx)
        dims = tuple(ctx.sizes(2))
        if any(d < 0 for d in dims):
            ctx.fail(f"shape {list(dims)} has a negative dimension")
        kind = ctx.element_type("dtype")
        count = math.prod(dims)
        drawn = draw(ctx, g, dims, kind) if count else broadcast_to(ctx.b, scalar_of(ctx, kind, 0), dims)
        _skip(ctx, g, scalar_of(ctx, _U64, count * _BLOCKS))
        return drawn

    return lower


for _name, _draw in {
    "Uniform": "RandomUniform",
    "StandardNormalV2": "RandomNormal",
    "TruncatedNormal": "TruncatedNormal",
    "UniformFullInt": "RandomUniformFullInt",
    "UniformInt": "RandomUniformInt",
}.items():
    register(f"Stateful{_name}", constants=(1, 2))(_from_variable(DRAWS[_draw]))


@register("RngSkip", constants=(1,))
def _rng_skip(ctx: OpContext) -> None:
    delta = ctx.input(2)
    wide = delta if delta.array_shape.element_type is _U64 else ctx.b.bitcast_convert(delta, _U64)
    _skip(ctx, _generator(ctx), ctx.b.multiply(wide, scalar_of(ctx, _U64, _BLOCKS)))


@register("RngReadAndSkip", constants=(1,))
def _rng_read_and_skip(ctx: OpContext) -> HloInstruction:
    """Return the old state (the first three numbers of a longer variable), and advance it."""
    before = ctx.b.slice(ctx.read_variable(0), [0], [3])
    _rng_skip(ctx)
    return before


@register("StatelessMultinomial", constants=(1,))
def _stateless_multinomial(ctx: OpContext) -> HloInstruction:
    """Return the first class whose cumulative probability, in double precision, exceeds a uniform
    number.
    """
    logits, count = ctx.input(0), int(ctx.number(1))
    b = ctx.b
    if logits.array_shape.rank != 2 or count < 0:
        ctx.fail(f"cannot draw {count} classes from logits {logits.shape}: expected a matrix")
    rows, classes = logits.array_shape.dimensions
    ctx.check_constant([classes, classes])
    kind = ctx.element_type("output_dtype")
    if not rows * count * classes:
        return broadcast_to(b, scalar_of(ctx, kind, 0), [rows, count])
    wide = b.convert(logits, PrimitiveType.F64)
    nothing = b.select(b.is_finite(wide), wide, filled(ctx, wide, -math.inf))
    largest = b.reduce(nothing, scalar(ctx, wide, -math.inf), [1], HloOpcode.MAXIMUM)
    likely = b.exp(b.subtract(nothing, b.broadcast_in_dim(largest, [rows, classes], [0])))
    sums = b.dot(likely, b.constant(np.triu(np.ones((classes, classes)))))
    total = b.broadcast_in_dim(b.slice(sums, [0, classes - 1], [rows, classes]), [rows, 1], [0, 1])
    drawn = philox.uniform(ctx, philox.seeded(ctx, ctx.input(2)), (rows, count), PrimitiveType.F64)
    wanted = b.multiply(drawn, broadcast_to(b, total, [rows, count]))
    dims = [rows, count, classes]
    passed = b.compare(b.broadcast_in_dim(sums, dims, [0, 2]), b.broadcast_in_dim(wanted, dims, [0, 1]), "LE")
    return b.reduce(b.convert(passed, kind), scalar_of(ctx, kind, 0), [2], HloOpcode.ADD)


@register("ParameterizedTruncatedNormal", constants=(0,))
def _parameterized_truncated_normal(ctx: OpContext) -> HloInstruction:
    """Invert the normal CDF at uniform numbers between its values at the bounds.

    Mean, deviation and bounds are scalars, or one for each row of the first dimension.
    """
    b = ctx.b
    dims, kind = ctx.sizes(0), ctx.element_type("dtype")
    wide = sum_type(kind)

    def spread(index: int) -> HloInstruction:
        x = b.convert(ctx.input(index), wide)
        size = x.array_shape.element_count
        if size not in (1, dims[0] if dims else 1):
            ctx.fail(f"input {index}, {x.shape}, has neither 1 element nor {dims[:1]}")
        return broadcast_to(b, b.reshape(x, [size, *[1] * (len(dims) - 1)] if dims else []), dims)

    mean, deviation, low, high = (spread(i) for i in range(1, 5))

    def below(bound: HloInstruction) -> HloInstruction:
        away = b.divide(b.subtract(bound, mean), deviation)
        return b.erf(b.multiply(away, filled(ctx, away, 1 / math.sqrt(2))))

    first, last = below(low), below(high)
    zero, one = (b.constant(wide.dtype.type(v)) for v in (0, 1))
    share = b.rng("rng_uniform", zero, one, array(wide, dims))
    at = erf_inv(ctx.b, b.add(first, b.multiply(share, b.subtract(last, first))))
    drawn = b.add(mean, b.multiply(deviation, b.multiply(at, filled(ctx, at, math.sqrt(2)))))
    return b.convert(b.clamp(low, drawn, high), kind)


@register("StochasticCastToInt", constants=(3,))
def _stochastic_cast(ctx: OpContext) -> HloInstruction:
    """Round down, or up with the fraction as probability; saturate, and map NaN to 0."""
    b, x = ctx.b, ctx.input(0)
    kind = ctx.element_type("Tout")
    wide = b.convert(x, PrimitiveType.F64)
    low = b.floor(wide)
    dims = x.array_shape.dimensions
    chance = philox.uniform(ctx, philox.given(ctx, ctx.input(1), ctx.input(2)), dims, PrimitiveType.F64)
    up = b.convert(b.compare(chance, b.subtract(wide, low), "LT"), PrimitiveType.F64)
    limits = np.iinfo(kind.dtype)
    kept = b.clamp(filled(ctx, wide, float(limits.min)), b.add(low, up), filled(ctx, wide, float(limits.max)))
    return b.convert(b.select(b.compare(wide, wide, "EQ"), kept, filled(ctx, wide, 0)), kind)


_ALGORITHMS = {PHILOX: "rng_philox", 2: "rng_three_fry", AUTO: "rng_default"}


@register("XlaRngBitGenerator", constants=(0, 2))
def _rng_bit_generator(ctx: OpContext) -> list[HloInstruction]:
    """The new state and random bits."""
    algorithm = int(ctx.number(0))
    if algorithm not in _ALGORITHMS:
        ctx.fail(f"random algorithm {algorithm} is not one of 1, 2, 3: {', '.join(_ALGORITHMS.values())}")
    kind = ctx.element_type("dtype")
    unsigned = next(t for t in (PrimitiveType.U8, PrimitiveType.U32, _U64) if t.bits == kind.bits)
    made = ctx.b.rng_bit_generator(ctx.input(1), array(unsigned, ctx.sizes(2)), _ALGORITHMS[algorithm])
    state, drawn = (ctx.b.get_tuple_element(made, i) for i in range(2))
    return [state, drawn if kind is unsigned else ctx.b.bitcast_convert(drawn, kind)]

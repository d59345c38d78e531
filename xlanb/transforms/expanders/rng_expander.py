"""Expand random numbers of a distribution into Philox.

    rng(f32[] a, f32[] b), distribution=rng_uniform, f32[n]
      =>  call(key, rng-get-and-update-state(), delta=n, a, b),
          to_apply={(b - a) * (bits >> 9) * 2^-23 + a}

Integers are `a` plus the bits modulo b - a. Normal numbers come from pairs of uniform ones (Box and
Muller). Each rng has its own key, drawn from a generator with a fixed seed; XLA's keys depend on
what else its process compiled before. Source: xla/hlo/transforms/expanders/rng_expander.h.
"""

from __future__ import annotations

import math
import random

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.expanders.philox import PhiloxCounter, philox_bits
from xlanb.transforms.verdict import OTHER_NUMBERS

P = PrimitiveType
_SMALL = frozenset((P.F16, P.BF16))
_FLOATS = frozenset((P.F32, P.F64))
_INTEGERS = frozenset((P.S32, P.U32, P.S64, P.U64))
_MANTISSA = {P.F32: 23, P.F64: 52}
_UNSIGNED = {32: P.U32, 64: P.U64}
_SEED = 42
_TINY = 1e-7
Made = dict[tuple[object, ...], HloComputation]


class RngExpander(HloPass):
    """Expands every rng over 32 or 64 bits; half precision is drawn in f32. Other types stay."""

    name = "rng-expander"
    keeps = OTHER_NUMBERS

    def apply(self, module: HloModule) -> None:
        keys, made = random.Random(_SEED), Made()  # noqa: S311  a fixed sequence is what is wanted
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.RNG and i.array_shape.element_count:
                    _expand(i, keys, made)


def _expand(i: HloInstruction, keys: random.Random, made: Made) -> None:
    b, shape, operands = Builder(i), i.array_shape, list(i.operands)
    kind = P.F32 if shape.element_type in _SMALL else shape.element_type
    is_known = kind in _FLOATS or (kind in _INTEGERS and i.get("distribution") == "rng_uniform")
    if not is_known:
        return
    if kind is not shape.element_type:
        operands = [b.convert(o, kind) for o in operands]
    drawn = shape.with_type(kind)
    f = _computation(i, drawn, made)
    key = b.scalar(keys.getrandbits(64), P.U64)
    state = b.add(O.RNG_GET_AND_UPDATE_STATE, (), array(P.U64, (2,)), delta=drawn.element_count * kind.bits // 32)
    result = b.add(O.CALL, (key, state, *operands), drawn, to_apply=f)
    if kind is not shape.element_type:
        result = b.convert(result, shape.element_type)
    i.parent.replace(i, result)


def _computation(i: HloInstruction, shape: ArrayShape, made: Made) -> HloComputation:
    """The computation that draws one shape of one distribution, created once."""
    signature = (i.get("distribution"), shape)
    if signature not in made:
        c = made[signature] = i.parent.module.add_computation("rng")
        kinds = (array(P.U64), array(P.U64, (2,)), array(shape.element_type), array(shape.element_type))
        names = ("key", "state", "a_or_mean", "b_or_sigma")
        key, state, a, spread = (
            c.add(O.PARAMETER, (), s, name=n, parameter_number=k)
            for k, (s, n) in enumerate(zip(kinds, names, strict=True))
        )
        b = Builder(state)
        low, high = (b.reshape(b.slice(state, (k,), (k + 1,)), ()) for k in range(2))
        draw = _Draw(b, key, PhiloxCounter(low, high))
        c.set_root(draw.normal(a, spread, shape) if signature[0] == "rng_normal" else draw.uniform(a, spread, shape))
    return made[signature]


@dataclass(frozen=True)
class _Draw:
    """Draws from one key and counter."""

    b: Builder
    key: HloInstruction
    counter: PhiloxCounter

    def _bits(self, shape: ArrayShape) -> HloInstruction:
        return philox_bits(self.b, self.key, self.counter, shape)[0]

    def uniform(self, low: HloInstruction, high: HloInstruction, shape: ArrayShape) -> HloInstruction:
        """Numbers from `low` up to, not including, `high`."""
        return (self._unit if shape.element_type in _FLOATS else self._integers)(low, high, shape)

    def _unit(self, low: HloInstruction, high: HloInstruction, shape: ArrayShape) -> HloInstruction:
        b, kind = self.b, shape.element_type
        bits = self._bits(shape)
        kept = b.binary(O.SHIFT_RIGHT_LOGICAL, bits, b.full(kind.bits - _MANTISSA[kind], bits.array_shape))
        value = b.convert(kept, kind)
        unit = b.binary(O.MULTIPLY, value, b.full(2.0 ** -_MANTISSA[kind], value.array_shape))
        scaled = b.binary(O.MULTIPLY, unit, b.broadcast(b.binary(O.SUBTRACT, high, low), (), shape))
        return b.binary(O.ADD, scaled, b.broadcast(low, (), shape))

    def _integers(self, low: HloInstruction, high: HloInstruction, shape: ArrayShape) -> HloInstruction:
        """low + bits mod (high - low), added in two halves, since the whole may overflow."""
        b, kind = self.b, shape.element_type
        unsigned = _UNSIGNED[kind.bits]
        bits = self._bits(shape)
        span = b.binary(O.SUBTRACT, self._as(high, unsigned), self._as(low, unsigned))
        over = b.binary(O.REMAINDER, bits, b.broadcast(span, (), bits.array_shape))
        half = b.binary(O.SHIFT_RIGHT_LOGICAL, over, b.full(1, over.array_shape))
        rest = b.binary(O.SUBTRACT, over, half)
        first = b.binary(O.ADD, b.broadcast(low, (), shape), self._as(half, kind))
        return b.binary(O.ADD, first, self._as(rest, kind))

    def _as(self, x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
        return x if x.shape.element_type is kind else self.b.add(O.BITCAST_CONVERT, (x,), x.array_shape.with_type(kind))

    def normal(self, mean: HloInstruction, sigma: HloInstruction, shape: ArrayShape) -> HloInstruction:
        """Normal numbers: the radius from the first of a pair, the angle from the second."""
        b, kind = self.b, shape.element_type
        pairs = -(-shape.element_count // 2)
        unit = self._unit(b.scalar(0, kind), b.scalar(1, kind), array(kind, (pairs, 2)))
        first, second = (b.slice(unit, (0, k), (pairs, k + 1)) for k in range(2))
        line = first.array_shape
        log = b.unary(O.LOG, b.binary(O.MAXIMUM, first, b.full(_TINY, line)))
        radius = b.unary(O.SQRT, b.binary(O.MULTIPLY, b.full(-2, line), log))
        angle = b.binary(O.MULTIPLY, b.full(2 * math.pi, line), second)
        both = [b.binary(O.MULTIPLY, b.unary(f, angle), radius) for f in (O.SINE, O.COSINE)]
        flat = b.reshape(b.add(O.CONCATENATE, both, dimensions=(1,)), (2 * pairs,))
        kept = flat if 2 * pairs == shape.element_count else b.slice(flat, (0,), (shape.element_count,))
        scaled = b.binary(O.MULTIPLY, b.broadcast(sigma, (), shape), b.reshape(kept, shape.dimensions))
        return b.binary(O.ADD, b.broadcast(mean, (), shape), scaled)

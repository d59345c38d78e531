"""Expand stochastic rounding into comparisons.

stochastic-convert(f32 x, u32 r) to s8
  =>  n = floor(|x|);  n + 1 where r < convert((|x| - n) * 2^32), else n;  with the sign of x;
      the type's bounds where x is at or past them

Source: xla/hlo/transforms/expanders/stochastic_convert_decomposer.h.
"""

from __future__ import annotations

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import PassError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.narrow_types import finfo
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class StochasticConvertDecomposer(HloPass):
    """Expands every stochastic-convert; its result type must be a signed integer."""

    name = "stochastic_convert_decomposer"
    triggers = frozenset((O.STOCHASTIC_CONVERT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.STOCHASTIC_CONVERT:
                    if not i.shape.element_type.is_signed:
                        raise PassError(
                            f"{self.name}: {i.name} converts to {i.shape.element_type}, "
                            f"expected a signed integer type: {i}"
                        )
                    c.replace(i, _decomposed(i))


def _decomposed(i: HloInstruction) -> HloInstruction:
    b, (x, random), kind = Builder(i), i.operands, i.shape.element_type
    bits = random.shape.element_type.bits
    whole, fraction = _split(b, x, bits)
    scaled = b.binary(O.MULTIPLY, fraction, b.full(2.0**bits, fraction.array_shape))
    rounds_up = b.compare(random, "LT", b.convert(scaled, random.shape.element_type))
    low = b.convert(whole, kind)
    magnitude = b.select(rounds_up, b.binary(O.ADD, low, b.full(1, low.array_shape)), low)
    is_negative = b.compare(b.unary(O.SIGN, x), "LT", b.full(0, x.array_shape))
    result = b.select(is_negative, b.unary(O.NEGATE, magnitude), magnitude)
    for bound, direction in ((-(1 << (kind.bits - 1)), "LE"), ((1 << (kind.bits - 1)) - 1, "GE")):
        with np.errstate(over="ignore"):  # infinity in a narrow type
            limit = b.full(bound, x.array_shape)
        is_past = b.compare(x, direction, limit)
        result = b.select(is_past, b.full(bound, result.array_shape), result)
    return result


def _split(b: Builder, x: HloInstruction, bits: int) -> tuple[HloInstruction, HloInstruction]:
    """|x| split into an integer and a fraction.

    The fraction is in f32 if 2^bits overflows x's type (XLA does so for f16 only).
    """
    magnitude = b.unary(O.ABS, x)
    whole = b.unary(O.FLOOR, magnitude)
    fraction = b.binary(O.SUBTRACT, magnitude, whole)
    overflows = float(finfo(x.array_shape.dtype).max) < 2.0**bits
    return whole, b.convert(fraction, PrimitiveType.F32) if overflows else fraction

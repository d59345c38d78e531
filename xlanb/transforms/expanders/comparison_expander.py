"""Replace total-order comparisons of floats by comparisons of integers.

    compare(a, b), direction=LT, type=TOTALORDER    =>    compare(key(a), key(b)), direction=LT

key(x) reads the bits of x as a signed integer and inverts all but the sign bit of negative numbers.
This orders them -NaN < -inf < .. < -0 < 0 < .. < inf < NaN. The operand with the narrower type is
converted first. Source: xla/service/comparison_expander.h.
"""

from __future__ import annotations

from xlanb.analysis.mixed_precision import common_type
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

_BITS = {16: PrimitiveType.S16, 32: PrimitiveType.S32, 64: PrimitiveType.S64}


class ComparisonExpander(HloPass):
    """Expands total-order comparisons of floats."""

    name = "comparison-expander"
    triggers = frozenset((O.COMPARE,))

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.COMPARE and i.attributes.get("type") == "TOTALORDER" and _has_key(_compared(i)):
                    _expand(i)


def _compared(i: HloInstruction) -> PrimitiveType:
    """The type of a comparison: the wider of its operands' types."""
    return common_type({o.array_shape.element_type for o in i.operands})


def _has_key(t: PrimitiveType) -> bool:
    return t.is_floating and t.bits in _BITS


def _expand(i: HloInstruction) -> None:
    b, t = Builder(i), _compared(i)
    integers = i.operands[0].array_shape.with_type(_BITS[t.bits])
    # As in XLA, scalars are broadcast and the sign bit is kept, though signed keys don't need it;
    # algsimp and dce remove both.
    top = 1 << (integers.element_type.bits - 1)
    zero, low_bits, _ = (
        b.add(O.BROADCAST, (b.scalar(value, integers.element_type),), integers, dimensions=())
        for value in (0, top - 1, -top)
    )
    operands = (b.as_type(o, t) for o in i.operands)
    left, right = (_key(b, o, zero, low_bits) for o in operands)
    i.parent.replace(i, b.add(O.COMPARE, (left, right), i.shape, direction=i.get("direction")))


def _key(b: Builder, x: HloInstruction, zero: HloInstruction, low_bits: HloInstruction) -> HloInstruction:
    bits = b.add(O.BITCAST_CONVERT, (x,), zero.shape)
    return b.select(b.compare(bits, "LT", zero), b.binary(O.XOR, low_bits, bits), bits)

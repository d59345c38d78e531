"""Dots and convolutions whose result is wider than what they multiply (xla/service/operand_upcaster.h).

s32[4,4] dot(s8[4,8] a, s8[8,4] b)    =>    dot(convert(s32, a), convert(s32, b))
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

PRODUCTS = frozenset({O.DOT, O.CONVOLUTION})
"""Opcodes that may give another element type than their operands'."""


def holds_all_of(wide: PrimitiveType, narrow: PrimitiveType) -> bool:
    """Whether a wider type of the same kind, or a float for an integer: what XLA calls the higher precision."""
    if wide.is_integral and narrow.is_integral:
        return wide.bits > narrow.bits or (wide.bits == narrow.bits and wide.is_signed and narrow.is_unsigned)
    rank = (
        (narrow.is_integral, narrow.is_floating, narrow.is_complex).index(True)
        if narrow is not PrimitiveType.PRED
        else -1
    )
    ours = (wide.is_integral, wide.is_floating, wide.is_complex).index(True) if wide is not PrimitiveType.PRED else -1
    return ours > rank or (ours == rank and wide.bits > narrow.bits)


@dataclass(frozen=True)
class OperandUpcaster(HloPass):
    """Converts operands to the type of the result where that is wider."""

    name = "operand_upcaster"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                kind = i.shape.element_type if i.opcode in PRODUCTS else None
                if (
                    kind is not None
                    and all(_fits(o, kind) for o in i.operands[:2])
                    and any(o.shape.element_type is not kind for o in i.operands[:2])
                ):
                    _upcast(i, kind)


def _fits(o: HloInstruction, kind: PrimitiveType) -> bool:
    return o.shape.element_type is kind or holds_all_of(kind, o.shape.element_type)


def _upcast(i: HloInstruction, kind: PrimitiveType) -> None:
    b = Builder(i)
    operands = [o if o.shape.element_type is kind else b.convert(o, kind) for o in i.operands[:2]]
    i.parent.set_operands(i, [*operands, *i.operands[2:]])

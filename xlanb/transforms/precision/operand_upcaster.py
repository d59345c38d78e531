"""Upcast the operands of dots and convolutions to the type of the result.

s32[4,4] dot(s8[4,8] a, s8[8,4] b)    =>    dot(convert(s32, a), convert(s32, b))

Source: xla/service/operand_upcaster.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.shape_inference.registry import product_type
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

PRODUCTS = frozenset({O.DOT, O.CONVOLUTION})
"""Opcodes whose result may have a different element type than their operands."""


def computed_in(i: HloInstruction) -> PrimitiveType:
    """The type in which a dot or convolution computes, before its result is converted."""
    left, right = (o.shape.element_type for o in i.operands[:2])
    return product_type(left, right, i.shape.element_type)


class OperandUpcaster(HloPass):
    """Converts operands to the result's type if that is wider."""

    name = "operand_upcaster"
    triggers = PRODUCTS

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode not in PRODUCTS:
                    continue
                kind = i.shape.element_type
                mixed = any(o.shape.element_type is not kind for o in i.operands[:2])
                if mixed and computed_in(i) is kind:
                    _upcast(i, kind)


def _upcast(i: HloInstruction, kind: PrimitiveType) -> None:
    b = Builder(i)
    operands = [b.as_type(o, kind) for o in i.operands[:2]]
    i.parent.set_operands(i, [*operands, *i.operands[2:]])

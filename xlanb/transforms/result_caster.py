"""Dots and convolutions whose result holds less than what they multiply (xla/service/result_caster.h).

s32[4,4] dot(f32[4,8] a, f32[8,4] b)    =>    convert(s32, f32[4,4] dot(a, b))
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.operand_upcaster import PRODUCTS, holds_all_of


@dataclass(frozen=True)
class ResultCaster(HloPass):
    """Computes in the wider type of the operands, and converts the result."""

    name = "result_caster"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode in PRODUCTS:
                    wide = _operand_type(i)
                    if wide is not i.shape.element_type and holds_all_of(wide, i.shape.element_type):
                        c.replace(
                            i,
                            Builder(i).convert(
                                c.clone_instruction(i, shape=i.array_shape.with_type(wide)), i.shape.element_type
                            ),
                        )


def _operand_type(i: HloInstruction) -> PrimitiveType:
    left, right = (o.shape.element_type for o in i.operands[:2])
    return right if holds_all_of(right, left) else left

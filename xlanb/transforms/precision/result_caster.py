"""Compute dots and convolutions in the operands' type if the result's type is narrower.

s32[4,4] dot(f32[4,8] a, f32[8,4] b)    =>    convert(s32, f32[4,4] dot(a, b))

Source: xla/service/result_caster.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.module import HloModule
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.precision.operand_upcaster import PRODUCTS, computed_in


class ResultCaster(HloPass):
    """Computes in the wider type of the operands, and converts the result."""

    name = "result_caster"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode not in PRODUCTS:
                    continue
                kind, wide = i.shape.element_type, computed_in(i)
                if wide is not kind:
                    computed = c.clone_instruction(i, shape=i.array_shape.with_type(wide))
                    c.replace(i, Builder(i).convert(computed, kind))

"""Replace arrays without elements by constants.

a = f32[0,4] add(x, y)    =>    a = f32[0,4] constant({})

Source: xla/hlo/transforms/simplifiers/zero_sized_hlo_elimination.h.
"""

from __future__ import annotations

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Literal
from xlanb.transforms.base import HloPass


class ZeroSizedHloElimination(HloPass):
    """Replaces every instruction whose value has no elements."""

    name = "zero_sized_hlo_elimination"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if _is_empty(i) and i in c:
                    shape = i.array_shape
                    c.replace(i, c.constant(Literal(shape, np.zeros(shape.dimensions, shape.dtype)), like=i))


def _is_empty(i: HloInstruction) -> bool:
    shape = i.shape
    if not isinstance(shape, ArrayShape) or shape.element_count or not shape.is_array or shape.is_dynamic:
        return False
    if i.opcode in (O.CONSTANT, O.PARAMETER) or i.control_predecessors or i.control_successors:
        return False
    return not i.has_side_effect

"""Transposes folded into the dots that read them (xla/hlo/transforms/simplifiers/... transpose_folding.h).

t = transpose(a), dimensions={1,0};  dot(t, b), lhs_contracting_dims={1}    =>    dot(a, b), lhs_contracting_dims={0}
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason


@dataclass(frozen=True)
class TransposeFolding(HloPass):
    """Lets dots read untransposed operands; batch dimensions must stay where they are."""

    name = "transpose-folding"
    triggers = frozenset((HloOpcode.DOT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is HloOpcode.DOT:
                    _fold(i)


@reason("dot(transpose(A), B) => dot(A, B) with other dimensions")
def _fold(dot: HloInstruction) -> None:
    for n, side in enumerate(("lhs", "rhs")):
        t = dot.operands[n]
        if t.opcode is not HloOpcode.TRANSPOSE or any(t.dimensions[d] != d for d in dot.ints(f"{side}_batch_dims")):
            continue
        contracted = dot.ints(f"{side}_contracting_dims")
        free = [
            t.dimensions[d]
            for d in range(t.array_shape.rank)
            if d not in contracted and d not in dot.ints(f"{side}_batch_dims")
        ]
        if free != sorted(free):
            continue  # the result would come out in another order
        dot.parent.update(dot, attributes={f"{side}_contracting_dims": tuple(t.dimensions[d] for d in contracted)})
        dot.parent.replace_operand(dot, n, t.operands[0])
        dot.parent.remove_dead(t)

"""Remove batch dimensions of size 1 from dots (xla/service/batch_dot_simplification.h).

dot(f32[1,4,8] a, f32[1,8,5] b), batch {0}, contracting {2} and {1}
  =>  reshape(f32[1,4,5], dot(reshape(f32[4,8], a), reshape(f32[8,5], b)))
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class BatchDotSimplification(HloPass):
    """Removes degenerate batch dimensions from every dot."""

    name = "batch-dot-simplification"
    triggers = frozenset((O.DOT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode is O.DOT
                    and len(i.operands) == 2
                    and not any(o.array_shape.is_dynamic for o in i.operands)
                    and _degenerate(i)
                ):
                    c.replace(i, _without(i, _degenerate(i)))


def _degenerate(dot: HloInstruction) -> list[int]:
    """The indices, in the list of batch dimensions, of those of size 1."""
    return [n for n, d in enumerate(dot.ints("lhs_batch_dims")) if dot.operands[0].array_shape.dimensions[d] == 1]


def _without(dot: HloInstruction, dropped: list[int]) -> HloInstruction:
    b = Builder(dot)
    operands, attributes = [], dict(dot.attributes)
    for side, o in zip(("lhs", "rhs"), dot.operands, strict=True):
        batch, contracted = dot.ints(f"{side}_batch_dims"), dot.ints(f"{side}_contracting_dims")
        gone = {batch[n] for n in dropped}
        left = [d for d in range(o.array_shape.rank) if d not in gone]
        operands.append(b.reshape(o, [o.array_shape.dimensions[d] for d in left]))
        attributes[f"{side}_batch_dims"] = tuple(left.index(d) for d in batch if d not in gone) or None
        attributes[f"{side}_contracting_dims"] = tuple(left.index(d) for d in contracted)
    dims = [n for d, n in enumerate(dot.array_shape.dimensions) if d not in dropped]
    made = b.add(O.DOT, operands, array(dot.shape.element_type, dims), **attributes)
    return b.add(O.RESHAPE, (made,), dot.shape)

"""Replace matrix-vector products by matrix products.

dot(f32[8,16] m, f32[16] v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  =>  reshape(f32[8], dot(m, reshape(f32[16,1], v)))

Source: xla/hlo/transforms/simplifiers/gemv_rewriter.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class GemvRewriter(HloPass):
    """Adds a dimension of size 1 to the vector operand of a matrix-vector dot."""

    name = "gemv-rewriter"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and (side := _vector_side(i)) is not None:
                    c.replace(i, _rewritten(i, side))


def _vector_side(i: HloInstruction) -> int | None:
    """The index of the vector operand; None unless the other is a matrix and both row-major."""
    batch = len(i.ints("lhs_batch_dims"))
    shapes = [o.array_shape for o in i.operands]
    if any(len(i.ints(f"{name}_contracting_dims")) != 1 for name in ("lhs", "rhs")):
        return None
    if any(s.is_dynamic or list(s.minor_to_major) != sorted(s.minor_to_major, reverse=True) for s in shapes):
        return None
    ranks = [s.rank - batch for s in shapes]
    return ranks.index(1) if sorted(ranks) == [1, 2] else None


def _rewritten(i: HloInstruction, side: int) -> HloInstruction:
    b, operands = Builder(i), list(i.operands)
    vector = operands[side]
    operands[side] = b.reshape(vector, (*vector.array_shape.dimensions, 1))
    dims = list(i.array_shape.dimensions)
    dims.insert(len(i.ints("lhs_batch_dims")) if side == 0 else len(dims), 1)
    product = i.parent.clone_instruction(i, operands, array(i.array_shape.element_type, dims))
    return b.add(O.RESHAPE, (product,), i.shape)

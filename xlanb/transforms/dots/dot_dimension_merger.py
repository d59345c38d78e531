"""Merge adjacent batch dimensions of a dot (xla/.../dot_dimension_merger.h).

dot(f32[2,3,4,8] a, f32[2,3,8,5] b), batch {0,1}
  =>  reshape(f32[2,3,4,5], dot(reshape(f32[6,4,8], a), reshape(f32[6,8,5], b)), batch {0})
"""

from __future__ import annotations

import math

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class DotDimensionMerger(HloPass):
    """Merges batch dimensions that are adjacent in both operands, if that moves no bytes."""

    name = "dot_dimension_merger"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.DOT and len(i.operands) == 2 and _is_mergeable(i):
                    c.replace(i, _merged(i))


def _is_mergeable(dot: HloInstruction) -> bool:
    sides = [(dot.ints(f"{s}_batch_dims"), o.array_shape) for s, o in zip(("lhs", "rhs"), dot.operands, strict=True)]
    n = len(sides[0][0])
    if n < 2 or dot.array_shape.is_dynamic:
        return False
    in_a_row = all(batch == tuple(range(batch[0], batch[0] + n)) for batch, _ in sides)
    return in_a_row and all(
        not s.is_dynamic and s.minor_to_major == tuple(reversed(range(s.rank)))
        for s in (*(s for _, s in sides), dot.array_shape)
    )


def _merged(dot: HloInstruction) -> HloInstruction:
    b, n = Builder(dot), len(dot.ints("lhs_batch_dims"))
    operands, attributes = [], dict(dot.attributes)
    for side, o in zip(("lhs", "rhs"), dot.operands, strict=True):
        first = dot.ints(f"{side}_batch_dims")[0]
        dims = o.array_shape.dimensions
        operands.append(b.reshape(o, (*dims[:first], math.prod(dims[first : first + n]), *dims[first + n :])))
        attributes[f"{side}_batch_dims"] = (first,)
        attributes[f"{side}_contracting_dims"] = tuple(
            d if d < first else d - n + 1 for d in dot.ints(f"{side}_contracting_dims")
        )
    dims = dot.array_shape.dimensions
    made = b.add(O.DOT, operands, array(dot.shape.element_type, (math.prod(dims[:n]), *dims[n:])), **attributes)
    return b.add(O.RESHAPE, (made,), dot.shape)

"""Sort the dimensions of broadcasts (xla/hlo/transforms/simplifiers/broadcast_canonicalizer.h).

f32[8,2,4] broadcast(f32[4,8] x), dimensions={2,0}
  =>  transpose(f32[4,2,8] broadcast(x), dimensions={0,2}), dimensions={2,1,0}
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class BroadcastCanonicalizer(HloPass):
    """Sorts the dimensions of broadcasts, and transposes the result."""

    name = "broadcast_canonicalizer"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.BROADCAST and list(i.dimensions) != sorted(i.dimensions):
                    c.replace(i, _canonical(i))


def _canonical(i: HloInstruction) -> HloInstruction:
    b, x = Builder(i), i.operands[0]
    ordered = sorted(i.dimensions)
    sizes, permutation = list(i.array_shape.dimensions), list(range(i.array_shape.rank))
    for n, d in enumerate(ordered):
        sizes[d] = x.array_shape.dimensions[n]
        permutation[i.dimensions[n]] = d
    made = b.broadcast(x, ordered, array(i.shape.element_type, sizes))
    return b.add(O.TRANSPOSE, (made,), i.shape, dimensions=tuple(permutation))

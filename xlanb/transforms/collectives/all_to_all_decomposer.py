"""Split an all-to-all of one array into an all-to-all of its pieces.

all-to-all(f32[8] x), replica_groups={{0,1}}, dimensions={0}
  =>  concatenate(all-to-all(slice(x), {[0:4]}, slice(x), {[4:8]})), dimensions={0}

Source: xla/hlo/transforms/expanders/all_to_all_decomposer.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.errors import PassError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.verifier.collectives import group_size
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class AllToAllDecomposer(HloPass):
    """Splits the operand of every all-to-all over a dimension into one piece per participant.

    Raises PassError if the number of participants does not divide the dimension.
    """

    name = "all_to_all_decomposer"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.ALL_TO_ALL and i.shape.is_array and i.dimensions and len(i.operands) == 1:
                    c.replace(i, _decomposed(i))


def _decomposed(i: HloInstruction) -> HloInstruction:
    b, x, d = Builder(i), i.operands[0], i.dimensions[0]
    dims, count = x.array_shape.dimensions, group_size(i)
    if dims[d] % count:
        raise PassError(f"dimension {d} is not divisible by {count} participants: {x.array_shape}: {i}")
    size = dims[d] // count
    pieces = []
    for k in range(count):
        starts, limits = [0] * len(dims), list(dims)
        starts[d], limits[d] = k * size, (k + 1) * size
        pieces.append(b.slice(x, starts, limits))
    given = {k: v for k, v in i.attributes.items() if k != "dimensions"}
    sent = b.add(O.ALL_TO_ALL, pieces, tuple_of(p.shape for p in pieces), **given)
    return b.add(O.CONCATENATE, [b.element(sent, k) for k in range(count)], i.shape, dimensions=(d,))

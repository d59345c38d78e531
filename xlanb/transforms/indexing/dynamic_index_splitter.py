"""Split index vectors of dynamic slices into one scalar index per dimension.

dynamic-slice(f32[8,8] x, s32[2] i)
  =>  dynamic-slice(x, reshape(s32[], slice(i), [0:1]), reshape(s32[], slice(i), [1:2]))
dynamic-slice(f32[] x, s32[0] i)
  =>  x

Source: xla/hlo/transforms/expanders/dynamic_index_splitter.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class DynamicIndexSplitter(HloPass):
    """Splits vectors of start indices into scalars."""

    name = "dynamic-index-splitter"
    triggers = frozenset((O.DYNAMIC_SLICE, O.DYNAMIC_UPDATE_SLICE))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                first = _FIRST_INDEX.get(i.opcode)
                if first is None:
                    continue
                if i.operands[0].array_shape.rank == 0:
                    c.replace(i, i.operands[first - 1])
                elif i.operands[first].array_shape.rank == 1:
                    _split(i, first)


_FIRST_INDEX = {O.DYNAMIC_SLICE: 1, O.DYNAMIC_UPDATE_SLICE: 2}


def _split(i: HloInstruction, first: int) -> None:
    b, indices = Builder(i), i.operands[first]
    scalars = [b.reshape(b.slice(indices, (d,), (d + 1,)), ()) for d in range(indices.array_shape.dimensions[0])]
    i.parent.replace(i, b.add(i.opcode, (*i.operands[:first], *scalars), i.shape, **i.attributes))

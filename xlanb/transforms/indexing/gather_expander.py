"""Replace gathers of one slice by dynamic slices (kEliminateSimpleGathers, as in XLA:CPU).

gather(f32[10,4] x, s32[1] i), offset_dims={0}, collapsed_slice_dims={0}, slice_sizes={1,4}
  =>  reshape(f32[4], dynamic-slice(x, i, 0), {1,4})

Source: xla/service/gather_expander.h.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class GatherExpander(HloPass):
    """Expands gathers with one index vector; both forms clamp an out-of-bounds slice."""

    name = "gather_expander"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.GATHER and i.array_shape.element_count and _is_simple(i):
                    c.replace(i, _expanded(i))


def _is_simple(i: HloInstruction) -> bool:
    if i.ints("operand_batching_dims") or involves_dynamic(i):
        return False
    return index_count(i.operands[1], i.get("index_vector_dim")) == 1


def index_count(indices: HloInstruction, vector_dim: int) -> int:
    """The number of index vectors in an array."""
    return math.prod(n for d, n in enumerate(indices.array_shape.dimensions) if d != vector_dim)


def start_scalars(b: Builder, indices: HloInstruction, mapped: Sequence[int], rank: int) -> list[HloInstruction]:
    """A scalar start per operand dimension, from the only index vector; 0 if it has none."""
    vector = b.reshape(indices, (len(mapped),))
    zero = b.scalar(0, indices.shape.element_type)
    places = {d: n for n, d in enumerate(mapped)}
    return [
        b.reshape(b.slice(vector, (places[d],), (places[d] + 1,)), ()) if d in places else zero for d in range(rank)
    ]


def _expanded(gather: HloInstruction) -> HloInstruction:
    b, (x, indices) = Builder(gather), gather.operands
    if x.array_shape.rank == 0:
        return b.broadcast(x, (), gather.array_shape)
    starts = start_scalars(b, indices, gather.ints("start_index_map"), x.array_shape.rank)
    taken = b.add(O.DYNAMIC_SLICE, (x, *starts), dynamic_slice_sizes=gather.ints("slice_sizes"))
    # The reshape inserts or removes dimensions of size 1; the others keep their order.
    return b.add(O.RESHAPE, (taken,), gather.shape)

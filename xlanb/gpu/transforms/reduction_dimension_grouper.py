"""Merge adjacent reduced dimensions (reduction_dimension_grouper.cc).

r = f32[8] reduce(f32[2,8,16,16] x, 0), dimensions={0,2,3}
=>    r = f32[8] reduce(f32[2,8,256] bitcast(x), 0), dimensions={0,2}
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.transforms.reductions import bitcast_to, inputs_of, is_plain, is_row_major, rebuilt
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL


class ReductionDimensionGrouper(HloPass):
    """Bitcasts row-major operands of reductions so that no two reduced dimensions are adjacent."""

    name = "reduction-dimension-grouper"
    triggers = frozenset((O.REDUCE,))
    keeps = REAL  # sums are folded in another order
    ulps = 64.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.REDUCE and is_plain(i) and _has_neighbours(i):
                    _group(i)


def _has_neighbours(i: HloInstruction) -> bool:
    reduced = set(i.dimensions)
    return any(d + 1 in reduced for d in reduced) and all(is_row_major(o.array_shape) for o in inputs_of(i))


@reason("they are reduced together")
def _group(i: HloInstruction) -> None:
    reduced = set(i.dimensions)
    groups: list[list[int]] = []
    for d in range(i.operands[0].array_shape.rank):
        if d in reduced and d - 1 in reduced:
            groups[-1].append(d)
        else:
            groups.append([d])
    operands = []
    for o in inputs_of(i):
        shape = o.array_shape
        sizes = [1] * len(groups)
        for n, group in enumerate(groups):
            for d in group:
                sizes[n] *= shape.dimensions[d]
        operands.append(bitcast_to(o, array(shape.element_type, sizes)))
    dimensions = [n for n, group in enumerate(groups) if group[0] in reduced]
    rebuilt(i, operands, dimensions, lambda shape: shape)

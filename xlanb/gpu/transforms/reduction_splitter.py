"""Split reductions that are neither row nor column reductions (reduction_splitter.cc).

r = f32[16,32] reduce(f32[16,64,32,64] x, 0), dimensions={1,3}
=>    p = f32[16,32,64] reduce(x, 0), dimensions={1};  r = f32[16,32] reduce(p, 0), dimensions={2}
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.reductions import is_reduction_of_rows_or_columns
from xlanb.gpu.transforms.reductions import is_plain, is_row_major, may_restart
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL


class ReductionSplitter(HloPass):
    """Reduces the longest of several dimensions first, repeatedly until one is left."""

    name = "reduction-splitter"
    triggers = frozenset((O.REDUCE,))
    keeps = REAL
    ulps = 64.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            pending = [i for i in c.post_order() if i.opcode is O.REDUCE]
            while pending:
                i = pending.pop()
                if _is_split(i):
                    pending.append(_split(i))


def _is_split(i: HloInstruction) -> bool:
    """Whether a single-array reduction has several non-adjacent dimensions."""
    if not i.shape.is_array or len(i.dimensions) < 2 or not is_plain(i) or not may_restart(i):
        return False
    if is_reduction_of_rows_or_columns(i) or not is_row_major(i.operands[0].array_shape):
        return False
    return not any(d + 1 in i.dimensions for d in i.dimensions)


@reason("the emitters cannot reduce non-adjacent dimensions")
def _split(i: HloInstruction) -> HloInstruction:
    """Reduce the longest dimension first; return the reduction of the others, in place of `i`."""
    x, start = i.operands
    sizes = x.array_shape.dimensions
    longest = max(i.dimensions, key=lambda d: sizes[d])  # the first of several
    shape = array(i.array_shape.element_type, [n for d, n in enumerate(sizes) if d != longest])
    c = i.parent
    first = c.add(O.REDUCE, (x, start), shape, like=i, dimensions=(longest,), to_apply=i.to_apply)
    rest = tuple(d - (d > longest) for d in i.dimensions if d != longest)
    return c.replace_with(i, O.REDUCE, (first, start), dimensions=rest, to_apply=i.to_apply)

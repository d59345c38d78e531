"""Make the operands of reductions row-major (reduction_layout_normalizer.cc).

    r = f32[8] reduce(f32[8,64]{0,1} x, 0), dimensions={1}
    =>  r = f32[8] reduce(f32[64,8]{1,0} bitcast(x), 0), dimensions={0}

If the result's dimensions have another memory order than the operand's kept ones, the new result
gets a matching layout, and is bitcast to the old shape.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.transforms.reductions import bitcast_to, inputs_of, is_plain, is_row_major, rebuilt
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Layout
from xlanb.transforms.base import HloPass
from xlanb.transforms.layout.layout_normalization import inverse, permutation, row_major
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL


class ReductionLayoutNormalizer(HloPass):
    """Bitcasts the operands of reductions to row-major shapes."""

    name = "reduction-layout-normalizer"
    triggers = frozenset((O.REDUCE,))
    keeps = REAL  # sums are folded in another order
    ulps = 64.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.REDUCE and is_plain(i) and _is_normalized(i):
                    _normalize(i)


def _is_normalized(i: HloInstruction) -> bool:
    """Whether all operands share one layout, which is not row-major."""
    orders = {o.array_shape.minor_to_major for o in inputs_of(i)}
    return len(orders) == 1 and not is_row_major(i.operands[0].array_shape)


@reason("the row-major operand")
def _normalize(i: HloInstruction) -> None:
    order = permutation(i.operands[0].array_shape)
    operands = [bitcast_to(o, row_major(o.array_shape)) for o in inputs_of(i)]
    dimensions = [n for n, d in enumerate(order) if d in i.dimensions]
    # Dimension n of a new result is dimension kept[n] of the old one.
    logical = {d: n for n, d in enumerate(d for d in range(len(order)) if d not in i.dimensions)}
    kept = [logical[d] for d in order if d in logical]
    places = inverse(kept)

    def shape_of(old: ArrayShape) -> ArrayShape:
        layout = Layout(tuple(places[d] for d in old.minor_to_major))
        return ArrayShape(old.element_type, tuple(old.dimensions[d] for d in kept), layout)

    rebuilt(i, operands, dimensions, shape_of)

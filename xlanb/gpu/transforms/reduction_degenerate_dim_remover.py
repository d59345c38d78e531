"""Remove dimensions of size 1 from reductions (reduction_degenerate_dim_remover.cc).

    r = f32[1,8] reduce(f32[1,8,1,64] x, 0), dimensions={2,3}
    =>    r = f32[1,8] bitcast(f32[8] reduce(f32[8,64] bitcast(x), 0), dimensions={1})

A dimension of size 1 between two others hides that they are reduced together.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.transforms.reductions import bitcast_to, inputs_of, is_plain, rebuilt
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason


class ReductionDegenerateDimRemover(HloPass):
    """Bitcasts the operands of reductions to shapes without dimensions of size 1."""

    name = "reduction-degenerate-dim-remover"
    triggers = frozenset((O.REDUCE,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.REDUCE and is_plain(i) and _has_degenerate(i):
                    _drop_degenerate(i)


def _has_degenerate(i: HloInstruction) -> bool:
    """Whether it has a dimension of size 1, and also reduces another one."""
    sizes = i.operands[0].array_shape.dimensions
    return 1 in sizes and any(sizes[d] != 1 for d in i.dimensions)


@reason("dimensions of size 1 do not affect the layout")
def _drop_degenerate(i: HloInstruction) -> None:
    sizes = i.operands[0].array_shape.dimensions
    kept = [d for d, n in enumerate(sizes) if n != 1]
    dimensions = [n for n, d in enumerate(kept) if d in i.dimensions]
    operands = [bitcast_to(o, _squeezed(o.array_shape)) for o in inputs_of(i)]
    rebuilt(i, operands, dimensions, _squeezed)


def _squeezed(shape: ArrayShape) -> ArrayShape:
    return array(shape.element_type, [n for n in shape.dimensions if n != 1])

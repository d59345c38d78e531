"""Add a contracting dimension of size 1 to dots without one.

Follows xla/service/gpu/transforms/dot_normalizer.cc.

dot(f32[3] a, f32[4] b)
=>  dot(bitcast(f32[3,1], a), bitcast(f32[4,1], b)),
    lhs_contracting_dims={1}, rhs_contracting_dims={1}
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import MOVES


class DotNormalizer(HloPass):
    """Adds a last, contracting dimension of size 1 to the operands of dots without one."""

    name = "dot_normalizer"
    triggers = frozenset((O.DOT,))
    keeps = MOVES

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode is O.DOT and not i.ints("lhs_contracting_dims"):
                    _normalize(i)


@reason("a dot without contracting dimensions => a dot over a dimension of size 1")
def _normalize(dot: HloInstruction) -> None:
    c, given = dot.parent, dot.operands[:2]
    c.set_operands(dot, (*(_with_one_more(o) for o in given), *dot.operands[2:]))
    contracted = {f"{n}_contracting_dims": (o.array_shape.rank,) for n, o in zip(("lhs", "rhs"), given, strict=True)}
    c.update(dot, attributes=contracted)


def _with_one_more(i: HloInstruction) -> HloInstruction:
    """Return an array with a last, minormost dimension of size 1."""
    s = i.array_shape
    shape = array(s.element_type, (*s.dimensions, 1)).with_layout((s.rank, *s.minor_to_major))
    return Builder(i).add(O.BITCAST, (i,), shape)

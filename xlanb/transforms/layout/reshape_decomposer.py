"""Replace reshapes by bitcasts, after a copy if bytes move (xla/service/reshape_decomposer.h).

r = f32[6]{0} reshape(f32[2,3]{1,0} x)    =>    r = f32[6]{0} bitcast(x)
r = f32[6]{0} reshape(f32[2,3]{0,1} x)    =>    c = f32[2,3]{1,0} copy(x);  r = f32[6]{0} bitcast(c)
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape import ArrayShape, Layout
from xlanb.transforms.base import HloPass
from xlanb.transforms.bitcasts import is_bitcast
from xlanb.transforms.builder import Builder


class ReshapeDecomposer(HloPass):
    """Replaces every reshape by bitcasts and copies; layouts must be set."""

    name = "reshape-decomposer"
    triggers = frozenset((HloOpcode.RESHAPE,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is HloOpcode.RESHAPE and not involves_dynamic(i):
                    i.parent.replace(i, _decomposed(i))


def _decomposed(reshape: HloInstruction) -> HloInstruction:
    b, source = Builder(reshape), reshape.operands[0]
    shape = reshape.array_shape
    if not is_bitcast(source.array_shape, shape):
        rows = _row_major(source.array_shape)
        source = b.add(HloOpcode.COPY, (source,), rows) if source.shape != rows else source
    flat = _row_major(shape).with_type(source.array_shape.element_type)
    if is_bitcast(source.array_shape, shape):
        return b.bitcast(source, shape)
    return b.add(HloOpcode.COPY, (b.bitcast(source, flat),), shape)


def _row_major(shape: ArrayShape) -> ArrayShape:
    return shape.with_layout(Layout.default(shape.rank))

"""Transpose convolutions so that features are last (the pass convolution-canonicalization).

convolution(x, k), dim_labels=bf01_oi01->bf01
  =>  transpose(convolution(transpose(x), transpose(k)), dim_labels=b01f_01io->b01f)

Source: xla/service/cpu/conv_canonicalization.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.attributes import ConvolutionDimensionNumbers
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class ConvCanonicalization(HloPass):
    """Transposes convolutions to the dimension order of the fast kernels."""

    name = "convolution-canonicalization"
    triggers = frozenset((O.CONVOLUTION,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode is O.CONVOLUTION
                    and _is_fast(i)
                    and i.attributes["dim_labels"] != canonical(len(i.window.dimensions))
                ):
                    i.parent.replace(i, _canonicalized(i))


def canonical(spatial: int) -> ConvolutionDimensionNumbers:
    """b01f_01io->b01f for this number of spatial dimensions."""
    inner = tuple(range(1, spatial + 1))
    return ConvolutionDimensionNumbers(
        0, spatial + 1, inner, spatial, spatial + 1, tuple(range(spatial)), 0, spatial + 1, inner
    )


def _is_fast(i: HloInstruction) -> bool:
    window = i.window.dimensions
    if not 1 <= len(window) <= 3 or any(w.reversal for w in window) or i.get("batch_group_count") != 1:
        return False
    return i.shape.element_type in (PrimitiveType.F16, PrimitiveType.F32, PrimitiveType.S32) and not any(
        o.array_shape.is_dynamic for o in i.operands
    )


def _canonicalized(i: HloInstruction) -> HloInstruction:
    b = Builder(i)
    n: ConvolutionDimensionNumbers = i.attributes["dim_labels"]
    x, k = i.operands
    left = b.transpose(x, (n.input_batch, *n.input_spatial, n.input_feature))
    kernel = b.transpose(k, (*n.kernel_spatial, n.kernel_input_feature, n.kernel_output_feature))
    order = (n.output_batch, *n.output_spatial, n.output_feature)
    shape = array(i.shape.element_type, [i.array_shape.dimensions[d] for d in order])
    made = b.add(
        O.CONVOLUTION, (left, kernel), shape, **{**i.attributes, "dim_labels": canonical(len(n.input_spatial))}
    )
    return b.add(O.TRANSPOSE, (made,), i.shape, dimensions=tuple(order.index(d) for d in range(len(order))))

"""Pad arrays of dynamic size to their bounds and track their sizes.

    d = f32[<=8] set-dimension-size(x, n), dimensions={0};  reduce(exponential(d), 0)
      =>  reduce(select(iota < n, exponential(x), 0), 0)

padded_computation rewrites a computation, and dynamic_padding has the rules per opcode. If an
instruction needs its elements contiguous (a loop, a sort along the dimension, a parameter or
result), the custom calls SliceToDynamic and PadToStatic convert between the two forms, as in XLA;
so each computation is rewritten by itself. A module with unbounded dimensions is left unchanged.
Source: xla/service/dynamic_padder.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.hlo.module import HloModule
from xlanb.shape import ArrayShape, Shape
from xlanb.shape.shape import has_dynamic
from xlanb.transforms.base import HloPass


class DynamicPadder(HloPass):
    """Replaces dynamic dimensions by padded ones with tracked sizes where possible."""

    name = "dynamic_padder"

    def apply(self, module: HloModule) -> None:
        if any(n < 0 for i in module.instructions() for n in _sizes(i.shape)):
            return
        graph = CallGraph(module)
        for c in module.post_order():
            if graph.is_control(c) and any(has_dynamic(i.shape) for i in c):
                from xlanb.transforms.dynamic.padded_computation import ComputationPadder

                ComputationPadder(c).run()


def _sizes(shape: Shape) -> list[int]:
    return [n for _, s in shape.leaves() if isinstance(s, ArrayShape) for n in s.dimensions]

"""Add a second dimension to windows over one dimension.

    reduce-window(f32[10] x), window={size=5 pad=2_2}
      =>  reshape(f32[10], reduce-window(reshape(f32[10,1], x)), window={size=5x1 pad=2_2x0_0})

It runs after the rewriter of long scans, and handles what that leaves, including windows over
several arrays. Source: xla/hlo/transforms/simplifiers/reduce_window_resizer.h.
"""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reductions.reduce_window_util import with_second_dimension


class ReduceWindowResizer(HloPass):
    """Reshapes the operands of every reduce-window over one dimension."""

    name = "reduce-window-resizer"

    def apply(self, module: HloModule) -> None:
        for c in module.computations:
            for i in c.post_order():
                if (
                    i.opcode is O.REDUCE_WINDOW
                    and i.operands[0].array_shape.rank == 1
                    and not i.operands[0].array_shape.is_dynamic
                ):
                    c.replace(i, with_second_dimension(i))

"""Remove optimization barriers after cse (the pass cse_barrier_expander).

opt-barrier(x)    =>    x

Source: xla/hlo/transforms/expanders/optimization_barrier_expander.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass


class OptimizationBarrierExpander(HloPass):
    """Replaces every barrier by its operand, and keeps its control dependencies."""

    name = "cse_barrier_expander"
    triggers = frozenset((O.OPT_BARRIER,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.OPT_BARRIER:
                    _remove(i)


def _remove(barrier: HloInstruction) -> None:
    c = barrier.parent
    for before in barrier.control_predecessors:
        for after in barrier.control_successors:
            c.add_control_dependency(before, after)
    c.drop_control_dependencies(barrier)
    c.replace(barrier, barrier.operands[0])

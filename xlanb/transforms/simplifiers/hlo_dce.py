"""Dead code elimination (xla/hlo/transforms/simplifiers/hlo_dce.h).

    a = f32[] parameter(0)                 a = f32[] parameter(0)
    b = f32[] add(a, a)             =>     ROOT c = f32[] negate(a)
    ROOT c = f32[] negate(a)

Instructions without users go, unless they are parameters, have a side effect or order others; so do computations that nothing calls, parameters of fusions
that their computation does not use, and outputs of fusions that nobody takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo.computation import HloComputation, is_removable
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import drop_unused_operands, drop_unused_outputs


@dataclass(frozen=True)
class HloDce(HloPass):
    """Removes what has no effect on the result."""

    name = "dce"

    def apply(self, module: HloModule) -> None:
        # Callers first: a call that dies takes its computation with it, and what is called less often is looked at less.
        for c in reversed(module.post_order()):
            remove_dead_instructions(c)
        module.remove_unused_computations()
        for i in _fusions(module):
            drop_unused_outputs(i)
            remove_dead_instructions(i.fused_computation)
            drop_unused_operands(i)
        for c in module.computations:
            remove_dead_instructions(c)


def remove_dead_instructions(computation: HloComputation) -> None:
    """Remove every dead instruction of a computation, and what dies with it."""
    for i in computation:
        if not i.user_count and i in computation and is_removable(i):
            computation.remove_dead(i)


def _fusions(module: HloModule) -> list[HloInstruction]:
    return [i for i in module.instructions() if i.opcode is HloOpcode.FUSION]

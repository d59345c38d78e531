"""Remove dead code (xla/hlo/transforms/simplifiers/hlo_dce.h).

    a = f32[] parameter(0)                 a = f32[] parameter(0)
    b = f32[] add(a, a)             =>     ROOT c = f32[] negate(a)
    ROOT c = f32[] negate(a)

Instructions without users are removed, unless they are parameters, have a side effect or have
control successors. Computations without callers, and unused parameters and outputs of fusions, are
removed too.
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation, is_removable
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import drop_unused_operands, drop_unused_outputs

_DEAD, _OPERANDS = "dead instructions", "unused operands"
"""A settled computation has no dead instructions, and no unused parameters if it is a fusion's."""


class HloDce(HloPass):
    """Removes instructions that do not affect the result."""

    name = "dce"

    def apply(self, module: HloModule) -> None:
        # Callers first: a dead call takes its computation with it.
        for c in reversed(module.post_order()):
            remove_dead_instructions(c)
        module.remove_unused_computations()
        for i in _fusions(module):
            drop_unused_outputs(i)
            body = i.fused_computation
            remove_dead_instructions(body)
            if not body.is_settled(_OPERANDS) and not drop_unused_operands(i):
                body.settle(_OPERANDS)
        for c in module.computations:
            remove_dead_instructions(c)


def remove_dead_instructions(computation: HloComputation) -> None:
    """Remove every dead instruction of a computation, and operands that become dead."""
    if computation.is_settled(_DEAD):
        return
    calls = False
    for i in computation:
        if i.user_count or i not in computation:
            continue
        if is_removable(i):
            computation.remove_dead(i)
        # it is dead once its callee has no side effect left
        elif i.opcode.may_call and not i.is_root:
            calls = True
    if not calls:
        computation.settle(_DEAD)


def _fusions(module: HloModule) -> list[HloInstruction]:
    return [i for c in module.computations for i in c.instructions if i.opcode is HloOpcode.FUSION]

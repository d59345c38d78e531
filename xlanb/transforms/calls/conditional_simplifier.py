"""Inline the branch of a conditional that is always taken (the pass simplify-conditional).

conditional(true, a, b), branches f and g    =>    f(a), inlined
conditional(p, a), one branch f              =>    f(a), inlined

Source: xla/service/conditional_simplifier.h.
"""

from __future__ import annotations

from xlanb.analysis.expansion import check_expansion
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import inline_call


class ConditionalSimplifier(HloPass):
    """Inlines the branch of a conditional whose predicate or index is constant."""

    name = "simplify-conditional"
    triggers = frozenset((O.CONDITIONAL,))

    def apply(self, module: HloModule) -> None:
        if not any(_inlined(i) for i in module.instructions()):
            return
        check_expansion(module, self.name, _inlined)
        for c in module.post_order():
            for i in c.post_order():
                taken = _taken_branch(i) if i.opcode is O.CONDITIONAL else None
                if taken is not None:
                    inline_call(i, i.called_computations[taken], (i.operands[1 + taken],))
        module.remove_unused_computations()


def _inlined(i: HloInstruction) -> tuple[HloComputation, ...]:
    """The branch that replaces a conditional with a known predicate or index; () for others."""
    taken = _taken_branch(i) if i.opcode is O.CONDITIONAL else None
    return () if taken is None else (i.called_computations[taken],)


def _taken_branch(conditional: HloInstruction) -> int | None:
    """The number of the branch that is always taken, or None.

    An index out of range takes the last branch.
    """
    branches = conditional.called_computations
    if len(branches) == 1:
        return 0
    selector = conditional.operands[0]
    if selector.opcode is not O.CONSTANT or selector.literal.is_elided:
        return None
    value = selector.literal.array.item()
    if "true_computation" in conditional.attributes:
        return 0 if value else 1
    return int(value) if 0 <= value < len(branches) else len(branches) - 1

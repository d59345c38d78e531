"""Replace custom calls that order two instructions by control dependencies.

custom-call(a, b), custom_call_target="control_dep"    =>    b, control-predecessors={a}

Source: xla/service/control_dep_rewriter.h.
"""

from __future__ import annotations

from xlanb.errors import PassError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import take_out


class ControlDepRewriter(HloPass):
    """Makes the second operand of each such call run after the first, and removes the call.

    Raises PassError if the call's operand count is wrong, if it has a user, or if the first operand
    depends on the second.
    """

    name = "control-dep-rewriter"
    triggers = frozenset((O.CUSTOM_CALL,))
    takes_out = frozenset({"control_dep"})

    def apply(self, module: HloModule) -> None:
        for c in module.computations:
            for i in c:
                if i.opcode is not O.CUSTOM_CALL or i.attributes["custom_call_target"] != "control_dep":
                    continue
                if len(i.operands) != 2 or not i.is_dead:
                    raise PassError(f"a control_dep call must have two operands and no users: {i}")
                before, after = i.operands
                if _needs(before, after):
                    raise PassError(f"{before.name} cannot be ordered before {after.name}, on which it depends: {i}")
                c.add_control_dependency(before, after)
                take_out(i)  # and operands that only the call used


def _needs(i: HloInstruction, other: HloInstruction) -> bool:
    todo, seen = [i], {i}
    while todo:
        top = todo.pop()
        if top is other:
            return True
        new = [o for o in (*top.operands, *top.control_predecessors) if o not in seen]
        seen.update(new)
        todo.extend(new)
    return False

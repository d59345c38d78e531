"""Give conditionals tuples as operands and results (xla/service/conditional_canonicalizer.h).

conditional(p, a, b), branches f32[4] -> f32[4]
  =>  get-tuple-element(conditional(p, tuple(a), tuple(b))), branches (f32[4]) -> (f32[4])
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class ConditionalCanonicalizer(HloPass):
    """Wraps operands and results of conditionals that are not tuples."""

    name = "conditional-canonicalizer"
    triggers = frozenset((O.CONDITIONAL,))

    def apply(self, module: HloModule) -> None:
        done: set[HloComputation] = set()
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.CONDITIONAL:
                    _canonicalize(i, done)


def _canonicalize(conditional: HloInstruction, done: set[HloComputation]) -> None:
    branches = conditional.called_computations
    wraps_result = not conditional.shape.is_tuple
    if any(b in done for b in branches) or any(len(b.parameters) != 1 for b in branches):
        return
    if len(set(branches)) != len(branches) or not (
        wraps_result or any(not o.shape.is_tuple for o in conditional.operands[1:])
    ):
        return
    done.update(branches)
    parent = conditional.parent
    operands = [conditional.operands[0]]
    for branch, o in zip(branches, conditional.operands[1:], strict=True):
        if o.shape.is_tuple:
            operands.append(o)
        else:
            _wrap_parameter(branch)
            operands.append(parent.add(O.TUPLE, (o,), like=conditional))
        if wraps_result:
            branch.set_root(branch.add(O.TUPLE, (branch.root,), like=branch.root))
    b = Builder(conditional)
    shape = tuple_of((conditional.shape,)) if wraps_result else conditional.shape
    made = parent.clone_instruction(conditional, operands, shape)
    parent.replace_uses(conditional, b.element(made, 0) if wraps_result else made)
    # Move the control dependencies to the new conditional.
    for before in conditional.control_predecessors:
        parent.add_control_dependency(before, made)
    for after in conditional.control_successors:
        parent.add_control_dependency(made, after)
    parent.drop_control_dependencies(conditional)
    parent.remove(conditional)


def _wrap_parameter(branch: HloComputation) -> None:
    p = branch.parameters[0]
    inner = p.shape
    users, was_root = p.users, p.is_root
    branch.update(p, shape=tuple_of((inner,)))
    element = branch.add(O.GET_TUPLE_ELEMENT, (p,), inner, index=0)
    for u in users:
        branch.set_operands(u, [element if o is p else o for o in u.operands])
    if was_root:
        branch.set_root(element)

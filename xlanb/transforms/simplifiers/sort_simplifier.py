"""Remove unused operands of sorts (the pass simplify-sorts).

s = (f32[8], s32[8]) sort(keys, values), by keys;  get-tuple-element(s), index=0
  =>  f32[8] sort(keys), by keys

Source: xla/hlo/transforms/simplifiers/sort_simplifier.h.
"""

from __future__ import annotations

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import copy_body


class SortSimplifier(HloPass):
    """Removes operands of sorts that neither the comparator nor any user reads."""

    name = "simplify-sorts"
    triggers = frozenset((O.SORT,))

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.SORT and len(i.operands) > 1 and not i.is_root:
                    _drop_unused(i)


def _drop_unused(sort: HloInstruction) -> None:
    if any(u.opcode is not O.GET_TUPLE_ELEMENT for u in sort.users):
        return
    used = {u.tuple_index for u in sort.users} | {
        p.parameter_number // 2 for p in sort.to_apply.parameters if p.users or p.is_root
    }
    if len(used) == len(sort.operands) or not used:
        return
    kept = sorted(used)
    parent = sort.parent
    operands = [sort.operands[n] for n in kept]
    shape = tuple_of(o.shape for o in operands) if len(kept) > 1 else operands[0].shape
    comparison = _narrowed(sort.to_apply, kept)
    new = parent.add(O.SORT, operands, shape, like=sort, **{**sort.attributes, "to_apply": comparison})
    for u in sort.users:
        element = (
            parent.add(O.GET_TUPLE_ELEMENT, (new,), index=kept.index(u.tuple_index), like=u) if len(kept) > 1 else new
        )
        parent.replace(u, element)


def _narrowed(comparison: HloComputation, kept: list[int]) -> HloComputation:
    """The comparator with only the parameters of the kept operands."""
    new = comparison.module.add_computation(comparison.name)
    arguments: list[HloInstruction] = []
    for p in comparison.parameters:
        operand, side = divmod(p.parameter_number, 2)
        number = 2 * kept.index(operand) + side if operand in kept else None
        if number is None:
            arguments.append(p)  # no copied instruction uses it
        else:
            arguments.append(new.add(O.PARAMETER, (), p.shape, name=p.name, parameter_number=number))
    new.set_root(copy_body(comparison, new, arguments, comparison.root))
    return new

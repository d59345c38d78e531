"""Replace stable sorts by unstable ones that compare the positions of equal elements.

    sort(x), is_stable=true, to_apply=less(a, b)
    =>    get-tuple-element(sort(x, iota),
            to_apply={select(less(a, b) == less(b, a), i < j, less(a, b))}), index=0

An operand that is already such an iota is reused. Source: xla/service/stable_sort_expander.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType, Shape, TupleShape
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_S32 = PrimitiveType.S32
_PRED = array(PrimitiveType.PRED, ())


class StableSortExpander(HloPass):
    """Makes the comparators of stable sorts compare positions if the keys are equal."""

    name = "stable-sort-expander"
    triggers = frozenset((O.SORT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SORT and i.get("is_stable") and not i.operands[0].array_shape.is_dynamic:
                    _expand(i)


@reason("positions break ties between equal elements")
def _expand(sort: HloInstruction) -> None:
    place = _position_operand(sort)
    if place is None:
        place = len(sort.operands)
        sort = _with_positions(sort)
    comparator = sort.to_apply
    if len(comparator.module.callers(comparator)) > 1:
        comparator = comparator.module.clone_computation(comparator, f"{comparator.name}.clone")
    sort.parent.update(sort, attributes={"is_stable": None, "to_apply": comparator})
    _break_ties(comparator, place)


def _position_operand(sort: HloInstruction) -> int | None:
    """The index of the operand that is an iota along the sorted dimension, or None."""
    return next(
        (
            n
            for n, o in enumerate(sort.operands)
            if o.opcode is O.IOTA
            and o.attributes["iota_dimension"] == sort.dimensions[0]
            and o.array_shape.element_type is _S32
        ),
        None,
    )


def _with_positions(sort: HloInstruction) -> HloInstruction:
    """A sort of the same operands and their positions, to replace `sort`."""
    c, module, count = sort.parent, sort.parent.module, len(sort.operands)
    positions = c.add(O.IOTA, (), sort.operands[0].array_shape.with_type(_S32), iota_dimension=sort.dimensions[0])
    comparator = module.clone_computation(sort.to_apply, f"{sort.to_apply.name}.clone")
    for n, side in enumerate(("lhs", "rhs")):
        comparator.add(O.PARAMETER, (), array(_S32, ()), name=f"p.{count}.{side}.clone", parameter_number=2 * count + n)
    shapes: tuple[Shape, ...] = sort.shape.shapes if isinstance(sort.shape, TupleShape) else (sort.shape,)
    made = c.clone_instruction(sort, (*sort.operands, positions), tuple_of((*shapes, positions.shape)))
    c.update(made, attributes={"to_apply": comparator})
    elements = [c.add(O.GET_TUPLE_ELEMENT, (made,), o.shape, index=n) for n, o in enumerate(sort.operands)]
    c.replace(sort, elements[0] if count == 1 else c.add(O.TUPLE, elements, sort.shape))
    return made


def _break_ties(comparator: HloComputation, place: int) -> None:
    """Make positions decide if the comparator returns the same for (a, b) and (b, a)."""
    root, parameters = comparator.root, comparator.parameters
    swapped: dict[HloInstruction, HloInstruction] = {p: parameters[n ^ 1] for n, p in enumerate(parameters)}
    for i in comparator.post_order():
        if i.operands:
            swapped[i] = comparator.clone_instruction(i, [swapped.get(o, o) for o in i.operands])
    left, right = parameters[2 * place], parameters[2 * place + 1]
    same = comparator.add(O.COMPARE, (root, swapped.get(root, root)), _PRED, direction="EQ")
    earlier = comparator.add(O.COMPARE, (left, right), _PRED, direction="LT")
    comparator.set_root(comparator.add(O.SELECT, (same, earlier, root), _PRED))

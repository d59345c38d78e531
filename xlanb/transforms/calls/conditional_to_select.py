"""Replace conditionals in scalar computations by selects (xla/service/conditional_to_select.h).

    map(x), to_apply={ROOT conditional(p, a, b), true_computation=f, false_computation=g}
      =>  map(x), to_apply={ROOT select(p, f(a), g(b))}

A computation that is applied to every element cannot skip a branch: both are computed.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.expansion import check_expansion
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType, TupleShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.inlining import copy_body


class ConditionalToSelect(HloPass):
    """Rewrites two-way conditionals without side effects in computations applied per element."""

    name = "conditional-to-select"
    triggers = frozenset((O.CONDITIONAL,))

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)

        def copied(i: HloInstruction) -> tuple[HloComputation, ...]:
            return i.called_computations if _has_select(i) and not graph.is_control(i.parent) else ()

        found = [i for c in module.post_order() for i in c.post_order() if copied(i)]
        if not found:
            return
        check_expansion(module, self.name, copied)
        for i in found:
            _select(i)
        module.remove_unused_computations()


def _has_select(i: HloInstruction) -> bool:
    """Whether it is a conditional that a select of both branches can replace."""
    is_two_way = i.opcode is O.CONDITIONAL and i.operands[0].shape.element_type is PrimitiveType.PRED
    return is_two_way and not i.has_side_effect


def _select(conditional: HloInstruction) -> None:
    c, b = conditional.parent, Builder(conditional)
    # The first branch of a predicate is the one for true, whichever syntax names the branches.
    branches = conditional.called_computations
    chosen, other = (
        copy_body(f, c, (o,), conditional) for f, o in zip(branches, conditional.operands[1:], strict=True)
    )
    c.replace(conditional, _select_each(b, conditional.operands[0], chosen, other))


def _select_each(b: Builder, test: HloInstruction, x: HloInstruction, y: HloInstruction) -> HloInstruction:
    if isinstance(x.shape, TupleShape):
        return b.tuple(_select_each(b, test, b.element(x, n), b.element(y, n)) for n in range(len(x.shape.shapes)))
    return b.select(b.broadcast(test, (), x.array_shape), x, y)

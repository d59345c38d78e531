"""Remove redundant tuples and get-tuple-elements.

t = tuple(a, b);  get-tuple-element(t), index=1                       =>  b
tuple(get-tuple-element(t), index=0, get-tuple-element(t), index=1)   =>  t, if it has only these

Source: xla/hlo/transforms/simplifiers/tuple_simplifier.h.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import TupleShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason


@dataclass(frozen=True)
class TupleSimplifier(HloPass):
    """Removes redundant tuples; with `exclude_entry_computation` not in the entry."""

    name = "tuple-simplifier"
    triggers = frozenset((HloOpcode.TUPLE, HloOpcode.GET_TUPLE_ELEMENT))
    exclude_entry_computation: bool = False

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            if self.exclude_entry_computation and c.is_entry:
                continue
            for i in c.post_order():
                if i not in c:
                    continue
                if i.opcode is HloOpcode.GET_TUPLE_ELEMENT:
                    remove_access(i)
                elif i.opcode is HloOpcode.TUPLE:
                    _remove_whole_copy(i)


def remove_access(access: HloInstruction) -> bool:
    """Replace a get-tuple-element of a tuple by the element; return whether it was one."""
    source = access.operands[0]
    if source.opcode is not HloOpcode.TUPLE or access.control_predecessors or access.control_successors:
        return False
    _forward(access, source.operands[access.tuple_index])
    return True


@reason("GTE(Tuple(A, ...)) => A")
def _forward(access: HloInstruction, element: HloInstruction) -> None:
    access.parent.replace(access, element)


def _remove_whole_copy(whole: HloInstruction) -> None:
    if not whole.operands or any(o.opcode is not HloOpcode.GET_TUPLE_ELEMENT for o in whole.operands):
        return
    source = whole.operands[0].operands[0]
    if any(o.operands[0] is not source or o.tuple_index != n for n, o in enumerate(whole.operands)):
        return
    if not isinstance(source.shape, TupleShape) or source.shape != whole.shape:
        return
    if whole.control_predecessors or whole.control_successors:
        return
    _keep(whole, source)


@reason("Tuple(GTE(T, 0), GTE(T, 1), ...) => T")
def _keep(whole: HloInstruction, source: HloInstruction) -> None:
    whole.parent.replace(whole, source)

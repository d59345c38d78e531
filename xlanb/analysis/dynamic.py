"""Which instructions work on arrays of dynamic size, f32[<=8]."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import has_dynamic


def involves_dynamic(i: HloInstruction) -> bool:
    """Whether an array of the result or of an operand has a dynamic dimension; of a tuple that an element is taken out of, that element alone counts.

    After the dynamic padder such an instruction needs exactly the elements that there are, and the runtime computes it. A rewrite that
    derives static shapes from the bounds must leave it alone.
    """
    if has_dynamic(i.shape):
        return True
    if i.opcode in (HloOpcode.GET_TUPLE_ELEMENT, HloOpcode.TUPLE):  # a tuple's own shape has those of its operands
        return False
    return any(has_dynamic(o.shape) for o in i.operands)

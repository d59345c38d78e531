"""Which instructions use arrays of dynamic size, f32[<=8]."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import has_dynamic


def involves_dynamic(i: HloInstruction) -> bool:
    """Whether the result or an operand has a dynamic dimension.

    For a get-tuple-element only that element counts. After the dynamic padder such an instruction
    needs exactly the existing elements, and the runtime computes it. A rewrite that derives static
    shapes from the bounds must not change it.
    """
    if has_dynamic(i.shape):
        return True
    # a tuple's shape includes its operands'
    if i.opcode in (HloOpcode.GET_TUPLE_ELEMENT, HloOpcode.TUPLE):
        return False
    return any(has_dynamic(o.shape) for o in i.operands)

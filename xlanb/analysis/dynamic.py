"""Which instructions work on arrays of dynamic size, f32[<=8]."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape
from xlanb.shape.shape import has_dynamic


def involves_dynamic(i: HloInstruction) -> bool:
    """Whether an array of the result, or an operand that is an array, has a dynamic dimension.

    After the dynamic padder such an instruction needs exactly the elements that there are, and the runtime computes it. A rewrite that
    derives static shapes from the bounds must leave it alone.
    """
    shapes = (o.shape for o in i.operands)
    return has_dynamic(i.shape) or any(isinstance(s, ArrayShape) and s.is_dynamic for s in shapes)

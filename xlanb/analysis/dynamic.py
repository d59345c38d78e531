"""Which instructions work on arrays of dynamic size, f32[<=8]."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import ArrayShape, Shape


def involves_dynamic(i: HloInstruction) -> bool:
    """Whether the result or an operand is an array with a dynamic dimension; tuples are not looked into.

    After the dynamic padder such an instruction needs exactly the elements that there are, and the runtime computes it. A rewrite that
    derives static shapes from the bounds must leave it alone.
    """
    return _is_dynamic(i.shape) or any(_is_dynamic(o.shape) for o in i.operands)


def _is_dynamic(shape: Shape) -> bool:
    return isinstance(shape, ArrayShape) and shape.is_dynamic

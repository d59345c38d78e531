"""Track the dimensions along which an array has equal elements, through data movement.

Follows SpmdBuilder::SetBroadcastDimsFor...
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode

_O = HloOpcode


def of_moved(hlo: HloInstruction, operand_dims: frozenset[int]) -> frozenset[int]:
    """Return those dimensions for a transpose, reshape, slice, dynamic-slice or pad.

    Any other opcode has none.
    """
    if hlo.opcode is _O.TRANSPOSE:
        return frozenset(n for n, d in enumerate(hlo.attributes["dimensions"]) if d in operand_dims)
    if hlo.opcode in (_O.SLICE, _O.DYNAMIC_SLICE):
        return operand_dims
    if hlo.opcode is _O.PAD:
        padding = hlo.attributes["padding"]
        return frozenset(n for n in operand_dims if not (padding[n].low or padding[n].high or padding[n].interior))
    if hlo.opcode is _O.RESHAPE:
        return _of_reshape(hlo.operands[0].shape.as_array().dimensions, hlo.shape.as_array().dimensions, operand_dims)
    return frozenset()


def _of_reshape(before: Sequence[int], after: Sequence[int], operand_dims: frozenset[int]) -> frozenset[int]:
    """Return those dimensions for a reshape, which splits and merges dimensions in order.

    A result dimension repeats if every operand dimension it is made of does.
    """
    if not math.prod(after):
        return frozenset()
    repeated = set(range(len(after)))
    left, right = list(reversed(before)), list(reversed(after))
    while left and right:
        at, to = len(before) - len(left), len(after) - len(right)
        size, wanted = left.pop(), right.pop()
        if at not in operand_dims:
            repeated.discard(to)
        if size == wanted:
            continue
        if size % wanted == 0:
            left.append(size // wanted)
        elif wanted % size == 0:
            right.append(wanted // size)
        else:
            return frozenset()
    return frozenset() if left or right else frozenset(repeated)

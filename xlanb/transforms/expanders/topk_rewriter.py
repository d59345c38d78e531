"""Replace sorts of which only the first elements are used by a top-k call (topk-rewriter).

s = sort(x, iota), dimensions={1}, to_apply=greater
slice(get-tuple-element(s), index=0), [0:64], [0:k]
slice(get-tuple-element(s), index=1), [0:64], [0:k]
  =>  t = custom-call(x), custom_call_target="TopK"
      get-tuple-element(t), index=0
      get-tuple-element(t), index=1

Source: xla/service/topk_rewriter.h.
"""

from __future__ import annotations

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class TopkRewriter(HloPass):
    """Rewrites descending sorts of f32 if every user reads the first k of the sorted dimension.

    The sort is left for dce.
    """

    name = "topk-rewriter"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SORT and not i.control_predecessors and not i.control_successors:
                    k = first_elements(i)
                    if k is not None and i.operands[0].array_shape.rank <= 2:
                        _rewrite(i, k)


def first_elements(sort: HloInstruction) -> int | None:
    """The k of a sort that is a top-k: how many elements of the sorted dimension are read.

    None if the sort is not a top-k.
    """
    x, d = sort.operands[0], sort.dimensions[0]
    if (
        x.shape.element_type is not PrimitiveType.F32
        or len(sort.operands) > 2
        or not is_greater_than(sort.to_apply)
        or sort.is_root
    ):
        return None
    if len(sort.operands) == 2 and not _is_position(sort.operands[1], d):
        return None
    slices = _slices(sort)
    if not slices:
        return None
    dims = x.array_shape.dimensions
    limits = {s.get("slice")[d].limit for s in slices}
    for s in slices:
        for n, box in enumerate(s.get("slice")):
            if box.start != 0 or box.stride != 1 or (n != d and box.limit != dims[n]):
                return None
    return limits.pop() if len(limits) == 1 else None


def _slices(sort: HloInstruction) -> list[HloInstruction] | None:
    """The slices that use a sort or elements of its result; None if there is any other user."""
    users: list[HloInstruction] = []
    for u in sort.users:
        if len(sort.operands) == 1:
            users.append(u)
        elif u.opcode is O.GET_TUPLE_ELEMENT and u.user_count == 1 and not u.is_root:
            users.append(u.users[0])
        else:
            return None
    return users if all(u.opcode is O.SLICE for u in users) else None


def _is_position(i: HloInstruction, d: int) -> bool:
    """Whether every element is its own index along dimension d."""
    if i.opcode is O.BROADCAST and i.dimensions == (d,):
        i, d = i.operands[0], 0
    return i.opcode is O.IOTA and i.get("iota_dimension") == d and i.shape.element_type is PrimitiveType.S32


def is_greater_than(c: HloComputation) -> bool:
    """Whether a comparator returns parameter 0 > parameter 1.

    Compared as floats, or by their total-order keys.
    """
    root = c.root
    if root.opcode is not O.COMPARE or root.get("direction") != "GT":
        return False
    left, right = (_behind_key(o) for o in root.operands)
    return left == 0 and right == 1


def _behind_key(i: HloInstruction) -> int | None:
    """The number of the parameter that `i` is, or is the total-order key of.

    The keys are those of comparison_expander.py.
    """
    if i.opcode is O.PARAMETER:
        return i.parameter_number
    if i.opcode is not O.SELECT:
        return None
    test, flipped, bits = i.operands
    if bits.opcode is not O.BITCAST_CONVERT or bits.operands[0].opcode is not O.PARAMETER:
        return None
    if (
        test.opcode is not O.COMPARE
        or test.get("direction") != "LT"
        or test.operands[0] is not bits
        or not _is_scalar(test.operands[1], 0)
    ):
        return None
    highest = np.iinfo(np.int32).max
    is_flipped = (
        flipped.opcode is O.XOR and bits in flipped.operands and any(_is_scalar(o, highest) for o in flipped.operands)
    )
    return bits.operands[0].parameter_number if is_flipped else None


def _is_scalar(i: HloInstruction, value: int) -> bool:
    return (
        i.opcode is O.CONSTANT
        and not i.literal.is_elided
        and i.literal.array.shape == ()
        and i.literal.array.item() == value
    )


def _rewrite(sort: HloInstruction, k: int) -> None:
    b, x = Builder(sort), sort.operands[0]
    d, rank = sort.dimensions[0], sort.operands[0].array_shape.rank
    is_transposed = d != rank - 1
    if is_transposed:
        x = b.transpose(x, (1, 0))
    dims = (*x.array_shape.dimensions[:-1], k)
    shape = tuple_of((array(PrimitiveType.F32, dims), array(PrimitiveType.S32, dims)))
    call = b.add(O.CUSTOM_CALL, (x,), shape, custom_call_target="TopK", called_computations=(sort.to_apply,))
    found = [b.element(call, n) for n in range(2)]
    if is_transposed:
        found = [b.transpose(f, (1, 0)) for f in found]
    for u in sort.users:
        if len(sort.operands) == 1:
            sort.parent.replace_uses(u, found[0])
        else:
            sort.parent.replace_uses(u.users[0], found[u.tuple_index])

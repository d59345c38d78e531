"""Move layout-changing copies after users that accept any layout (move_copy_to_users.cc).

    c = f32[8,4]{0,1} copy(x);  n = f32[8,4]{0,1} negate(c)
    =>  n = f32[8,4]{1,0} negate(x);  f32[8,4]{0,1} copy(n)
    c = f32[8,4]{0,1} copy(x);  r = f32[8] reduce(c, 0)
    =>  r = f32[8] reduce(x, 0)

Two copies of one value may then merge, a copy may cancel with its inverse, and a slice leaves less
to copy.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Layout, Shape
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason
from xlanb.transforms.verdict import REAL

# One operand array decides the layout; scalars and other arrays are read unchanged.
_OF_ONE_ARRAY = frozenset((O.DYNAMIC_SLICE, O.PAD, O.REDUCE_WINDOW, O.REVERSE, O.SLICE))
_IN_PLACE = frozenset((O.BITCAST_CONVERT, O.REDUCE_PRECISION))


class MoveCopyToUsers(HloPass):
    """Moves copies after pads, slices, reverses, windows, concatenations and elementwise ops.

    Removes them before reductions.
    """

    name = "move_copy_to_users"
    triggers = frozenset((O.COPY,))
    keeps = REAL  # sums are folded in another order
    ulps = 64.0

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            pending = True
            while pending:  # a copy that moved may move again
                pending = False
                for i in c.post_order():
                    if i in c and _moves(i):
                        pending = True


def _moves(i: HloInstruction) -> bool:
    """Move the copies that `i` reads after it if possible; return whether there were any."""
    if not i.shape.is_array or i.control_predecessors or i.control_successors:
        return False
    if i.opcode is O.REDUCE:
        return _is_moved(i.operands[0]) and _reduce_the_copied(i)
    if i.opcode in _OF_ONE_ARRAY or (i.opcode.is_elementwise and len(i.operands) == 1):
        if i.opcode in _IN_PLACE or not _is_moved(i.operands[0]):
            return False
        return _copy_behind(i, (i.operands[0].operands[0], *i.operands[1:]))
    is_joined = i.opcode is O.CONCATENATE or (i.opcode.is_elementwise and len(i.operands) == 2)
    if not is_joined or not all(_is_moved(o) for o in i.operands):
        return False
    copied = [o.operands[0] for o in i.operands]
    first = copied[0].array_shape
    if any(o.array_shape.minor_to_major != first.minor_to_major for o in copied):
        return False
    return _copy_behind(i, copied)


def _is_moved(copy: HloInstruction) -> bool:
    """Whether it is a copy within one memory space that may move."""
    if copy.opcode is not O.COPY or copy.control_predecessors or copy.control_successors:
        return False
    source, target = copy.operands[0].array_shape.layout, copy.array_shape.layout
    return source is not None and target is not None and source.memory_space == target.memory_space


@reason("the copy is applied to the result")
def _copy_behind(i: HloInstruction, operands: list[HloInstruction] | tuple[HloInstruction, ...]) -> bool:
    made = i.parent.clone_instruction(i, operands, _laid_out_as(i, operands[0]))
    i.parent.replace_with(i, O.COPY, (made,), i.shape)
    return True


@reason("a reduction accepts any layout")
def _reduce_the_copied(i: HloInstruction) -> bool:
    made = i.parent.clone_instruction(i, (i.operands[0].operands[0], *i.operands[1:]))
    i.parent.replace(i, made)
    return True


def _laid_out_as(i: HloInstruction, operand: HloInstruction) -> Shape:
    """Return the shape of `i` in an operand's layout."""
    source = operand.array_shape
    return i.array_shape.with_layout(source.layout or Layout.default(source.rank))

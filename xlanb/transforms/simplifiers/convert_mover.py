"""Move converts to where they process the fewest bytes.

    transpose(convert(f32, bf16 x))    =>    convert(f32, transpose(x))
    convert(bf16, pad(f32 x, 0))       =>    pad(convert(bf16, x), 0)

Instructions that only move elements use the narrower type: widening converts move down, narrowing
ones up. Source: xla/hlo/transforms/simplifiers/convert_mover.h.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_MOVING = frozenset((O.CONCATENATE, O.PAD, O.RESHAPE, O.SLICE, O.TRANSPOSE))


class ConvertMover(HloPass):
    """Moves converts past instructions that only move elements.

    It ignores layouts: run it before layout assignment.
    """

    name = "convert-mover"
    triggers = frozenset((O.CONVERT,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (narrow := _narrow_type(i)) is not None:
                    _widen_later(i, narrow)
            _narrow_earlier(c)


def _narrow_type(i: HloInstruction) -> PrimitiveType | None:
    """The type from which all operands of `i` are widened and in which it can run; else None."""
    if i.opcode not in _MOVING:
        return None
    converts = [o for o in i.operands if o.opcode is O.CONVERT and len(o.users) == 1]
    constants = [o for o in i.operands if o.opcode is O.CONSTANT]
    if not converts or len(converts) + len(constants) < len(i.operands):
        return None
    kinds = {o.operands[0].array_shape.element_type for o in converts}
    if len(kinds) > 1:
        return None
    narrow, wide = kinds.pop(), converts[0].array_shape.element_type
    if narrow.bits >= wide.bits or _is_packed(narrow) or not all(_is_held_by(o, narrow) for o in constants):
        return None
    return narrow


def _is_packed(kind: PrimitiveType) -> bool:
    return kind.bits < 8 and kind is not PrimitiveType.PRED


def _is_held_by(constant: HloInstruction, kind: PrimitiveType) -> bool:
    """Whether a type represents the values of a constant exactly."""
    if constant.literal.is_elided:
        return False
    array = constant.literal.array
    with np.errstate(all="ignore"):
        return bool(array.tobytes() == array.astype(kind.dtype).astype(array.dtype).tobytes())


@reason("fewer bytes are moved")
def _widen_later(i: HloInstruction, narrow: PrimitiveType) -> None:
    c = i.parent
    operands = [o.operands[0] if o.opcode is O.CONVERT else _converted(o, narrow) for o in i.operands]
    made = c.clone_instruction(i, operands, i.array_shape.with_type(narrow))
    c.replace(i, c.add(O.CONVERT, (made,), i.shape))


def _narrow_earlier(c: HloComputation) -> None:
    todo = deque(reversed(c.post_order()))
    while todo:
        i = todo.popleft()
        if i not in c or i.opcode is not O.CONVERT:
            continue
        moved, narrow = i.operands[0], i.array_shape.element_type
        wide = moved.array_shape.element_type
        if moved.opcode in _MOVING and len(moved.users) == 1 and narrow.bits < wide.bits and not _is_packed(narrow):
            todo.extendleft(_narrow_before(i, moved, narrow))


@reason("fewer bytes are moved")
def _narrow_before(i: HloInstruction, moved: HloInstruction, narrow: PrimitiveType) -> list[HloInstruction]:
    """The operands of the replacement of `i`: converts, which may move on."""
    operands = [_converted(o, narrow) for o in moved.operands]
    i.parent.replace(i, i.parent.clone_instruction(moved, operands, moved.array_shape.with_type(narrow)))
    return operands


def _converted(x: HloInstruction, kind: PrimitiveType) -> HloInstruction:
    shape = x.array_shape.with_type(kind)
    return x if shape == x.shape else x.parent.add(O.CONVERT, (x,), shape)

"""How an instruction uses the elements of its operands (HloInstruction::OperandElementUse).

Each once, each once in another order, or several times.
"""

from __future__ import annotations

from enum import IntEnum

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O

# Elementwise in addition to the opcodes of that kind in the table: elements keep their positions.
_ALSO_ELEMENTWISE = frozenset((O.CONSTANT, O.COPY, O.BITCAST_CONVERT, O.MAP))
_MOVING = frozenset((O.BITCAST, O.CONCATENATE, O.GATHER, O.RESHAPE, O.REVERSE, O.SLICE, O.TRANSPOSE))


class UseKind(IntEnum):
    """How elements are used."""

    NO_USE = 0
    USE = 1
    USE_PERMUTING = 2
    REUSE = 3

    def plus(self, other: UseKind) -> UseKind:
        """The combination of two uses; two uses in different orders read elements twice."""
        if self is UseKind.NO_USE or other is UseKind.NO_USE:
            return max(self, other)
        return UseKind.USE if self is UseKind.USE and other is UseKind.USE else UseKind.REUSE


def is_elementwise(i: HloInstruction) -> bool:
    """Whether element n of the result depends only on element n of the operands."""
    if i.opcode is O.FUSION:
        return i.get("kind") == "kLoop" and all(
            is_elementwise(f) or f.opcode is O.PARAMETER for f in i.fused_computation
        )
    if i.opcode is O.BITCAST_CONVERT:
        return i.array_shape.dimensions == i.operands[0].array_shape.dimensions
    return i.opcode.is_elementwise or i.opcode in _ALSO_ELEMENTWISE


def operand_use(i: HloInstruction, index: int) -> UseKind:
    """How `i` uses the elements of its operand `index`."""
    code = i.opcode
    if code in _MOVING:
        return UseKind.USE_PERMUTING
    if code is O.PAD:
        return UseKind.REUSE if index > 0 else UseKind.USE_PERMUTING
    if code is O.REDUCE:
        return UseKind.REUSE if index >= len(i.operands) // 2 else UseKind.USE_PERMUTING
    if code is O.DYNAMIC_UPDATE_SLICE:
        return UseKind.REUSE if index > 1 else UseKind.USE_PERMUTING
    if code is O.FUSION:
        return _use_within(i, index)
    if code is O.DOT:
        dims = i.array_shape.dimensions
        if len(dims) <= 1 or (len(dims) == 2 and dims[1 - index] == 1):
            return UseKind.USE_PERMUTING
        return UseKind.REUSE
    return UseKind.USE if is_elementwise(i) else UseKind.REUSE


def reused_operands(i: HloInstruction) -> set[HloInstruction]:
    """The operands of which some element is used more than once."""
    return {o for n, o in enumerate(i.operands) if operand_use(i, n) is UseKind.REUSE}


def _use_within(fusion: HloInstruction, index: int) -> UseKind:
    """How a fusion's root uses one of its parameters, over all paths."""
    fused = fusion.fused_computation
    use: dict[HloInstruction, UseKind] = {}
    for i in fused.post_order():
        if i.opcode is O.PARAMETER:
            use[i] = UseKind.USE if i.parameter_number == index else UseKind.NO_USE
            continue
        total = UseKind.NO_USE
        for n, o in enumerate(i.operands):
            if use[o] is not UseKind.NO_USE:
                total = total.plus(max(use[o], operand_use(i, n)))
        use[i] = total
    return use[fused.root]

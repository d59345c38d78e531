"""In-place updates: which operands may be overwritten, and which fusions they forbid.

A producer must not be fused into an update if it would read what is already overwritten.
Source: HloDataflowAnalysis::GetInPlaceInputOutputPairs, InstructionFusion::ShouldFuseInPlaceOp.
"""

from __future__ import annotations

from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O

_IN_PLACE = frozenset((O.DYNAMIC_UPDATE_SLICE, O.SCATTER, O.FUSION))


def may_update(opcode: O) -> bool:
    """Whether an instruction with this opcode may overwrite an operand."""
    return opcode in _IN_PLACE


def in_place_operands(i: HloInstruction) -> list[int]:
    """Indices of the operands whose buffer the result may reuse.

    These are the updated operands of a dynamic-update-slice or scatter, also as the root of a
    fusion.
    """
    if i.opcode is O.DYNAMIC_UPDATE_SLICE:
        return [0]
    if i.opcode is O.SCATTER:
        return list(range(len(i.operands) // 2))
    if i.opcode is O.FUSION:
        root = i.fused_computation.root
        roots = root.operands if root.opcode is O.TUPLE else (root,)
        targets = [_source(r.operands[0]) for r in roots if r.opcode is O.DYNAMIC_UPDATE_SLICE]
        return [t.parameter_number for t in targets if t.opcode is O.PARAMETER]
    return []


def conflict(producer: HloInstruction, consumer: HloInstruction) -> str | None:
    """Why `producer` must not be fused into an in-place update `consumer`; None if it may be."""
    for n in in_place_operands(consumer) if consumer.opcode in _IN_PLACE else ():
        buffer = consumer.operands[n]
        if any(o is buffer for k, o in enumerate(consumer.operands) if k != n):
            return f"{consumer.name} updates {buffer.name} in place and also reads it"
        if not is_elementwise(producer) and buffer in producer.operands:
            reason = _reads_elsewhere(producer, consumer)
            if reason is not None:
                return reason
    return None


def _reads_elsewhere(producer: HloInstruction, consumer: HloInstruction) -> str | None:
    """Why a producer that reads the updated buffer must not be fused; None if it may be.

    It is safe only if it reads exactly the slice that is overwritten.
    """
    update = _only(consumer, O.DYNAMIC_UPDATE_SLICE)
    if update is None or producer.shape.without_layout() != update.operands[1].shape.without_layout():
        return f"{producer.name} reads the buffer that {consumer.name} updates in place"
    if producer.opcode is O.SLICE:
        boxes = producer.attributes["slice"]
        starts = [_constant(_outside(consumer, s)) for s in update.operands[2:]]
        same = all(b.stride == 1 and b.start == s for b, s in zip(boxes, starts, strict=True))
    elif producer.opcode is O.DYNAMIC_SLICE:
        pairs = list(zip(producer.operands[1:], (_outside(consumer, s) for s in update.operands[2:]), strict=True))
        same = all(a is b or (_constant(a) is not None and _constant(a) == _constant(b)) for a, b in pairs)
    else:
        same = False
    if not same:
        return f"{producer.name} reads a different part of the buffer that {consumer.name} updates in place"
    if consumer.opcode is O.FUSION and not _box_used_elementwise(producer, consumer, update):
        return f"{consumer.name} uses {producer.name} in a different element order"
    return None


def _box_used_elementwise(producer: HloInstruction, fusion: HloInstruction, update: HloInstruction) -> bool:
    parameters = fusion.fused_computation.parameters
    todo = [parameters[n] for n, o in enumerate(fusion.operands) if o is producer]
    seen = set(todo)
    while todo:
        i = todo.pop()
        if i is not update and i.opcode is not O.PARAMETER and not is_elementwise(i):
            return False
        todo.extend(u for u in i.users if u not in seen)
        seen.update(i.users)
    return True


def _only(i: HloInstruction, opcode: O) -> HloInstruction | None:
    if i.opcode is opcode:
        return i
    found = [f for f in i.fused_computation if f.opcode is opcode] if i.opcode is O.FUSION else []
    return found[0] if len(found) == 1 else None


def _source(i: HloInstruction) -> HloInstruction:
    while i.opcode is O.BITCAST:
        i = i.operands[0]
    return i


def _outside(consumer: HloInstruction, i: HloInstruction) -> HloInstruction:
    return consumer.operands[i.parameter_number] if consumer.opcode is O.FUSION and i.opcode is O.PARAMETER else i


def _constant(i: HloInstruction) -> int | None:
    return (
        int(i.literal.array)
        if i.opcode is O.CONSTANT and i.literal.array.size == 1 and not i.literal.is_elided
        else None
    )

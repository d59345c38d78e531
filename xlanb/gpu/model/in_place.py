"""In-place updates on a GPU, and when fusing into one would read overwritten data.

Follows AliasInfo::GetInPlaceInputOutputPairs and InstructionFusion::ShouldFuseInPlaceOp.
"""

from __future__ import annotations

from collections import deque

from xlanb.analysis.operand_use import is_elementwise
from xlanb.gpu.heroes import roots_of
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O


def updated_operands(i: HloInstruction) -> list[int]:
    """Return the indices of the operands whose buffers an instruction overwrites."""
    if i.opcode is O.DYNAMIC_UPDATE_SLICE:
        return [0]
    if i.opcode is O.SCATTER:
        return list(range(len(i.operands) // 2))
    if i.opcode is not O.FUSION:
        return []
    found = []
    for root in roots_of(i):
        source = _behind_bitcasts(root)
        for n in updated_operands(source) if source.opcode is not O.FUSION else ():
            target = _behind_bitcasts(source.operands[n])
            if target.opcode is O.PARAMETER:
                found.append(target.parameter_number)
    return found


def objection(producer: HloInstruction, consumer: HloInstruction) -> str:
    """Return why a producer must not be fused into an in-place update, or ""."""
    for n in updated_operands(consumer):
        buffer = consumer.operands[n]
        if any(o is buffer for k, o in enumerate(consumer.operands) if k != n):
            return f"{consumer.name} updates {buffer.name} in place and also reads it"
        if buffer is producer or buffer in producer.operands:
            # As in XLA, the first such operand decides.
            return _conflict(producer, consumer)
    return ""


def _conflict(producer: HloInstruction, consumer: HloInstruction) -> str:
    moving = [i for i in _parts(producer) if _moves(i)]
    if len(moving) > 1:
        return f"{producer.name} moves elements of the buffer that {consumer.name} updates in place"
    if not moving:
        return _moved_inside(producer, consumer) if consumer.opcode is O.FUSION else ""
    updates = [i for i in _parts(consumer) if i.opcode is O.DYNAMIC_UPDATE_SLICE]
    if not updates:
        return ""
    read, update = moving[0], updates[0]
    if len(updates) > 1 or read.opcode not in (O.SLICE, O.DYNAMIC_SLICE):
        return f"{read.name} reads a different part of the buffer that {consumer.name} updates in place"
    if read.shape != update.operands[1].shape or not _same_box(read, update, producer, consumer):
        return f"{read.name} reads a different part of the buffer that {update.name} overwrites"
    if consumer.opcode is O.FUSION and _used_in_another_order(producer, consumer, update):
        return f"{consumer.name} uses {producer.name} in a different element order"
    return ""


def _same_box(read: HloInstruction, update: HloInstruction, producer: HloInstruction, consumer: HloInstruction) -> bool:
    """Whether a slice is exactly the part that an update overwrites."""
    starts = [_outside(consumer, o) for o in update.operands[2:]]
    if read.opcode is O.SLICE:
        boxes = read.attributes["slice"]
        return all(b.stride == 1 and _constant(s) == b.start for b, s in zip(boxes, starts, strict=True))
    read_starts = [_outside(producer, o) for o in read.operands[1:]]
    return all(
        a is b or (_constant(a) is not None and _constant(a) == _constant(b))
        for a, b in zip(read_starts, starts, strict=True)
    )


def _moved_inside(producer: HloInstruction, fusion: HloInstruction) -> str:
    """Return why an in-place fusion cannot read an elementwise producer, or ""."""
    root_sources = {_behind_bitcasts(r) for r in roots_of(fusion)}
    start = fusion.fused_computation.parameters[fusion.operands.index(producer)]
    for i in _dependents(start):
        if i is not start and _moves(i) and i not in root_sources:
            return f"{i.name} in {fusion.name} moves elements of {producer.name}"
    return ""


def _used_in_another_order(producer: HloInstruction, fusion: HloInstruction, update: HloInstruction) -> bool:
    parameters = fusion.fused_computation.parameters
    starts = [parameters[n] for n, o in enumerate(fusion.operands) if o is producer]
    return any(
        i is not update and i.opcode is not O.PARAMETER and not is_elementwise(i)
        for start in starts
        for i in _dependents(start)
    )


def _dependents(start: HloInstruction) -> list[HloInstruction]:
    """Return an instruction and all that depends on it."""
    seen = {start: None}
    queue = deque(seen)
    while queue:
        for u in queue.popleft().users:
            if u not in seen:
                seen[u] = None
                queue.append(u)
    return list(seen)


def _moves(i: HloInstruction) -> bool:
    if i.opcode in (O.FUSION, O.BITCAST, O.PARAMETER):
        return False
    return not is_elementwise(i)


def _parts(i: HloInstruction) -> tuple[HloInstruction, ...]:
    return i.fused_computation.instructions if i.opcode is O.FUSION else (i,)


def _behind_bitcasts(i: HloInstruction) -> HloInstruction:
    while i.opcode is O.BITCAST:
        i = i.operands[0]
    return i


def _outside(owner: HloInstruction, i: HloInstruction) -> HloInstruction:
    return owner.operands[i.parameter_number] if owner.opcode is O.FUSION and i.opcode is O.PARAMETER else i


def _constant(i: HloInstruction) -> int | None:
    known = i.opcode is O.CONSTANT and i.literal.array.size == 1 and not i.literal.is_elided
    return int(i.literal.array) if known else None

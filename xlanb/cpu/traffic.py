"""Memory traffic of a kernel: only the slices of sliced operands, only the updates of results
that are updated in place.
"""

from __future__ import annotations

from xlanb.buffers.buffer_assignment import BufferAssignment
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_PARTS = frozenset({Op.SLICE, Op.DYNAMIC_SLICE, Op.GATHER})


def traffic(i: HloInstruction, assignment: BufferAssignment) -> int:
    """Bytes that one run of an instruction's kernel reads and writes, each counted once."""
    fused = i.opcode is Op.FUSION
    root = i.fused_computation.root if fused else i
    updated = _updated(root)
    sources = i.fused_computation.parameters if fused else i.operands
    total, in_place = 0, None
    if updated is not None and updated in sources:
        operand = i.operands[sources.index(updated)]
        if assignment.slice_of(operand) == assignment.slice_of(i):
            in_place = updated
    for source, operand in dict(zip(sources, i.operands, strict=True)).items():
        if source is not in_place:
            total += _read(source, operand, i) if fused or i.opcode in _PARTS else operand.shape.byte_size
    if in_place is None:
        return total + i.shape.byte_size
    update = root.operands[-1] if root.opcode is Op.SCATTER else root.operands[1]
    # A scatter reads what it combines with; a fused update is only written, a plain one
    # has been read as an operand.
    return total + update.shape.byte_size * (2 if root.opcode is Op.SCATTER else 1)


def _updated(root: HloInstruction) -> HloInstruction | None:
    """The operand that a root updates in part; None for other roots."""
    if root.opcode is Op.DYNAMIC_UPDATE_SLICE or (root.opcode is Op.SCATTER and not root.shape.is_tuple):
        return root.operands[0]
    return None


def _read(source: HloInstruction, operand: HloInstruction, i: HloInstruction) -> int:
    """Bytes read of an operand: all of it unless only slices of it are used."""
    users = source.users if i.opcode is Op.FUSION else [i]
    whole = operand.shape.byte_size
    if not users or any(u.opcode not in _PARTS or u.operands[0] is not source for u in users):
        return whole
    return min(whole, sum(u.shape.byte_size for u in users))

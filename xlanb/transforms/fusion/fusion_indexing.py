"""How often an emitter emits each instruction of a fusion.

An emitter computes an element by walking from the root to the parameters. It reuses a value if two
users need it at the same index. If an instruction derives another index (a slice, a reshape), its
operands are emitted once more, which can make code explode.
Source: xla/service/fusion_node_indexing_evaluation.h.
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape

ALLOWED_CODE_DUPLICATION = 15

# They open a new basic block, so values computed before cannot be reused inside.
_OPENS_BLOCK = frozenset((O.CONCATENATE, O.DOT, O.DYNAMIC_UPDATE_SLICE, O.PAD, O.REDUCE, O.REDUCE_WINDOW))


class FusionNodeIndexingEvaluation:
    """Emission counts of one fusion, kept up to date while it grows."""

    __slots__ = ("_count", "_fusion", "_users")

    def __init__(self, fusion: HloInstruction) -> None:
        self._fusion = fusion
        # instruction or fusion operand -> the instructions whose indices it is computed at
        self._users: dict[HloInstruction, set[HloInstruction]] = {fusion.fused_computation.root: {fusion}}
        self._count: dict[HloInstruction, int] = {fusion: 1}
        for i in reversed(fusion.fused_computation.post_order()):
            if i.opcode is not O.PARAMETER:
                self._count_uses(i)
                self._index_operands(i)

    def emitted(self, producer: HloInstruction) -> int:
        """How often an operand of the fusion would be emitted if it were fused."""
        return sum([self._count[u] for u in self._users.get(producer, ())])

    def code_duplication_too_high(self, producer: HloInstruction) -> bool:
        """Whether fusing an operand would emit too much code."""
        if producer.opcode is O.BROADCAST:
            return False
        return self.emitted_too_often(producer) or (producer.opcode in _OPENS_BLOCK and _has_several_uses(producer))

    def emitted_too_often(self, producer: HloInstruction) -> bool:
        """Whether an operand would be emitted too often if it were fused.

        Once true, it stays true while the fusion grows.
        """
        if producer.opcode is O.BROADCAST:
            return False
        return self.emitted(producer) > (1 if producer.opcode in _OPENS_BLOCK else ALLOWED_CODE_DUPLICATION)

    def remove_operand(self, producer: HloInstruction) -> set[HloInstruction]:
        """Forget an operand before it is fused; return the users of its indices for `update`."""
        return self._users.pop(producer, set())

    def update(self, fused: HloInstruction, users: set[HloInstruction]) -> None:
        """Add the instruction that was fused."""
        self._users[fused] = users
        self._count_uses(fused)
        self._index_operands(fused)

    def _count_uses(self, i: HloInstruction) -> None:
        self._count[i] = self.emitted(i)

    def _index_operands(self, i: HloInstruction) -> None:
        for o in i.operands:
            target = self._fusion.operands[o.parameter_number] if o.opcode is O.PARAMETER else o
            found = self._users.setdefault(target, set())
            if i.opcode is O.TRANSPOSE or _same_index_space(target.shape, i.shape):
                found |= self._users.get(i, set())
            else:
                found.add(i)


def opens_block(i: HloInstruction) -> bool:
    """Whether its code opens a basic block; with several users it is never fused into a fusion."""
    return i.opcode in _OPENS_BLOCK


def _same_index_space(a: Shape, b: Shape) -> bool:
    if isinstance(a, ArrayShape) and isinstance(b, ArrayShape):
        return a.dimensions == b.dimensions and a.minor_to_major == b.minor_to_major
    return a == b


def _has_several_uses(i: HloInstruction) -> bool:
    """Whether it has several users, counting those inside a fusion separately."""
    total = 0
    for u in i.users:
        if u.opcode is O.FUSION:
            total += u.fused_computation.parameter(u.operands.index(i)).user_count
        else:
            total += 1
        if total > 1:
            return True
    return False

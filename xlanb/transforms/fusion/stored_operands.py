"""Conditions that leave in memory what a product reads from memory in any case.

    y = f32[1,128,768] add(p, q)          # a normalization of the layer before
    v = f32[128,768] bitcast(y)
    d = f32[128,768] dot(v, w)            # reads y from memory
    s = f32[1,128,768] add(y, z)          # XLA computes y here again, from p and q

XLA fuses y into both users. With y stored once, `s` reads one array instead of all that y is
computed from, and each normalization of a chain is computed once. The default pipeline's fusion
uses these conditions.
"""

from __future__ import annotations

from xlanb.conditions import Condition
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.fusion.instruction_fusion import FusionEdge, one_user

_READ_MEMORY = frozenset((O.DOT, O.CONVOLUTION, O.CUSTOM_CALL, O.SORT, O.FFT))
"""Opcodes whose kernels read whole operands from memory."""
_WRITTEN = 4096
"""With fewer elements a matrix may be part of the loop that computes a product."""
_NOT_READ = frozenset((O.BROADCAST, O.IOTA))
"""Operands that are computed in the loop that uses them."""


def reads_stored(i: HloInstruction) -> bool:
    """Whether it reads its operand from memory: a product, or a bitcast that only products use."""
    if i.opcode is O.BITCAST:
        return not i.is_root and all(u.opcode in _READ_MEMORY for u in i.users)
    return i.opcode in _READ_MEMORY


def _is_stored_anyway(p: HloInstruction) -> bool:
    """Whether a user reads it from memory, and reading it is no more than reading its operands."""
    if p.user_count == 1 or p.opcode is O.BITCAST or not any(map(reads_stored, p.users)):
        return False
    read = (o for o in dict.fromkeys(p.operands) if o.opcode not in _NOT_READ)
    return sum(o.shape.byte_size for o in read) >= p.shape.byte_size


_NOT_STORED = "none does, or its operands are smaller"


def _readers(e: FusionEdge) -> str:
    if not _is_stored_anyway(e.producer):
        return _NOT_STORED
    return ", ".join(u.name for u in e.producer.users if reads_stored(u))


STORED_CONDITIONS: tuple[Condition[FusionEdge], ...] = (
    Condition(
        "no product reads the producer from memory",
        lambda e: not _is_stored_anyway(e.producer),
        _readers,
        one_user,
        lasting=True,
        value_if_holds=_NOT_STORED,
    ),
    Condition(
        "consumer is not a view that only products read",
        lambda e: e.producer.user_count == 1 or not reads_stored(e.consumer),
        lambda e: (
            f"{e.consumer.opcode} with {e.producer.user_count} users of the producer"
            if e.consumer.opcode is O.BITCAST
            else e.consumer.opcode.text
        ),
        one_user,
        may_fail=lambda _, c: c is O.BITCAST,
        value_if_holds=lambda _, c: None if c is O.BITCAST else c.text,
    ),
    Condition(
        "consumer is not a product with a kernel of its own",
        lambda e: e.consumer.opcode is not O.DOT or e.producer.array_shape.element_count < _WRITTEN,
        lambda e: (
            f"{e.consumer.opcode} of {e.producer.shape}" if e.consumer.opcode is O.DOT else e.consumer.opcode.text
        ),
        may_fail=lambda _, c: c is O.DOT,
        value_if_holds=lambda _, c: None if c is O.DOT else c.text,
    ),
)

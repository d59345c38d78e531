"""Which instructions the runtime computes; importing it does not import what computes them."""

from __future__ import annotations

from typing import Final

from xlanb.hlo.devices import names_partners
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.hlo.verifier.collectives import device_count

HOST_OPCODES = frozenset(
    {
        Op.FFT, Op.CHOLESKY, Op.TRIANGULAR_SOLVE, Op.RNG_BIT_GENERATOR, Op.BATCH_NORM_TRAINING, Op.BATCH_NORM_INFERENCE,
        Op.BATCH_NORM_GRAD, Op.CUSTOM_CALL, Op.RAGGED_DOT, Op.SCALED_DOT, Op.ALL_GATHER, Op.ALL_REDUCE, Op.ALL_TO_ALL,
        Op.COLLECTIVE_BROADCAST, Op.COLLECTIVE_PERMUTE, Op.COLLECTIVE_REDUCE, Op.REDUCE_SCATTER, Op.SHUFFLE,
        Op.RAGGED_ALL_TO_ALL,
        Op.ALL_GATHER_START, Op.ALL_GATHER_DONE, Op.ALL_REDUCE_START, Op.ALL_REDUCE_DONE, Op.COLLECTIVE_PERMUTE_START,
        Op.COLLECTIVE_PERMUTE_DONE, Op.ASYNC_START, Op.ASYNC_UPDATE, Op.ASYNC_DONE, Op.RNG, Op.RNG_GET_AND_UPDATE_STATE,
        Op.INFEED, Op.OUTFEED,
    }
)  # fmt: skip
"""Opcodes computed by NumPy, in one call each, unless they have a kernel.

Fourier transforms and linear algebra mostly have one.
"""

_NUMBERS: Final = frozenset({Op.PARTITION_ID, Op.REPLICA_ID})
TRANSFERS: Final = frozenset({Op.SEND, Op.SEND_DONE, Op.RECV, Op.RECV_DONE})


def is_number_of_several(i: HloInstruction) -> bool:
    """Whether an instruction returns a number that differs between devices."""
    return i.opcode in _NUMBERS and device_count(i) > 1


def is_transfer_of_several(i: HloInstruction) -> bool:
    """Whether an instruction sends to another device, or receives from one."""
    if i.opcode not in TRANSFERS or device_count(i) == 1:
        return False
    start = i.operands[0] if i.opcode in (Op.SEND_DONE, Op.RECV_DONE) else i
    return names_partners(start)

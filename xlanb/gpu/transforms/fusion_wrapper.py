"""Wrap every instruction that XLA:GPU's emitters can emit in a fusion (fusion_wrapper.cc).

ROOT t = f32[64,32] transpose(f32[32,64] x), dimensions={1,0}
=>    ROOT wrapped_transpose = f32[64,32] fusion(x), kind=kInput, calls={ROOT t = transpose(p0)}
"""

from __future__ import annotations

from typing import Final

from xlanb.gpu.heroes import is_tiled_transpose
from xlanb.gpu.reductions import is_reduction_of_rows_or_columns
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.fusion.fusion_wrapper import Wrapping

_WRAPPED = frozenset(
    (
        O.BITCAST_CONVERT,
        O.BROADCAST,
        O.CONCATENATE,
        O.CONVOLUTION,
        O.DOT,
        O.DYNAMIC_SLICE,
        O.DYNAMIC_UPDATE_SLICE,
        O.GATHER,
        O.IOTA,
        O.MAP,
        O.PAD,
        O.REDUCE,
        O.REDUCE_WINDOW,
        O.RESHAPE,
        O.REVERSE,
        O.SCATTER,
        O.SLICE,
        O.TRANSPOSE,
    )
)


def is_wrapped(i: HloInstruction) -> bool:
    """Whether an unfused instruction gets a fusion.

    It must compute or move elements, and be neither a copy nor a bitcast.
    """
    return i.opcode.is_elementwise or i.opcode in _WRAPPED


def fusion_kind(root: HloInstruction) -> str:
    """Return kInput for kernels that iterate over the operand, else kLoop.

    These are row and column reductions, scatters and tiled transposes.
    """
    over_input = root.opcode is O.SCATTER or is_reduction_of_rows_or_columns(root) or is_tiled_transpose(root)
    return "kInput" if over_input else "kLoop"


GPU_WRAPPING: Final = Wrapping("gpu", is_wrapped, fusion_kind)

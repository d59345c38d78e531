"""Add a suffix to names to track instructions through later passes (the pass rename-instructions).

Follows add_tracking_suffix_to_instruction_names.cc.

    add.3 = f32[8] add(x, y)    =>    add.3.0 = f32[8] add(x, y)

Fusion clones instructions. A clone of `add.3.0` is `add.3.1`, so that each copy in a fused program
shows its original.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_KEEP_NAMES = frozenset((O.PARAMETER, O.CUSTOM_CALL, O.FUSION))
_NEVER_FUSED = frozenset((O.DOMAIN, O.PARAMETER, O.WHILE, O.CONDITIONAL, O.CALL))
_ALWAYS_FUSED = frozenset((O.FUSION, O.MAP, O.REDUCE, O.REDUCE_WINDOW))


class AddTrackingSuffixToInstructionNames(HloPass):
    """Appends ".0" to the names of fusible instructions outside fusions."""

    name = "rename-instructions"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode not in _KEEP_NAMES and is_fusible(i):
                    _append_suffix(i)


def is_fusible(i: HloInstruction) -> bool:
    """Whether a fusion may contain it (HloInstruction::IsFusible).

    Excludes control flow, side effects, and RNG with several users.
    """
    if i.opcode in _ALWAYS_FUSED:
        return True
    if i.opcode in _NEVER_FUSED:
        return False
    return i.user_count <= 1 if i.opcode is O.RNG else not i.has_side_effect


@reason("its clones share its name")
def _append_suffix(i: HloInstruction) -> None:
    i.parent.rename(i, f"{i.name}.0")

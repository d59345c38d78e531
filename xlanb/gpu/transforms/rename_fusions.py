"""Name fusions after their kind and their heroes (rename_fusions.cc).

fusion.3 = fusion(x), kind=kInput, calls=fused_computation.3   (root a reduce)
=>    input_reduce_fusion = fusion(x), kind=kInput, calls=fused_reduce
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.gpu.heroes import find_hero, roots_of
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason


class RenameFusions(HloPass):
    """Names every fusion except custom ones, and its computation, after its heroes' opcodes."""

    name = "rename_fusions"
    triggers = frozenset((O.FUSION,))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c:
                if i.opcode is O.FUSION and i.get("kind") != "kCustom":
                    _rename(i)


@reason("the kernel is named after the opcodes of the heroes")
def _rename(fusion: HloInstruction) -> None:
    opcodes = sorted({find_hero(root).opcode.text for root in roots_of(fusion)})
    heroes = "_".join(opcodes).replace("-", "_")
    kind = fusion.attributes["kind"].removeprefix("k").lower()
    fusion.parent.rename(fusion, f"{kind}_{heroes}_fusion")
    fusion.parent.module.rename_computation(fusion, "calls", f"fused_{heroes}")

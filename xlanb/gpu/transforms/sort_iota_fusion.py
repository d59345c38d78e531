"""Fuse iotas into sorts (sort_iota_fusion.cc).

i = s32[8] iota()
s = (f32[8], s32[8]) sort(k, i)
=>  s = (f32[8], s32[8]) fusion(k), kind=kCustom, calls={sort(p0, iota())}
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import create_fusion, fuse_into
from xlanb.transforms.reason import reason


class SortIotaFusion(HloPass):
    """Fuses the iotas among a sort's operands into it."""

    name = "sort-iota-fusion"
    triggers = frozenset((O.SORT,))

    def apply(self, module: HloModule) -> None:
        for c in module.computations:
            for sort in c.instructions:
                iotas = [o for o in dict.fromkeys(sort.operands) if o.opcode is O.IOTA]
                if sort.opcode is O.SORT and iotas and not _is_ordered(sort):
                    _fuse(sort, iotas)


def _is_ordered(i: HloInstruction) -> bool:
    """Whether it has control dependencies, which a fusion would lose."""
    return bool(i.control_predecessors or i.control_successors)


@reason("the sort numbers its elements")
def _fuse(sort: HloInstruction, iotas: list[HloInstruction]) -> None:
    fusion = create_fusion(sort, "kCustom")
    for iota in iotas:
        fuse_into(fusion, iota)
        fusion.parent.remove_dead(iota)

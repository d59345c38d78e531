"""Replace maps by elementwise instructions (xla/service/map_inliner.h, the pass map-inline).

map(a, b), to_apply={p0, p1, ROOT add(p0, p1)}    =>    add(a, b)
"""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class MapInliner(HloPass):
    """Inlines maps whose computation is one elementwise instruction, a parameter or a constant."""

    name = "map-inline"
    triggers = frozenset((O.MAP,))

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                inlined = _inlined(i) if i.opcode is O.MAP else None
                if inlined is not None:
                    c.replace(i, inlined)


def _inlined(i: HloInstruction) -> HloInstruction | None:
    root, b = i.to_apply.root, Builder(i)
    if root.opcode is O.PARAMETER:
        return i.operands[root.parameter_number]
    if root.opcode is O.CONSTANT:
        return b.broadcast(b.literal(root.literal), (), i.array_shape)
    if not root.opcode.is_elementwise or any(o.opcode is not O.PARAMETER for o in root.operands):
        return None
    return b.add(root.opcode, [i.operands[o.parameter_number] for o in root.operands], i.shape, **root.attributes)

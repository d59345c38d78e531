"""Remove shardings if there is one device (sharding_remover.h in xla/hlo/transforms).

custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1]0,1}    =>    x
"""

from __future__ import annotations

from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import same
from xlanb.transforms.base import HloPass

_TARGETS = frozenset({"Sharding", "SPMDShardToFullShape", "SPMDFullToShardShape"})


class ShardingRemover(HloPass):
    """Replaces sharding annotations by their operands."""

    name = "sharding-remover"
    triggers = frozenset((O.CUSTOM_CALL,))
    takes_out = _TARGETS

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                if (
                    i.opcode is O.CUSTOM_CALL
                    and i.get("custom_call_target") in _TARGETS
                    and len(i.operands) == 1
                    and same(i.shape, i.operands[0].shape)
                ):
                    # The operand does not take over the annotation, which names devices that do not
                    # exist.
                    c.update(i, sharding="")
                    c.replace(i, i.operands[0])

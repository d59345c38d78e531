"""Combine small all-reduces (xla/hlo/transforms/collectives/all_reduce_combiner.h, as XLA:CPU names it).

all-reduce(x), to_apply=add;  all-reduce(y), to_apply=add    =>    r = (f32[4], f32[8]) all-reduce(x, y), to_apply=add;  r[0], r[1]
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.collectives.combining import combine_by_key, combined, reduction_key


@dataclass(frozen=True)
class CpuAllReduceCombiner(HloPass):
    """Combines all-reduces that reduce alike among the same participants and do not wait for each other, up to `most_bytes` and `most_operands` in one.

    XLA:CPU sets no limit of bytes.
    """

    name = "cpu-all-reduce-combiner"
    most_bytes: int = 2**63 - 1
    most_operands: int = 256

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is O.ALL_REDUCE and i.attributes.get("constrain_layout") for i in module.instructions()):
            return  # their layouts are an agreement with another module
        for c in nonfusion_computations(module):
            combine_by_key(c, _key, combined, most_bytes=self.most_bytes, most_operands=self.most_operands)


def _key(i: HloInstruction) -> Hashable | None:
    return reduction_key(i) if i.opcode is O.ALL_REDUCE else None

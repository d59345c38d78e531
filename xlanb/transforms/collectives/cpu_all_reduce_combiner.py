"""Combine small all-reduces (XLA:CPU's variant of all-reduce-combiner).

all-reduce(x), to_apply=add;  all-reduce(y), to_apply=add
  =>  r = (f32[4], f32[8]) all-reduce(x, y), to_apply=add;  r[0], r[1]

Source: xla/hlo/transforms/collectives/all_reduce_combiner.h.
"""

from __future__ import annotations

from collections.abc import Hashable

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.collectives.combining import combine_by_key, combined, reduction_key


@dataclass(frozen=True)
class CpuAllReduceCombiner(HloPass):
    """Combines independent all-reduces with equal reductions and participants.

    A combined one has at most `most_bytes` and `most_operands`. XLA:CPU sets no limit of bytes.
    """

    name = "cpu-all-reduce-combiner"
    most_bytes: int = 2**63 - 1
    most_operands: int = 256

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is O.ALL_REDUCE and i.attributes.get("constrain_layout") for i in module.instructions()):
            return  # another module relies on their layouts
        for c in nonfusion_computations(module):
            combine_by_key(c, _key, combined, most_bytes=self.most_bytes, most_operands=self.most_operands)


def _key(i: HloInstruction) -> Hashable | None:
    return reduction_key(i) if i.opcode is O.ALL_REDUCE else None

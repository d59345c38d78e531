"""Small all-reduces in one (xla/hlo/transforms/collectives/all_reduce_combiner.h, as XLA:CPU names it).

all-reduce(x), to_apply=add;  all-reduce(y), to_apply=add    =>    r = (f32[4], f32[8]) all-reduce(x, y), to_apply=add;  r[0], r[1]
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.reachability import HloReachabilityMap
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


@dataclass(frozen=True)
class CpuAllReduceCombiner(HloPass):
    """Combines all-reduces that reduce alike among the same participants and do not wait for each other, up to `most_bytes` and `most_operands` in one."""

    name = "cpu-all-reduce-combiner"
    most_bytes: int = 30 << 20
    most_operands: int = 256

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            while (group := self._group(c)) is not None:
                _combine(group)

    def _group(self, c: HloComputation) -> list[HloInstruction] | None:
        """The first all-reduces that can be one; None where no two are left."""
        alike: dict[tuple[object, ...], list[HloInstruction]] = {}
        for i in c.post_order():
            if i.opcode is O.ALL_REDUCE and i.shape.is_array and (key := _key(i)) is not None:
                alike.setdefault(key, []).append(i)
        candidates = [some for some in alike.values() if len(some) > 1]
        order = HloReachabilityMap(c) if candidates else None
        for some in candidates:
            taken: list[HloInstruction] = []
            size = 0
            for i in some:
                fits = size + i.shape.byte_size <= self.most_bytes and len(taken) < self.most_operands
                if fits and order is not None and not any(order.is_reachable(t, i) for t in taken):
                    taken.append(i)
                    size += i.shape.byte_size
            if len(taken) > 1:
                return taken
        return None


def _key(i: HloInstruction) -> tuple[object, ...] | None:
    root = i.to_apply.root
    if len(root.operands) != 2 or any(o.opcode is not O.PARAMETER for o in root.operands):
        return None
    others = [(k, str(v)) for k, v in sorted(i.attributes.items()) if k not in ("to_apply", "channel_id")]
    return root.opcode, i.shape.element_type, "channel_id" in i.attributes, i.sharding, *others


def _combine(group: list[HloInstruction]) -> None:
    first, c = group[0], group[0].parent
    operands = [i.operands[0] for i in group]
    one = c.add(O.ALL_REDUCE, operands, tuple_of(i.shape for i in group), like=first, **first.attributes)
    for n, i in enumerate(group):
        for p in i.control_predecessors:
            c.add_control_dependency(p, one)
        for s in i.control_successors:
            c.add_control_dependency(one, s)
        c.drop_control_dependencies(i)
        c.replace_uses(i, Builder(i).element(one, n))
        c.remove(i)

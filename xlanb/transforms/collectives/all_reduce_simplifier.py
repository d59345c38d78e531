"""Remove collectives with one participant (the pass all-reduce-simp).

all-reduce(x), replica_groups={{0}}, to_apply=add                    =>    x
collective-permute(x), source_target_pairs={{0,0}}, of one device    =>    x

Source: all_reduce_simplifier.h in xla/hlo/transforms/simplifiers.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.verifier.collectives import device_count, group_size
from xlanb.shape.shape import same
from xlanb.transforms.base import HloPass

_COLLECTIVES = frozenset({O.ALL_REDUCE, O.ALL_GATHER, O.REDUCE_SCATTER, O.ALL_TO_ALL, O.COLLECTIVE_PERMUTE})


class AllReduceSimplifier(HloPass):
    """Removes collectives whose groups all have one participant."""

    name = "all-reduce-simp"
    triggers = _COLLECTIVES

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if (
                    i.opcode in _COLLECTIVES
                    and len(i.operands) == 1
                    and same(i.shape, i.operands[0].shape)
                    and _is_alone(i)
                ):
                    for p in i.control_predecessors:
                        for s in i.control_successors:
                            c.add_control_dependency(p, s)
                    c.drop_control_dependencies(i)
                    c.replace(i, i.operands[0])


def _is_alone(i: HloInstruction) -> bool:
    if i.opcode is O.COLLECTIVE_PERMUTE:
        pairs = i.attributes.get("source_target_pairs") or ()
        return [tuple(p) for p in pairs] == [(0, 0)] and device_count(i) == 1
    return group_size(i) == 1

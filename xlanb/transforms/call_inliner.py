"""Inlining of calls (xla/service/call_inliner.h).

f { p = f32[] parameter(0); ROOT n = negate(p) }
ROOT c = f32[] call(x), to_apply=f                  =>      ROOT n = f32[] negate(x)
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.call_graph import CallGraph
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.transforms.base import HloPass
from xlanb.transforms.hlo_dce import HloDce
from xlanb.transforms.inlining import inline_call


@dataclass(frozen=True)
class CallInliner(HloPass):
    """Replaces each call by the body of what it calls; with `single_call_site` only of computations that are called once."""

    name = "call-inliner"
    triggers = frozenset((HloOpcode.CALL,))
    single_call_site: bool = False

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        inlined = False
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is HloOpcode.CALL and self._may_inline(i, graph):
                    inline_call(i, i.to_apply)
                    inlined = True
        if inlined:
            # What the bodies carried along without using it, as XLA's inliner does.
            HloDce().apply(module)

    def _may_inline(self, call: HloInstruction, graph: CallGraph) -> bool:
        if call.attributes.get("is_composite") or call.parent.execution_thread != call.to_apply.execution_thread:
            return False
        if ("inlineable", "false") in call.frontend_attributes:
            return False
        return not self.single_call_site or len(graph.callers[call.to_apply]) == 1

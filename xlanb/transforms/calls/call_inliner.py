"""Inline calls (xla/service/call_inliner.h).

f { p = f32[] parameter(0); ROOT n = negate(p) }
ROOT c = f32[] call(x), to_apply=f                  =>      ROOT n = f32[] negate(x)
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.expansion import check_expansion
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import inline_call
from xlanb.transforms.simplifiers.hlo_dce import HloDce


@dataclass(frozen=True)
class CallInliner(HloPass):
    """Replaces each call by the body of its callee.

    With `single_call_site` only calls of computations that are called once.
    """

    name = "call-inliner"
    triggers = frozenset((HloOpcode.CALL,))
    single_call_site: bool = False

    def apply(self, module: HloModule) -> None:
        check_expansion(module, self.name)
        graph = CallGraph(module)
        inlined = False
        seen = {module.entry_computation}
        todo = [module.entry_computation]
        while todo:
            c = todo.pop()
            inlined |= self._inline_all(c, graph)
            for i in c:
                fresh = [d for d in i.called_computations if d not in seen]
                seen.update(fresh)
                todo += fresh
        if inlined:
            # Remove dead instructions of the inlined bodies, as XLA's inliner does.
            HloDce().apply(module)

    def _inline_all(self, c: HloComputation, graph: CallGraph) -> bool:
        """Inline the calls of a computation, then the calls that came with the inlined bodies.

        Working from the outermost call copies each instruction once, however deeply calls are
        nested.
        """
        todo = [i for i in reversed(c.post_order()) if i.opcode is HloOpcode.CALL]
        inlined = False
        while todo:
            call = todo.pop()
            if call not in c or not self._may_inline(
                call, graph
            ):  # a call whose result an inlined body ignored is dead
                continue
            copies: dict[HloInstruction, HloInstruction] = {}
            inline_call(call, call.to_apply, copies=copies)
            todo += [copy for i, copy in reversed(copies.items()) if i.opcode is HloOpcode.CALL]
            inlined = True
        return inlined

    def _may_inline(self, call: HloInstruction, graph: CallGraph) -> bool:
        if call.attributes.get("is_composite") or call.parent.execution_thread != call.to_apply.execution_thread:
            return False
        if ("inlineable", "false") in call.frontend_attributes:
            return False
        return not self.single_call_site or len(graph.callers[call.to_apply]) == 1

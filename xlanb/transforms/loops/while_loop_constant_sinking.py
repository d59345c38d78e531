"""Sink loop-carried constants into the loop's body (xla/service/while_loop_constant_sinking.h).

while(tuple(i, 2)),
  body={t = parameter(0); c = get-tuple-element(t), index=1; ROOT tuple(multiply(..., c), c)}
  =>  the same with multiply(..., constant(2)) in the body, and in the condition too

The element is still carried; simplify-while-loops drops it.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.transforms.base import HloPass
from xlanb.transforms.loops.while_util import invariant_elements
from xlanb.transforms.reason import reason


@dataclass(frozen=True)
class WhileLoopConstantSinking(HloPass):
    """Sinks constants into while loops, outer loops first.

    With `sink_broadcast_of_constants` broadcast constants too. A loop's computations must have no
    other caller.
    """

    name = "while-loop-constant-sinking"
    triggers = frozenset((O.WHILE,))
    sink_broadcast_of_constants: bool = False

    def apply(self, module: HloModule) -> None:
        loops = [
            i
            for c in reversed(module.post_order())
            for i in c.post_order()
            if i.opcode is O.WHILE and i.operands[0].opcode is O.TUPLE
        ]
        if not loops:
            return
        graph = CallGraph(module)
        for i in loops:
            if all(len(graph.callers[d]) == 1 for d in i.called_computations):
                self._sink(i)

    @reason("a constant carried unchanged through a loop is sunk into it")
    def _sink(self, loop: HloInstruction) -> None:
        body, condition = loop.attributes["body"], loop.attributes["condition"]
        for element in invariant_elements(body):
            value = loop.operands[0].operands[element.tuple_index]
            if not self._is_sunk(value):
                continue
            inside = [u for u in element.users if u is not body.root]
            if inside:
                body.replace_uses(element, _copied(value, body), users=inside)
            for i in condition.parameters[0].users:
                if i.opcode is O.GET_TUPLE_ELEMENT and i.tuple_index == element.tuple_index and (i.users or i.is_root):
                    condition.replace(i, _copied(value, condition))

    def _is_sunk(self, value: HloInstruction) -> bool:
        if value.opcode is O.BROADCAST and self.sink_broadcast_of_constants:
            value = value.operands[0]
        return value.opcode is O.CONSTANT


def _copied(value: HloInstruction, into: HloComputation) -> HloInstruction:
    return into.clone_instruction(value, [_copied(o, into) for o in value.operands])

"""Move loop-invariant instructions out of loops.

    while(tuple(i, x)), body={...; e = exponential(get-tuple-element(t), index=1); ...}
      =>  while(tuple(i, x, exponential(x))), body={...; e = get-tuple-element(t), index=2; ...}

Broadcasts, reshapes, slices and the like are cheap to recompute: they move only along with an
instruction that is not. Source: xla/service/while_loop_invariant_code_motion.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.while_loop import trip_count
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import TupleShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.loops.while_util import invariant_elements, widen
from xlanb.transforms.reason import reason
from xlanb.transforms.simplifiers.hlo_dce import HloDce
from xlanb.transforms.simplifiers.tuple_simplifier import TupleSimplifier

_CHEAP = frozenset({O.CONSTANT, O.RESHAPE, O.BITCAST, O.BROADCAST, O.IOTA, O.REVERSE, O.SLICE, O.TRANSPOSE, O.TUPLE})
_DISABLED = "_xla_disable_loop_instr_hoisting"


class WhileLoopInvariantCodeMotion(HloPass):
    """Hoists invariant code out of loops that may run more than once.

    A loop's computations must have no other caller.
    """

    name = "while-loop-invariant-code-motion"
    triggers = frozenset((O.WHILE,))

    def apply(self, module: HloModule) -> None:
        loops = [i for c in module.post_order() for i in c.post_order() if i.opcode is O.WHILE]
        if not loops:
            return
        graph = CallGraph(module)
        own = [i for i in loops if all(len(graph.callers[d]) == 1 for d in i.called_computations)]
        changed = False
        # Inner loops first: code hoisted out of one may be hoisted out of the outer one too.
        for i in own:
            changed |= _hoist(i)
        if changed:
            HloDce().apply(module)
            TupleSimplifier().apply(module)


@reason("loop-invariant values are computed before the loop")
def _hoist(loop: HloInstruction) -> bool:
    body: HloComputation = loop.attributes["body"]
    count = trip_count(loop)
    if (
        not isinstance(loop.shape, TupleShape)
        or (count is not None and count <= 1)
        or any(k == _DISABLED for k, _ in loop.frontend_attributes)
    ):
        return False
    known = {i for i in invariant_elements(body) if i.shape.is_array}
    if not known or any(i.opcode is O.DOMAIN for i in body):
        return False
    moved: list[HloInstruction] = []
    for i in body.post_order():
        if _may_move(i) and i not in known and all(o in known or o.opcode is O.CONSTANT for o in i.operands):
            if i.opcode is not O.CONSTANT:
                known.add(i)
            if i.opcode not in _CHEAP and i is not body.root:
                moved.append(i)
    if not moved:
        return False
    outside: dict[HloInstruction, HloInstruction] = {}
    carried = widen(loop, [_outside(i, loop, body.parameters[0], outside) for i in moved])
    for i, value in zip(moved, carried, strict=True):
        # The root keeps its own get-tuple-element, as in XLA.
        body.replace(i, body.clone_instruction(value))
    return True


def _may_move(i: HloInstruction) -> bool:
    # Random numbers with hidden state differ in every iteration.
    return not (
        i.has_side_effect
        or i.opcode in (O.AFTER_ALL, O.PARAMETER, O.RNG)
        or i.control_predecessors
        or i.control_successors
    )


def _outside(
    i: HloInstruction, loop: HloInstruction, parameter: HloInstruction, done: dict[HloInstruction, HloInstruction]
) -> HloInstruction:
    """Copy an instruction of the body, and its operands, to before the loop."""
    stack = [i]
    while stack:
        x = stack[-1]
        if x in done:
            stack.pop()
        elif x is parameter:
            done[x] = loop.operands[0]
        elif todo := [o for o in x.operands if o not in done]:
            stack.extend(todo)
        elif x.opcode is O.GET_TUPLE_ELEMENT and x.operands[0] is parameter and loop.operands[0].opcode is O.TUPLE:
            done[x] = loop.operands[0].operands[x.tuple_index]
        else:
            done[x] = loop.parent.clone_instruction(x, [done[o] for o in x.operands])
    return done[i]

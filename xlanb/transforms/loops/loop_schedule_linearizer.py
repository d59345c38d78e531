"""Schedule reads of a loop-carried value before its update, which avoids copies.

    body: a = add(x, 1);  s = sine(x);  ROOT tuple(a, s), x = get-tuple-element(p), index=0
    =>    a = add(x, 1), control-predecessors={s}

An element of the loop's tuple has one buffer. If all reads of the old value run before the new one
is written, copy-insertion needs no copy. Source: xla/service/loop_schedule_linearizer.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import CallGraph, nonfusion_computations
from xlanb.analysis.dataflow import HloDataflowAnalysis, HloValue
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.reason import reason

_ASYNC = ("-start", "-done", "-update")


class LoopScheduleLinearizer(HloPass):
    """Adds control dependencies in loop bodies from reads of an element to its next definition."""

    name = "loop-schedule-linearizer"
    triggers = frozenset((O.WHILE,))

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        if any(len(graph.callers[c]) > 1 for c in module.computations if graph.is_control(c)):
            return  # dataflow needs computations with one caller each
        values = HloDataflowAnalysis(module)
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.WHILE and i in values.at and not _has_async(i.attributes["body"]):
                    _linearize(i.attributes["body"], values)


def _has_async(body: HloComputation) -> bool:
    """Whether it contains asynchronous instructions.

    Additional control dependencies would prevent them from overlapping the rest.
    """
    return any(i.opcode.text.endswith(_ASYNC) or i.opcode in (O.SEND, O.RECV) for i in body)


def _linearize(body: HloComputation, values: HloDataflowAnalysis) -> None:
    carried, given = values.at[body.root], values.at[body.parameters[0]]
    for leaf, new in carried.items():
        old = given.get(leaf)
        if old is None or old is new or not leaf:
            continue
        for read in _readers(old):
            write = new.instruction
            if read is not write and read.parent is write.parent and not _depends(read, write):
                _order(read, write)


def _readers(value: HloValue) -> list[HloInstruction]:
    return list(dict.fromkeys(use.instruction for use in value.uses))


def _depends(later: HloInstruction, earlier: HloInstruction) -> bool:
    """Whether `later` depends on `earlier` by data or control."""
    seen, stack = {later}, [later]
    while stack:
        i = stack.pop()
        if i is earlier:
            return True
        new = [o for o in (*i.operands, *i.control_predecessors) if o not in seen]
        seen.update(new)
        stack.extend(new)
    return False


@reason("the old value is read before its buffer is overwritten")
def _order(read: HloInstruction, write: HloInstruction) -> None:
    write.parent.add_control_dependency(read, write)

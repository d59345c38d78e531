"""Replace asynchronous collectives by synchronous ones.

    all-reduce-done(all-reduce-start(x), to_apply=add)
      =>  all-reduce(x), to_apply=add, frontend_attributes={async_collective_name="start"}

XLA:CPU has nothing to overlap them with. The start's name is kept as an attribute.
Source: xla/hlo/transforms/collectives/async_collective_replacer.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.base import HloPass
from xlanb.transforms.inlining import copy_body

_SYNCHRONOUS = {
    O.ALL_REDUCE_DONE: O.ALL_REDUCE,
    O.ALL_GATHER_DONE: O.ALL_GATHER,
    O.COLLECTIVE_PERMUTE_DONE: O.COLLECTIVE_PERMUTE,
}
_WRAPPED = frozenset(
    (
        O.ALL_GATHER,
        O.ALL_REDUCE,
        O.ALL_TO_ALL,
        O.COLLECTIVE_BROADCAST,
        O.COLLECTIVE_PERMUTE,
        O.RAGGED_ALL_TO_ALL,
        O.REDUCE_SCATTER,
    )
)


class AsyncCollectiveReplacer(HloPass):
    """Replaces each pair of start and done by the synchronous collective, at the done's place."""

    name = "async-collective-replacer"
    triggers = frozenset((*_SYNCHRONOUS, O.ASYNC_DONE))

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for done in c.post_order():
                if done.opcode in _SYNCHRONOUS:
                    _replace(done, _synchronous(done))
                elif done.opcode is O.ASYNC_DONE and _wraps_a_collective(done):
                    start = _start(done)
                    wrapped = start.attributes["calls"]
                    _replace(done, copy_body(wrapped, c, start.operands, start))
                    if not module.callers(wrapped):
                        module.remove_computation(wrapped)


def _start(done: HloInstruction) -> HloInstruction:
    while done.opcode in (O.ASYNC_DONE, O.ASYNC_UPDATE):
        done = done.operands[0]
    return done


def _wraps_a_collective(done: HloInstruction) -> bool:
    start = _start(done)
    called = start.attributes.get("calls") if start.opcode is O.ASYNC_START else None
    return called is not None and called.root.opcode in _WRAPPED and len(called) == 1 + len(called.parameters)


def _synchronous(done: HloInstruction) -> HloInstruction:
    start = done.operands[0]
    return done.parent.add(
        _SYNCHRONOUS[done.opcode], start.operands, done.shape, metadata=start.metadata, **start.attributes
    )


def _replace(done: HloInstruction, made: HloInstruction) -> None:
    """Replace a done, its start and any updates between them by the collective `made`.

    `made` takes over their control dependencies. Instructions that were ordered between start and
    done run before it.
    """
    c, chain = done.parent, [done]
    while chain[-1].opcode not in (O.ASYNC_START, O.ALL_REDUCE_START, O.ALL_GATHER_START, O.COLLECTIVE_PERMUTE_START):
        chain.append(chain[-1].operands[0])
    start = chain[-1]
    c.update(made, frontend_attributes=(*start.frontend_attributes, ("async_collective_name", start.name)))
    for i in chain:
        for p in i.control_predecessors:
            if p not in chain:
                c.add_control_dependency(p, made)
    for i in chain:
        for s in i.control_successors:
            if s not in chain and not _waits_for(made, s):
                c.add_control_dependency(made, s)
        c.drop_control_dependencies(i)
    c.replace_uses(done, made)
    for i in chain:
        if not i.users:
            c.remove(i)


def _waits_for(late: HloInstruction, early: HloInstruction) -> bool:
    """Whether one instruction can only run after another."""
    seen, rest = {late}, [late]
    while rest:
        i = rest.pop()
        if i is early:
            return True
        new = {*i.operands, *i.control_predecessors} - seen
        seen |= new
        rest.extend(new)
    return False

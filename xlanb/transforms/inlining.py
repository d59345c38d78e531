"""Putting the body of a computation in the place of an instruction that calls it."""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.hlo.attributes import NO_METADATA
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode


def copy_body(
    body: HloComputation,
    into: HloComputation,
    arguments: Sequence[HloInstruction],
    caller: HloInstruction,
    copies: dict[HloInstruction, HloInstruction] | None = None,
) -> HloInstruction:
    """Copy a computation's instructions into another one, parameters replaced by `arguments`; the copy of its root. `copies` is filled with what became of each.

    Instructions that bear no metadata take over the caller's.
    """
    new: dict[HloInstruction, HloInstruction] = {} if copies is None else copies
    for i in body.post_order():
        if i.opcode is HloOpcode.PARAMETER:
            new[i] = arguments[i.parameter_number]
            continue
        copy = new[i] = into.clone_instruction(i, tuple(new[o] for o in i.operands))
        if copy.metadata is NO_METADATA and caller.metadata is not NO_METADATA:
            into.update(copy, metadata=caller.metadata)
        for p in i.control_predecessors:
            into.add_control_dependency(new[p], copy)
    return new[body.root]


def inline_call(
    call: HloInstruction,
    body: HloComputation,
    arguments: Sequence[HloInstruction] | None = None,
    copies: dict[HloInstruction, HloInstruction] | None = None,
) -> HloInstruction:
    """Replace `call` by the body of a computation over its operands (or other arguments); what took its place. `copies` as in copy_body.

    Control dependencies of the call pass to the body: what came before it comes before every instruction of the body without operands there.
    """
    parent = call.parent
    made: dict[HloInstruction, HloInstruction] = {} if copies is None else copies
    root = copy_body(body, parent, call.operands if arguments is None else arguments, call, made)
    if call.control_predecessors or call.control_successors:
        inside = [copy for i, copy in made.items() if i.opcode is not HloOpcode.PARAMETER]
        for p in call.control_predecessors:
            for i in inside:
                parent.add_control_dependency(p, i)
        for s in call.control_successors:
            for i in inside or [root]:
                parent.add_control_dependency(i, s)
        parent.drop_control_dependencies(call)
    parent.replace_uses(call, root)
    _remove(call)
    return root


def bypass(i: HloInstruction, value: HloInstruction) -> None:
    """Let the users of `i`, side effect or not, use `value`; what came before it still comes before what came after it, and it goes."""
    c = i.parent
    for before in i.control_predecessors:
        for after in i.control_successors:
            c.add_control_dependency(before, after)
    c.drop_control_dependencies(i)
    c.replace_uses(i, value)
    take_out(i)


def take_out(i: HloInstruction) -> None:
    """Remove an instruction that nothing uses, whatever effect it is said to have, then the operands that died with it."""
    i.parent.drop_control_dependencies(i)
    _remove(i)


def _remove(call: HloInstruction) -> None:
    # The call may be said to have a side effect because its body has: the body is here now.
    parent, operands = call.parent, call.operands
    parent.remove(call)
    for o in operands:
        parent.remove_dead(o)

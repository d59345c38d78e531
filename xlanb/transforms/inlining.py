"""Replace a calling instruction by the body of its callee."""

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
    """Copy a computation's instructions into another; return the copy of its root.

    Parameters are replaced by `arguments`. `copies` is filled with the copy of each instruction.
    Instructions without metadata take over the caller's.
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
    """Replace `call` by the body of a computation; return the replacement.

    The body's parameters are the call's operands, or `arguments`. `copies` as in copy_body. The
    body takes over the call's control dependencies: its predecessors precede every copied
    instruction, and its successors follow them.
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
    """Replace `i` by `value` and remove it, whether it has a side effect or not.

    Its control predecessors become predecessors of its control successors.
    """
    c = i.parent
    for before in i.control_predecessors:
        for after in i.control_successors:
            c.add_control_dependency(before, after)
    c.drop_control_dependencies(i)
    c.replace_uses(i, value)
    take_out(i)


def take_out(i: HloInstruction) -> None:
    """Remove an unused instruction, even one with side effects, then operands that became dead."""
    i.parent.drop_control_dependencies(i)
    _remove(i)


def _remove(call: HloInstruction) -> None:
    # The call may have a side effect because its body has one, which is inlined now.
    parent, operands = call.parent, call.operands
    parent.remove(call)
    for o in operands:
        parent.remove_dead(o)

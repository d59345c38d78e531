"""Loops that run never or once, and what loops carry for nobody (xla/hlo/transforms/simplifiers/while_loop_simplifier.h, the pass simplify-while-loops).

while(t) that runs no time                               =>  t
while(t) that runs once                                  =>  body(t)
while(tuple(i, x, unused)), unused never read            =>  while(tuple(i, x))
while(tuple(i, c)) whose body gives the constant c again =>  the body hands its element on
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.analysis.while_loop import trip_count
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.hlo_dce import remove_dead_instructions
from xlanb.transforms.inlining import copy_body, inline_call


@dataclass(frozen=True)
class WhileLoopSimplifier(HloPass):
    """Removes, unrolls once, and narrows while loops."""

    name = "simplify-while-loops"

    def apply(self, module: HloModule) -> None:
        changed = False
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.WHILE and not i.control_predecessors and not i.control_successors:
                    changed |= _simplify(i)
        if changed:
            module.remove_unused_computations()


def _simplify(loop: HloInstruction) -> bool:
    count = trip_count(loop)
    condition: HloComputation = loop.attributes["condition"]
    if count == 0 and not any(i.has_side_effect for i in condition):
        loop.parent.replace_uses(loop, loop.operands[0])
        _remove(loop)
        return True
    if count == 1 and not any(i.has_side_effect for i in condition):
        inline_call(loop, loop.attributes["body"])
        return True
    handed_on = _hand_on_constants(loop)
    return _drop_dead_elements(loop) or handed_on


def _hand_on_constants(loop: HloInstruction) -> bool:
    """Where an element begins as a constant and the body gives that very constant again, let the body hand on what it got."""
    start, body = loop.operands[0], loop.attributes["body"]
    if start.opcode is not O.TUPLE or body.root.opcode is not O.TUPLE or loop.parent.module.callers(body) != [loop]:
        return False
    parameter = body.parameters[0]
    same = [
        k
        for k, (first, again) in enumerate(zip(start.operands, body.root.operands, strict=True))
        if first.opcode is O.CONSTANT and again.opcode is O.CONSTANT and first.literal == again.literal
    ]
    for k in same:
        constant = body.root.operands[k]
        element = body.add(O.GET_TUPLE_ELEMENT, (parameter,), constant.shape, like=constant, index=k)
        body.replace_operand(body.root, k, element)
        body.remove_dead(constant)
    return bool(same)


def _remove(loop: HloInstruction) -> None:
    operands = loop.operands
    loop.parent.remove(loop)
    for o in operands:
        loop.parent.remove_dead(o)


def _drop_dead_elements(loop: HloInstruction) -> bool:
    """Take out elements of the loop's tuple that reach neither the condition, nor a side effect, nor a user of the loop."""
    start, body, condition = loop.operands[0], loop.attributes["body"], loop.attributes["condition"]
    shape = loop.shape
    if (
        not isinstance(shape, TupleShape)
        or start.opcode is not O.TUPLE
        or body.root.opcode is not O.TUPLE
        or loop.is_root
    ):
        return False
    readers = (*loop.users, *body.parameters[0].users, *condition.parameters[0].users)
    if (
        any(u.opcode is not O.GET_TUPLE_ELEMENT for u in readers)
        or body.parameters[0].is_root
        or condition.parameters[0].is_root
    ):
        return False
    live = sorted(_live_elements(loop, body, condition))
    if len(live) == len(shape.shapes) or not live:
        return False
    _narrow(loop, body, condition, shape, live)
    return True


def _live_elements(loop: HloInstruction, body: HloComputation, condition: HloComputation) -> set[int]:
    live = {u.tuple_index for u in loop.users} | {u.tuple_index for u in condition.parameters[0].users}
    todo = [body.root.operands[n] for n in live]
    todo += [
        i for i in body if i is not body.root and (i.has_side_effect or (i.is_dead and i.opcode is not O.PARAMETER))
    ]
    seen: set[HloInstruction] = set()
    while todo:
        i = todo.pop()
        if i in seen:
            continue
        seen.add(i)
        todo.extend((*i.operands, *i.control_predecessors))
        if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is body.parameters[0] and i.tuple_index not in live:
            live.add(i.tuple_index)
            todo.append(body.root.operands[i.tuple_index])
    return live


def _narrow(
    loop: HloInstruction, body: HloComputation, condition: HloComputation, old: TupleShape, live: list[int]
) -> None:
    parent, module = loop.parent, loop.parent.module
    shapes = [loop.operands[0].operands[n].shape for n in live]
    shape = tuple_of(shapes)
    new_body, new_condition = (_narrowed(module, c, old, shape, live, is_body=c is body) for c in (body, condition))
    start = parent.add(O.TUPLE, [loop.operands[0].operands[n] for n in live], shape, like=loop)
    attributes = {**loop.attributes, "body": new_body, "condition": new_condition}
    new = parent.add(O.WHILE, (start,), shape, like=loop, **attributes)
    for u in loop.users:
        parent.replace(u, parent.add(O.GET_TUPLE_ELEMENT, (new,), u.shape, like=u, index=live.index(u.tuple_index)))
    if loop in parent and not loop.users:
        _remove(loop)


def _narrowed(
    module: HloModule, source: HloComputation, old: TupleShape, shape: TupleShape, live: list[int], *, is_body: bool
) -> HloComputation:
    """A copy of a body or condition over the narrower tuple; what it computes for dead elements alone is copied too, for dce, over zeros of their own."""
    new = module.add_computation(source.name)
    p = new.add(O.PARAMETER, (), shape, name=source.parameters[0].name, parameter_number=0)
    b = Builder(p)
    # A stand-in for the old parameter: the live elements in their places, anything of the right shape in the others.
    elements = {n: b.element(p, k) for k, n in enumerate(live)}
    filler = [elements[n] if n in elements else _zero(b, s) for n, s in enumerate(old.shapes)]
    wide = new.add(O.TUPLE, filler, old)
    root = copy_body(source, new, (wide,), p)
    new.set_root(b.tuple(root.operands[n] for n in live) if is_body else root)
    for i in reversed(new.post_order()):
        if i.opcode is O.GET_TUPLE_ELEMENT and i in new and i.operands[0] is wide:
            new.replace(i, wide.operands[i.tuple_index])
    remove_dead_instructions(new)
    return new


def _zero(b: Builder, shape: Shape) -> HloInstruction:
    if isinstance(shape, TupleShape):
        return b.tuple(_zero(b, s) for s in shape.shapes)
    return b.computation.add(O.AFTER_ALL) if shape.is_token else b.full(0, shape.as_array())

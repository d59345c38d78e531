"""Helpers for passes over while loops: invariant elements, and loops that carry more.

Source: xla/service/while_util.h.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.errors import PassError
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import TupleShape
from xlanb.shape.shape import tuple_of


def invariant_elements(body: HloComputation) -> list[HloInstruction]:
    """The get-tuple-elements in a loop body that read elements it passes on unchanged."""
    if body.root.opcode is not O.TUPLE:
        return []
    p = body.parameters[0]
    found = (
        i
        for n, i in enumerate(body.root.operands)
        if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0] is p and i.tuple_index == n
    )
    return list(dict.fromkeys(found))


def widen(loop: HloInstruction, extra: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Make a loop carry more values, unchanged; return them as they are in its body.

    Body and condition must have no other caller, and the body's root must be a tuple.

    while(tuple(a, b))    =>    while(tuple(a, b, extra...))
    """
    parent, start, old = loop.parent, loop.operands[0], _tuple_shape(loop)
    body, condition = loop.attributes["body"], loop.attributes["condition"]
    shape = tuple_of((*old.shapes, *(e.shape for e in extra)))
    width = len(old.shapes)
    for c in (body, condition):
        _widen_parameter(c, old, shape)
    carried = [
        body.add(O.GET_TUPLE_ELEMENT, (body.parameters[0],), e.shape, like=e, index=width + n)
        for n, e in enumerate(extra)
    ]
    root = body.root
    body.set_root(body.add(O.TUPLE, (*root.operands, *carried), shape, like=root))
    body.remove_dead(root)
    first = (
        start.operands
        if start.opcode is O.TUPLE
        else [parent.add(O.GET_TUPLE_ELEMENT, (start,), s, index=n) for n, s in enumerate(old.shapes)]
    )
    wide = parent.clone_instruction(loop, (parent.add(O.TUPLE, (*first, *extra), shape, like=start),), shape)
    for p in loop.control_predecessors:
        parent.add_control_dependency(p, wide)
    for s in loop.control_successors:
        parent.add_control_dependency(wide, s)
    parent.drop_control_dependencies(loop)
    _replace(loop, wide)
    return carried


def _tuple_shape(loop: HloInstruction) -> TupleShape:
    if not isinstance(loop.shape, TupleShape):
        raise PassError(f"{loop.name} carries {loop.shape}, expected a tuple: {loop}")
    return loop.shape


def _widen_parameter(c: HloComputation, old: TupleShape, shape: TupleShape) -> None:
    p = c.parameters[0]
    others = [u for u in p.users if u.opcode is not O.GET_TUPLE_ELEMENT]
    was_root = p.is_root
    c.update(p, shape=shape)
    if others or was_root:
        narrow = c.add(O.TUPLE, [c.add(O.GET_TUPLE_ELEMENT, (p,), s, index=n) for n, s in enumerate(old.shapes)], old)
        for u in others:
            c.set_operands(u, [narrow if o is p else o for o in u.operands])
        if was_root:
            c.set_root(narrow)


def _replace(loop: HloInstruction, wide: HloInstruction) -> None:
    parent, start, old = loop.parent, loop.operands[0], _tuple_shape(loop)
    for u in loop.users:
        if u.opcode is O.GET_TUPLE_ELEMENT:
            parent.set_operands(u, (wide,))
    if loop.users or loop.is_root:
        elements = [parent.add(O.GET_TUPLE_ELEMENT, (wide,), s, index=n) for n, s in enumerate(old.shapes)]
        parent.replace_uses(loop, parent.add(O.TUPLE, elements, old, like=loop))
    # The wide loop has the side effects of the old one, which can be removed.
    parent.remove(loop)
    parent.remove_dead(start)

"""Copies where two values would fight for one buffer (xla/service/copy_insertion.h).

    ENTRY { ROOT p = f32[4] parameter(0) }                       =>    ROOT c = copy(p)
    while(tuple(constant, x, y, y))                              =>    while(tuple(copy(constant), copy(x), y', copy(y)))
    body { ROOT t = tuple(get-tuple-element(p), 1, get-tuple-element(p), 0) }    =>    the two swapped elements copied

A buffer of the result, or of a loop, is written: it may be neither that of a parameter or constant, nor serve two values, nor be read under its old value after it was written.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Shape, TupleShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

_ALIASES = frozenset((O.BITCAST, O.GET_TUPLE_ELEMENT, O.OPT_BARRIER, O.ADD_DEPENDENCY, O.DOMAIN))


@dataclass(frozen=True)
class CopyInsertion(HloPass):
    """Copies conservatively: at the result of the entry and around while loops."""

    name = "copy-insertion"

    def apply(self, module: HloModule) -> None:
        for c in module.post_order():
            for i in c.post_order():
                if i.opcode is O.WHILE:
                    _copy_loop(i)
        _copy_result(module.entry_computation)


def _copy_result(entry: HloComputation) -> None:
    root = entry.root
    if root.opcode is O.TUPLE:
        _separate(root, set())
    elif _source(root).opcode in (O.PARAMETER, O.CONSTANT) and not root.shape.is_token:
        entry.set_root(deep_copy(Builder(root), root))


def _separate(tuple_: HloInstruction, taken: set[HloInstruction]) -> None:
    """Copy elements whose buffer belongs to a parameter or constant, or to another element."""
    for n, o in enumerate(tuple_.operands):
        source = _source(o)
        if source.opcode in (O.PARAMETER, O.CONSTANT) or source in taken:
            tuple_.parent.replace_operand(tuple_, n, deep_copy(Builder(tuple_), o))
        taken.add(source)


def _copy_loop(loop: HloInstruction) -> None:
    start, body = loop.operands[0], loop.attributes["body"]
    if start.opcode is not O.TUPLE or body.root.opcode is not O.TUPLE or not isinstance(loop.shape, TupleShape):
        return
    constant = _passed_through(body)
    parent, b = loop.parent, Builder(loop)
    taken: set[HloInstruction] = set()
    operands = []
    for n, o in enumerate(start.operands):
        source = _source(o)
        # What the body only hands on is never written: it may stay where it is.
        fights = n not in constant and (
            source.opcode in (O.PARAMETER, O.CONSTANT) or source in taken or _read_elsewhere(o, start, loop)
        )
        operands.append(deep_copy(b, o) if fights else o)
        taken.add(source)
    if tuple(operands) != start.operands:
        parent.replace_operand(loop, 0, parent.add(O.TUPLE, operands, start.shape, like=start))
        parent.remove_dead(start)
    _copy_body(body, constant)


def _passed_through(body: HloComputation) -> set[int]:
    return {
        n
        for n, o in enumerate(body.root.operands)
        if o.opcode is O.GET_TUPLE_ELEMENT and o.operands[0].opcode is O.PARAMETER and o.tuple_index == n
    }


def _read_elsewhere(o: HloInstruction, start: HloInstruction, loop: HloInstruction) -> bool:
    return any(u is not start for u in o.users) or any(u is not loop for u in start.users) or o.is_root


def _copy_body(body: HloComputation, constant: set[int]) -> None:
    """Elements that change places, constants and doubles are copied at the root of the body.

    Where elements change places, the old ones are copied at the start too: each copy at the root comes after all reads of the element that it overwrites.
    """
    root = body.root
    fighting: list[int] = []
    taken: set[HloInstruction] = set()
    for n, o in enumerate(root.operands):
        source = _source(o)
        if n not in constant and (source.opcode in (O.PARAMETER, O.CONSTANT) or source in taken):
            fighting.append(n)
        taken.add(source)
    moves = any(_source(root.operands[n]).opcode is O.PARAMETER for n in fighting)
    early = _copy_elements(body, constant) if moves else {}
    for n in fighting:
        late = deep_copy(Builder(root), root.operands[n])
        body.replace_operand(root, n, late)
        if n in early and late.opcode is O.COPY:
            body.add_control_dependency(early[n], late)


def _copy_elements(body: HloComputation, constant: set[int]) -> dict[int, HloInstruction]:
    """Copies of the elements of a body's parameter that the loop changes; every use uses the copy."""
    copies: dict[int, HloInstruction] = {}
    for g in body.parameters[0].users:
        if g.opcode is O.GET_TUPLE_ELEMENT and g.tuple_index not in constant and g.shape.is_array:
            users = g.users
            copy = deep_copy(Builder(g), g)
            body.replace_uses(g, copy, users=users)
            copies.setdefault(g.tuple_index, copy)
    return copies


def _source(i: HloInstruction) -> HloInstruction:
    """The instruction whose buffer a value lies in, seen through what only renames; elements of a tuple count as the tuple's source."""
    while i.opcode in _ALIASES:
        if i.opcode is O.GET_TUPLE_ELEMENT and i.operands[0].opcode not in (*_ALIASES, O.PARAMETER):
            return i
        i = i.operands[0]
    return i


def deep_copy(b: Builder, i: HloInstruction) -> HloInstruction:
    """A copy of every array in a value; tokens stay."""
    shape: Shape = i.shape
    if isinstance(shape, TupleShape):
        return b.add(O.TUPLE, [deep_copy(b, b.element(i, n)) for n in range(len(shape.shapes))], shape)
    return i if not shape.is_array else b.add(O.COPY, (i,), shape)

"""Layouts for everything (xla/service/layout_assignment.h, cpu_layout_assignment.h): row major, but for what the outside fixes and what a transpose gets for nothing.

    t = f32[3,2] transpose(f32[2,3]{1,0} x), dimensions={1,0}    =>    t = f32[3,2]{0,1} transpose(x), dimensions={1,0};  c = f32[3,2]{1,0} copy(t)

A transpose is given the layout that leaves the bytes where they are; the copy after it is what moves them, where a user wants rows. Parameters and results of the entry, and
operands of custom calls, keep the layouts that they are given; copies stand between those and row major. A module that has bitcasts already has its layouts: only missing ones are set.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Layout, Literal, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder

# Their results have layouts that somebody else fixed.
_FIXED = frozenset((O.PARAMETER, O.CUSTOM_CALL, O.INFEED, O.RECV, O.RECV_DONE))


@dataclass(frozen=True)
class LayoutAssignment(HloPass):
    """Gives every array a layout."""

    name = "layout-assignment"

    def apply(self, module: HloModule) -> None:
        if any(i.opcode is O.BITCAST for i in module.instructions()):
            for i in module.instructions():
                _set_shape(i, i.shape.with_default_layout())
            return
        entry = module.entry_computation
        parameters, result = _entry_shapes(module)
        for c in module.computations:
            for i in c.post_order():
                if i in c:
                    _assign(i, parameters if c.is_entry else None)
        _fix_result(entry, result)


def row_major(shape: Shape) -> Shape:
    """The same shape, every array in it row major (memory spaces and tiles forgotten)."""
    if isinstance(shape, TupleShape):
        return tuple_of(row_major(s) for s in shape.shapes)
    return shape.with_layout(Layout.default(shape.rank)) if isinstance(shape, ArrayShape) and shape.is_array else shape


def _entry_shapes(module: HloModule) -> tuple[tuple[Shape, ...], Shape]:
    """What the entry's parameters and result look like from outside."""
    if module.entry_layout is not None:
        parameters, result = module.entry_layout
        return tuple(p.with_default_layout() for p in parameters), result.with_default_layout()
    entry = module.entry_computation
    return tuple(p.shape.with_default_layout() for p in entry.parameters), entry.root.shape.with_default_layout()


def _assign(i: HloInstruction, outside: tuple[Shape, ...] | None) -> None:
    if i.opcode is O.PARAMETER and outside is not None:
        _set_shape(i, outside[i.parameter_number])
        _use_relayouted(i)
    elif i.opcode is O.CUSTOM_CALL:
        _constrain_operands(i)
        _set_shape(i, i.shape.with_default_layout())
        _use_relayouted(i)
    elif i.opcode in _FIXED and i.opcode is not O.PARAMETER:
        _set_shape(i, i.shape.with_default_layout())
        _use_relayouted(i)
    elif i.opcode is O.TRANSPOSE:
        _set_shape(i, i.array_shape.with_layout(_same_bytes(i)))
        _use_relayouted(i)
    else:
        _set_shape(i, row_major(i.shape))


def _set_shape(i: HloInstruction, shape: Shape) -> None:
    if shape == i.shape:
        return
    literal = (
        Literal(shape, i.literal.array, is_elided=i.literal.is_elided)
        if i.opcode is O.CONSTANT and shape.is_array
        else None
    )
    i.parent.update(i, shape=shape, attributes={"literal": literal} if literal is not None else {})


def _same_bytes(transpose: HloInstruction) -> Layout:
    """The layout of the result in which no byte moves."""
    places = {d: n for n, d in enumerate(transpose.dimensions)}
    return Layout(tuple(places[d] for d in transpose.operands[0].array_shape.minor_to_major))


def _use_relayouted(i: HloInstruction) -> None:
    """Let the users of `i` use it in row major."""
    wanted = row_major(i.shape)
    if wanted == i.shape or i.is_dead:
        return
    users, was_root = i.users, i.is_root
    new = relayout(Builder(i), i, wanted)
    i.parent.replace_uses(i, new, users=users)
    if was_root:
        i.parent.set_root(new)


def relayout(b: Builder, i: HloInstruction, shape: Shape) -> HloInstruction:
    """A value under the layouts of `shape`: itself, a copy, or a tuple of such."""
    if i.shape == shape:
        return i
    if isinstance(shape, TupleShape):
        return b.add(O.TUPLE, [relayout(b, b.element(i, n), s) for n, s in enumerate(shape.shapes)], shape)
    return b.add(O.COPY, (i,), shape)


def _constrain_operands(call: HloInstruction) -> None:
    constraints: tuple[Shape, ...] = call.attributes.get("operand_layout_constraints") or ()
    b = Builder(call)
    for n, (o, wanted) in enumerate(zip(call.operands, constraints, strict=False)):
        call.parent.replace_operand(call, n, relayout(b, o, wanted.with_default_layout()))


def _fix_result(entry: HloComputation, wanted: Shape) -> None:
    root = entry.root
    if root.shape != wanted:
        entry.set_root(relayout(Builder(root), root, wanted))

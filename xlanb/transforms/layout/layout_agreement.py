"""Make producers and consumers of a value agree on its layout.

    t = (f32[2,3]{1,0}) tuple(f32[2,3]{0,1} x)
      =>  t = (f32[2,3]{1,0}) tuple(f32[2,3]{1,0} copy(x))

An instruction's shape gives the layout of its value. Tuples, loops, branches, calls, fusions and
the entry pass values on unchanged. `agree` inserts a copy where such a value is used in another
layout, which keeps the elements. With bitcasts instead of copies the module computes what code
without either would: bytes read in the wrong order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.verifier.layouts import entry_hand_overs, hand_overs
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import same_layouts, tuple_of
from xlanb.transforms.calls.flatten_call_graph import FlattenCallGraph
from xlanb.transforms.reason import reason


@reason("a value is used in a different layout than it is produced in")
def relayout(i: HloInstruction, shape: Shape, opcode: O = O.COPY) -> HloInstruction:
    """A value in the layouts of `shape`: itself, a copy (or `opcode`), or a tuple of those."""
    if i.shape == shape:
        return i
    c = i.parent
    if isinstance(shape, TupleShape):
        elements = [
            c.add(O.GET_TUPLE_ELEMENT, (i,), s, metadata=i.metadata, index=n) for n, s in enumerate(parts(i.shape))
        ]
        made = [relayout(e, s, opcode) for e, s in zip(elements, shape.shapes, strict=True)]
        return c.add(O.TUPLE, made, shape, metadata=i.metadata)
    return c.add(opcode, (i,), shape, like=i)


def parts(shape: Shape) -> tuple[Shape, ...]:
    """The element shapes of a tuple; () for any other shape."""
    return shape.shapes if isinstance(shape, TupleShape) else ()


def set_layouts(i: HloInstruction, shape: Shape, opcode: O = O.COPY) -> None:
    """Give `i`, whose value is produced elsewhere, the layouts of `shape`.

    Its users get a copy in the old layouts.
    """
    old, users, was_root = i.shape, i.users, i.is_root
    if old == shape:
        return
    c = i.parent
    c.update(i, shape=shape)
    inside = relayout(i, old, opcode)
    c.replace_uses(i, inside, users=users)
    if was_root:
        c.set_root(inside)


def agree(module: HloModule, opcode: O = O.COPY) -> None:
    """Insert a copy (or bitcast) wherever a value is passed on in another layout; in place."""
    if not any(_differ(i) for i in module.instructions()):
        _agree_outside(module, opcode)
        return
    FlattenCallGraph().apply(module)  # callers of one computation could require different layouts
    for c in module.post_order():
        for i in c.post_order():
            if _differ(i):
                _MENDS[i.opcode](i, opcode)
    _agree_outside(module, opcode)


def _differ(i: HloInstruction) -> bool:
    return any(not same_layouts(given, taken) for _, given, taken in hand_overs(i))


def _agree_outside(module: HloModule, opcode: O) -> None:
    if (
        all(same_layouts(given, taken) for _, (_, given, taken) in entry_hand_overs(module))
        or module.entry_layout is None
    ):
        return
    entry = module.entry_computation
    parameters, result = module.entry_layout
    for p, shape in zip(entry.parameters, parameters, strict=True):
        if not same_layouts(p.shape, shape):
            set_layouts(p, _with_layouts(p.shape, shape), opcode)
    entry.set_root(_as(entry.root, result, opcode))


def _with_layouts(shape: Shape, like: Shape) -> Shape:
    """A shape with the layouts of a compatible one."""
    if isinstance(shape, TupleShape):
        return tuple_of(map(_with_layouts, shape.shapes, parts(like)))
    if isinstance(shape, ArrayShape) and isinstance(like, ArrayShape) and shape.is_array:
        return shape.with_layout(like.layout)
    return shape


def _as(i: HloInstruction, like: Shape, opcode: O) -> HloInstruction:
    """The value of `i` in the layouts of a compatible shape; `i` itself if it has them."""
    return i if same_layouts(i.shape, like) else relayout(i, _with_layouts(i.shape, like), opcode)


# -- by opcode -------------------------------------------------------------------------------------


def _operand(i: HloInstruction, number: int, like: Shape, opcode: O) -> None:
    i.parent.replace_operand(i, number, _as(i.operands[number], like, opcode))


def _tuple(i: HloInstruction, opcode: O) -> None:
    for n, s in enumerate(parts(i.shape)):
        _operand(i, n, s, opcode)


def _element(i: HloInstruction, opcode: O) -> None:
    set_layouts(i, _with_layouts(i.shape, parts(i.operands[0].shape)[i.tuple_index]), opcode)


def _same(i: HloInstruction, opcode: O) -> None:
    _operand(i, 0, i.shape, opcode)


def _overwritten(i: HloInstruction, opcode: O) -> None:
    for n, s in enumerate(parts(i.shape) or (i.shape,)):
        _operand(i, n, s, opcode)


def _copy_start(i: HloInstruction, opcode: O) -> None:
    target, source, *rest = parts(i.shape)
    _operand(i, 0, target, opcode)
    i.parent.update(i, shape=tuple_of((target, _with_layouts(source, target), *rest)))


def _copy_done(i: HloInstruction, opcode: O) -> None:
    set_layouts(i, _with_layouts(i.shape, parts(i.operands[0].shape)[0]), opcode)


def _call(i: HloInstruction, opcode: O) -> None:
    (called,) = i.called_computations
    _operands(i, [p.shape for p in called.parameters], opcode)
    set_layouts(i, _with_layouts(i.shape, called.root.shape), opcode)


def _operands(i: HloInstruction, shapes: Sequence[Shape], opcode: O) -> None:
    for n, s in enumerate(shapes):
        _operand(i, n, s, opcode)


def _while(i: HloInstruction, opcode: O) -> None:
    _operand(i, 0, i.shape, opcode)
    for c in i.called_computations:
        set_layouts(c.parameters[0], _with_layouts(c.parameters[0].shape, i.shape), opcode)
    body = i.attributes["body"]
    body.set_root(_as(body.root, i.shape, opcode))


def _conditional(i: HloInstruction, opcode: O) -> None:
    for n, branch in enumerate(i.called_computations):
        _operand(i, n + 1, branch.parameters[0].shape, opcode)
        branch.set_root(_as(branch.root, i.shape, opcode))


_MENDS: dict[O, Callable[[HloInstruction, O], None]] = {
    O.TUPLE: _tuple,
    O.GET_TUPLE_ELEMENT: _element,
    O.OPT_BARRIER: _same,
    O.ADD_DEPENDENCY: _same,
    O.DOMAIN: _same,
    O.DYNAMIC_UPDATE_SLICE: _overwritten,
    O.SCATTER: _overwritten,
    O.COPY_START: _copy_start,
    O.COPY_DONE: _copy_done,
    O.CALL: _call,
    O.FUSION: _call,
    O.WHILE: _while,
    O.CONDITIONAL: _conditional,
}

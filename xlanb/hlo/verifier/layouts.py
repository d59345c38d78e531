"""Check layouts where a value is forwarded without a copy (HloVerifierOpts::layout_sensitive).

Producer and consumer must agree on the bytes.

t = (f32[2,3]{1,0}) tuple(f32[2,3]{0,1} x)      refused: reads x's bytes in another order
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode
from xlanb.hlo.verifier.fault import fail
from xlanb.shape import Shape, TupleShape
from xlanb.shape.shape import same_layouts

_O = HloOpcode
HandOver: TypeAlias = tuple[str, Shape, Shape]
"""A forwarded value, its shape, and the shape expected by its user."""


def hand_overs(i: HloInstruction) -> Iterator[HandOver]:
    """The values that `i` forwards in memory, in or out; none for one that writes its result."""
    rule = _RULES.get(i.opcode)
    return iter(()) if rule is None else rule(i)


def entry_hand_overs(module: HloModule) -> Iterator[tuple[HloInstruction, HandOver]]:
    """The entry's parameters and result against the module's entry_computation_layout."""
    if module.entry_layout is None:
        return
    parameters, result = module.entry_layout
    entry = module.entry_computation
    for p, shape in zip(entry.parameters, parameters, strict=True):
        yield p, ("the parameter in entry_computation_layout", shape, p.shape)
    yield entry.root, ("the result in entry_computation_layout", entry.root.shape, result)


def verify_layouts(module: HloModule) -> None:
    """Check that every forwarded value is used in its own layout; by default row-major.

    Raises:
        HloVerifierError: one is not; the message shows the instruction among its neighbours.
    """
    for computation in module.computations:
        for i in computation._instructions:
            rule = _RULES.get(i.opcode)
            if rule is not None:
                for over in rule(i):
                    _verify(i, over)
    for i, over in entry_hand_overs(module):
        _verify(i, over)


def _verify(i: HloInstruction, over: HandOver) -> None:
    what, given, taken = over
    if not same_layouts(given, taken):
        fail(i, f"{what} has the layouts of {given}, but is taken as {taken}: expected the same layouts, or a copy")


# -- who hands on what -----------------------------------------------------------------------------


def _tuple(i: HloInstruction) -> Iterator[HandOver]:
    for o, s in zip(i.operands, _parts(i.shape), strict=True):
        yield f"the operand {o.name}", o.shape, s


def _element(i: HloInstruction) -> Iterator[HandOver]:
    yield f"the element of {i.operands[0].name}", _parts(i.operands[0].shape)[i.tuple_index], i.shape


def _same(i: HloInstruction) -> Iterator[HandOver]:
    yield f"the operand {i.operands[0].name}", i.operands[0].shape, i.shape


def _overwritten(i: HloInstruction) -> Iterator[HandOver]:
    """An update may be made in place: the rest of the result has the operand's bytes."""
    shapes = _parts(i.shape) or (i.shape,)
    for o, s in zip(i.operands, shapes, strict=False):
        yield f"the operand {o.name}, which is updated,", o.shape, s


def _copy_start(i: HloInstruction) -> Iterator[HandOver]:
    target, source = _parts(i.shape)[:2]
    yield f"the operand {i.operands[0].name}", i.operands[0].shape, source
    yield f"the operand {i.operands[0].name}", i.operands[0].shape, target


def _copy_done(i: HloInstruction) -> Iterator[HandOver]:
    yield f"the copy of {i.operands[0].name}", _parts(i.operands[0].shape)[0], i.shape


def _call(i: HloInstruction) -> Iterator[HandOver]:
    (called,) = i.called_computations
    for o, p in zip(i.operands, called.parameters, strict=False):
        yield f"the operand {o.name}, parameter {p.name} of {called.name},", o.shape, p.shape
    yield f"the root {called.root.name} of {called.name}", called.root.shape, i.shape


def _while(i: HloInstruction) -> Iterator[HandOver]:
    body, condition = i.attributes["body"], i.attributes["condition"]
    state = body.parameters[0].shape
    yield f"the operand {i.operands[0].name}, parameter of {body.name},", i.operands[0].shape, state
    yield f"the state of the loop, parameter of {condition.name},", state, condition.parameters[0].shape
    yield f"the root {body.root.name} of {body.name}, parameter of its next round,", body.root.shape, state
    yield "the state of the loop", state, i.shape


def _conditional(i: HloInstruction) -> Iterator[HandOver]:
    for o, branch in zip(i.operands[1:], i.called_computations, strict=True):
        yield f"the operand {o.name}, parameter of {branch.name},", o.shape, branch.parameters[0].shape
        yield f"the root {branch.root.name} of {branch.name}", branch.root.shape, i.shape


def _parts(shape: Shape) -> Sequence[Shape]:
    return shape.shapes if isinstance(shape, TupleShape) else ()


_RULES: dict[HloOpcode, Callable[[HloInstruction], Iterator[HandOver]]] = {
    _O.TUPLE: _tuple,
    _O.GET_TUPLE_ELEMENT: _element,
    _O.OPT_BARRIER: _same,
    _O.ADD_DEPENDENCY: _same,
    _O.DOMAIN: _same,
    _O.DYNAMIC_UPDATE_SLICE: _overwritten,
    _O.SCATTER: _overwritten,
    _O.COPY_START: _copy_start,
    _O.COPY_DONE: _copy_done,
    _O.CALL: _call,
    _O.FUSION: _call,
    _O.WHILE: _while,
    _O.CONDITIONAL: _conditional,
}

"""Conditions that keep apart what one loop nest cannot vectorize together.

Two large reductions over different dimensions have different innermost loops; so have a reduction
of columns and a copy of its result to another layout. Arithmetic whose result is repeated along a
narrow minor dimension is computed row by row, one scalar each:

    w = f32[500,500] add(multiply(x, x), y)       ROOT r = f32[500,500,2] multiply(z, broadcast(w))

Either takes a multiple of the time of two kernels. The default pipeline's fusion uses them.
"""

from __future__ import annotations

import math

from xlanb.analysis.operand_use import is_elementwise
from xlanb.conditions import Condition
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms.fusion.instruction_fusion import FusionEdge

_LARGE = 1024
"""The fewest elements for which a loop gets its own kernel."""
_NARROW_BYTES = 64
"""Rows shorter than the widest vector."""
_SHORT_CHAIN = 2
"""Up to this many operations per row cost no more than storing and loading their result."""


# -- reductions ------------------------------------------------------------------------------------


def _unlike_reduction(e: FusionEdge) -> HloInstruction | None:
    """A reduction in the consumer that reads its operand in another order than the producer.

    Reductions that depend on the producer are excluded: they contain the producer's loop.
    """
    p, fusion = e.producer, e.consumer
    if p.opcode is not O.REDUCE or fusion.opcode is not O.FUSION or not _is_large(p.operands[0]):
        return None
    inside = (i for i in fusion.fused_computation if i.opcode is O.REDUCE and _is_large(i.operands[0]))
    found = [i for i in inside if _unlike(i, p)]
    if not found:
        return None
    depending = _dependent(fusion.fused_computation.parameter(e.index))
    return next((i for i in found if i not in depending), None)


def _is_large(i: HloInstruction) -> bool:
    return i.array_shape.element_count >= _LARGE


def _unlike(a: HloInstruction, b: HloInstruction) -> bool:
    """Whether only one reduces its most minor dimension, or they reduce one shape differently."""
    first, second = a.operands[0].array_shape, b.operands[0].array_shape
    if first.dimensions == second.dimensions and set(a.dimensions) != set(b.dimensions):
        return True
    return (first.minor_to_major[0] in a.dimensions) != (second.minor_to_major[0] in b.dimensions)


def _dependent(i: HloInstruction) -> set[HloInstruction]:
    """The instructions that depend on `i`."""
    found: set[HloInstruction] = set()
    todo = [i]
    while todo:
        new = [u for u in todo.pop().users if u not in found]
        found.update(new)
        todo.extend(new)
    return found


def _turned(e: FusionEdge) -> HloInstruction | None:
    """The copy to another order in memory of what a producer reduces by columns, or None.

    In the copy's order, the loop would read each row in pieces.
    """
    p, c = e.producer, e.consumer
    if p.opcode is not O.REDUCE or not p.shape.is_array or not _is_large(p.operands[0]):
        return None
    if p.operands[0].array_shape.minor_to_major[0] in p.dimensions:
        return None
    depending = _dependent(c.fused_computation.parameter(e.index)) if c.opcode is O.FUSION else {c}
    return next((i for i in depending if i.opcode is O.COPY and _is_turned(i)), None)


def _is_turned(copy: HloInstruction) -> bool:
    return copy.shape.is_array and copy.operands[0].array_shape.minor_to_major != copy.array_shape.minor_to_major


# -- broadcasts ------------------------------------------------------------------------------------


def _narrow_broadcast(e: FusionEdge) -> HloInstruction | None:
    """The broadcast that repeats the producer along a narrow minor dimension, or None.

    Computing the producer for each such row is slow.
    """
    p, c = e.producer, e.consumer
    if not is_elementwise(p) or not p.shape.is_array or not _is_large(p) or not _computes_much(p):
        return None
    users = c.fused_computation.parameter(e.index).users if c.opcode is O.FUSION else (c,)
    return next((u for u in users if u.opcode is O.BROADCAST and _is_narrow(u)), None)


def _is_narrow(broadcast: HloInstruction) -> bool:
    """Whether its minor dimensions are new ones, and together shorter than a vector."""
    shape, new = broadcast.array_shape, 1
    for d in shape.minor_to_major:
        if d in broadcast.dimensions:
            break
        new *= shape.dimensions[d]
    return 1 < new < _NARROW_BYTES // max(shape.element_type.byte_size, 1) and math.prod(shape.dimensions) > new


def _computes_much(i: HloInstruction) -> bool:
    """Whether it takes more than a few elementwise operations on operands of its shape."""
    seen, todo = {i}, [i]
    while todo and len(seen) <= _SHORT_CHAIN:
        for o in todo.pop().operands:
            if o not in seen and o.operands and is_elementwise(o) and o.shape.is_array:
                seen.add(o)
                todo.append(o)
    return len(seen) > _SHORT_CHAIN


LOOP_CONDITIONS: tuple[Condition[FusionEdge], ...] = (
    Condition(
        "large reductions of one fusion reduce the same dimensions",
        lambda e: _unlike_reduction(e) is None,
        lambda e: (
            f"different dimensions than {found.name}" if (found := _unlike_reduction(e)) is not None else "they do"
        ),
        lambda e: f"reduce the same dimensions in `{e.producer.name}` as in `{e.consumer.name}`",
        may_fail=lambda p, c: p is O.REDUCE and c is O.FUSION,
        value_if_holds="they do",
    ),
    Condition(
        "columns are not reduced in another order than they are in memory",
        lambda e: _turned(e) is None,
        lambda e: f"in the order of {found.name}" if (found := _turned(e)) is not None else "they are not",
        lambda e: f"keep the layout of `{e.producer.name}` in `{e.consumer.name}`",
        may_fail=lambda p, c: p is O.REDUCE and c in (O.FUSION, O.COPY),
        value_if_holds="they are not",
    ),
    Condition(
        "no long computation on narrow rows",
        lambda e: _narrow_broadcast(e) is None,
        lambda e: f"broadcast by {found.name}" if (found := _narrow_broadcast(e)) is not None else "none",
        lambda e: f"broadcast `{e.producer.name}` along a dimension other than the minormost of `{e.consumer.name}`",
        may_fail=lambda _, c: c in (O.FUSION, O.BROADCAST),
        value_if_holds="none",
    ),
)

"""Shared code of the passes over reductions.

Bitcasts the operands, recreates the reduction, and bitcasts its results back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.hlo.regions import reducer
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.reductions.tree_reduction_rewriter import starts_neutral


def inputs_of(i: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return the reduced arrays."""
    return i.operands[: len(i.operands) // 2]


def starts_of(i: HloInstruction) -> tuple[HloInstruction, ...]:
    """Return the initial values."""
    return i.operands[len(i.operands) // 2 :]


def is_plain(i: HloInstruction) -> bool:
    """Whether its sizes are static, and it has no control dependencies."""
    if i.control_predecessors or i.control_successors:
        return False
    return not any(o.array_shape.is_dynamic for o in inputs_of(i))


def is_row_major(shape: ArrayShape) -> bool:
    """Whether the layout is row-major."""
    return shape.minor_to_major == tuple(reversed(range(shape.rank)))


def may_restart(i: HloInstruction) -> bool:
    """Whether a reduction may use its initial value several times.

    XLA's semantics allow it; here only if that does not change the result.
    """
    return len(i.operands) > 2 or reducer(i.to_apply) is None or starts_neutral(i)


def bitcast_to(x: HloInstruction, shape: ArrayShape) -> HloInstruction:
    """Return the same bytes with another shape, `x` itself if the shape is equal."""
    return x if x.shape == shape else x.parent.add(O.BITCAST, (x,), shape)


def rebuilt(
    i: HloInstruction,
    operands: Sequence[HloInstruction],
    dimensions: Sequence[int],
    shape_of: Callable[[ArrayShape], ArrayShape],
) -> None:
    """Replace `i` by a reduction of other operands over other dimensions.

    `shape_of` maps an old result shape to a new one; results are bitcast to their old shapes.
    """
    c, old = i.parent, i.shape
    shapes = [s.as_array() for s in (old.shapes if isinstance(old, TupleShape) else (old,))]
    new = [shape_of(s) for s in shapes]
    shape: Shape = tuple_of(new) if isinstance(old, TupleShape) else new[0]
    made = c.add(O.REDUCE, (*operands, *starts_of(i)), shape, like=i, dimensions=tuple(dimensions), to_apply=i.to_apply)
    if shape == old:
        c.replace(i, made)
    elif not isinstance(old, TupleShape):
        c.replace(i, bitcast_to(made, shapes[0]))
    else:
        elements = [c.add(O.GET_TUPLE_ELEMENT, (made,), s, index=n) for n, s in enumerate(new)]
        results = [bitcast_to(e, s) for e, s in zip(elements, shapes, strict=True)]
        c.replace(i, c.add(O.TUPLE, results, old, like=i))

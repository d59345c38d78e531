"""Give reductions the layout that follows from their operand, with a copy to any other layout.

f32[4,8]{0,1} reduce(f32[4,8,3]{2,1,0} x, 0), dimensions={2}
  =>  f32[4,8]{0,1} copy(f32[4,8]{1,0} reduce(x, 0), dimensions={2})

Source: xla/hlo/transforms/expanders/reduce_decomposer.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder


class ReduceDecomposer(HloPass):
    """Gives every reduce inputs of one layout, and the result the layout that follows from it."""

    name = "reduce-decomposer"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.REDUCE:
                    _equalize(i)
                    _decompose(i)


def _equalize(i: HloInstruction) -> None:
    """Copy inputs whose layout differs from the first one's."""
    b, n = Builder(i), len(i.operands) // 2
    wanted = i.operands[0].array_shape.minor_to_major
    inputs = [
        o if o.array_shape.minor_to_major == wanted else b.add(O.COPY, (o,), o.array_shape.with_layout(wanted))
        for o in i.operands[:n]
    ]
    if any(x is not o for x, o in zip(inputs, i.operands, strict=False)):
        i.parent.set_operands(i, [*inputs, *i.operands[n:]])


def _decompose(i: HloInstruction) -> None:
    shapes = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    order = _kept_order(i)
    expected: list[Shape] = [s.as_array().with_layout(order) for s in shapes]
    if all(a == b for a, b in zip(shapes, expected, strict=True)):
        return
    b, c = Builder(i), i.parent
    natural = c.clone_instruction(i, shape=tuple_of(expected) if isinstance(i.shape, TupleShape) else expected[0])
    if isinstance(i.shape, TupleShape):
        c.replace(i, b.tuple(b.add(O.COPY, (b.element(natural, n),), s) for n, s in enumerate(shapes)))
        return
    users = i.users
    if len(users) == 1 and users[0].opcode is O.CONVERT and not i.is_root:
        # A convert stays next to its reduction; the copy follows both.
        convert = users[0]
        kind = convert.shape.element_type
        narrow = c.clone_instruction(convert, (natural,), expected[0].as_array().with_type(kind))
        c.replace(convert, b.add(O.COPY, (narrow,), i.array_shape.with_type(kind)))
    else:
        c.replace(i, b.add(O.COPY, (natural,), i.shape))


def _kept_order(i: HloInstruction) -> list[int]:
    """The remaining dimensions, minor to major, in the order of the input's layout."""
    x: ArrayShape = i.operands[0].array_shape
    kept = [d for d in range(x.rank) if d not in i.dimensions]
    return [kept.index(d) for d in x.minor_to_major if d in kept]

"""Helpers for passes over reduce-window.

Source: xla/hlo/transforms/simplifiers/reduce_window_util.h.
"""

from __future__ import annotations

from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape, TupleShape
from xlanb.shape.shape import tuple_of
from xlanb.transforms.builder import Builder


def with_second_dimension(i: HloInstruction) -> HloInstruction:
    """The replacement of a one-dimensional reduce-window by a two-dimensional one, same shape.

    reduce-window(f32[10] x), window={size=5}
      =>  reshape(f32[6], reduce-window(reshape(f32[10,1], x)), window={size=5x1})
    """
    b, count = Builder(i), len(i.operands) // 2
    wide = [b.add(O.RESHAPE, (x,), _with_unit_dimension(x.array_shape)) for x in i.operands[:count]]
    window = Window((*i.window.dimensions, WindowDimension(1)))
    shapes = i.shape.shapes if isinstance(i.shape, TupleShape) else (i.shape,)
    results = [_with_unit_dimension(s.as_array()) for s in shapes]
    shape = tuple_of(results) if isinstance(i.shape, TupleShape) else results[0]
    made = b.add(O.REDUCE_WINDOW, (*wide, *i.operands[count:]), shape, window=window, to_apply=i.to_apply)
    if not isinstance(i.shape, TupleShape):
        return b.add(O.RESHAPE, (made,), i.shape)
    return b.tuple([b.add(O.RESHAPE, (b.element(made, n),), s) for n, s in enumerate(shapes)])


def _with_unit_dimension(s: ArrayShape) -> ArrayShape:
    """The shape with a last dimension of size 1, the most major one in memory as in XLA."""
    return ArrayShape(s.element_type, (*s.dimensions, 1)).with_layout((*s.minor_to_major, s.rank))

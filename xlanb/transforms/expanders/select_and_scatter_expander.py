"""Expand select-and-scatter into a reduce-window of positions and a scatter.

    select-and-scatter(x, source, init), window=W, select=ge, scatter=add
      =>  picked = reduce-window(x, iota 0, iota 1, ..., init, -1, -1, ...), window=W
          scatter(broadcast(init), concatenate(positions), source), to_apply=add

`picked` is the selected element, then its position along each dimension. Position -1 marks padding
and the initial value; every element is preferred to it.
Source: xla/service/select_and_scatter_expander.h.
"""

from __future__ import annotations

from xlanb.analysis.call_graph import nonfusion_computations
from xlanb.analysis.dynamic import involves_dynamic
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.inlining import copy_body

_POSITION = PrimitiveType.S32


class SelectAndScatterExpander(HloPass):
    """Expands every select-and-scatter."""

    name = "select_and_scatter_expander"

    def apply(self, module: HloModule) -> None:
        for c in nonfusion_computations(module):
            for i in c.post_order():
                if i.opcode is O.SELECT_AND_SCATTER and not involves_dynamic(i):
                    c.replace(i, _expanded(i))


def _expanded(i: HloInstruction) -> HloInstruction:
    b = Builder(i)
    x, source, start = i.operands
    rank = x.array_shape.rank
    filled = b.broadcast(start, (), x.array_shape)
    positions = [b.add(O.IOTA, (), x.array_shape.with_type(_POSITION), iota_dimension=d) for d in range(rank)]
    nowhere = b.scalar(-1, _POSITION)
    shapes = [source.array_shape.with_type(t) for t in (x.shape.element_type, *[_POSITION] * rank)]
    picked = b.add(
        O.REDUCE_WINDOW,
        (x, *positions, start, *[nowhere] * rank),
        tuple_of(shapes) if rank else shapes[0],
        window=i.window,
        to_apply=_picking(i.parent.module, i.attributes["select"], rank),
    )
    size = source.array_shape.dimensions
    columns = [b.add(O.RESHAPE, (b.element(picked, 1 + d),), array(_POSITION, (*size, 1))) for d in range(rank)]
    return b.add(
        O.SCATTER,
        (filled, b.add(O.CONCATENATE, columns, dimensions=(rank,)), source),
        i.shape,
        update_window_dims=(),
        inserted_window_dims=tuple(range(rank)),
        scatter_dims_to_operand_dims=tuple(range(rank)),
        index_vector_dim=rank,
        to_apply=i.attributes["scatter"],
    )


def _picking(module: HloModule, select: HloComputation, rank: int) -> HloComputation:
    """The reducer that picks one of two elements with their positions.

    It picks the left one if it has a position and `select` prefers it, or if the right one has no
    position; else the right one.
    """
    c = module.add_computation(f"{select.name}.reduce_window")
    value = select.parameters[0].shape.element_type
    sides = [_side(c, side, number, value, rank) for number, side in ((0, "lhs"), (rank + 1, "rhs"))]
    left, right = sides
    preferred = copy_body(select, c, (left[0], right[0]), left[0])
    b = Builder(preferred)
    nowhere = b.scalar(-1, _POSITION)
    is_somewhere = [b.compare(side[1], "NE", nowhere) for side in sides]
    takes_left = b.binary(O.OR, b.binary(O.AND, preferred, is_somewhere[0]), b.unary(O.NOT, is_somewhere[1]))
    c.set_root(b.tuple(b.select(takes_left, x, y) for x, y in zip(left, right, strict=True)))
    return c


def _side(c: HloComputation, side: str, number: int, value: PrimitiveType, rank: int) -> list[HloInstruction]:
    shapes = [array(value), *[array(_POSITION)] * rank]
    names = [f"operand_{side}", *[f"iota_{side}"] * rank]
    return [
        c.add(O.PARAMETER, (), s, name=n, parameter_number=number + k)
        for k, (s, n) in enumerate(zip(shapes, names, strict=True))
    ]

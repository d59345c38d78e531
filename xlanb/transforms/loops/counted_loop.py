"""Create a counting while loop, for expanders (WhileUtil::MakeCountedLoop).

Source: xla/service/while_util.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import PrimitiveType, TupleShape
from xlanb.shape.shape import array, tuple_of
from xlanb.transforms.builder import Builder

Body = Callable[[Builder, HloInstruction, list[HloInstruction]], list[HloInstruction]]


def counted_loop(b: Builder, count: int, start: Sequence[HloInstruction], body: Body) -> list[HloInstruction]:
    """The values after `count` iterations of `body(builder, iteration, values)`.

    The body returns as many values of the same shapes.

    while(tuple(0, start...)), condition={round < count},
        body={tuple(round + 1, body(round, values)...)}
    """
    module = b.computation.module
    counter = array(PrimitiveType.S32)
    shape = tuple_of((counter, *(s.shape for s in start)))
    condition = module.add_computation(f"{b.root.name}_condition")
    inner = _elements(condition, shape)
    c = Builder(inner[0])
    condition.set_root(c.compare(inner[1], "LT", c.scalar(count, PrimitiveType.S32)))
    rounds = module.add_computation(f"{b.root.name}_body")
    _, k, *values = _elements(rounds, shape)
    inside = Builder(k)
    new = body(inside, k, values)
    rounds.set_root(inside.tuple((inside.binary(O.ADD, k, inside.scalar(1, PrimitiveType.S32)), *new)))
    begin = b.add(O.TUPLE, (b.scalar(0, PrimitiveType.S32), *start), shape)
    loop = b.add(O.WHILE, (begin,), shape, condition=condition, body=rounds)
    return [b.element(loop, 1 + n) for n in range(len(start))]


def _elements(c: HloComputation, shape: TupleShape) -> list[HloInstruction]:
    """The parameter of a computation, and every element of its tuple."""
    p = c.add(O.PARAMETER, (), shape, name="state", parameter_number=0)
    return [p, *(c.add(O.GET_TUPLE_ELEMENT, (p,), s, index=n) for n, s in enumerate(shape.shapes))]

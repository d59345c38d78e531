"""Counted loops in HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlanb.hlo import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import scalar_of

Body = Callable[[OpContext, HloInstruction, list[HloInstruction]], Sequence[HloInstruction]]


def repeat(ctx: OpContext, count: int, state: Sequence[HloInstruction], body: Body, name: str) -> list[HloInstruction]:
    """The state after `count` rounds of `body(ctx, index, state)`, index an s32 scalar; the body sees nothing but its state."""
    if count == 0:
        return list(state)
    b = ctx.b
    shape = tuple_of([array(PrimitiveType.S32), *(s.array_shape.without_layout().with_default_layout() for s in state)])
    condition = b.sub_computation(f"{name}_condition")
    index = condition.get_tuple_element(condition.parameter(0, shape), 0)
    ends = condition.build_computation(condition.compare(index, condition.constant(np.int32(count)), "LT"))
    inner = b.sub_computation(f"{name}_body")
    given = inner.parameter(0, shape)
    index, *inside = (inner.get_tuple_element(given, i) for i in range(len(state) + 1))
    after = body(ctx.within(inner), index, inside)
    root = inner.tuple([inner.add(index, inner.constant(np.int32(1))), *after])
    made = b.while_(ends, inner.build_computation(root), b.tuple([scalar_of(ctx, PrimitiveType.S32, 0), *state]))
    return [b.get_tuple_element(made, i + 1) for i in range(len(state))]

"""Counted loops in HLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlanb.hlo import HloInstruction, HloOpcode
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import array, tuple_of
from xlanb.tf2xla.context import OpContext
from xlanb.tf2xla.kernels.constants import scalar_of

Body = Callable[[OpContext, HloInstruction, list[HloInstruction]], Sequence[HloInstruction]]


def repeat(ctx: OpContext, count: int, state: Sequence[HloInstruction], body: Body, name: str) -> list[HloInstruction]:
    """Apply `body(ctx, index, state)` `count` times; index is an s32 scalar.

    The body may use only its state.
    """
    return list(state) if count == 0 else _loop(ctx, count, state, body, name)


def _loop(
    ctx: OpContext, count: int, state: Sequence[HloInstruction], body: Body, name: str, *, while_any: bool = False
) -> list[HloInstruction]:
    """Build a loop. `while_any`: stop once all predicates at the state's start are false."""
    b = ctx.b
    shape = tuple_of([array(PrimitiveType.S32), *(s.array_shape.without_layout().with_default_layout() for s in state)])
    condition = b.sub_computation(f"{name}_condition")
    held = condition.parameter(0, shape)
    goes_on = condition.compare(condition.get_tuple_element(held, 0), condition.constant(np.int32(count)), "LT")
    if while_any:
        going = condition.get_tuple_element(held, 1)
        none = condition.constant(np.zeros((), np.bool_))
        some = condition.reduce(going, none, list(range(going.array_shape.rank)), HloOpcode.OR)
        goes_on = condition.and_(goes_on, some)
    ends = condition.build_computation(goes_on)
    inner = b.sub_computation(f"{name}_body")
    given = inner.parameter(0, shape)
    index, *inside = (inner.get_tuple_element(given, i) for i in range(len(state) + 1))
    after = body(ctx.within(inner), index, inside)
    root = inner.tuple([inner.add(index, inner.constant(np.int32(1))), *after])
    made = b.while_(ends, inner.build_computation(root), b.tuple([scalar_of(ctx, PrimitiveType.S32, 0), *state]))
    return [b.get_tuple_element(made, i + 1) for i in range(len(state))]


def iterate(
    ctx: OpContext,
    limit: int,
    going: HloInstruction,
    state: Sequence[HloInstruction],
    body: Callable[[OpContext, list[HloInstruction]], tuple[HloInstruction, Sequence[HloInstruction]]],
    name: str,
) -> list[HloInstruction]:
    """Apply `body(ctx, state)` while any of the predicates `going` holds, at most `limit` times.

    The body returns the next predicates and state. Elements whose predicate is false keep their
    state.
    """
    start = [going, *state]

    def step(inner: OpContext, _: HloInstruction, held: list[HloInstruction]) -> Sequence[HloInstruction]:
        again, after = body(inner, held[1:])
        kept = [inner.b.select(held[0], new, old) for new, old in zip(after, held[1:], strict=True)]
        return [inner.b.and_(held[0], again), *kept]

    return _loop(ctx, limit, start, step, name, while_any=True)[1:]

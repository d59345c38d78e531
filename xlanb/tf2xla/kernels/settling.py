"""Find the shapes of lists, stacks and arrays that only a loop's or branch's body determines.

The body is lowered once for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.analysis.while_loop import trip_count
from xlanb.graph.graph import Graph
from xlanb.hlo import HloInstruction, HloModule, HloOpcode
from xlanb.hlo.builder import HloBuilder
from xlanb.shape import TupleShape
from xlanb.shape.shape import same
from xlanb.tf2xla.context import OpContext, PendingList, Store, Value, VariableState
from xlanb.tf2xla.kernels.bodies import Body, held, known_value
from xlanb.tf2xla.kernels.tensor_lists import zeros_list

Array = np.ndarray[Any, Any]
_ROUNDS = 8  # arrays of gradients of arrays of gradients ... are found one round after the other


def settle_loop(ctx: OpContext, body: Graph, condition: Graph, known: list[Array | None]) -> None:
    """Give every input of a loop its shape; append gradient arrays that the body makes as
    inputs.
    """
    for _ in range(_ROUNDS):
        _append_gradients(ctx.values, known)
        if not _unsettled(ctx.values):
            return
        trial = _trial(ctx)
        start = _start(trial, ctx)
        seen = Body(trial, body, ctx.values, known, start)
        more = False
        for i, value in enumerate(list(ctx.values)):
            inner = seen.inside[i]
            if isinstance(value, PendingList):
                _settle_list(ctx, i, value, seen.raw_results[i])
            elif isinstance(value, Store) and isinstance(inner, Store):
                if value.is_stack and value.size is None and inner.pushes:
                    rounds = _rounds(ctx, body, condition, known)
                    value.size, value.pushes = rounds * inner.pushes, value.pushes + rounds * inner.pushes
                more |= _adopt(ctx, value, inner)
        if not more:
            return


def settle_branches(ctx: OpContext, bodies: Sequence[Graph], known: list[Array | None]) -> None:
    """Do the same for the branches of a conditional, whose inputs follow the selector."""
    for _ in range(_ROUNDS):
        given = ctx.values[1:]
        _append_gradients(given, known)
        ctx.values[1:] = given
        if not _unsettled(given):
            return
        more = False
        for body in bodies:
            trial = _trial(ctx)
            operand = trial.b.tuple([_placeholder(trial, v, k) for k, v in enumerate(given)])
            seen = Body(trial, body, given, known, operand)
            for value, inner in zip(given, seen.inside, strict=True):
                if isinstance(value, Store) and isinstance(inner, Store):
                    value.pushes = max(value.pushes, inner.pushes)
                    if value.is_stack and value.value is None and inner.pushes:
                        value.size = max(value.size or 0, inner.size or inner.pushes)
                    more |= _adopt(ctx, value, inner)
        if not more:
            return


def _unsettled(values: Sequence[Value]) -> bool:
    return any(isinstance(v, PendingList | Store) for v in values)


def _append_gradients(values: list[Value], known: list[Array | None]) -> None:
    present = {id(v) for v in values}
    for value in values:  # grows while it is gone through
        for gradient in value.gradients.values() if isinstance(value, Store) else ():
            if id(gradient) not in present:
                present.add(id(gradient))
                values.append(gradient)
                known.append(None)


def _trial(ctx: OpContext) -> OpContext:
    return ctx.within(HloBuilder("trial", HloModule("trial")))


def _placeholder(trial: OpContext, value: Value, number: int) -> HloInstruction:
    """Return a parameter of an input's shape, or a small input's known value as a constant."""
    if isinstance(value, Store | PendingList) and getattr(value, "value", None) is None:
        return held(trial, value)
    shape = held(trial, value).shape
    constant = known_value(trial, value) if not isinstance(shape, TupleShape) and not shape.as_array().rank else None
    return trial.b.parameter(number, shape) if constant is None else trial.b.constant(constant)


def _start(trial: OpContext, ctx: OpContext) -> HloInstruction:
    return trial.b.tuple([_placeholder(trial, v, k) for k, v in enumerate(ctx.values)])


def _settle_list(ctx: OpContext, index: int, value: PendingList, after: Value) -> None:
    if isinstance(after, HloInstruction) and isinstance(after.shape, TupleShape):
        ctx.values[index] = zeros_list(ctx, value, after.shape.shapes[0].as_array().dimensions[1:])


def _adopt(ctx: OpContext, value: Store, inner: Store) -> bool:
    """Copy a store's shape and gradients from a body; return whether there are new ones."""
    new = False
    if value.value is None and inner.dims is not None:
        value.form(ctx.b, inner.dims)
        new = True
    for source, made in inner.gradients.items():
        if source not in value.gradients:
            outer = Store(made.name, -1, None, False, made.element_type, made.size, is_gradient=True)
            if made.dims is not None:
                outer.form(ctx.b, made.dims)
            value.gradients[source] = outer
            new = True
    return new


def _rounds(ctx: OpContext, body: Graph, condition: Graph, known: Sequence[Array | None]) -> int:
    """Return the largest trip count of a loop, which is the size of a stack that it pushes to.

    Each condition that must hold together bounds it.
    """
    number, count, bounds = 0, 1, []
    while number < count:
        trial = _trial(ctx)
        start = _start(trial, ctx)
        test = Body(trial, condition, ctx.values, known, start)
        parts = _conjuncts(test.results[0])
        bounds.append(_bound(trial, test, parts[number], Body(trial, body, ctx.values, known, start), start))
        number, count = number + 1, len(parts)
    found = [b for b in bounds if b is not None]
    if not found:
        ctx.fail(
            "the trip count of the loop is unknown at compile time, so the stacks that its gradient needs have "
            "no size; give tf.while_loop maximum_iterations"
        )
    return min(found)


def _conjuncts(test: HloInstruction) -> list[HloInstruction]:
    if test.opcode is HloOpcode.AND:
        return [c for o in test.operands for c in _conjuncts(o)]
    return [test]


def _bound(trial: OpContext, test: Body, part: HloInstruction, seen: Body, start: HloInstruction) -> int | None:
    if part.opcode is not HloOpcode.COMPARE:
        return None
    sides = [test.b.constant(k) if (k := trial.known(o)) is not None else o for o in part.operands]
    compared = test.b.compare(sides[0], sides[1], part.get("direction"))
    condition = test.b.build_computation(compared)
    results: list[HloInstruction] = []
    for i, element in enumerate(start.operands):
        after = seen.after(i) if isinstance(seen.inside[i], VariableState) else _result(seen, i)
        fits = after is not None and same(after.shape, element.shape)
        results.append(after if fits and after is not None else seen.b.get_tuple_element(seen.parameter, i))
    return trip_count(trial.b.while_(condition, seen.close(results), start))


def _result(seen: Body, index: int) -> HloInstruction | None:
    value = seen.raw_results[index] if index < len(seen.raw_results) else None
    return value if isinstance(value, HloInstruction) else None

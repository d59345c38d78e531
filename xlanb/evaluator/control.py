"""Control flow, calls, and opcodes that only order or annotate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.host import acts
from xlanb.evaluator.registry import lifted_rule, rule
from xlanb.evaluator.values import TOKEN, Array, Value, scalar_int
from xlanb.hlo.async_chain import wrapped_computation
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.text.parse_shape import compatible

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator


@rule("call")
def _call(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return ev.call(i.to_apply, operands)


@rule("fusion")
def _fusion(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return ev.call(i.fused_computation, operands)


@rule("map")
def _map(ev: Evaluator, i: HloInstruction, *operands: Array) -> Value:
    return ev.map(i.to_apply, operands)


@rule("while")
def _while(ev: Evaluator, i: HloInstruction, state: Value) -> Value:
    """The value of a loop.

    A loop whose state never changes has that state as its value, since XLA may assume that loops
    terminate. A loop that cycles through several states raises. Cycles are found by comparison with
    an earlier state, which is updated at every power of two (Brent 1980).
    """
    condition, body = i.attributes["condition"], i.attributes["body"]
    if acts(i):  # values from the host may end it
        while bool(ev.call(condition, (state,))):
            state = ev.call(body, (state,))
        return state
    earlier, steps, power = (state, ev.rng_state), 0, 1
    while bool(ev.call(condition, (state,))):
        state = ev.call(body, (state,))
        steps += 1
        if _is_same(earlier[0], state) and earlier[1] == ev.rng_state:
            if steps == 1:
                return state
            raise EvaluationError(f"the loop never ends: its state repeats every {steps} steps")
        if steps == power:
            earlier, steps, power = (state, ev.rng_state), 0, power * 2
    return state


def _is_same(a: Value, b: Value) -> bool:
    """Whether two values are bitwise equal; compares scalars, such as counters, first."""
    pairs = [(x, y) for x, y in zip(leaves(a), leaves(b), strict=True) if x is not y]
    if any(x.size == 1 and x != y and x == x for x, y in pairs):  # noqa: PLR0124 - NaN may be the same NaN
        return False
    return all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in pairs)


def branches(i: HloInstruction) -> tuple[HloComputation, ...]:
    """The computations of a conditional in the order of their operands.

    For a predicate the true branch comes first.
    """
    many: tuple[HloComputation, ...] | None = i.attributes.get("branch_computations")
    return many or (i.attributes["true_computation"], i.attributes["false_computation"])


def _branch_numbers(index: Array, count: int) -> Array:
    """The branch that each index selects; one out of range selects the last."""
    if index.dtype == np.bool_:
        return np.where(index, 0, 1)
    number = index.astype(np.int64)
    return np.where((number < 0) | (number >= count), count - 1, number)


@rule("conditional")
def _conditional(ev: Evaluator, i: HloInstruction, index: Array, *operands: Value) -> Value:
    computations = branches(i)
    k = scalar_int(_branch_numbers(index, len(computations)))
    return ev.call(computations[k], (operands[k],))


@rule("opt-barrier", "domain", lifted=True)
def _identity(ev: Evaluator, i: HloInstruction, x: Value) -> Value:
    return x


@rule("add-dependency")
def _add_dependency(ev: Evaluator, i: HloInstruction, x: Value, token: Value) -> Value:
    return x


@rule("after-all")
def _after_all(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return TOKEN


# -- asynchronous pairs ----------------------------------------------------------------------------
# A start returns (operands, result, ...), as in its shape; a done takes the result out of it.


@rule("async-start")
def _async_start(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return _async_state(ev, i, operands)


@rule("async-update")
def _async_update(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...], *operands: Value) -> Value:
    if not operands and i.shape == i.operands[0].shape:
        return state
    return _async_state(ev, i, (*state[0], *operands))


@rule("async-done")
def _async_done(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...]) -> Value:
    if compatible(_async_parts(i.operands[0])[1], i.shape):
        return state[1]
    return ev.call(_async_computation(i), state[0])


def _async_state(ev: Evaluator, i: HloInstruction, operands: tuple[Value, ...]) -> Value:
    """`((operands), result, ...)`.

    The result is computed once all operands are present and the shape includes it.
    """
    _, output, *rest = _async_parts(i)
    called = _async_computation(i)
    is_whole = len(operands) == len(called.parameters) and compatible(output, called.root.shape)
    result = ev.call(called, operands) if is_whole else _blank(output)
    return (operands, result, *map(_blank, rest))


def _async_parts(i: HloInstruction) -> tuple[Any, ...]:
    shapes: tuple[Any, ...] = getattr(i.shape, "shapes", ())
    return shapes


def _async_computation(i: HloInstruction) -> HloComputation:
    called = wrapped_computation(i)
    if called is None:
        raise EvaluationError(f"{i.name} does not continue an async-start")
    return called


@rule("copy-start")
def _copy_start(ev: Evaluator, i: HloInstruction, x: Value) -> Value:
    rest = getattr(i.shape, "shapes", ())[2:]
    return (x, x, *(_blank(s) for s in rest))


@rule("copy-done")
def _copy_done(ev: Evaluator, i: HloInstruction, state: tuple[Value, ...]) -> Value:
    return state[0]


def _blank(shape: Any) -> Value:
    """The value of a context that only the runtime reads."""
    if shape.is_tuple:
        return tuple(map(_blank, shape.shapes))
    return np.zeros(shape.dimensions, shape.dtype) if shape.is_array else TOKEN


# -- many evaluations at once ----------------------------------------------------------------------


@lifted_rule("call", "map")
def _call_lifted(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return ev.call_lifted(i.to_apply, operands)


@lifted_rule("fusion")
def _fusion_lifted(ev: Evaluator, i: HloInstruction, *operands: Value) -> Value:
    return ev.call_lifted(i.fused_computation, operands)


@lifted_rule("conditional")
def _conditional_lifted(ev: Evaluator, i: HloInstruction, index: Array, *operands: Value) -> Value:
    """Evaluate every branch for the elements that select it."""
    shape = np.broadcast_shapes(index.shape, *(leaf.shape for o in operands for leaf in leaves(o)))
    computations = branches(i)
    chosen = np.broadcast_to(_branch_numbers(index, len(computations)), shape)
    result: Value = None
    for k, computation in enumerate(computations):
        here = chosen == k
        # Without elements, evaluate some branch anyway to get the result's structure.
        if here.any() or (k == 0 and not here.size):
            result = _merge(result, ev.call_lifted(computation, (_select(operands[k], here, shape),)), here)
    return result


@lifted_rule("while")
def _while_lifted(ev: Evaluator, i: HloInstruction, state: Value) -> Value:
    """Run the body for the elements whose condition still holds."""
    condition, body = i.attributes["condition"], i.attributes["body"]
    shape = np.broadcast_shapes(*(leaf.shape for leaf in leaves(state)))
    running = np.ones(shape, np.bool_)
    while True:
        inside = _select(state, running, shape)
        goes_on = np.broadcast_to(ev.call_lifted(condition, (inside,)), (int(running.sum()),))
        running = running.copy()
        running[running] = goes_on
        if not running.any():
            return state
        state = _merge(state, ev.call_lifted(body, (_select(state, running, shape),)), running)


def leaves(value: Value) -> list[Array]:
    """The arrays in a value, in order."""
    return [a for v in value for a in leaves(v)] if isinstance(value, tuple) else [value]


def map_leaves(function: Any, value: Value, *others: Value) -> Value:
    """Apply a function to the arrays of equally nested values."""
    if isinstance(value, tuple):
        return tuple(map_leaves(function, *row) for row in zip(value, *others, strict=True))
    return function(value, *others)


def _select(value: Value, here: Array, shape: tuple[int, ...]) -> Value:
    return map_leaves(lambda a: np.broadcast_to(a, shape)[here], value)


def _merge(old: Value, part: Value, here: Array) -> Value:
    def put(new: Array, before: Array | None) -> Array:
        out = np.empty(here.shape, new.dtype) if before is None else np.array(np.broadcast_to(before, here.shape))
        out[here] = new
        return out

    return map_leaves(lambda new: put(new, None), part) if old is None else map_leaves(put, part, old)

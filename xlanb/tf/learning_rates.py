"""Learning rates that decay with the step, as tf.train's functions build them.

Source: python/training/learning_rate_decay.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import where_v2
from xlanb.graph.builders.control_flow import case
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def _start(learning_rate: Any, global_step: Any, *others: Any) -> list[Any]:
    """The rate as a tensor, then the others in its type, the step last."""
    if global_step is None:
        raise GraphValueError("a decaying learning rate needs global_step")
    rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
    return [rate, *(math_ops.cast(v, rate.dtype) for v in others), math_ops.cast(global_step, rate.dtype)]


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * decay_rate ^ (step / decay_steps), the exponent rounded down if
    `staircase`.
    """
    with name_scope(name, "ExponentialDecay") as scope:
        rate, steps, factor, step = _start(learning_rate, global_step, decay_steps, decay_rate)
        p = step / steps
        if staircase:
            p = call("Floor", p)
        return call("Mul", rate, math_ops.pow(factor, p), name=scope)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate * e ^ (-decay_rate * step / decay_steps)."""
    factor = call("Exp", call("Neg", decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, factor, staircase, name)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """learning_rate / (1 + decay_rate * step / decay_steps)."""
    with name_scope(name, "InverseTimeDecay") as scope:
        rate, steps, factor, step = _start(learning_rate, global_step, decay_steps, decay_rate)
        p = step / steps
        if staircase:
            p = call("Floor", p)
        one = math_ops.cast(constant(1), rate.dtype)
        return math_ops.divide(rate, math_ops.add(one, call("Mul", factor, p)), name=scope)


def polynomial_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, end_learning_rate: Any = 0.0001, power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """(learning_rate - end) * (1 - step / decay_steps) ^ power + end.

    After decay_steps it stays at the end, or starts again with `cycle`.
    """
    with name_scope(name, "PolynomialDecay") as scope:
        rate = convert_to_tensor(learning_rate, name="initial_learning_rate")
        end, exponent, step, steps = (
            math_ops.cast(v, rate.dtype) for v in (end_learning_rate, power, global_step, decay_steps)
        )
        if cycle:
            rounds = where_v2(call("Equal", step, 0), 1.0, call("Ceil", step / decay_steps))
            steps = call("Mul", steps, rounds)
        else:
            step = call("Minimum", step, steps)
        p = math_ops.divide(step, steps)
        return math_ops.add(call("Mul", rate - end, math_ops.pow(1 - p, exponent)), end, name=scope)


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None
) -> Tensor:
    """From learning_rate to alpha * learning_rate along half a cosine."""
    with name_scope(name, "CosineDecay"):
        rate, steps, step = _start(learning_rate, global_step, decay_steps)
        fraction = call("Minimum", step, steps) / steps
        cosine = 0.5 * (1.0 + call("Cos", constant(math.pi) * fraction))
        return call("Mul", rate, (1 - alpha) * cosine + alpha)


def linear_cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, num_periods: float = 0.5, alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """A cosine of `num_periods` that falls off linearly."""
    with name_scope(name, "LinearCosineDecay") as scope:
        rate, steps, periods, low, rest, step = _start(
            learning_rate, global_step, decay_steps, num_periods, alpha, beta
        )
        step = call("Minimum", step, steps)
        linear = (steps - step) / steps
        done = step / steps
        fraction = 2.0 * periods * done
        cosine = 0.5 * (1.0 + call("Cos", constant(math.pi) * fraction))
        return call("Mul", rate, (low + linear) * cosine + rest, name=scope)


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Tensor:
    """values[i] while x is above boundaries[i - 1] and at most boundaries[i].

    Raises:
        GraphValueError: not one boundary less than values.
    """
    if len(boundaries) != len(values) - 1:
        raise GraphValueError("The length of boundaries should be 1 less than the length of values")
    bounds = [convert_to_tensor(b) for b in boundaries]
    rates = [convert_to_tensor(v) for v in values]
    x = convert_to_tensor(x)
    with name_scope(name, "PiecewiseConstant"):
        bounds = [math_ops.cast(b, x.dtype.base_dtype) for b in bounds]
        pairs: list[Any] = [(x <= bounds[0], lambda: rates[0]), (x > bounds[-1], lambda: rates[-1])]
        for low, high, rate in zip(bounds[:-1], bounds[1:], rates[1:-1], strict=True):
            pairs.append(((x > low) & (x <= high), lambda rate=rate: rate))
        result: Tensor = case(pairs, lambda: rates[0], exclusive=True)
        return result


piecewise_constant_decay = piecewise_constant

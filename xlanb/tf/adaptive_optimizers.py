"""tf.train's Adadelta and Ftrl optimizers (python/training/{adadelta,ftrl}.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import ones, where
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf.optimizers import Optimizer
from xlanb.tf.states import rows, set_rows


class AdadeltaOptimizer(Optimizer):
    """Adadelta (Zeiler 2012): scale steps by running averages of squared gradients and steps."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._values = {"lr": learning_rate, "rho": rho, "epsilon": epsilon}

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for v in variables:
            self._slot(v, "accum")
            self._slot(v, "accum_update")

    def _prepare(self) -> None:
        for name, value in self._values.items():
            self._prepare_tensor(name, value)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        slots = [self.get_slot(variable, n) for n in ("accum", "accum_update")]
        return self._apply(
            "ApplyAdadelta", variable, [*(self._as_type(n, variable) for n in self._values), grad], slots
        )

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        """The same formula for the rows that have gradients."""
        accum, steps = (self.get_slot(variable, n) for n in ("accum", "accum_update"))
        rate, rho, epsilon = (self._as_type(n, variable) for n in self._values)
        squares = rows(accum, indices) * rho + call("Square", values) * (1 - rho)
        before = rows(steps, indices)
        step = call("Sqrt", before + epsilon) * call("Rsqrt", squares + epsilon) * values
        changed = {
            accum: squares,
            steps: before * rho + call("Square", step) * (1 - rho),
            variable: rows(variable, indices) - rate * step,
        }
        return set_rows(changed, indices)


class FtrlOptimizer(Optimizer):
    """Follow the regularised leader (McMahan et al. 2013)."""

    def __init__(
        self, learning_rate: Any, learning_rate_power: float = -0.5, initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0, l2_regularization_strength: float = 0.0, use_locking: bool = False,
        name: str = "Ftrl",
    ) -> None:  # fmt: skip
        super().__init__(use_locking, name)
        if initial_accumulator_value < 0 or learning_rate_power > 0:
            raise GraphValueError("Ftrl: the initial accumulator value must be >= 0, learning_rate_power must be <= 0")
        self._values = {
            "learning_rate": learning_rate, "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength, "learning_rate_power": learning_rate_power,
        }  # fmt: skip
        self._start = initial_accumulator_value

    def _create_slots(self, variables: Sequence[Any]) -> None:
        for v in variables:
            self._slot(v, "accum", lambda shape, dtype=None: ones(shape, dtype) * self._start)
            self._slot(v, "linear")

    def _prepare(self) -> None:
        for name, value in self._values.items():
            self._prepare_tensor(name, value)

    def _apply_dense(self, grad: Tensor, variable: Any) -> Operation:
        slots = [self.get_slot(variable, n) for n in ("accum", "linear")]
        return self._apply("ApplyFtrl", variable, [grad, *(self._as_type(n, variable) for n in self._values)], slots)

    def _apply_sparse(self, values: Tensor, indices: Tensor, variable: Any) -> Operation:
        """The same formula for the rows that have gradients."""
        accum, linear = (self.get_slot(variable, n) for n in ("accum", "linear"))
        rate, l1, l2, power = (self._as_type(n, variable) for n in self._values)
        old, w = rows(accum, indices), rows(variable, indices)
        new = old + call("Square", values)
        grown, before = math_ops.pow(new, -power), math_ops.pow(old, -power)
        z = rows(linear, indices) + values - (grown - before) / rate * w
        solved = (call("Sign", z) * l1 - z) / (grown / rate + 2.0 * l2)
        small = call("LessEqual", math_ops.abs(z), l1 + 0.0 * z)
        return set_rows({accum: new, linear: z, variable: where(small, 0.0 * z, solved)}, indices)

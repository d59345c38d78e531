"""Moving averages of variables (python/training/moving_averages.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import initializers, math_ops
from xlanb.graph.builders.control_ops import group
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.builders.variable_scope import get_variable, variable_scope
from xlanb.graph.builders.variables import GraphKeys, Variable, trainable_variables
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor


class ExponentialMovingAverage:
    """Moving averages of variables: average = decay * average + (1 - decay) * value.

    With `num_updates` the decay is at most (1 + num_updates) / (10 + num_updates), and so small at
    first.
    """

    def __init__(
        self, decay: Any, num_updates: Any = None, zero_debias: bool = False, name: str = "ExponentialMovingAverage"
    ) -> None:
        if zero_debias:
            raise GraphValueError(
                "ExponentialMovingAverage: leave out zero_debias; num_updates weighs early values more"
            )
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[Any, Any] = {}

    def apply(self, var_list: Sequence[Any] | None = None) -> Operation:
        """Return an operation that updates the averages of variables (or tensors) once.

        Missing averages are made.
        """
        values = list(var_list) if var_list is not None else trainable_variables()
        graph = get_default_graph()
        for value in values:
            if value not in self._averages:
                with graph.control_dependencies(None):
                    self._averages[value] = self._made(value)
        with name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                count = math_ops.cast(self._num_updates, "float32", name="num_updates")
                decay = call("Minimum", decay, (1.0 + count) / (10.0 + count))
            moves = [self._updated(self._averages[v], v, decay) for v in values]
            return group(*moves, name=scope)

    def _made(self, value: Any) -> Any:
        graph = get_default_graph()
        is_variable = isinstance(value, Variable)
        keys = [GraphKeys.GLOBAL_VARIABLES]
        with variable_scope(None, f"{value.op.name}/{self._name}"), graph.colocate_with(value):
            start = initializers.Zeros()
            how: dict[str, Any] = {"initializer": start, "shape": value.shape, "dtype": value.dtype.base_dtype}
            if is_variable:
                how = {"initializer": value.initialized_value()}
            made = get_variable("", trainable=False, collections=keys, **how)
        graph.add_to_collection("moving_average_variables", value)
        return made

    @staticmethod
    def _updated(average: Any, value: Any, decay: Tensor) -> Any:
        with (
            name_scope("AssignMovingAvg", values=[average, value]) as scope,
            get_default_graph().colocate_with(average),
        ):
            rest = convert_to_tensor(1.0 - decay, name="decay")
            rest = math_ops.cast(rest, average.dtype.base_dtype)
            delta = (average.value() - convert_to_tensor(value)) * rest
            return average.assign_sub(delta, name=scope)

    def average(self, var: Any) -> Any:
        """Return the average of a variable, or None."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name that the average of a variable has."""
        return f"{var.op.name}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Sequence[Any] | None = None) -> dict[str, Any]:
        """Map names to variables for a Saver: trainable ones by their averages' names, others by
        their own.
        """
        moved = list(moving_avg_variables) if moving_avg_variables is not None else trainable_variables()
        found = {self.average_name(v): v for v in moved}
        for v in get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES):
            if v not in moved and v.op.name not in found:
                found[v.op.name] = v
        return found


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = False, name: str | None = None
) -> Any:
    """variable = decay * variable + (1 - decay) * value."""
    with name_scope(name, "AssignMovingAvg") as scope, get_default_graph().colocate_with(variable):
        rest = convert_to_tensor(1.0 - decay, name="decay")
        rest = math_ops.cast(rest, variable.dtype.base_dtype)
        return variable.assign_sub((variable.value() - convert_to_tensor(value)) * rest, name=scope)

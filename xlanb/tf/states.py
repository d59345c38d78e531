"""tf.scatter_* and tf.count_up_to: changes of parts of variables (python/ops/state_ops.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xlanb.errors import GraphTypeError
from xlanb.graph.builders.array_ops import gather
from xlanb.graph.builders.control_ops import group
from xlanb.graph.builders.variables import RefVariable, ResourceVariable
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call, call_op
from xlanb.graph.operation import Operation, Tensor


def _scatter(function: str, op_type: str) -> Callable[..., Tensor]:
    """Make the function that updates rows of a variable by an op, `Resource...` for resource
    variables.
    """

    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        if isinstance(ref, ResourceVariable):
            done = call_op(f"Resource{op_type}", ref.handle, indices, updates, name=name)
            with done.graph.control_dependencies([done]):
                return ref.read_value()
        if not isinstance(ref, RefVariable):
            raise GraphTypeError(f"{function} takes a variable, not {ref!r}")
        return call(op_type, ref.as_tensor(as_ref=True), indices, updates, use_locking=use_locking, name=name)

    scatter.__name__ = scatter.__qualname__ = function
    scatter.__doc__ = f"Update parts of a variable ({op_type}); returns its new value."
    return scatter


scatter_update = _scatter("scatter_update", "ScatterUpdate")
scatter_add = _scatter("scatter_add", "ScatterAdd")
scatter_sub = _scatter("scatter_sub", "ScatterSub")
scatter_nd_update = _scatter("scatter_nd_update", "ScatterNdUpdate")
scatter_nd_add = _scatter("scatter_nd_add", "ScatterNdAdd")


def _resource_only(function: str, op_type: str) -> Callable[..., Tensor]:
    made = _scatter(function, op_type)

    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
        if not isinstance(ref, ResourceVariable):
            raise GraphTypeError(f"{function} needs a resource variable (use_resource=True), got {ref!r}")
        return made(ref, indices, updates, use_locking, name)

    scatter.__name__ = scatter.__qualname__ = function
    scatter.__doc__ = f"Update parts of a resource variable ({op_type}); returns its new value."
    return scatter


scatter_mul = _resource_only("scatter_mul", "ScatterMul")
scatter_div = _resource_only("scatter_div", "ScatterDiv")
scatter_min = _resource_only("scatter_min", "ScatterMin")
scatter_max = _resource_only("scatter_max", "ScatterMax")
scatter_nd_sub = _resource_only("scatter_nd_sub", "ScatterNdSub")


def rows(variable: Any, indices: Tensor) -> Tensor:
    """Some rows of a variable."""
    return gather(variable, indices)


def set_rows(changed: Mapping[Any, Tensor], indices: Tensor) -> Operation:
    """The operation that sets these rows of several variables, once all new values are there."""
    graph = get_default_graph()
    with graph.control_dependencies([value.op for value in changed.values()]):
        done = [scatter_update(v, indices, value) for v, value in changed.items()]
        return group(*done)

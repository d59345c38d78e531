"""Gradient functions by op type."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphError, UnimplementedError
from xlanb.graph.operation import Operation

# Takes the operation and the gradient of each output.
# Returns one gradient per input: a tensor, slices, or None.
GradientFunction = Callable[..., Any]

_FUNCTIONS: dict[str, GradientFunction | None] = {}


def register_gradient(*op_types: str) -> Callable[[GradientFunction], GradientFunction]:
    """Make the decorated function the gradient of these op types.

    It is called as `function(op, *grads)`, one gradient per output, and returns one per input (a
    single one need not be in a list).
    """

    def decorate(function: GradientFunction) -> GradientFunction:
        for op_type in op_types:
            if op_type in _FUNCTIONS:
                raise GraphError(f"op type {op_type!r} already has a gradient")
            _FUNCTIONS[op_type] = function
        return function

    return decorate


def not_differentiable(*op_types: str) -> None:
    """Say that no gradient flows through these op types."""
    for op_type in op_types:
        _FUNCTIONS[op_type] = None


def is_differentiable(op_type: str) -> bool:
    """Whether a gradient flows through this op type."""
    return _FUNCTIONS.get(op_type) is not None


def status(op_type: str) -> str:
    """Return "yes" if a gradient flows through the op type, "none" if not, "" if it is
    undefined.
    """
    if op_type not in _FUNCTIONS:
        return ""
    return "none" if _FUNCTIONS[op_type] is None else "yes"


def differentiable_ops() -> list[str]:
    """All op types that a gradient flows through, sorted."""
    return sorted(op_type for op_type, function in _FUNCTIONS.items() if function is not None)


def gradient_function(op: Operation) -> GradientFunction | None:
    """Return the gradient function of an operation, None if no gradient flows through it.

    Raises:
        UnimplementedError: the op type has no gradient here; the message names the node.
    """
    name = str(op.attrs.get("_gradient_op_type", op.type))  # as Graph.gradient_override_map asks for
    if name not in _FUNCTIONS:
        raise UnimplementedError(
            f"no gradient is defined for op type {name!r}: {op.describe()}. Put tf.stop_gradient around it to "
            "treat it as a constant."
        )
    return _FUNCTIONS[name]


def as_list(grads: Any) -> list[Any]:
    """Return a gradient function's result as a list."""
    return list(grads) if isinstance(grads, Sequence) else [grads]

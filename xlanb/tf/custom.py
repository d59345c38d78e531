"""Custom gradients: tf.custom_gradient, tf.RegisterGradient and Graph.gradient_override_map.

Source: python/ops/custom_gradient.py, python/framework/registry.py.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphTypeError, GraphValueError
from xlanb.graph.builders.array_ops import identity
from xlanb.graph.builders.nest import flatten, pack_like
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.gradients.registry import not_differentiable, register_gradient
from xlanb.graph.op_library import call_op
from xlanb.graph.operation import Operation

_numbers = itertools.count()


class RegisterGradient:
    """Decorator: register the gradient of an op type, or of a name for gradient_override_map.

    It is called as `function(op, *grads)`, and returns a gradient for each input.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise GraphTypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """Register `f`. Raises GraphError if the name has a gradient already."""
        return register_gradient(self._op_type)(f)


def NotDifferentiable(op_type: str) -> None:  # noqa: N802 - TensorFlow's name
    """Say that no gradient flows through an op type."""
    not_differentiable(op_type)


NoGradient = NotDifferentiable


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator for a function that returns its result and a gradient function.

    The gradient function maps the gradients of the results to those of the arguments. Variables
    that `f` reads get no gradient through it: pass them as arguments.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        inputs = [identity(convert_to_tensor(a)) for a in args]
        result, grad_fn = f(*inputs, **kwargs)
        outputs = [convert_to_tensor(r) for r in flatten(result)]
        name = f"CustomGradient-{next(_numbers)}"

        def gradient(_op: Operation, *result_grads: Any) -> list[Any]:
            found = grad_fn(*result_grads[: len(outputs)])
            listed = list(found) if isinstance(found, list | tuple) else [found]
            if len(listed) != len(inputs):
                raise GraphValueError(
                    f"custom_gradient: {f.__name__!r} has {len(inputs)} arguments, its gradient function "
                    f"returned {len(listed)} gradients"
                )
            return [None] * len(outputs) + listed

        register_gradient(name)(gradient)
        with graph.gradient_override_map({"IdentityN": name}):
            joined = call_op("IdentityN", [*outputs, *inputs])
        return (
            pack_like(result, list(joined.outputs[: len(outputs)]))
            if isinstance(result, list | tuple | dict)
            else joined.outputs[0]
        )

    return decorated


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` with the gradient of the identity."""

    @custom_gradient
    def passed(*args: Any) -> Any:
        return f(*args), lambda *grads: grads[0] if len(grads) == 1 else list(grads)

    return passed

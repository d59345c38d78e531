"""tf.keras.activations: activations by name or as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders.clip_ops import clip_by_value
from xlanb.graph.builders.loss_ops import softmax
from xlanb.graph.builders.math_ops import sigmoid
from xlanb.graph.builders.nn_ops import leaky_relu, relu6, swish
from xlanb.tf.generated import function_of

relu, tanh, elu, selu, softplus, softsign, exponential = (
    function_of(op, name)
    for op, name in (
        ("Relu", "relu"), ("Tanh", "tanh"), ("Elu", "elu"), ("Selu", "selu"), ("Softplus", "softplus"),
        ("Softsign", "softsign"),
        ("Exp", "exponential"),
    )
)  # fmt: skip


def hard_sigmoid(x: Any) -> Any:
    """0.2 x + 0.5, cut at 0 and 1."""
    return clip_by_value(0.2 * x + 0.5, 0.0, 1.0)


def linear(x: Any) -> Any:
    """The same."""
    return x


_BY_NAME: dict[str, Callable[..., Any]] = {
    "relu": relu, "tanh": tanh, "sigmoid": sigmoid, "softmax": softmax, "elu": elu, "selu": selu, "softplus": softplus,
    "softsign": softsign,
    "exponential": exponential, "hard_sigmoid": hard_sigmoid, "linear": linear, "leaky_relu": leaky_relu,
    "relu6": relu6, "swish": swish,
}  # fmt: skip


def get(identifier: Any) -> Callable[..., Any] | None:
    """Return the function of a name; a function is returned unchanged.

    Raises:
        GraphValueError: an unknown name.
    """
    if identifier is None or callable(identifier):
        found: Callable[..., Any] | None = identifier
        return found
    if identifier not in _BY_NAME:
        raise GraphValueError(f"Unknown activation function: {identifier!r}; known functions: {', '.join(_BY_NAME)}")
    return _BY_NAME[identifier]

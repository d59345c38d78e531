"""tf.contrib.layers' regularizers: losses on weights.

Source: contrib/layers/python/layers/regularizers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor

Regularizer = Callable[[Any], Any]


def _checked(scale: Any) -> None:
    if scale < 0.0:
        raise GraphValueError(f"Setting a scale less than 0 on a regularizer: {scale}")


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """scale * sum(|weights|)."""
    _checked(scale)

    def l1(weights: Any) -> Tensor | None:
        if scale == 0.0:
            return None
        with name_scope(scope, "l1_regularizer", [weights]) as name:
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, "scale")
            return call("Mul", factor, math_ops.reduce_sum(math_ops.abs(weights)), name=name)

    return l1


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """scale * sum(weights^2) / 2."""
    _checked(scale)

    def l2(weights: Any) -> Tensor | None:
        if scale == 0.0:
            return None
        with name_scope(scope, "l2_regularizer", [weights]) as name:
            factor = convert_to_tensor(scale, weights.dtype.base_dtype, "scale")
            return call("Mul", factor, call("L2Loss", weights), name=name)

    return l2


def l1_l2_regularizer(scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None) -> Regularizer:
    """The sum of both."""
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope or "l1_l2_regularizer")


def sum_regularizer(regularizer_list: Sequence[Regularizer | None], scope: str | None = None) -> Regularizer:
    """The sum of several."""
    chosen = [r for r in regularizer_list if r is not None]

    def total(weights: Any) -> Tensor | None:
        with name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [t for t in (r(weights) for r in chosen) if t is not None]
            return math_ops.add_n(losses, name=name) if losses else None

    return total


def apply_regularization(regularizer: Regularizer, weights_list: Sequence[Any] | None = None) -> Tensor:
    """Sum the losses of weights (by default the collection "weights"); add it to regularization
    losses.
    """
    graph = get_default_graph()
    weights = list(weights_list) if weights_list is not None else graph.get_collection("weights")
    with name_scope("get_regularization_penalty", values=weights) as scope:
        losses = [t for t in (regularizer(w) for w in weights) if t is not None]
        total = math_ops.add_n(losses, name=scope) if losses else convert_to_tensor(0.0)
        graph.add_to_collection("regularization_losses", total)
        return total

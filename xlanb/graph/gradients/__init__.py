"""Gradients: functions by op type, and the backward walk from results to sources."""

from xlanb.graph.gradients import (
    array,
    batch_norm,
    control,
    data_movement,
    factorizations,
    functional,
    images,
    linalg,
    lists,
    math,
    nn,
    random,
    reductions,
    sparse,
    state,
)
from xlanb.graph.gradients.backprop import AggregationMethod, gradients
from xlanb.graph.gradients.registry import (
    differentiable_ops,
    gradient_function,
    is_differentiable,
    register_gradient,
)

__all__ = [
    "AggregationMethod",
    "array",
    "batch_norm",
    "control",
    "data_movement",
    "differentiable_ops",
    "factorizations",
    "functional",
    "gradient_function",
    "gradients",
    "images",
    "is_differentiable",
    "linalg",
    "lists",
    "math",
    "nn",
    "random",
    "reductions",
    "register_gradient",
    "sparse",
    "state",
]

"""Gradients: functions by op type, and the backward walk from results to sources."""

from xlanb.graph.gradients import array, control, data_movement, linalg, math, nn, reductions, sparse, state
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
    "control",
    "data_movement",
    "differentiable_ops",
    "gradient_function",
    "gradients",
    "is_differentiable",
    "linalg",
    "math",
    "nn",
    "reductions",
    "register_gradient",
    "sparse",
    "state",
]

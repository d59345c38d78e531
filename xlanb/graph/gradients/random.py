"""Gradients of samples by the parameters of their distribution (python/ops/random_grad.py)."""

from __future__ import annotations

from typing import Any

from xlanb.graph.convert import constant
from xlanb.graph.gradients.broadcasting import reduce_gradients
from xlanb.graph.gradients.registry import register_gradient
from xlanb.graph.op_library import call
from xlanb.graph.operation import Operation, Tensor


@register_gradient("StatelessParameterizedTruncatedNormal")
def _truncated_normal(op: Operation, grad: Tensor) -> Any:
    """Implicit reparameterization: the CDF's value at a sample is constant.

    As in TensorFlow, mean and deviation move the bounds too, so that a sample moves like one of an
    unbounded normal distribution.
    """
    sample = op.outputs[0]
    mean, deviation, low, high = op.inputs[2:]
    z, a, b = ((v - mean) / deviation for v in (sample, low, high))
    share = (_cdf(z) - _cdf(a)) / (_cdf(b) - _cdf(a))
    slopes = (constant(1, z.dtype), z, (constant(1, z.dtype) - share) * _ratio(a, z), share * _ratio(b, z))
    found = [
        reduce_gradients(parameter, sample, grad * slope, None)[0]
        for parameter, slope in zip(op.inputs[2:], slopes, strict=True)
    ]
    return [None, None, *found]


def _cdf(x: Tensor) -> Tensor:
    half = constant(0.5, x.dtype)
    found: Tensor = half * call("Erfc", -x * constant(0.5**0.5, x.dtype))
    return found


def _ratio(x: Tensor, z: Tensor) -> Tensor:
    """The normal density at x over that at z."""
    return call("Exp", (z * z - x * x) * constant(0.5, x.dtype))

"""Functions of tf.math that are made of several ops: variance, Euclidean norm, polynomials.

Source: python/ops/{math_ops,special_math_ops,clip_ops}.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders import math_ops
from xlanb.graph.builders.array_ops import zeros_like
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import constant, convert_to_tensor
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def reduce_variance(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The mean of the squared distances from the mean, along `axis` (default: all)."""
    with name_scope(name, "reduce_variance", [input_tensor]):
        x = convert_to_tensor(input_tensor)
        if not x.dtype.base_dtype.is_floating and not x.dtype.base_dtype.is_complex:
            raise GraphValueError(f"reduce_variance expects floating-point or complex numbers, not {x.dtype.name}")
        distance = x - math_ops.reduce_mean(x, axis, keepdims=True)
        if x.dtype.base_dtype.is_complex:
            distance = math_ops.abs(distance)
        return math_ops.reduce_mean(distance * distance, axis, keepdims=keepdims)


def reduce_std(input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None) -> Tensor:
    """The standard deviation along `axis` (default: all), the square root of the variance."""
    with name_scope(name, "reduce_std", [input_tensor]):
        return call("Sqrt", reduce_variance(input_tensor, axis, keepdims))


def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of the sum of squares along `axis` (default: all)."""
    x = convert_to_tensor(input_tensor)
    if axis is None:
        axis = list(range(x.shape.rank)) if x.shape.rank is not None else math_ops.range(call("Rank", x))
    return call("EuclideanNorm", x, axis, keep_dims=bool(keepdims), name=name)


def reciprocal_no_nan(x: Any, name: str | None = None) -> Tensor:
    """1 / x, and 0 where x is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]):
        found = convert_to_tensor(x)
        return call("DivNoNan", constant(1, found.dtype.base_dtype), found)


def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Tensor:
    """The polynomial at x by Horner's rule; the highest power's coefficient is first.

    Raises:
        GraphValueError: `coeffs` is not a list.
    """
    if not isinstance(coeffs, list):
        raise GraphValueError(f"polyval expects a list of coefficients, got a {type(coeffs).__name__}")
    with name_scope(name, "polyval", [*coeffs, x]):
        found = convert_to_tensor(x)
        if not coeffs:
            return zeros_like(found)
        value = convert_to_tensor(coeffs[0], found.dtype.base_dtype)
        for c in coeffs[1:]:
            value = convert_to_tensor(c, found.dtype.base_dtype) + value * found
        return value


def erfcinv(x: Any, name: str | None = None) -> Tensor:
    """The inverse of erfc, for x in [0, 2]."""
    with name_scope(name, "erfcinv", [x]):
        found = convert_to_tensor(x)
        value: Tensor = call("Ndtri", 0.5 * found) * -(0.5**0.5)
        return value


def lbeta(x: Any, name: str = "lbeta") -> Any:
    """Logarithm of the multivariate beta function over the last dimension."""
    found = convert_to_tensor(x)
    return math_ops.reduce_sum(call("Lgamma", found), -1) - call("Lgamma", math_ops.reduce_sum(found, -1))


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Any:
    """The tensor, shrunk where its norm divided by its number of elements exceeds clip_norm."""
    found = convert_to_tensor(t)
    count = math_ops.cast(call("Size", found), dtypes.float32)
    inverse = call("Rsqrt", math_ops.reduce_sum(found * found))
    return found * clip_norm * call("Minimum", inverse * count, constant(1.0) / clip_norm)

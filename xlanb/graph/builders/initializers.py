"""Initial values of variables: callables of a shape and a dtype (TF1's python/ops/init_ops.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.errors import GraphValueError
from xlanb.graph.builders import array_ops, random_ops
from xlanb.graph.builders.math_ops import sign
from xlanb.graph.convert import constant
from xlanb.graph.dtypes import float32
from xlanb.graph.op_library import call, call_n
from xlanb.graph.operation import Tensor

# The standard deviation of a normal distribution cut off at two: TensorFlow divides by it.
_TRUNCATED_DEVIATION = 0.87962566103423978


@dataclass
class Zeros:
    """Zeros."""

    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        return array_ops.zeros(shape, dtype or self.dtype)


@dataclass
class Ones:
    """Ones."""

    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        return array_ops.ones(shape, dtype or self.dtype)


@dataclass
class Constant:
    """One number everywhere, or an array of the shape's size."""

    value: Any = 0
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value; a shorter list is filled up with its last element."""
        array = np.asarray(self.value)
        sizes = [int(d) for d in shape]
        missing = math.prod(sizes) - array.size
        value: Any = self.value
        if array.size > 1 and missing > 0:
            value = np.concatenate([array.ravel(), np.repeat(array.ravel()[-1:], missing)]).tolist()
        return constant(value, dtype or self.dtype, sizes)


@dataclass
class RandomUniform:
    """Evenly distributed in [minval, maxval)."""

    minval: Any = 0.0
    maxval: Any = None
    seed: int | None = None
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        return random_ops.random_uniform(shape, self.minval, self.maxval, dtype or self.dtype, self.seed)


@dataclass
class RandomNormal:
    """Normally distributed."""

    mean: Any = 0.0
    stddev: Any = 1.0
    seed: int | None = None
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        return random_ops.random_normal(shape, self.mean, self.stddev, dtype or self.dtype, self.seed)


@dataclass
class TruncatedNormal:
    """Normally distributed, cut off at two standard deviations."""

    mean: Any = 0.0
    stddev: Any = 1.0
    seed: int | None = None
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        return random_ops.truncated_normal(shape, self.mean, self.stddev, dtype or self.dtype, self.seed)


@dataclass
class VarianceScaling:
    """Random values with variance scale / fan.

    `mode`: fan_in, fan_out or fan_avg; `distribution`: truncated_normal, untruncated_normal or
    uniform.
    """

    scale: float = 1.0
    mode: str = "fan_in"
    distribution: str = "truncated_normal"
    seed: int | None = None
    dtype: Any = float32

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.mode not in {"fan_in", "fan_out", "fan_avg"}:
            raise GraphValueError(
                f"variance scaling expects a positive scale and fan_in, fan_out or fan_avg, got {self.scale}, "
                f"{self.mode!r}"
            )
        if self.distribution not in {"normal", "truncated_normal", "untruncated_normal", "uniform"}:
            raise GraphValueError(f"variance scaling: unknown distribution {self.distribution!r}")

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        fan_in, fan_out = _fans([int(d) for d in shape])
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        scale = self.scale / max(1.0, fan)
        element_type = dtype or self.dtype
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * scale)
            return random_ops.random_uniform(shape, -limit, limit, element_type, self.seed)
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(scale), element_type, self.seed)
        return random_ops.truncated_normal(shape, 0.0, math.sqrt(scale) / _TRUNCATED_DEVIATION, element_type, self.seed)


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """Return fan-in and fan-out: a matrix's sizes; for a convolution kernel, times the window's
    size.
    """
    if len(shape) < 2:
        return (shape[0], shape[0]) if shape else (1, 1)
    window = math.prod(shape[:-2])
    return shape[-2] * window, shape[-1] * window


def glorot_uniform(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Uniform values with variance 2 / (fan_in + fan_out), the default of get_variable."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed, dtype)


def glorot_normal(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Truncated normal with variance 2 / (fan_in + fan_out)."""
    return VarianceScaling(1.0, "fan_avg", "truncated_normal", seed, dtype)


@dataclass
class Orthogonal:
    """The orthogonal part of a random matrix, times `gain`."""

    gain: float = 1.0
    seed: int | None = None
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Return the initial value, of rank 2 or more; all dimensions but the last count as one."""
        sizes = [int(d) for d in shape]
        if len(sizes) < 2:
            raise GraphValueError(f"an orthogonal initial value needs at least two dimensions, got {sizes}")
        rows, columns = math.prod(sizes[:-1]), sizes[-1]
        drawn = random_ops.random_normal(
            [max(rows, columns), min(rows, columns)], dtype=dtype or self.dtype, seed=self.seed
        )
        q, r = call_n("Qr", drawn, full_matrices=False)
        q *= sign(call("DiagPart", r))
        if rows < columns:
            q = array_ops.matrix_transpose(q)
        result: Tensor = self.gain * array_ops.reshape(q, sizes)
        return result

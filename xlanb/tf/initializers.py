"""Initializers of tf.initializers: He's, LeCun's, the identity (python/ops/init_ops.py)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph.builders.initializers import VarianceScaling
from xlanb.graph.builders.random_ops import random_uniform
from xlanb.graph.dtypes import float32
from xlanb.graph.operation import Tensor
from xlanb.tf.arrays import eye


def he_normal(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Truncated normal with variance 2 / fan_in (He et al. 2015)."""
    return VarianceScaling(2.0, "fan_in", "truncated_normal", seed, dtype)


def he_uniform(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Uniform with variance 2 / fan_in."""
    return VarianceScaling(2.0, "fan_in", "uniform", seed, dtype)


def lecun_normal(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Truncated normal with variance 1 / fan_in (LeCun et al. 1998)."""
    return VarianceScaling(1.0, "fan_in", "truncated_normal", seed, dtype)


def lecun_uniform(seed: int | None = None, dtype: Any = float32) -> VarianceScaling:
    """Uniform with variance 1 / fan_in."""
    return VarianceScaling(1.0, "fan_in", "uniform", seed, dtype)


@dataclass
class Identity:
    """The identity matrix times `gain`."""

    gain: float = 1.0
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """Return the initial value. Raises GraphValueError if the shape is not a matrix's."""
        sizes = [int(d) for d in shape]
        if len(sizes) != 2:
            raise GraphValueError(f"Identity matrix initializer can only be used for 2D matrices, not {sizes}")
        found = eye(sizes[0], sizes[1], dtype=dtype or self.dtype)
        scaled: Tensor = found if self.gain == 1.0 else self.gain * found
        return scaled


@dataclass
class UniformUnitScaling:
    """Uniform values in +-factor * sqrt(3 / inputs), which preserve the scale of activations."""

    factor: float = 1.0
    seed: int | None = None
    dtype: Any = float32

    def __call__(self, shape: Any, dtype: Any = None) -> Tensor:
        """The initial value."""
        sizes = [int(d) for d in shape]
        limit = math.sqrt(3 / max(1.0, float(math.prod(sizes[:-1])))) * self.factor
        return random_uniform(sizes, -limit, limit, dtype or self.dtype, self.seed)

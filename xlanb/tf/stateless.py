"""tf.random.stateless_*: random numbers that depend on shape and seed only.

Source: python/ops/stateless_random_ops.py.
"""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor


def stateless_random_uniform(
    shape: Any, seed: Any, minval: Any = 0, maxval: Any = None, dtype: Any = dtypes.float32, name: str | None = None
) -> Tensor:
    """Draw uniformly from [minval, maxval); `seed` holds two integers.

    Raises:
        GraphValueError: integers without maxval.
    """
    kind = as_dtype(dtype)
    if maxval is None and kind.is_integer:
        raise GraphValueError(f"stateless_random_uniform of {kind.name} needs maxval")
    with name_scope(name, "stateless_random_uniform", [shape, seed]):
        low = convert_to_tensor(minval, kind, "min")
        high = convert_to_tensor(1 if maxval is None else maxval, kind, "max")
        if kind.is_integer:
            return call("StatelessRandomUniformInt", shape, seed, low, high)
        drawn: Tensor = call("StatelessRandomUniform", shape, seed, dtype=kind) * (high - low) + low
        return drawn


def stateless_random_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Draw from a normal distribution; `seed` holds two integers."""
    return _scaled("StatelessRandomNormal", shape, seed, mean, stddev, dtype, name or "stateless_random_normal")


def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """As stateless_random_normal, with values beyond two standard deviations drawn again."""
    return _scaled("StatelessTruncatedNormal", shape, seed, mean, stddev, dtype, name or "stateless_truncated_normal")


def _scaled(op_type: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: str) -> Tensor:
    kind = as_dtype(dtype)
    with name_scope(name, name, [shape, seed]):
        drawn = call(op_type, shape, seed, dtype=kind)
        scaled: Tensor = drawn * convert_to_tensor(stddev, kind, "stddev") + convert_to_tensor(mean, kind, "mean")
        return scaled


def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Draw classes by unnormalized log-probabilities [batch, classes]: [batch, num_samples]."""
    return call("StatelessMultinomial", logits, num_samples, seed, output_dtype=as_dtype(output_dtype), name=name)

"""Random tensors, with seeds chosen by TensorFlow's rules (python/framework/random_seed.py)."""

from __future__ import annotations

from typing import Any

from xlanb.errors import GraphValueError
from xlanb.graph import dtypes
from xlanb.graph.builders.name_scope import name_scope
from xlanb.graph.convert import convert_to_tensor
from xlanb.graph.default_graph import get_default_graph
from xlanb.graph.dtypes import as_dtype
from xlanb.graph.op_library import call
from xlanb.graph.operation import Tensor

_DEFAULT_GRAPH_SEED = 87654321
_LARGEST_SEED = 2**31 - 1
_COUNTER = "__seeds_given"


def set_random_seed(seed: int | None) -> None:
    """Set the default graph's seed.

    Ops without their own seed then differ from each other and repeat in every run.
    """
    get_default_graph().seed = seed


def get_seed(op_seed: int | None) -> tuple[int, int]:
    """The attributes seed and seed2 of a random op; (0, 0) leaves the choice to the run."""
    graph = get_default_graph()
    if graph.seed is None:
        return (0, 0) if op_seed is None else (_DEFAULT_GRAPH_SEED, op_seed % _LARGEST_SEED)
    if op_seed is None:
        given = graph.get_collection_ref(_COUNTER)
        op_seed = len(given)
        given.append(None)
    seeds = graph.seed % _LARGEST_SEED, op_seed % _LARGEST_SEED
    return (0, _LARGEST_SEED) if seeds == (0, 0) else seeds


def _shape(shape: Any) -> Tensor:
    is_empty = isinstance(shape, list | tuple) and not shape
    return convert_to_tensor(shape, dtypes.int32 if is_empty else None, "shape")


def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Draw uniformly from [minval, maxval). dtype: floating point, or int32, int64 (these need
    maxval).

    Raises:
        GraphValueError: integers without maxval.
    """
    element_type = as_dtype(dtype)
    if maxval is None and element_type.is_integer:
        raise GraphValueError("random_uniform of integers needs maxval")
    maxval = 1 if maxval is None else maxval
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        sizes = _shape(shape)
        from_zero = isinstance(minval, int) and minval == 0
        to_one = isinstance(maxval, int) and maxval == 1
        if not (from_zero and to_one) or element_type.is_integer:
            minval, maxval = (
                convert_to_tensor(minval, element_type, "min"),
                convert_to_tensor(maxval, element_type, "max"),
            )
        seed1, seed2 = get_seed(seed)
        if element_type.is_integer:
            return call("RandomUniformInt", sizes, minval, maxval, seed=seed1, seed2=seed2, name=scope)
        result = call("RandomUniform", sizes, dtype=element_type, seed=seed1, seed2=seed2)
        if from_zero:
            return result if to_one else call("Mul", result, maxval)
        return call("AddV2", result * (maxval - minval), minval, name=scope)


def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed."""
    return _normal("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normally distributed, values beyond two standard deviations drawn again."""
    return _normal("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


def _normal(
    op_type: str, default_name: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    with name_scope(name, default_name, [shape, mean, stddev]) as scope:
        sizes = _shape(shape)
        mean, stddev = convert_to_tensor(mean, dtype, "mean"), convert_to_tensor(stddev, dtype, "stddev")
        seed1, seed2 = get_seed(seed)
        drawn = call(op_type, sizes, dtype=as_dtype(dtype), seed=seed1, seed2=seed2)
        return call("AddV2", drawn * stddev, mean, name=scope)


def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """The rows in random order."""
    seed1, seed2 = get_seed(seed)
    return call("RandomShuffle", value, seed=seed1, seed2=seed2, name=name)

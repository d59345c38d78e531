"""Ops that run on the host and never become HLO.

They are sources of values, variables' handles, and random numbers with hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np

from xlanb.errors import FeedError, GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.runtime.resources import Resources
from xlanb.runtime.variables import Transaction, VariableHandle
from xlanb.tf2xla.compiler import runs_on_host

HostKernel = Callable[[Operation, Sequence[Any], "HostState"], Sequence[Any]]


def fault(op: Operation, message: str) -> GraphError:
    """The error of a host kernel, which names the node."""
    return GraphError(f"node {op.name!r} ({op.type}): {message}")


CallFunction = Callable[[Operation, Graph, Sequence[Any]], list[Any]]


class HostState:
    """The state that host kernels may access.

    It consists of the run's variables, the session's random generators by node, its resources, and
    `call`, which runs a function's body for a node.
    """

    call: CallFunction

    def __init__(
        self,
        variables: Transaction,
        generators: dict[str, np.random.Generator],
        resources: Resources | None = None,
    ) -> None:
        self.variables = variables
        self.generators = generators
        self.resources = resources if resources is not None else Resources()

    def generator(self, op: Operation) -> np.random.Generator:
        """The generator of a stateful random op: Philox keyed by its two seeds.

        If both are 0, it is seeded by the system's entropy.
        """
        found = self.generators.get(op.name)
        if found is None:
            seeds = [int(op.attrs.get("seed", 0)), int(op.attrs.get("seed2", 0))]
            sequence = np.random.SeedSequence([s % 2**64 for s in seeds] if any(seeds) else None)
            # Concurrent threads all get the same one; NumPy locks a generator while it draws.
            found = self.generators.setdefault(op.name, np.random.Generator(np.random.Philox(sequence)))
        return found


_KERNELS: dict[str, HostKernel] = {}


def host_kernel(op_type: str) -> HostKernel | None:
    """The host kernel of an op type; None if it is lowered instead."""
    _load()
    return _KERNELS.get(op_type)


@runs_on_host.implement
def _has_kernel(op_type: str) -> bool:
    return host_kernel(op_type) is not None


@cache
def _load() -> None:
    package = import_module("xlanb.runtime.host")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")


def host(*op_types: str) -> Callable[[HostKernel], HostKernel]:
    """Decorator that registers a function as the host kernel of op types."""

    def decorate(kernel: HostKernel) -> HostKernel:
        _KERNELS.update(dict.fromkeys(op_types, kernel))
        return kernel

    return decorate


@host("Placeholder", "PlaceholderV2", "_Arg")
def _placeholder(op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    dtype = op.outputs[0].dtype.name
    raise FeedError(
        f"You must feed a value for placeholder tensor {op.name!r} with dtype {dtype} and shape {op.outputs[0].shape}"
    )


@host("VariableV2", "Variable", "VarHandleOp")
def _variable(op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    name = op.attrs.get("shared_name") or op.name
    return [VariableHandle(f"{op.attrs.get('container') or ''}/{name}", op.name)]


@host("IsVariableInitialized", "VarIsInitializedOp")
def _is_initialized(_op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return [np.asarray(state.variables.has(inputs[0]))]


@host("NoOp", "_Retval", "ControlTrigger")
def _nothing(_op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    return []


_MOST_DIMENSIONS = 254
"""The most dimensions of TensorFlow's shapes (TensorShape::MaxDimensions)."""


def check_rank(op: Operation, sizes: Any) -> np.ndarray[Any, Any]:
    """The sizes of a shape, as an array.

    Raises GraphError if TensorFlow does not support this many dimensions.
    """
    array = np.asarray(sizes)
    if array.size > _MOST_DIMENSIONS:
        raise GraphError(
            f"node {op.name!r} ({op.type}): a shape of {array.size:,} dimensions; at most {_MOST_DIMENSIONS} are "
            "supported"
        )
    return array


def _shape(op: Operation, value: Any) -> tuple[int, ...]:
    dims = tuple(int(d) for d in check_rank(op, value).ravel())
    if any(d < 0 for d in dims):
        raise GraphError(f"node {op.name!r} ({op.type}): shape {list(dims)} has a negative dimension")
    return dims


@host("RandomUniform")
def _random_uniform(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    dtype = op.outputs[0].dtype.numpy_dtype
    wide = np.float64 if dtype == np.float64 else np.float32
    return [np.asarray(state.generator(op).random(_shape(op, inputs[0]), wide)).astype(dtype)]


@host("RandomStandardNormal")
def _random_normal(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return [
        np.asarray(state.generator(op).standard_normal(_shape(op, inputs[0]))).astype(op.outputs[0].dtype.numpy_dtype)
    ]


@host("TruncatedNormal")
def _truncated_normal(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Standard normal; values beyond two standard deviations are drawn again."""
    values = np.asarray(state.generator(op).standard_normal(_shape(op, inputs[0])))
    while (far := np.abs(values) > 2).any():
        values = np.where(far, state.generator(op).standard_normal(values.shape), values)
    return [values.astype(op.outputs[0].dtype.numpy_dtype)]


@host("RandomUniformInt")
def _random_int(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    low, high = int(inputs[1]), int(inputs[2])
    if low >= high:
        raise GraphError(f"node {op.name!r} ({op.type}): need minval < maxval, not {low} and {high}")
    return [state.generator(op).integers(low, high, _shape(op, inputs[0]), op.outputs[0].dtype.numpy_dtype)]


@host("RandomShuffle")
def _random_shuffle(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """The rows in a random order."""
    return [state.generator(op).permutation(np.asarray(inputs[0]), axis=0)] if np.ndim(inputs[0]) else [inputs[0]]


@host("Multinomial")
def _multinomial(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    """Classes drawn by their logits: the argmax of logits plus Gumbel noise."""
    logits, (count,) = np.asarray(inputs[0], np.float64), _shape(op, inputs[1])
    if logits.ndim != 2 or logits.shape[1] == 0:
        raise GraphError(
            f"node {op.name!r} ({op.type}): logits of shape {list(logits.shape)} must be a matrix with at least one "
            "column"
        )
    noise = state.generator(op).gumbel(size=(logits.shape[0], count, logits.shape[1]))
    return [np.argmax(logits[:, None, :] + noise, axis=2).astype(op.outputs[0].dtype.numpy_dtype)]

"""Calls, branches and loops over functions, on the host (core/kernels/functional_ops.cc)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.runtime.host.lists import TensorListValue
from xlanb.runtime.host.ops import HostState, host


def _body(op: Operation, name: str) -> Graph:
    function = op.graph.functions.get(name)
    if function is None:
        raise GraphError(f"node {op.name!r} ({op.type}): the library has no function {name!r}")
    return function.body


def is_true(value: Any) -> bool:
    """Whether a value is a nonzero number, a non-empty string, or another tensor with elements."""
    array = np.asarray(value)
    return bool(array[()]) if array.ndim == 0 else array.size > 0


@host("PartitionedCall", "StatefulPartitionedCall")
def _call(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return state.call(op, _body(op, op.attrs["f"].name), inputs)


@host("If", "StatelessIf")
def _if(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    branch = op.attrs["then_branch" if is_true(inputs[0]) else "else_branch"]
    return state.call(op, _body(op, branch.name), inputs[1:])


@host("Case", "StatelessCase")
def _case(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    branches, index = op.attrs["branches"], int(inputs[0])
    chosen = branches[index] if 0 <= index < len(branches) else branches[-1]
    return state.call(op, _body(op, chosen.name), inputs[1:])


@host("While", "StatelessWhile")
def _while(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    condition, body = _body(op, op.attrs["cond"].name), _body(op, op.attrs["body"].name)
    values = list(inputs)
    while True:
        (holds,) = state.call(op, condition, values)
        if np.ndim(holds):
            raise GraphError(f"node {op.name!r} ({op.type}): the condition must be a scalar, not {np.shape(holds)}")
        if not is_true(holds):
            return values
        values = list(state.call(op, body, values))


@host("For")
def _for(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    start, limit, delta, *values = inputs
    if not int(delta):
        raise GraphError(f"node {op.name!r} ({op.type}): the step must not be 0")
    for i in range(int(start), int(limit), int(delta)):
        values = state.call(op, _body(op, op.attrs["body"].name), [np.asarray(i, np.int32), *values])
    return values


@host("FakeParam")
def _fake(op: Operation, _inputs: Sequence[Any], _state: HostState) -> Sequence[Any]:
    """An unused value."""
    dtype = op.attrs["dtype"]
    if not dtype.has_numpy_dtype:
        return [TensorListValue(np.dtype(np.float32), None, ())]
    dims = op.attrs["shape"].as_tuple() or ()
    return [np.zeros([d or 0 for d in dims], dtype.numpy_dtype)]

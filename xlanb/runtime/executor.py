"""The executor of one prepared graph: which nodes run on the host, which as compiled ops, which as clusters, in what order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.clustering.build_xla_ops import LAUNCH
from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.errors import UnknownOpError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.runtime.compilation_cache import CompilationCache
from xlanb.runtime.compiler import Stages
from xlanb.runtime.host_ops import HostState, host_kernel
from xlanb.runtime.launch import Call, run_cluster, run_op
from xlanb.runtime.variables import VariableHandle
from xlanb.tf2xla.compiler import between
from xlanb.tf2xla.registry import kernel

_PASSED_ON = frozenset({"Const", "Identity"})  # nothing is compiled for them


@dataclass(frozen=True)
class Prepared:
    """A graph that is ready to run: the tensors to feed, to fetch, the nodes to run, and the functions of its clusters."""

    graph: Graph
    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    functions: Mapping[str, ClusterFunction]
    compilation: int | None


class Executor:
    """Runs a prepared graph again and again; the plan is made once."""

    def __init__(self, prepared: Prepared, cache: CompilationCache) -> None:
        self.prepared = prepared
        self.cache = cache
        self._plan = between(prepared.feeds, prepared.fetches, prepared.targets)
        self._calls: dict[Operation, Call] = {}
        for op in self._plan:
            if op.type == LAUNCH:
                self._calls[op] = Call.of_cluster(prepared.functions[op.attrs["function"]])
            elif host_kernel(op.type) is None and op.type not in _PASSED_ON:
                if kernel(op.type) is None:
                    raise UnknownOpError(
                        f"cannot run {op.describe()}: xlanb has no kernel and no lowering for op {op.type!r}"
                    )
                self._calls[op] = Call.of_op(op)

    def run(self, feeds: Sequence[Any], state: HostState) -> Stages[list[Any]]:
        """Run once; the values of the fetches, variables' references as their values.

        Raises:
            XlanbError: a node fails; the message names it.
        """
        values: dict[Tensor, Any] = dict(zip(self.prepared.feeds, feeds, strict=True))
        for op in self._plan:
            inputs = [_given(t, values[t], state) for t in op.inputs]
            host = host_kernel(op.type)
            if op.type == LAUNCH:
                outputs = yield from run_cluster(
                    self._calls[op], inputs, state.variables, self.cache, self.prepared.compilation
                )
            elif host is not None:
                outputs = list(host(op, inputs, state))
            else:
                outputs = self._run_op(op, inputs, state)
            values.update(zip(op.outputs, outputs, strict=True))
        return [_value(values[t], state) for t in self.prepared.fetches]

    def _run_op(self, op: Operation, inputs: list[Any], state: HostState) -> list[Any]:
        if op.type == "Const":
            return [np.asarray(op.attrs["value"])]
        if op.type == "Identity":
            return inputs
        return run_op(self._calls[op], inputs, state.variables, self.cache)


def _given(tensor: Tensor, value: Any, state: HostState) -> Any:
    """A variable's reference becomes its value where the node reads it as a plain tensor."""
    if isinstance(value, VariableHandle) and not tensor.dtype.is_ref_dtype and tensor.dtype.name != "resource":
        return state.variables.read(value)
    return value


def _value(value: Any, state: HostState) -> Any:
    return state.variables.read(value) if isinstance(value, VariableHandle) else value

"""Replace each cluster's call by nodes that compile and run it (build_xla_ops_pass.cc).

In 2017-2018 (build_xla_launch_ops_pass.cc) that was one XlaLaunch per cluster, which compiles at
its first run for each signature and then runs the executable. Today it is

    _XlaCompile -> key, compiled?
    Switch(key, compiled?)  -> _XlaRun, or the same function by StatefulPartitionedCall
                               in TensorFlow's own executor
    _XlaMerge of the two for each result
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlanb.clustering.devices import ALWAYS, compilation_device
from xlanb.clustering.encapsulate_subgraphs import ClusterFunction, Encapsulated
from xlanb.clustering.memory_types import is_host_output
from xlanb.clustering.node_graph import known_dims
from xlanb.graph.dtypes import DType, as_dtype
from xlanb.graph.functions import FunctionRef
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor

LAUNCH = "XlaLaunch"


@dataclass(frozen=True)
class LaunchGraph:
    """The graph with one XlaLaunch node per cluster; its attribute `function` names the cluster."""

    graph: Graph


def build_xla_ops(encapsulated: Encapsulated) -> LaunchGraph:
    """Replace call nodes by XlaLaunch nodes, in a copy."""
    graph = encapsulated.graph.copy()
    for op, function in _calls(graph, encapsulated.functions):
        attrs = {"function": function.name, "Tresults": tuple(t.dtype for t in op.outputs), **_argument_types(function)}
        name = graph.unique_name(f"{function.name}/{LAUNCH}")
        launch = graph.add_op(LAUNCH, name, op.inputs, [t.dtype for t in op.outputs], attrs, op.control_inputs)
        for old, new in zip(op.outputs, launch.outputs, strict=True):
            new.give_shape(known_dims(old))
            old.replace_uses(new)
        for other in op.control_outputs:
            other.add_control_input(launch)
        graph.remove_ops([op])
    return LaunchGraph(graph)


def build_xla_compile_and_run(encapsulated: Encapsulated, *, is_lazy: bool = True) -> Graph:
    """Copy a graph with `_XlaCompile` and `_XlaRun` for each call node.

    `is_lazy` (tf_xla_enable_lazy_compilation) adds the fallback by a function call. Devices that
    can only run compiled code have no fallback.
    """
    graph = encapsulated.graph.copy()
    for op, function in _calls(graph, encapsulated.functions):
        _Replacement(op, function).build(is_lazy=is_lazy)
    return graph


def _calls(graph: Graph, functions: Mapping[str, ClusterFunction]) -> list[tuple[Operation, ClusterFunction]]:
    return [(op, functions[op.type]) for op in graph if op.type in functions]


def _argument_types(function: ClusterFunction) -> dict[str, Any]:
    constants, resources = function.constant_arguments, function.resource_arguments
    types = [t.dtype.base_dtype for t in function.arguments]
    return {
        "Tconstants": tuple(t for i, t in enumerate(types) if i in constants),
        "Targs": tuple(t for i, t in enumerate(types) if i not in constants and i not in resources),
        "Nresources": len(resources),
    }


class _Replacement:
    """The nodes that replace one call, under a name scope of their own."""

    def __init__(self, call: Operation, function: ClusterFunction) -> None:
        self.call = call
        self.function = function
        self.graph = call.graph
        self.scope = self.graph.unique_name(call.name)

    def build(self, *, is_lazy: bool) -> None:
        """Put them into the graph and take the call out."""
        registration = compilation_device(self.function.device)
        must_compile = not is_lazy or (registration is not None and registration.policy == ALWAYS)
        key, compiled = self._compile(must_compile=must_compile)
        if must_compile:
            run = self._run(key)
            self._take_over(run.outputs, run)
        else:
            self._lazy(key, compiled)
        self.graph.remove_ops([self.call])

    def _node(
        self,
        op_type: str,
        name: str,
        inputs: Sequence[Tensor],
        types: Sequence[DType],
        waits: Sequence[Operation] = (),
        **attrs: Any,
    ) -> Operation:
        full = self.graph.unique_name(f"{self.scope}/{name}")
        return self.graph.add_op(op_type, full, inputs, types, attrs, waits, self.function.device)

    def _compile(self, *, must_compile: bool) -> tuple[Tensor, Tensor]:
        node = self._node(
            "_XlaCompile",
            "xla_compile",
            self.call.inputs,
            [as_dtype("string"), as_dtype("bool")],
            self.call.control_inputs,
            must_compile=must_compile,
            function=FunctionRef(self.function.name),
            _XlaHasReferenceVars=self.call.attrs["_XlaHasReferenceVars"],
            **_argument_types(self.function),
        )
        node.outputs[0].give_shape((3,))
        node.outputs[1].give_shape(())
        return node.outputs[0], node.outputs[1]

    def _run(self, key: Tensor) -> Operation:
        inputs = [t for i, t in enumerate(self.call.inputs) if i not in self.function.constant_arguments]
        types = [t.dtype for t in self.call.outputs]
        targs = tuple(t.dtype.base_dtype for t in inputs)
        run = self._node("_XlaRun", "xla_run", [*inputs, key], types, Targs=targs, Tresults=tuple(types))
        for new, old in zip(run.outputs, self.call.outputs, strict=True):
            new.give_shape(known_dims(old))
        return run

    def _lazy(self, key: Tensor, compiled: Tensor) -> None:
        string = as_dtype("string")
        switch = self._node("Switch", "predicated_compilation_key", [key, compiled], [string, string], T=string)
        run = self._run(switch.outputs[1])
        waiting = self.call.control_outputs
        if waiting:
            # Control edges cannot be merged: they become values, which can.
            parts = [self._control_as_data(op) for op in (self.call, run)]
            control = self._merged_control(parts)
        not_compiled = self._node("Identity", "data_as_ctrl", [switch.outputs[0]], [string], T=string)
        call = self._partitioned_call(not_compiled)
        if waiting:
            parts[0].remove_control_input(self.call)
            parts[0].add_control_input(call)
            for op in waiting:
                op.add_control_input(control)
        merged = []
        for index, (by_call, by_run) in enumerate(zip(call.outputs, run.outputs, strict=True)):
            dtype = by_call.dtype
            # An unused result needs no merge.
            read = bool(self.call.outputs[index].uses)
            merge = (
                self._node("_XlaMerge", f"merge_oidx_{index}", [by_call, by_run], [dtype], T=dtype) if read else None
            )
            merged.append(by_run if merge is None else merge.outputs[0])
            merged[-1].give_shape(known_dims(by_run))
        self._take_over(merged, None)

    def _control_as_data(self, op: Operation) -> Operation:
        value = np.zeros((0,), np.int32)
        int32 = as_dtype("int32")
        return self._node("Const", "ctrl_as_data", (), [int32], [op], dtype=int32, value=value)

    def _merged_control(self, parts: Sequence[Operation]) -> Operation:
        int32 = as_dtype("int32")
        inputs = [p.outputs[0] for p in parts]
        merge = self._node("Merge", "ctrl_merge", inputs, [int32, int32], T=int32, N=len(parts))
        return self._node("Identity", "data_as_ctrl", [merge.outputs[0]], [int32], T=int32)

    def _called_with(self, not_compiled: Operation) -> list[Tensor]:
        """Return the inputs of the fallback call.

        A call expects int32 tensors on the host; those on the device pass through a node that runs
        only with the call.
        """
        inputs = list(self.call.inputs)
        int32 = as_dtype("int32")
        on_device = [
            i for i, t in enumerate(inputs) if t.dtype.base_dtype is int32 and not is_host_output(t.op, t.value_index)
        ]
        if on_device:
            types = [int32] * len(on_device)
            sources = [inputs[i] for i in on_device]
            passed = self._node("IdentityN", "int32_id_n", sources, types, [not_compiled], T=tuple(types))
            for place, new in zip(on_device, passed.outputs, strict=True):
                new.give_shape(known_dims(inputs[place]))
                inputs[place] = new
        return inputs

    def _partitioned_call(self, not_compiled: Operation) -> Operation:
        types = [t.dtype for t in self.call.outputs]
        call = self._node(
            "StatefulPartitionedCall",
            "stateful_partitioned_call",
            self._called_with(not_compiled),
            types,
            [not_compiled],
            f=FunctionRef(self.function.name),
            Tin=tuple(t.dtype.base_dtype for t in self.call.inputs),
            Tout=tuple(types),
            config="",
            config_proto="",
            executor_type="",
        )
        for new, old in zip(call.outputs, self.call.outputs, strict=True):
            new.give_shape(known_dims(old))
        return call

    def _take_over(self, outputs: Sequence[Tensor], waited: Operation | None) -> None:
        """Readers of the call read these instead, and wait for `waited`."""
        for old, new in zip(self.call.outputs, outputs, strict=True):
            old.replace_uses(new)
        if waited is not None:
            for op in self.call.control_outputs:
                op.add_control_input(waited)

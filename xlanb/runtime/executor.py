"""Execute one prepared graph.

It decides which nodes run on the host, which as compiled ops, which as clusters, and in which
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from time import perf_counter_ns
from typing import Any, Final

import numpy as np

from xlanb.clustering.build_xla_ops import LAUNCH
from xlanb.clustering.encapsulate_subgraphs import ClusterFunction
from xlanb.contexts import bound
from xlanb.errors import CancelledError, GraphError, UninitializedError, UnknownOpError
from xlanb.graph.graph import Graph
from xlanb.graph.op_library import op_has_side_effects
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.ops import find_op
from xlanb.lazy_dataclass import dataclass
from xlanb.runtime.compilation_cache import CompilationCache
from xlanb.runtime.dataflow import CONTROL_FLOW, DataflowPlan, DataflowRun, has_control_flow
from xlanb.runtime.host.lists import VARIANT_KERNELS
from xlanb.runtime.host.ops import HostKernel, HostState, host_kernel
from xlanb.runtime.host.strings import as_bytes
from xlanb.runtime.launch import ClusterCall, run_cluster, run_op
from xlanb.runtime.step_stats import collecting
from xlanb.runtime.variables import VariableHandle
from xlanb.stage import Stages, exhaust
from xlanb.tf2xla.compiler import between
from xlanb.tf2xla.registry import kernel
from xlanb.wording import counted

_PASSED_ON: Final = frozenset({"Const", "Identity", "IdentityN"})  # nothing is compiled for them
# NumPy's exceptions for values that do not fit a node.
_NODE_FAULTS: Final = (ValueError, LookupError, TypeError, MemoryError, ArithmeticError)
_FUNCTIONS_OF_PYTHON: Final = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})  # their errors are the user's own
_DEEPEST: Final = 64
_DEPTH: ContextVar[int] = ContextVar("xlanb_host_function_depth", default=0)


@dataclass(frozen=True)
class PreparedNode:
    """A graph that is ready to run: feeds, fetches, nodes to run, and functions of its clusters."""

    graph: Graph
    feeds: tuple[Tensor, ...]
    fetches: tuple[Tensor, ...]
    targets: tuple[Operation, ...]
    functions: Mapping[str, ClusterFunction]
    compilation: int | None


class Executor:
    """Runs a prepared graph repeatedly; it is planned once.

    Functions that nodes call are run node by node, each by an executor of its own, unless the call
    must be compiled (`_XlaMustCompile`).
    """

    def __init__(self, prepared: PreparedNode, cache: CompilationCache) -> None:
        self.prepared = prepared
        self.cache = cache
        self._calls: dict[Operation, ClusterCall] = {}
        self._hosts: dict[Operation, HostKernel] = {}
        self._bodies: dict[Graph, Executor] = {}
        self._refused: dict[str, str] = {}
        p = prepared
        self._flow = DataflowPlan(p.feeds, p.fetches, p.targets) if has_control_flow(p.graph) else None
        if self._flow is not None and not has_control_flow(self._flow.ops):
            self._flow = None
        if self._flow is not None:
            p.graph.topological_order()  # a cycle outside of loops would wait forever
        self._plan = between(p.feeds, p.fetches, p.targets) if self._flow is None else []
        for op in self._plan if self._flow is None else self._flow.ops:
            self._plan_node(op)

    def _plan_node(self, op: Operation) -> None:
        definition = find_op(op.type)
        if definition is not None and not any(a.is_list for a in definition.inputs):
            names = [a.name for a in definition.inputs]
            if len(op.inputs) != len(names):
                raise GraphError(
                    f"{op.describe()}: expected {len(names)} inputs ({', '.join(names)}), got {len(op.inputs)}"
                )
        if op.type in _PASSED_ON or op.type in CONTROL_FLOW:
            return
        host = None if op.attrs.get("_XlaMustCompile") and kernel(op.type) is not None else host_kernel(op.type)
        if op.inputs and op.inputs[0].dtype.name == "variant":
            host = VARIANT_KERNELS.get(op.type, host)
        if op.type == LAUNCH:
            if op.attrs["function"] not in self.prepared.functions:
                raise GraphError(
                    f"{op.describe()}: no cluster {op.attrs['function']!s}; only clustering creates these nodes"
                )
            self._calls[op] = ClusterCall.of_cluster(self.prepared.functions[op.attrs["function"]])
        elif host is not None:
            self._hosts[op] = host
        elif op.type in op.graph.functions:
            self._hosts[op] = _call_by_name
        elif kernel(op.type) is None:
            raise UnknownOpError(f"cannot run {op.describe()}: xlanb has no kernel and no lowering for op {op.type!r}")
        else:
            self._calls[op] = ClusterCall.of_op(op)

    def run(self, feeds: Sequence[Any], state: HostState) -> Stages[list[Any]]:
        """Run once; return the values of the fetches, with variables' references as their values.

        Raises:
            XlanbError: A node fails; the message names it.
        """
        found = yield from self.run_raw(feeds, state)
        return [state.variables.read(v) if isinstance(v, VariableHandle) else v for v in found]

    def run_raw(self, feeds: Sequence[Any], state: HostState) -> Stages[list[Any]]:
        """`run` without replacing handles of variables."""
        state.call = lambda op, body, inputs: self._call(op, body, inputs, state)
        run_node = self._run_node if collecting() is None else self._run_timed
        if self._flow is not None:
            flow = DataflowRun(self._flow, lambda op, inputs: run_node(op, inputs, state))
            return (yield from flow.run(feeds))
        values: dict[Tensor, Any] = dict(zip(self.prepared.feeds, feeds, strict=True))
        for op in self._plan:
            outputs = yield from run_node(op, [values[t] for t in op.inputs], state)
            values.update(zip(op.outputs, outputs, strict=True))
        return [values[t] for t in self.prepared.fetches]

    def _run_timed(self, op: Operation, values: Sequence[Any], state: HostState) -> Stages[Sequence[Any]]:
        collector = collecting()
        begin = perf_counter_ns()
        outputs = yield from self._run_node(op, values, state)
        if collector is not None:
            collector.ran_node(op, begin, perf_counter_ns(), values, outputs)
        return outputs

    def _run_node(self, op: Operation, values: Sequence[Any], state: HostState) -> Stages[Sequence[Any]]:
        if state.resources.is_closed:
            raise CancelledError(f"{op.describe()}: the session was closed while it ran")
        inputs = [_dereference(t, v, state) for t, v in zip(op.inputs, values, strict=True)]
        host = self._hosts.get(op)
        if host is not None:
            try:
                outputs = list(host(op, inputs, state))
            except _NODE_FAULTS as error:
                if op.type in _FUNCTIONS_OF_PYTHON:
                    raise
                raise GraphError(f"{op.describe()}: {_fault(error)}") from error
            if len(outputs) != len(op.outputs):
                raise GraphError(f"{op.describe()}: expected {len(op.outputs)} outputs, got {len(outputs)}")
            return outputs
        if op.type == "Const":
            return [np.asarray(op.get_attr("value"))]
        if op.type in {"Identity", "IdentityN"}:
            return inputs
        if op.type == LAUNCH:
            return (yield from self._launch(op, inputs, state))
        if any(t.dtype.base_dtype.name == "string" for t in op.inputs):
            return self._run_on_codes(op, inputs, state)
        try:
            return run_op(self._calls[op], inputs, state.variables, self.cache)
        except (MemoryError, ValueError) as error:  # a result too large to hold
            raise GraphError(f"{op.describe()}: {_fault(error)}") from error

    def _run_on_codes(self, op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
        """Run an op that moves or compares strings, compiled for integers that represent them."""
        texts: dict[bytes, int] = {}

        def coded(value: Any) -> np.ndarray[Any, Any]:
            array = np.asarray(value, object)
            codes = [texts.setdefault(as_bytes(v), len(texts)) for v in array.ravel()]
            return np.asarray(codes, np.int32).reshape(array.shape)

        given = [
            coded(v) if t.dtype.base_dtype.name == "string" and not isinstance(v, VariableHandle) else v
            for t, v in zip(op.inputs, inputs, strict=True)
        ]
        outputs = run_op(self._calls[op], given, state.variables, self.cache)
        known = np.empty(len(texts), object)
        known[:] = list(texts)
        return [known[v] if t.dtype.name == "string" else v for t, v in zip(op.outputs, outputs, strict=True)]

    def _launch(self, op: Operation, inputs: list[Any], state: HostState) -> Stages[Sequence[Any]]:
        """Run a compiled cluster, or its nodes one by one if it cannot be compiled.

        TensorFlow falls back to a function call next to _XlaRun.
        """
        call = self._calls[op]
        if call.name not in self._refused:
            try:
                found = yield from run_cluster(call, inputs, state.variables, self.cache, self.prepared.compilation)
            except UninitializedError:
                raise
            except (GraphError, UnknownOpError) as error:
                refusal = str(error)
            else:
                return self._fall_back(op, inputs, state) if found is None else found
            outputs = self._fall_back(op, inputs, state)
            self._refused[call.name] = refusal  # the nodes themselves work: the compilation failed
            return outputs
        return self._fall_back(op, inputs, state)

    def _fall_back(self, op: Operation, inputs: Sequence[Any], state: HostState) -> list[Any]:
        function = self.prepared.functions[op.attrs["function"]]
        return self._call(op, function.body, inputs, state)

    @property
    def refusals(self) -> Mapping[str, str]:
        """Clusters that could not be compiled and run node by node, with the reason."""
        return dict(self._refused)

    def _call(self, op: Operation, body: Graph, inputs: Sequence[Any], state: HostState) -> list[Any]:
        """Run a function's body on values.

        Raises:
            GraphError: It recurses too deeply, or takes another number of arguments.
        """
        if _DEPTH.get() >= _DEEPEST:
            raise GraphError(
                f"node {op.name!r} ({op.type}): functions are nested more than {_DEEPEST} deep at {body.name!r}: "
                "does it call itself?"
            )
        inner = self._bodies.get(body)
        if inner is None:  # concurrent threads all get the same one
            inner = self._bodies.setdefault(body, Executor(_prepared_body(op, body, len(inputs)), self.cache))
        outer = state.call
        try:
            with bound(_DEPTH, _DEPTH.get() + 1):
                found: list[Any] = exhaust(
                    inner.run_raw([inputs[t.op.attrs["index"]] for t in inner.prepared.feeds], state)
                )
                return found
        finally:
            state.call = outer


def _prepared_body(op: Operation, body: Graph, count: int) -> PreparedNode:
    arguments = [o.outputs[0] for o in body if o.type == "_Arg"]
    if any(not 0 <= int(t.op.attrs["index"]) < count for t in arguments):
        raise GraphError(
            f"node {op.name!r} ({op.type}): function {body.name!r} takes {counted(len(arguments), 'argument')}, "
            f"the call passes {count}"
        )
    results = sorted((o for o in body if o.type == "_Retval"), key=lambda o: int(o.attrs["index"]))
    fetches = tuple(o.inputs[0] for o in results)
    effects = tuple(o for o in body if o.type not in ("_Arg", "_Retval") and op_has_side_effects(o))
    return PreparedNode(body, tuple(arguments), fetches, effects, {}, None)


def _call_by_name(op: Operation, inputs: Sequence[Any], state: HostState) -> Sequence[Any]:
    return state.call(op, op.graph.functions[op.type].body, inputs)


def _fault(error: Exception) -> str:
    """The text of a NumPy exception; a MemoryError may have none."""
    return f"out of memory{f' ({error})' if str(error) else ''}" if isinstance(error, MemoryError) else str(error)


def _dereference(tensor: Tensor, value: Any, state: HostState) -> Any:
    """Replace a variable's reference by its value if the node reads it as a plain tensor."""
    if isinstance(value, VariableHandle) and not tensor.dtype.is_ref_dtype and tensor.dtype.name != "resource":
        return state.variables.read(value)
    return value

"""Each cluster becomes a function, and one node that calls it (TensorFlow's encapsulate_subgraphs_pass.cc)."""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.clustering.mark_for_compilation import CLUSTER
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.tf2xla.const_analysis import constant_arguments


@dataclass(frozen=True)
class ClusterFunction:
    """A cluster as a function: its body with `_Arg` and `_Retval` nodes; which arguments must be constant, which are variables' handles."""

    name: str
    body: Graph
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    constant_arguments: frozenset[int]

    @property
    def targets(self) -> list[Operation]:
        """Nodes of the body that run for their effect."""
        return [op for op in self.body if op.type not in ("_Arg", "_Retval") and not any(t.uses for t in op.outputs)]


@dataclass(frozen=True)
class Encapsulated:
    """The graph with a call node per cluster, the functions by name, and where each result of a cluster is now, by its old name."""

    graph: Graph
    functions: dict[str, ClusterFunction]
    moved: dict[str, Tensor]


def encapsulate_subgraphs(marked: Graph) -> Encapsulated:
    """Replace the nodes of each cluster by one call node; the marked graph itself stays as it was."""
    graph = marked.copy()
    clusters: dict[str, list[Operation]] = {}
    for op in graph.topological_order():
        if op.attrs.get(CLUSTER):
            clusters.setdefault(op.attrs[CLUSTER], []).append(op)
    functions: dict[str, ClusterFunction] = {}
    moved: dict[str, Tensor] = {}
    for name, ops in clusters.items():
        inputs, outputs = _borders(ops)
        functions[name] = _function(name, ops, inputs, outputs)
        _replace(graph, name, ops, inputs, outputs, functions[name], moved)
    return Encapsulated(graph, functions, moved)


def _borders(ops: list[Operation]) -> tuple[list[Tensor], list[Tensor]]:
    """Tensors that come in from outside, and those that are read outside."""
    inside = set(ops)
    inputs = dict.fromkeys(t for op in ops for t in op.inputs if t.op not in inside)
    outputs = [t for op in ops for t in op.outputs if any(user not in inside for user in t.uses)]
    return list(inputs), outputs


def _function(name: str, ops: list[Operation], inputs: list[Tensor], outputs: list[Tensor]) -> ClusterFunction:
    body = Graph(name)
    body.functions = ops[0].graph.functions
    made: dict[Tensor, Tensor] = {}
    for index, t in enumerate(inputs):
        attrs = {"T": t.dtype.base_dtype, "index": index, "_output_shapes": (t.shape,)}
        arg = body.add_op(
            "_Arg", body.unique_name(f"{t.op.name}_{t.value_index}_arg".replace("/", "_").lower()), (), [t.dtype], attrs
        )
        arg.outputs[0].give_shape(t.shape.as_tuple())
        made[t] = arg.outputs[0]
    copies: dict[Operation, Operation] = {}
    for op in ops:
        attrs = {k: v for k, v in op.attrs.items() if k != CLUSTER}
        waits = [copies[c] for c in op.control_inputs if c in copies]
        copy = body.add_op(
            op.type, op.name, [made[t] for t in op.inputs], [t.dtype for t in op.outputs], attrs, waits, op.device
        )
        copy.source_file, copy.source_line = op.source_file, op.source_line
        copies[op] = copy
        made.update(zip(op.outputs, copy.outputs, strict=True))
    for index, t in enumerate(outputs):
        label = f"{t.op.name}_{t.value_index}_retval".replace("/", "_").lower()
        body.add_op("_Retval", body.unique_name(label), [made[t]], [], {"T": t.dtype.base_dtype, "index": index})
    arguments = tuple(made[t] for t in inputs)
    return ClusterFunction(name, body, arguments, tuple(made[t] for t in outputs), constant_arguments(body))


def _replace(
    graph: Graph,
    name: str,
    ops: list[Operation],
    inputs: list[Tensor],
    outputs: list[Tensor],
    function: ClusterFunction,
    moved: dict[str, Tensor],
) -> None:
    inside = set(ops)
    waits = dict.fromkeys(c for op in ops for c in op.control_inputs if c not in inside)
    waiting = dict.fromkeys(c for op in ops for c in op.control_outputs if c not in inside)
    attrs = {
        "_XlaCompiledKernel": True,
        "_XlaNumConstantArgs": len(function.constant_arguments),
        "_XlaNumResourceArgs": sum(t.dtype.name == "resource" for t in inputs),
    }
    graph.functions[name] = GraphFunction.of_body(name, function.body)
    call = graph.add_op(
        name, graph.unique_name(name), inputs, [t.dtype.base_dtype for t in outputs], attrs, list(waits)
    )
    for old, new in zip(outputs, call.outputs, strict=True):
        new.give_shape(old.shape.as_tuple())
        for user in old.consumers():
            if user not in inside:
                for index, t in enumerate(user.inputs):
                    if t is old:
                        user.set_input(index, new)
        moved[old.name] = new
    for op in waiting:
        op.add_control_input(call)
    graph.remove_ops(ops)

"""Replace each cluster by a function and a call node (TensorFlow's
encapsulate_subgraphs_pass.cc).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlanb.clustering.backwards_const_analysis import must_be_constant
from xlanb.clustering.devices import device_of, pick_device
from xlanb.clustering.mark_for_compilation import CLUSTER
from xlanb.clustering.node_graph import CONTROL, NodeGraph, known_dims
from xlanb.graph.functions import GraphFunction
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.tensor_shape import TensorShape


@dataclass(frozen=True)
class ClusterFunction:
    """A cluster as a function: its body with `_Arg` and `_Retval` nodes.

    Arguments are in the order of TensorFlow's launch ops: compile-time constants, then tensors,
    then handles of variables. `sources` are the names of their tensors in the graph,
    `result_sources` those of the results, `device` is where the cluster runs.
    """

    name: str
    body: Graph
    arguments: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    constant_arguments: frozenset[int]
    sources: tuple[str, ...] = ()
    result_sources: tuple[str, ...] = ()
    device: str = ""

    @property
    def targets(self) -> list[Operation]:
        """Nodes of the body that run for their effect."""
        return [op for op in self.body if op.type not in ("_Arg", "_Retval") and not any(t.uses for t in op.outputs)]

    @property
    def resource_arguments(self) -> frozenset[int]:
        """Numbers of the arguments that are handles of variables."""
        return frozenset(i for i, t in enumerate(self.arguments) if t.dtype.name == "resource")

    def __str__(self) -> str:
        kinds = dict.fromkeys(self.constant_arguments, "constant") | dict.fromkeys(self.resource_arguments, "resource")
        lines = [f"function {self.name} on {self.device or 'any device'}"]
        for i, (t, source) in enumerate(zip(self.arguments, self.sources, strict=False)):
            lines.append(
                f"  argument {i} {t.op.name}: {t.describe()} = {source}{f' ({kinds[i]})' if i in kinds else ''}"
            )
        for i, (t, source) in enumerate(zip(self.results, self.result_sources, strict=False)):
            lines.append(f"  result {i}: {t.describe()} = {source}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Encapsulated:
    """The graph with a call node per cluster, the functions by name, and results by their old
    names.
    """

    graph: Graph
    functions: dict[str, ClusterFunction]
    moved: dict[str, Tensor]


def encapsulate_subgraphs(marked: Graph) -> Encapsulated:
    """Copy a marked graph with the nodes of each cluster replaced by one call node."""
    graph = marked.copy()
    order = {op: i for i, op in enumerate(graph.topological_order())}
    clusters: dict[str, list[Operation]] = {}
    for op in graph:
        if op.attrs.get(CLUSTER):
            clusters.setdefault(op.attrs[CLUSTER], []).append(op)
    references = related_to_references(graph)
    borders = _borders(graph)
    names = sorted(clusters, key=lambda c: min(order[op] for op in clusters[c]))
    functions = {n: _function(n, sorted(clusters[n], key=order.__getitem__), *borders[n]) for n in names}
    moved: dict[str, Tensor] = {}
    for name, (function, inputs) in functions.items():
        has_references = any(op in references for op in clusters[name])
        current = [moved.get(t.name, t) for t in inputs]
        _replace(graph, clusters[name], current, borders[name][1], function, moved, has_references=has_references)
    return Encapsulated(graph, {n: f for n, (f, _) in functions.items()}, moved)


def related_to_references(graph: Graph) -> set[Operation]:
    """Return nodes with a path to or from one with a reference input or output."""
    starts = [op for op in graph if any(t.dtype.is_ref_dtype for t in (*op.inputs, *op.outputs))]
    found: set[Operation] = set(starts)
    for is_forward in (True, False):
        pending, seen = list(starts), set(starts)
        while pending:
            op = pending.pop()
            after = [*(r for t in op.outputs for r in t.uses), *op.control_outputs]
            for other in after if is_forward else [*(t.op for t in op.inputs), *op.control_inputs]:
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        found |= seen
    return found


def _borders(graph: Graph) -> dict[str, tuple[list[Tensor], list[Tensor]]]:
    """Return each cluster's incoming tensors and those read outside, in the order of the graph's
    edges.
    """
    nodes = NodeGraph(graph)
    cluster_of = [op.attrs.get(CLUSTER) if op is not None else None for op in nodes.ops]
    inputs: dict[str, dict[Tensor, None]] = {c: {} for c in cluster_of if c}
    outputs: dict[str, dict[Tensor, None]] = {c: {} for c in cluster_of if c}
    for edge in nodes.edges:
        start, to = cluster_of[edge.src], cluster_of[edge.dst]
        if edge.port == CONTROL or start == to:
            continue
        tensor = nodes.op(edge.src).outputs[edge.port]
        if to:
            inputs[to][tensor] = None
        if start:
            outputs[start][tensor] = None
    return {c: (list(inputs[c]), list(outputs[c])) for c in inputs}


def _function(
    name: str, ops: list[Operation], inputs: list[Tensor], outputs: list[Tensor]
) -> tuple[ClusterFunction, list[Tensor]]:
    """The function of a cluster, and the tensors for its arguments in their order."""
    body, made = _body(name, ops, inputs, outputs)
    nodes = NodeGraph(body)
    must_be_known = must_be_constant(nodes, [nodes.ids[op] for op in body.topological_order()])
    known = {i for i, t in enumerate(inputs) if nodes.ids[made[t].op] in must_be_known}
    kinds = [0 if i in known else 2 if t.dtype.name == "resource" else 1 for i, t in enumerate(inputs)]
    order = sorted(range(len(inputs)), key=kinds.__getitem__)
    ordered = [inputs[i] for i in order]
    for index, t in enumerate(ordered):
        made[t].op.set_attr("index", index)
        made[t].give_shape(known_dims(t))
    constants = frozenset(place for place, old in enumerate(order) if old in known)
    device = pick_device(sorted({device_of(op) for op in ops}))
    function = ClusterFunction(
        name,
        body,
        tuple(made[t] for t in ordered),
        tuple(made[t] for t in outputs),
        constants,
        tuple(t.name for t in ordered),
        tuple(t.name for t in outputs),
        device,
    )
    return function, ordered


def _body(
    name: str, ops: list[Operation], inputs: list[Tensor], outputs: list[Tensor]
) -> tuple[Graph, dict[Tensor, Tensor]]:
    """Return the body, and each tensor's counterpart in it."""
    body = Graph(name)
    body.functions = ops[0].graph.functions
    made: dict[Tensor, Tensor] = {}
    for index, t in enumerate(inputs):
        attrs = {"T": t.dtype.base_dtype, "index": index, "_output_shapes": (TensorShape(known_dims(t)),)}
        label = f"{t.op.name}_{t.value_index}_arg".replace("/", "_").lower()
        arg = body.add_op("_Arg", body.unique_name(label.lstrip("_")), (), [t.dtype], attrs)
        arg.outputs[0].give_shape(known_dims(t))
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
        attrs = {"T": t.dtype.base_dtype, "index": index}
        body.add_op("_Retval", body.unique_name(label.lstrip("_")), [made[t]], [], attrs)
    return body, made


def _replace(
    graph: Graph,
    ops: list[Operation],
    inputs: list[Tensor],
    outputs: list[Tensor],
    function: ClusterFunction,
    moved: dict[str, Tensor],
    *,
    has_references: bool,
) -> None:
    inside, name = set(ops), function.name
    waits = dict.fromkeys(c for op in ops for c in op.control_inputs if c not in inside)
    waiting = dict.fromkeys(c for op in ops for c in op.control_outputs if c not in inside)
    attrs = {
        "_XlaCompiledKernel": True,
        "_XlaNumConstantArgs": len(function.constant_arguments),
        "_XlaNumResourceArgs": len(function.resource_arguments),
        "_XlaHasReferenceVars": has_references,
    }
    graph.functions[name] = GraphFunction.of_body(name, function.body)
    call = graph.add_op(
        name,
        graph.unique_name(name),
        inputs,
        [t.dtype.base_dtype for t in outputs],
        attrs,
        list(waits),
        function.device,
    )
    for old, new in zip(outputs, call.outputs, strict=True):
        new.give_shape(known_dims(old))
        for user in old.consumers():
            if user not in inside:
                for index, t in enumerate(user.inputs):
                    if t is old:
                        user.set_input(index, new)
        moved[old.name] = new
    for op in waiting:
        op.add_control_input(call)
    graph.remove_ops(ops)

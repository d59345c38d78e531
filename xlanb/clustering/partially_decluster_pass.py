"""Move nodes out of clusters where that is cheaper (TensorFlow's partially_decluster_pass.cc).

- A value that is read in host memory outside the cluster is computed outside, to avoid a copy from
  the device.
- A compile-time constant at the start of its cluster is computed outside: then its value, not its
  inputs, decides whether to compile anew.
- Shape, Size and Rank at the start of their cluster are computed outside, so that the tensor need
  not enter it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlanb.clustering.backwards_const_analysis import must_be_constant
from xlanb.clustering.devices import ALWAYS, compilation_device, device_of
from xlanb.clustering.mark_for_compilation import CLUSTER, REASON, note
from xlanb.clustering.memory_types import is_host_input, is_host_output
from xlanb.clustering.node_graph import CONSTANT, Edge, NodeGraph, known_dims
from xlanb.clustering.resource_operation_safety_analysis import has_resource
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.logs import VLog

_LOG = VLog("clustering", "partially_decluster_pass")

_SHAPE_CONSUMERS = frozenset({"Shape", "Rank", "Size"})
# Op types that only XLA can run: TensorFlow has no kernel for them on the CPU.
_WITHOUT_CPU_KERNEL = frozenset(
    "AssignVariableXlaConcatND ReadVariableXlaSplitND SegmentMaxV2 SegmentMinV2 SegmentProdV2 SegmentSumV2 "
    "XlaAllReduce XlaConcatND XlaCustomCall XlaCustomCallV2 XlaReduceScatter XlaRemoveDynamicDimensionSize "
    "XlaSetBound XlaSetDynamicDimensionSize XlaSplitND XlaSpmdFullToShardShape "
    "_XlaAotOnlyVarHandleOp".split()
)


@dataclass(frozen=True)
class Declustering:
    """The graph afterwards, and why each node that left did so, in TensorFlow's words."""

    graph: Graph
    reasons: dict[str, str] = field(default_factory=dict)


def partially_decluster(marked: Graph) -> Declustering:
    """Take nodes out of their clusters again, in a copy."""
    graph = marked.copy()
    reasons: dict[str, str] = {}
    _reduce_device_to_host_copies(graph, reasons)
    _reduce_recompilation(graph, reasons)
    _decluster_root_shape_consumers(graph, reasons)
    return Declustering(graph, reasons)


def _cluster(op: Operation) -> str:
    return op.attrs.get(CLUSTER) or ""


def _remove(op: Operation, reason: str, reasons: dict[str, str]) -> None:
    _LOG.vlog(2, "%s", reason)
    del op.attrs[CLUSTER]
    note(op, **{REASON: reason})
    reasons[op.name] = reason


# ------------------------------------------------------------------------------ what the host reads


def _reduce_device_to_host_copies(graph: Graph, reasons: dict[str, str]) -> None:
    leaving: dict[Operation, None] = {}
    for op in reversed(graph.topological_order()):
        if (
            _cluster(op)
            and op.type not in _SHAPE_CONSUMERS
            and not has_resource(op)
            and _is_wanted_on_host(op, leaving)
        ):
            leaving[op] = None
    for op in leaving:
        _clone_outside(graph, op, reasons)


def _is_wanted_on_host(op: Operation, leaving: dict[Operation, None]) -> bool:
    """Whether a node outside the cluster reads an output in host memory; leaving nodes count as
    outside.
    """
    for port, tensor in enumerate(op.outputs):
        if not tensor.uses or not is_host_output(op, port):
            continue
        for reader in tensor.consumers():
            outside = reader in leaving or _cluster(reader) != _cluster(op)
            if outside and any(t is tensor and is_host_input(reader, i) for i, t in enumerate(reader.inputs)):
                return True
    return False


def _clone_outside(graph: Graph, op: Operation, reasons: dict[str, str]) -> None:
    attrs = {k: v for k, v in op.attrs.items() if k != CLUSTER}
    name = graph.unique_name(f"{op.name}/declustered")
    clone = graph.add_op(op.type, name, op.inputs, [t.dtype for t in op.outputs], attrs, op.control_inputs, op.device)
    clone.source_file, clone.source_line = op.source_file, op.source_line
    for old, new in zip(op.outputs, clone.outputs, strict=True):
        new.give_shape(known_dims(old))
        for reader in old.consumers():
            if _cluster(reader) != _cluster(op):
                for slot, tensor in enumerate(reader.inputs):
                    if tensor is old:
                        reader.set_input(slot, new)
    reason = f"Cloning {op.name} as {name}: it is used on the host"
    _LOG.vlog(2, "%s", reason)
    note(clone, **{REASON: reason})
    reasons[name] = reason
    if not any(t.uses for t in op.outputs) and not op.control_outputs:
        graph.remove_ops([op])
        reasons[op.name] = reason


# ---------------------------------------------------------------------------- what must be constant


def _reduce_recompilation(graph: Graph, reasons: dict[str, str]) -> None:
    nodes = NodeGraph(graph)
    order = [nodes.ids[op] for op in graph.topological_order()]

    def is_within(edge: Edge) -> bool:
        clusters = [_cluster(nodes.op(n)) if nodes.ops[n] is not None else "" for n in (edge.src, edge.dst)]
        return bool(clusters[0]) and clusters[0] == clusters[1]

    constant = must_be_constant(nodes, order, is_within)
    for node in order:
        op = nodes.op(node)
        if node not in constant or not _cluster(op) or _must_be_compiled(op):
            continue
        sources = [nodes.ops[e.src] for e in nodes.in_edges[node]]
        if any(s is not None and _cluster(s) == _cluster(op) for s in sources):
            continue
        if op.type not in CONSTANT:
            _remove(op, f"Declustering must-be-constant node {op.name}", reasons)
        elif any(s is not None and device_of(s) != device_of(op) for s in sources):
            _remove(op, f"Declustering Const with cross-device control input {op.name}", reasons)


def _must_be_compiled(op: Operation) -> bool:
    """Whether the device compiles all, or TensorFlow has no kernel for the op."""
    registration = compilation_device(device_of(op))
    by_device = registration is not None and registration.policy == ALWAYS
    return by_device or op.type in _WITHOUT_CPU_KERNEL


def _decluster_root_shape_consumers(graph: Graph, reasons: dict[str, str]) -> None:
    for op in graph.topological_order():
        if op.type not in _SHAPE_CONSUMERS or not _cluster(op):
            continue
        inside = any(_cluster(o) == _cluster(op) for o in (*(t.op for t in op.inputs), *op.control_inputs))
        if not inside:
            _remove(op, f"Declustering {op.name} because it is a root shape consumer", reasons)

"""Clone small constants for each user, so that none ties two clusters together.

c -> {a, b}   =>   c/clone_0 -> a, c -> b

Source: TensorFlow's clone_constants_for_better_clustering.cc.
"""

from __future__ import annotations

from xlanb.clustering.devices import device_of, device_type
from xlanb.clustering.node_graph import CONSTANT
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation

_IN_PLACE = frozenset({"InplaceUpdate", "InplaceAdd", "InplaceSub"})  # they write to their inputs
_SMALL = 16  # elements; a constant of so many is not small any more


def clone_constants_for_better_clustering(graph: Graph) -> Graph:
    """Copy a graph so that small CPU constants have one user each.

    Returns the graph itself if nothing changes, or its constants have been cloned already.
    """
    done = any(op.type in CONSTANT and "/clone_" in op.name for op in graph)
    if done or any(op.type in _IN_PLACE for op in graph) or not any(_is_shared(op) for op in graph):
        return graph
    copy = graph.copy()
    count = 0
    for op in copy.get_operations():
        for slot, tensor in enumerate(op.inputs):
            if _is_shared(tensor.op):
                clone, count = _clone(copy, tensor.op, count)
                op.set_input(slot, clone.outputs[0])
        for waited in op.control_inputs:
            if _is_shared(waited):
                # As in TensorFlow, the edge from the constant itself stays too.
                clone, count = _clone(copy, waited, count)
                op.add_control_input(clone)
    return copy


def _is_shared(op: Operation) -> bool:
    if op.type not in CONSTANT or not op.outputs or len(op.outputs[0].uses) + len(op.control_outputs) <= 1:
        return False
    value = op.attrs.get("value")
    return device_type(device_of(op)) == "CPU" and getattr(value, "size", _SMALL) < _SMALL


def _clone(graph: Graph, op: Operation, count: int) -> tuple[Operation, int]:
    while (name := f"{op.name}/clone_{count}") in graph:
        count += 1
    clone = graph.add_op(op.type, name, (), [t.dtype for t in op.outputs], op.attrs, op.control_inputs, op.device)
    clone.source_file, clone.source_line, clone.raw_attrs = op.source_file, op.source_line, op.raw_attrs
    return clone, count + 1

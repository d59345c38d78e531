"""Give the nodes before a Stage and after an Unstage separate scopes, so that pipeline stages are
not merged (TensorFlow's cluster_scoping_pass.cc).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation

SCOPE = "_XlaInternalScope"


def cluster_scoping(graph: Graph) -> Graph:
    """Copy a graph with `_XlaInternalScope` set around its Stage and Unstage nodes.

    Returns the graph itself if it has none.
    """
    if not any(op.type in ("Stage", "Unstage") for op in graph):
        return graph
    copy = graph.copy()
    count = 0
    for op in copy.get_operations():
        for op_type, neighbours in (("Unstage", _successors), ("Stage", _predecessors)):
            if op.type == op_type:
                for node in _closure(op, neighbours):
                    known = node.attrs.get(SCOPE)
                    node.set_attr(SCOPE, f"{known}&_{count}" if known else f"_{count}")
                count += 1
    return copy


def _successors(op: Operation) -> Iterable[Operation]:
    return [*(reader for t in op.outputs for reader in t.uses), *op.control_outputs]


def _predecessors(op: Operation) -> Iterable[Operation]:
    return [*(t.op for t in op.inputs), *op.control_inputs]


def _closure(start: Operation, neighbours: Callable[[Operation], Iterable[Operation]]) -> list[Operation]:
    found = {start: None}
    pending = [start]
    while pending:
        for other in neighbours(pending.pop()):
            if other not in found:
                found[other] = None
                pending.append(other)
    return list(found)

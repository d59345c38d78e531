"""Convert TF1 control flow to function calls before lowering: loops, inner ones first, then
branches.

Source: TensorFlow's functionalize_control_flow.cc.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor
from xlanb.graph.rewrite import copy_graph, needed_by
from xlanb.tf2xla.functionalize_cond import functionalize_conds
from xlanb.tf2xla.functionalize_while import ENTER, MERGE, SWITCH, functionalize_loops

Ends = tuple[list[Tensor], list[Tensor], list[Operation]]


def functionalized(feeds: Sequence[Tensor], fetches: Sequence[Tensor], targets: Sequence[Operation] = ()) -> Ends:
    """Return feeds, fetches and targets in a graph with While and If nodes for loops and branches.

    If the part between them has no TF1 control flow, they are unchanged; otherwise that part is
    copied, and the graph is not changed.

    Raises:
        GraphError: a loop or branch does not have TensorFlow's form; names the node.
    """
    fed = set(feeds)
    needed = needed_by([*(t.op for t in fetches if t not in fed), *targets], fed)
    if not any(op.type in ENTER | SWITCH | MERGE for op in needed):
        return list(feeds), list(fetches), list(targets)
    graph = next(iter(needed)).graph
    new = copy_graph(graph, needed | needed_by(t.op for t in feeds))
    ends = (
        [_in(new, t) for t in feeds],
        [_in(new, t) for t in fetches],
        [new.get_operation_by_name(o.name) for o in targets],
    )
    kept = [
        new.add_op("_Retval", new.unique_name("fetch"), [t], [], {"T": t.dtype, "index": i})
        for i, t in enumerate(ends[1])
    ]
    functionalize_loops(new)
    functionalize_conds(new)
    return ends[0], [op.inputs[0] for op in kept], ends[2]


def _in(graph: Graph, tensor: Tensor) -> Tensor:
    return graph.get_operation_by_name(tensor.op.name).outputs[tensor.value_index]

"""A TensorFlow graph with numbered nodes, ordered edges, and TensorFlow's source and sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation, Tensor

SOURCE, SINK = 0, 1
CONTROL = -1

ENTER = frozenset({"Enter", "RefEnter"})
EXIT = frozenset({"Exit", "RefExit"})
MERGE = frozenset({"Merge", "RefMerge", "_XlaMerge"})
SWITCH = frozenset({"Switch", "RefSwitch", "_SwitchN"})
NEXT_ITERATION = frozenset({"NextIteration", "RefNextIteration"})
IDENTITY = frozenset({"Identity", "RefIdentity"})
RESULT = frozenset({"_Retval"})
CONSTANT = frozenset({"Const", "HostConst"})


class Edge(NamedTuple):
    """Edge from output `port` of node `src` to input `slot` of `dst`; a control edge has CONTROL in
    both.
    """

    src: int
    port: int
    dst: int
    slot: int


class NodeGraph:
    """Ids and edges of a graph: 0 is the source, 1 the sink, then the operations in the graph's
    order.

    Attributes:
        ops: operation by id; None for source and sink.
        ids: id by operation.
        edges: all edges in the order in which TensorFlow would make them; then those from the
            source and to the sink, for nodes without other edges.
        in_edges, out_edges: edges by id of node.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.ops: list[Operation | None] = [None, None, *graph]
        self.ids: dict[Operation, int] = {op: i for i, op in enumerate(self.ops) if op is not None}
        self.edges: list[Edge] = []
        self.in_edges: list[list[Edge]] = [[] for _ in self.ops]
        self.out_edges: list[list[Edge]] = [[] for _ in self.ops]
        found = []
        for op, dst in self.ids.items():
            found += [Edge(self.ids[t.op], t.value_index, dst, slot) for slot, t in enumerate(op.inputs)]
            found += [Edge(self.ids[waited], CONTROL, dst, CONTROL) for waited in op.control_inputs]
        for edge in sorted(found, key=self._when_added):
            self._add(edge)
        for op, node in self.ids.items():
            if not self.in_edges[node]:
                self._add(Edge(SOURCE, CONTROL, node, CONTROL))
            # Edges to _Retval nodes are added after those from the graph's ends to the sink.
            if all(self.is_(e.dst, RESULT) for e in self.out_edges[node]) and not op.control_outputs:
                self._add(Edge(node, CONTROL, SINK, CONTROL))

    def _when_added(self, edge: Edge) -> int:
        """Return the position of an edge: its later node's, but for a constant's clone the
        constant's user's.
        """
        is_clone = self.is_(edge.src, CONSTANT) and "/clone_" in self.name(edge.src)
        return edge.dst if is_clone else max(edge.src, edge.dst)

    def _add(self, edge: Edge) -> None:
        self.edges.append(edge)
        self.in_edges[edge.dst].append(edge)
        self.out_edges[edge.src].append(edge)

    def __len__(self) -> int:
        return len(self.ops)

    def op(self, node: int) -> Operation:
        """The operation of an id that is neither source nor sink."""
        op = self.ops[node]
        if op is None:
            raise AssertionError(f"node {node} is not an operation")
        return op

    def name(self, node: int) -> str:
        """The name of a node."""
        op = self.ops[node]
        return op.name if op is not None else ("_SOURCE", "_SINK")[node]

    def type(self, node: int) -> str:
        """The op type of a node, "" for source and sink."""
        op = self.ops[node]
        return op.type if op is not None else ""

    def is_(self, node: int, types: Iterable[str]) -> bool:
        """Whether the op type is one of these."""
        return self.type(node) in types


def known_dims(tensor: Tensor) -> tuple[int | None, ...] | None:
    """Return the static shape; None if the rank is unknown, or shape inference fails."""
    try:
        return tensor.shape.as_tuple()
    except GraphError:
        return None

"""The loop of each node (core/graph/control_flow.cc), and the acyclic order for clustering."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from xlanb.clustering.graph_cycles import GraphCycles
from xlanb.clustering.node_graph import ENTER, EXIT, NEXT_ITERATION, SINK, SOURCE, NodeGraph
from xlanb.errors import GraphValueError


@dataclass(frozen=True, slots=True)
class ControlFlowFrame:
    """A node's loop: its Enter node (SOURCE outside of loops), the outer loop's Enter, and its
    name.
    """

    enter: int = SOURCE
    parent: int = SOURCE
    name: str = ""


def control_flow_info(graph: NodeGraph) -> list[ControlFlowFrame]:
    """Return the frame of every node, by id.

    Raises:
        GraphValueError: a node reads from two loops at once, an Enter has no frame, or a node is
            unreachable.
    """
    found: list[ControlFlowFrame | None] = [None] * len(graph)
    found[SOURCE] = found[SINK] = ControlFlowFrame()
    ready = deque([SOURCE])
    while ready:
        node = ready.popleft()
        inner = found[node] or ControlFlowFrame()
        outer = _left(inner, found) if graph.is_(node, EXIT) else inner
        for edge in graph.out_edges[node]:
            if edge.dst == SINK:
                continue
            known = found[edge.dst]
            if known is None:
                found[edge.dst] = _entered(graph, edge.dst, outer)
                ready.append(edge.dst)
                continue
            expected = (found[known.parent] or ControlFlowFrame()).name if graph.is_(edge.dst, ENTER) else known.name
            if expected != outer.name:
                raise GraphValueError(
                    f"{graph.op(edge.dst).describe()} has inputs from different frames: {graph.name(node)!r} is in "
                    f"frame {outer.name!r}, another input in frame {expected!r}"
                )
    lost = [graph.name(n) for n, frame in enumerate(found) if frame is None]
    if lost:
        raise GraphValueError(f"nodes that cannot be reached from any node without inputs: {', '.join(lost[:5])}")
    return [f or ControlFlowFrame() for f in found]


def _left(inner: ControlFlowFrame, found: list[ControlFlowFrame | None]) -> ControlFlowFrame:
    return found[inner.parent] or ControlFlowFrame()


def _entered(graph: NodeGraph, node: int, outer: ControlFlowFrame) -> ControlFlowFrame:
    if not graph.is_(node, ENTER):
        return outer
    name = graph.op(node).attrs.get("frame_name")
    if not name:
        raise GraphValueError(f"{graph.op(node).describe()} must have a frame_name")
    return ControlFlowFrame(node, outer.enter, str(name))


def full_frame(node: int, frames: list[ControlFlowFrame]) -> list[str]:
    """Names of the frames around a node, the innermost first."""
    names = []
    while node != SOURCE:
        frame = frames[node]
        names.append(frame.name)
        node = frame.parent
        if node == SOURCE:
            break
    return names


def root_frame(node: int, frames: list[ControlFlowFrame]) -> str:
    """Return the name of the outermost loop around a node, or ""."""
    while frames[node].parent != SOURCE:
        node = frames[node].parent
    return frames[node].name


def cycle_detection_graph(
    graph: NodeGraph, frames: list[ControlFlowFrame]
) -> tuple[GraphCycles, dict[int, str]] | None:
    """Return the graph in which contraction looks for cycles, and the names of added nodes.

    None if loops cannot be distinguished. From outside each loop is one node (with the edges to
    Enter and from Exit); inside it is cut open (edges from NextIteration are left out).

    Raises:
        GraphValueError: a cycle without loop operators; the message names its nodes.
    """
    cycles = GraphCycles(len(graph))
    frame_nodes: dict[str, int] = {}

    def frame_node(name: str) -> int:
        if name not in frame_nodes:
            frame_nodes[name] = cycles.new_node()
        return frame_nodes[name]

    for edge in graph.edges:
        enters, exits = graph.is_(edge.dst, ENTER), graph.is_(edge.src, EXIT)
        if enters or exits:
            src = frame_node(frames[edge.src].name) if exits else edge.src
            dst = frame_node(frames[edge.dst].name) if enters else edge.dst
            if not cycles.insert_edge(src, dst):
                return None
        elif not graph.is_(edge.src, NEXT_ITERATION) and not cycles.insert_edge(edge.src, edge.dst):
            path = cycles.path(edge.dst, edge.src) or []
            names = " -> ".join(graph.name(n) if n < len(graph) else "loop" for n in [*path, edge.dst])
            raise GraphValueError(f"found a cycle in the graph without control flow operators: {names}")
    return cycles, {node: name for name, node in frame_nodes.items()}

"""Frozen snapshots of TensorFlow graphs for observers and views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from xlanb.display import Displayable
from xlanb.lazy_dataclass import dataclass
from xlanb.stage import named_parts, size_text


@dataclass(frozen=True)
class NodeRecord(Displayable):
    """Snapshot of a node.

    `inputs` are GraphDef's: "a" or "a:1" for data, "^a" for control. `attributes` are printable.
    `outputs` describes each output as "f32[?,3]". `cluster` is its XLA cluster; if "", `reason`
    says why it has none. `source_file` and `source_line` are the Python line that made it (0:
    unknown).
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    device: str = ""
    cluster: str = ""
    reason: str = ""
    source_file: str = ""
    source_line: int = 0

    @property
    def essence(self) -> NodeRecord:
        """The node itself, without annotations, for comparison."""
        return replace(self, reason="") if self.reason else self


@dataclass(frozen=True)
class GraphRecord(Displayable):
    """Snapshot of a graph or a function's body; `functions` are those of its library."""

    name: str
    nodes: tuple[NodeRecord, ...]
    functions: tuple[GraphRecord, ...] = ()

    def __repr__(self) -> str:
        return f"<GraphRecord {self.name}: {len(self.nodes)} nodes>"

    @cached_property
    def by_name(self) -> Mapping[str, NodeRecord]:
        """Nodes by name."""
        return {n.name: n for n in self.nodes}


@named_parts.register
def _nodes(graph: GraphRecord) -> Mapping[str, Mapping[str, NodeRecord]]:
    """Return a function's nodes as "function:node", as their names may occur in the graph too."""
    functions = {f.name: {f"{f.name}:{n.name}": n for n in f.nodes} for f in graph.functions}
    return {**functions, "": graph.by_name}


@size_text.register
def _graph_size(graph: GraphRecord) -> str:
    return f"{len(graph.nodes):,} nodes"

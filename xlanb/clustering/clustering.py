"""Clustering: which node went where, and why; each cluster as a function and as HLO."""

from __future__ import annotations

from functools import cached_property

from xlanb.clustering.encapsulate_subgraphs import ClusterFunction, encapsulate_subgraphs
from xlanb.clustering.mark_for_compilation import Marking, mark_for_compilation
from xlanb.debug_options import DebugOptions
from xlanb.display import Displayable
from xlanb.errors import GraphError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Tensor
from xlanb.graph.records import GraphRecord
from xlanb.hlo import HloModule
from xlanb.shape.primitive_type import from_dtype
from xlanb.shape.shape import array
from xlanb.tf2xla.compiler import Argument, lower
from xlanb.tf2xla.shapes import constant_value
from xlanb.tracing import Predicate


class Cluster(Displayable):
    """One cluster: its nodes in the graph, and the function that encapsulate_subgraphs makes of them."""

    def __init__(self, name: str, nodes: list[str], function: ClusterFunction, origins: dict[str, Tensor]) -> None:
        self.name = name
        self.nodes = nodes
        self.function = function
        self._origins = origins

    def __len__(self) -> int:
        return len(self.nodes)

    @cached_property
    def hlo_module(self) -> HloModule:
        """The cluster lowered to HLO, for the shapes that the graph states.

        Raises:
            GraphError: a shape or a value that must be known is not; names the node.
        """
        f = self.function
        feeds = [(t, self._argument(t, index in f.constant_arguments)) for index, t in enumerate(f.arguments)]
        return lower(self.name, feeds, f.results, f.targets).module

    def _argument(self, tensor: Tensor, must_be_constant: bool) -> Argument:
        origin = self._origins[tensor.op.name]
        if must_be_constant and (value := constant_value(origin)) is not None:
            return Argument("constant", None, value, origin.name)
        is_handle = tensor.dtype.name == "resource"
        dtype = origin.op.attrs.get("dtype") if is_handle else tensor.dtype.base_dtype
        shape = origin.op.attrs.get("shape") if is_handle else origin.shape
        dims = None if shape is None else shape.as_tuple()
        if dtype is None or dims is None or None in dims:
            raise GraphError(f"{self.name} takes {origin.name!r}, whose shape {shape} is not known before it runs")
        kind = "variable" if is_handle else "parameter"
        return Argument(
            kind, array(from_dtype(dtype.as_numpy_dtype), [d for d in dims if d is not None]), None, origin.name
        )

    def record(self) -> GraphRecord:
        """The body as a graph."""
        return self.function.body.record()

    def __repr__(self) -> str:
        return f"<Cluster {self.name}: {len(self)} nodes, {len(self.function.arguments)} arguments, {len(self.function.results)} results>"


class Clustering(Displayable):
    """How a graph is divided: `cluster_of` gives each node's cluster or None, `clusters` the clusters themselves."""

    def __init__(self, marking: Marking) -> None:
        self._marking = marking
        self.graph = marking.graph
        self.cluster_of = marking.cluster_of

    @cached_property
    def clusters(self) -> list[Cluster]:
        """The clusters in the order of the graph."""
        found = encapsulate_subgraphs(self.graph)
        members: dict[str, list[str]] = {}
        for node, name in self.cluster_of.items():
            if name is not None:
                members.setdefault(name, []).append(node)
        clusters = []
        for name, nodes in members.items():
            function = found.functions[name]
            inside = set(nodes)
            inputs = dict.fromkeys(
                t
                for op in self.graph.topological_order()
                if op.name in inside
                for t in op.inputs
                if t.op.name not in inside
            )
            origins = {arg.op.name: t for arg, t in zip(function.arguments, inputs, strict=True)}
            clusters.append(Cluster(name, nodes, function, origins))
        return clusters

    def why(self, node: str, other: str | None = None) -> tuple[Predicate, ...]:
        """Every condition on a node with its outcome and TensorFlow's words; of two nodes, why their clusters were not merged.

        Raises:
            GraphError: there is no such node.
        """
        op = self.graph.get_operation_by_name(node)
        if other is None:
            return self._marking.predicates(op)
        second = self.graph.get_operation_by_name(other)
        if self.cluster_of[node] is not None and self.cluster_of[node] == self.cluster_of[other]:
            return (Predicate("both are in one cluster", True, str(self.cluster_of[node])),)
        out = [p for o in (op, second) for p in self._marking.predicates(o) if not p.holds]
        refusal = self._marking.refusals.get((node, other)) or self._marking.refusals.get((other, node))
        if refusal:
            out.append(Predicate("the two clusters may be merged", False, refusal))
        return tuple(out) or (
            Predicate("an edge joins their clusters", False, f"{node} and {other} do not feed each other"),
        )

    def record(self) -> GraphRecord:
        """The marked graph."""
        return self.graph.record()

    def __str__(self) -> str:
        lines = [repr(self)]
        lines += [f"  {c.name}: {len(c)} nodes" for c in self.clusters]
        lines += [
            f"  - {node}: {self._marking.reasons.get(node, '')}" for node, c in self.cluster_of.items() if c is None
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        inside = sum(c is not None for c in self.cluster_of.values())
        return f"<Clustering: {len(self.clusters)} clusters with {inside} of {len(self.cluster_of)} nodes>"


def cluster(graph: Graph, options: DebugOptions | None = None) -> Clustering:
    """Mark a graph for compilation, as a session with JIT does; the graph itself stays as it is.

    Raises:
        GraphError: the graph has a cycle outside of loops.
    """
    return Clustering(mark_for_compilation(graph, options, only_lowered=False))

"""Clustering: each node's cluster and the reasons, clusters as functions and HLO, TensorFlow's
passes.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any

from xlanb.boundary import boundary
from xlanb.clustering.build_xla_ops import build_xla_compile_and_run, build_xla_ops
from xlanb.clustering.clone_constants_for_better_clustering import clone_constants_for_better_clustering
from xlanb.clustering.cluster import Cluster
from xlanb.clustering.cluster_scoping_pass import SCOPE, cluster_scoping
from xlanb.clustering.contraction import ClusterState, EdgeContraction
from xlanb.clustering.dataflow import Dataflow, dataflow
from xlanb.clustering.diff import ClusteringDiff, ClusterSide
from xlanb.clustering.encapsulate_subgraphs import Encapsulated, encapsulate_subgraphs
from xlanb.clustering.force_xla_constants_on_host_pass import force_xla_constants_on_host
from xlanb.clustering.increase_dynamism_for_auto_jit_pass import increase_dynamism_for_auto_jit
from xlanb.clustering.mark_for_compilation import CLUSTER, Marking, mark_for_compilation
from xlanb.clustering.partially_decluster_pass import Declustering, partially_decluster
from xlanb.clustering.report_clustering_info_pass import AutoClusteringSummary, report_clustering_info
from xlanb.debug_options import DebugOptions, flags
from xlanb.display import Displayable
from xlanb.errors import GraphError
from xlanb.frames import framed
from xlanb.graph.foreign import graph_of, is_foreign
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.graph.records import GraphRecord
from xlanb.tf2xla.stand_in_shapes import Solution, stand_in_shapes
from xlanb.tracing import Cause, Decision, Predicate
from xlanb.why import Why

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class PassStage:
    """The graph after one of TensorFlow's passes, by the pass's name, and whether it changed."""

    name: str
    graph: Graph
    changed: bool


@dataclass(frozen=True)
class Request:
    """The arguments of a clustering, to repeat it with changes (see `cluster`)."""

    graph: Graph
    flags: DebugOptions
    global_jit_level: int
    cpu_global_jit: bool
    only_lowered: bool
    scopes: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    compile_nodes: Mapping[str, bool] = field(default_factory=dict)
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


class Clustering(Displayable):
    """The clusters of a graph: `cluster_of` maps each node to its cluster or None.

    Attributes:
        graph: the marked graph, after mark_for_compilation.
        cluster_of: cluster by node; clones of constants, which TensorFlow adds before, have names
            of their own.
        reasons: TensorFlow's text for each node that is in no cluster.
    """

    def __init__(self, request: Request, stages: list[PassStage], marking: Marking) -> None:
        self.request = request
        self._first = stages
        self._marking = marking
        self.graph = marking.graph
        self.cluster_of = marking.cluster_of
        self.reasons = marking.reasons

    # -------------------------------------------------------------------------------------- results

    @cached_property
    def _marked_functions(self) -> Encapsulated:
        return encapsulate_subgraphs(self.graph)

    @cached_property
    @boundary("encapsulate clusters as functions")
    def clusters(self) -> list[Cluster]:
        """The clusters in the order of the graph, as mark_for_compilation made them."""
        members: dict[str, list[str]] = {}
        for node, name in self.cluster_of.items():
            if name is not None:
                members.setdefault(name, []).append(node)
        functions = self._marked_functions.functions
        return [
            Cluster(name, nodes, functions[name], self.graph, lambda: self._stand_ins)
            for name, nodes in members.items()
        ]

    @cached_property
    def _stand_ins(self) -> Solution:
        """Return shapes of the clusters' inputs and compile-time values: the first that all can be
        lowered with.
        """
        functions = self._marked_functions.functions.values()
        tensors = {n: self.graph.get_tensor_by_name(n) for f in functions for n in f.sources}
        constants = [tensors[f.sources[i]] for f in functions for i in f.constant_arguments]
        first = [op.outputs[0] for op in self.graph if op.type == "_Arg" and op.outputs[0].name in tensors]
        wanted = [t for t in dict.fromkeys([*first, *tensors.values()]) if t.dtype.name != "variant"]
        solutions = []
        for solution in stand_in_shapes(self.graph, wanted, {}, constants):
            solutions.append(solution)
            if all(c.fits(solution) for c in self.clusters):
                return solution
        return solutions[0]

    @cached_property
    def dataflow(self) -> Dataflow:
        """The data flow between clusters: each tensor's output and parameter, with shapes."""
        return dataflow(self._marked_functions)

    @cached_property
    def declustering(self) -> Declustering:
        """The nodes that partially_decluster moves out of clusters, and the reasons."""
        return partially_decluster(self._dynamic)

    @cached_property
    def encapsulated(self) -> Encapsulated:
        """The graph with a call per cluster, and the functions by name, after all of TensorFlow's
        cluster passes.
        """
        return encapsulate_subgraphs(self.declustering.graph)

    @cached_property
    def launch_graph(self) -> Graph:
        """The graph that runs, as in 2017-2018: an XlaLaunch for each cluster."""
        return build_xla_ops(self.encapsulated).graph

    @cached_property
    def xla_ops_graph(self) -> Graph:
        """The executed graph, as in current TensorFlow: _XlaCompile, _XlaRun and _XlaMerge with the
        fallback call.
        """
        return build_xla_compile_and_run(self.encapsulated, is_lazy=self.request.flags.tf_xla_enable_lazy_compilation)

    @cached_property
    def summary(self) -> AutoClusteringSummary:
        """Counts of nodes and op types, inside and outside, as report_clustering_info has them."""
        return report_clustering_info(self.declustering.graph)

    @cached_property
    def _on_host(self) -> Graph:
        return force_xla_constants_on_host(self.graph)

    @cached_property
    def _dynamic(self) -> Graph:
        return increase_dynamism_for_auto_jit(self._on_host)

    @cached_property
    def stages(self) -> list[PassStage]:
        """The graph after each of TensorFlow's passes, in order."""
        return [*self._first, *self.later_stages()]

    def later_stages(self) -> Iterator[PassStage]:
        """Yield the passes after mark_for_compilation; each runs on demand."""
        yield PassStage("force_xla_constants_on_host", self._on_host, self._on_host is not self.graph)
        yield PassStage("increase_dynamism_for_auto_jit", self._dynamic, self._dynamic is not self._on_host)
        declustered = self.declustering.graph
        yield PassStage("partially_decluster", declustered, bool(self.declustering.reasons))
        yield PassStage("report_clustering_info", declustered, False)
        has_clusters = bool(self.encapsulated.functions)
        yield PassStage("encapsulate_subgraphs", self.encapsulated.graph, has_clusters)
        yield PassStage("build_xla_ops", self.xla_ops_graph, has_clusters)

    # ------------------------------------------------------------------------------------------ why

    @boundary("explain a clustering")
    def why(self, node: str, other: str | None = None) -> Why:
        """Return every condition on a node with its result; for two nodes, why they are not one
        cluster.

        Raises:
            GraphError: there is no such node.
        """
        op = self.graph.get_operation_by_name(node)
        if other is not None:
            return self._why_two(op, self.graph.get_operation_by_name(other))
        found = self._marking.predicates(op)
        name = self.cluster_of[node]
        if name is None:
            outcome = "in no cluster"
        else:
            reason = self.declustering.reasons.get(node, "")
            found = (*found, Predicate("stays in its cluster (partially_decluster)", not reason, reason))
            outcome = f"removed from {name} again" if reason else f"in {name}"
        decision = Decision(Cause("mark_for_compilation"), "cluster", (node,), all(p.holds for p in found), found)
        about = f"{op.name} ({op.type})"
        return Why(
            (node,), (decision,), question=f"Is {about} in a cluster?", answer=outcome, about=about, by_condition=True
        )

    def _why_two(self, first: Operation, second: Operation) -> Why:
        """Why two nodes are in one cluster, or are not."""
        names = [self.cluster_of[op.name] for op in (first, second)]
        if names[0] is not None and names[0] == names[1]:
            both = Predicate("both are in one cluster", True, names[0])
            return self._of_two(first, second, f"both in {names[0]}", (both,), taken=True)
        against = [
            p._replace(name=f"{op.name}: {p.name}")
            for op in (first, second)
            for p in self._marking.predicates(op)
            if not p.holds
        ]
        outcome = " and ".join(f"in {name}" if name else "in no cluster" for name in names)
        return self._of_two(first, second, outcome, (*against, *self._pair(first.name, second.name)))

    @staticmethod
    def _of_two(
        first: Operation, second: Operation, answer: str, predicates: tuple[Predicate, ...], *, taken: bool = False
    ) -> Why:
        subject = (first.name, second.name)
        decision = Decision(Cause("mark_for_compilation"), "same cluster", subject, taken, predicates)
        about = " and ".join(f"{op.name} ({op.type})" for op in (first, second))
        question = f"Are {about} in one cluster?"
        return Why(subject, (decision,), question=question, answer=answer, about=about, by_condition=True)

    def _states(self, node: str, other: str) -> tuple[EdgeContraction, ClusterState, ClusterState] | None:
        """Return two candidates' final clusters in contraction, the earlier first."""
        contraction = self._marking.contraction
        if contraction is None:
            return None
        ids = contraction.graph.ids
        states = [contraction.cluster_at(ids[self.graph.get_operation_by_name(n)]) for n in (node, other)]
        start, to = states
        if start is None or to is None or start is to:
            return None
        if contraction.cycles.path(to.node, start.node) is not None:
            start, to = to, start
        return contraction, start, to

    def _pair(self, node: str, other: str) -> tuple[Predicate, ...]:
        found = self._states(node, other)
        if found is None:
            return ()
        contraction, start, to = found
        is_joined = contraction.cycles.has_edge(start.node, to.node)
        text = f"{contraction.show(start)} -> {contraction.show(to)}"
        joined = Predicate(
            "an edge connects their clusters",
            is_joined,
            text if is_joined else f"no edge {text}: only edges are contracted",
        )
        conflicts = ", ".join(contraction.resource_conflicts(start, to))
        return (
            joined,
            *(
                p._replace(value=f"{p.value}: {conflicts}")
                if not p.holds and "resource" in p.value and conflicts
                else p
                for p in contraction.predicates(start, to)
            ),
        )

    def path(self, node: str, other: str) -> tuple[str, ...]:
        """Return the cycle that merging two nodes' clusters would close, or () if there is none.

        It is the path from one to the other besides the edge between them, as names of nodes,
        clusters and loops.

        Raises:
            GraphError: there is no such node.
        """
        found = self._states(node, other)
        if found is None:
            return ()
        contraction, start, to = found
        between = contraction.alternate_path(start, to)
        return () if between is None else tuple(contraction.label(n) for n in (start.node, *between, to.node))

    def deadness(self, node: str) -> str:
        """Return when a node is alive, in TensorFlow's syntax: "#true", "(*p:0 & ~*q:0)".

        Raises:
            GraphError: there is no such node.
        """
        contraction = self._marking.contraction
        op = self.graph.get_operation_by_name(node)
        if contraction is None or contraction.deadness is None:
            return "not analysed"
        return str(contraction.deadness.of(contraction.graph.ids[op]))

    @property
    def refusals(self) -> dict[tuple[str, str], str]:
        """For each edge between two clusters, why they were not merged, in TensorFlow's words."""
        return self._marking.refusals

    # -------------------------------------------------------------------------------------- what if

    def what_if(self, **changes: Any) -> ClusteringDiff:
        """Cluster again with other arguments of `cluster`, and return the difference.

        Arguments: flags, `global_jit_level`, `scopes`, `devices`, `compile_nodes`, `shapes`.
        """
        asked = self.request
        settings: dict[str, Any] = {
            "options": asked.flags,
            "global_jit_level": asked.global_jit_level,
            "cpu_global_jit": asked.cpu_global_jit,
            "only_lowered": asked.only_lowered,
            "scopes": asked.scopes,
            "devices": asked.devices,
            "compile_nodes": asked.compile_nodes,
            "shapes": asked.shapes,
        }
        return self.diff(cluster(asked.graph, **{**settings, **changes}))

    def diff(self, other: Clustering) -> ClusteringDiff:
        """Compare with another clustering of this graph, or of a similar one."""
        return ClusteringDiff(self._side(), other._side())

    def _side(self) -> ClusterSide:
        return ClusterSide(self.cluster_of, {op.name: op.type for op in self.graph}, self.reasons)

    # ----------------------------------------------------------------------------------------- show

    def record(self) -> GraphRecord:
        """The marked graph."""
        return self.graph.record()

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per node: node, op, cluster ("" outside), why, reason.

        `why` says why the node is outside ("" inside); `reason` is the same without the node's
        name, for counting.
        """
        rows = []
        for op in self.graph:
            cluster, why = self.cluster_of[op.name] or "", self.reasons.get(op.name, "")
            rows.append((op.name, op.type, cluster, why, why.partition(" compatible with node ")[0]))
        return framed(rows, ["node", "op", "cluster", "why", "reason"])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Tables shown with the picture: the clusters, the flows between them, and the nodes
        outside with the reason.
        """
        import pandas as pd

        rows = []
        for c in self.clusters:
            f = c.function
            constants, resources = len(f.constant_arguments), len(f.resource_arguments)
            rows.append((c.name, len(c), len(f.arguments), constants, resources, len(f.results), f.device))
        columns = [
            "cluster",
            "nodes",
            "arguments",
            "of which are constant",
            "of which are variables",
            "results",
            "device",
        ]
        outside = [
            (op.name, op.type, self.reasons.get(op.name, "")) for op in self.graph if self.cluster_of[op.name] is None
        ]
        between = Dataflow(self.dataflow.between_clusters, self.dataflow.clusters)
        return (
            ("Clusters", pd.DataFrame(rows, columns=columns)),
            ("Data flow between clusters", between.table()),
            ("Nodes in no cluster, and why", pd.DataFrame(outside, columns=["node", "op", "why"])),
        )

    def __str__(self) -> str:
        lines = [repr(self)]
        lines += [f"  {c.name}: {len(c)} nodes" for c in self.clusters]
        lines += [f"  - {node}: {self.reasons.get(node, '')}" for node, c in self.cluster_of.items() if c is None]
        return "\n".join(lines)

    def __repr__(self) -> str:
        names = {c for c in self.cluster_of.values() if c is not None}
        inside = sum(c is not None for c in self.cluster_of.values())
        return f"<Clustering: {len(names)} clusters with {inside} of {len(self.cluster_of)} nodes>"


@boundary("cluster a graph")
def cluster(
    graph: Any,
    *args: Any,
    options: DebugOptions | None = None,
    global_jit_level: int | None = None,
    cpu_global_jit: bool = True,
    only_lowered: bool = False,
    scopes: Mapping[str, str] | None = None,
    devices: Mapping[str, str] | None = None,
    compile_nodes: Mapping[str, bool] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    batch: int | None = None,
    **values: Any,
) -> Clustering:
    """Cluster a graph as a session with JIT on does; the graph itself is not changed.

    Args:
        graph: the graph, with Placeholders for arguments. Or a TensorFlow program as in
            `Graph.from_tensorflow`, with its arguments in `args`.
        options: flags; by default those in force. `values` changes some by name:
            tf_xla_min_cluster_size=1.
        global_jit_level: 0 compiles only nodes that `_XlaCompile` or their device requests; by
            default the flag tf_xla_auto_jit, else 1.
        cpu_global_jit: whether CPU nodes are compiled by default.
        only_lowered: exclude nodes that xlanb cannot lower although TensorFlow can.
        scopes: patterns of node names ("layer1/*") -> XLA scope: nodes of two scopes never share a
            cluster.
        devices: patterns -> device.
        compile_nodes: patterns -> whether to compile (`_XlaCompile`).
        shapes: names of tensors -> shape, if the graph does not state it.
        batch: the size of the first dimension of a Keras model's inputs, if the model leaves it
            open.

    Raises:
        GraphError: the graph has a cycle outside of loops, or a malformed loop, or there is no such
            tensor.
        FlagError: an unknown flag, or an op type that XLA does not know.
    """
    if is_foreign(graph):
        graph = graph_of(graph, *args, batch=batch)
    elif not isinstance(graph, Graph) or args:
        raise GraphError(
            "expected a Graph, or a TensorFlow program with its arguments, got "
            f"{graph!r}{' with arguments' if args else ''}"
        )
    asked = _asked(options, values)
    level = max(0, asked.tf_xla_auto_jit or 1) if global_jit_level is None else global_jit_level
    request = Request(
        graph,
        asked,
        level,
        cpu_global_jit,
        only_lowered,
        scopes or {},
        devices or {},
        compile_nodes or {},
        shapes or {},
    )
    steps = marking_steps(request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Clustering = end.value
            return found


def marking_steps(request: Request, numbers: Iterator[int] | None = None) -> Generator[PassStage, None, Clustering]:
    """Run the passes up to mark_for_compilation, one per `next()`; return the Clustering.

    Its `later_stages` follow. Clusters are numbered from `numbers`.

    Raises:
        GraphError: as for `cluster`.
        FlagError: as for `cluster`.
    """
    level = request.global_jit_level
    changed = _with_overrides(request)
    cloned = clone_constants_for_better_clustering(changed) if level > 0 else changed
    stages = [PassStage("clone_constants_for_better_clustering", cloned, cloned is not changed)]
    yield stages[-1]
    scoped = cluster_scoping(cloned) if level > 0 else cloned
    stages.append(PassStage("cluster_scoping", scoped, scoped is not cloned))
    yield stages[-1]
    marking = mark_for_compilation(
        scoped,
        request.flags,
        global_jit_level=level,
        cpu_global_jit=request.cpu_global_jit,
        only_lowered=request.only_lowered,
        numbers=numbers,
    )
    was_marked = any(CLUSTER in op.attrs for op in marking.graph)
    stages.append(PassStage("mark_for_compilation", marking.graph, was_marked))
    yield stages[-1]
    return Clustering(request, stages, marking)


def _asked(options: DebugOptions | None, values: Mapping[str, Any]) -> DebugOptions:
    with flags(**values) as checked:
        return checked if options is None else replace(options, **values)


def _with_overrides(request: Request) -> Graph:
    """Copy the graph with the requested scopes, devices, attributes and shapes; itself if there are
    none.
    """
    if not (request.scopes or request.devices or request.compile_nodes or request.shapes):
        return request.graph
    graph = request.graph.copy()
    for name, dims in request.shapes.items():
        graph.get_tensor_by_name(name).set_shape(dims)
    # A session without JIT uses the program's scopes, one with JIT those of TensorFlow's passes.
    scope = SCOPE if request.global_jit_level > 0 else "_XlaScope"
    for op in graph:
        for pattern, value in request.scopes.items():
            if fnmatchcase(op.name, pattern):
                op.set_attr(scope, value)
        for pattern, device in request.devices.items():
            if fnmatchcase(op.name, pattern):
                op.set_device(device)
        for pattern, is_wanted in request.compile_nodes.items():
            if fnmatchcase(op.name, pattern):
                op.set_attr("_XlaCompile", is_wanted)
    return graph

"""Form clusters of nodes to compile together (TensorFlow's mark_for_compilation_pass.cc).

Every node that can be compiled starts as a cluster of its own. Edges between clusters are
contracted, consumers first, in three phases, as long as the conditions on the two clusters hold and
there is no cycle, in which two clusters would wait for each other. Clusters below the minimum size
are dropped.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import count

from xlanb.clustering.backwards_const_analysis import check_arity
from xlanb.clustering.candidates import LOG, Candidates, MarkingOptions
from xlanb.clustering.contraction import ClusterState, EdgeContraction
from xlanb.clustering.devices import pick_device
from xlanb.clustering.node_graph import NodeGraph
from xlanb.debug_options import DebugOptions, current
from xlanb.errors import GraphValueError
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.tracing import Cause, Decision, Predicate, emit, is_observed

CLUSTER = "_XlaCluster"
ALREADY_CLUSTERED = "_XlaAlreadyClustered"
REASON = "_xla_why_not"


class Marking:
    """The result: `cluster_of` every node (None: not compiled), and `reasons` of nodes outside.

    Attributes:
        graph: the marked copy; nodes have `_XlaCluster` or the reason why not.
        cluster_of: cluster by node, in the order of the graph.
        reasons: TensorFlow's text for each node outside of clusters.
        candidates, contraction: the pass's final state, for explanations; None if the graph had
        been clustered before.
    """

    def __init__(self, graph: Graph, options: MarkingOptions, numbers: Iterator[int]) -> None:
        self.graph = graph
        self.options = options
        self.cluster_of: dict[str, str | None] = dict.fromkeys((op.name for op in graph), None)
        self.reasons: dict[str, str] = {}
        self.candidates: Candidates | None = None
        self.contraction: EdgeContraction | None = None
        if any(ALREADY_CLUSTERED in op.attrs for op in graph):
            self.cluster_of = {op.name: op.attrs.get(CLUSTER) for op in graph}
            return
        check_arity(graph)
        order = graph.topological_order()
        nodes = NodeGraph(graph)
        ids = [nodes.ids[op] for op in order]
        self.candidates = Candidates(nodes, ids, options)
        self.contraction = EdgeContraction(nodes, ids, self.candidates.found, options)
        self.reasons.update(self.candidates.reasons)
        if self.contraction.is_possible:
            self.contraction.run()
            self._create_clusters(self.candidates, self.contraction, numbers)
        else:
            text = "could not form cycle detection graph"
            self.reasons.update(dict.fromkeys((nodes.name(n) for n in self.candidates.found), text))

    def _create_clusters(self, candidates: Candidates, contraction: EdgeContraction, numbers: Iterator[int]) -> None:
        """Name the clusters in the order of the graph, those below the minimum size left out."""
        names: dict[ClusterState, str] = {}
        prefix = "cluster_"
        if self.options.flags.tf_xla_deterministic_cluster_names:
            digest = hashlib.blake2b(self.graph.to_graphdef(), digest_size=8).digest()
            prefix += f"{int.from_bytes(digest, 'big')}_"
            numbers = count()
        for node in candidates.found:
            op = contraction.graph.op(node)
            reason = next((p.value for p in self._size_predicates(op) if not p.holds), "")
            if reason:
                self.reasons[op.name] = reason
                continue
            cluster = contraction.cluster_at(node)
            if cluster is not None:
                if cluster not in names:
                    names[cluster] = f"{prefix}{next(numbers)}"
                self.cluster_of[op.name] = names[cluster]

    def _size_predicates(self, op: Operation) -> Iterator[Predicate]:
        """The last conditions: on the cluster that the node came into."""
        contraction = self.contraction
        cluster = contraction.cluster_at(contraction.graph.ids[op]) if contraction is not None else None
        if contraction is None or cluster is None:
            return
        device = pick_device(sorted(cluster.devices))
        asked = self.options.compiles(device, is_asked=cluster.is_asked_for)
        yield Predicate(
            "its cluster's device supports compilation",
            asked,
            device if asked else f"Not compiling cluster with device {device}",
        )
        lonely = _is_lonely_fill(op, cluster, contraction)
        text = "Fill whose users are all outside of the cluster: filled where it is used"
        yield Predicate("is not a Fill used only outside of its cluster", not lonely, text if lonely else "")
        least = self.options.flags.tf_xla_min_cluster_size
        size = cluster.effective_size
        big = size >= least or cluster.has_functional_control_flow or cluster.is_asked_for
        counted = f"{size} operation{'s' * (size != 1)}"
        why = (
            f"its cluster would have {counted}, fewer than tf_xla_min_cluster_size={least} (not counting Const and "
            "Identity)"
        )
        yield Predicate("its cluster has the minimum size", big, counted if big else why)

    def predicates(self, op: Operation) -> tuple[Predicate, ...]:
        """Every condition on a node with its outcome, the size of its cluster last."""
        if self.candidates is None:
            return (Predicate("the graph has not been clustered before", False, f"{ALREADY_CLUSTERED} is set"),)
        return (*self.candidates.predicates(op), *self._size_predicates(op))

    @cached_property
    def refusals(self) -> dict[tuple[str, str], str]:
        """For each edge between nodes of two final clusters, why they were not merged."""
        contraction = self.contraction
        if contraction is None:
            return {}
        known: dict[tuple[ClusterState, ClusterState], str] = {}
        found: dict[tuple[str, str], str] = {}
        for edge in contraction.graph.edges:
            start, to = contraction.cluster_at(edge.src), contraction.cluster_at(edge.dst)
            if start is None or to is None or start is to:
                continue
            if (start, to) not in known:
                known[start, to] = contraction.objection(start, to)
            found[contraction.graph.name(edge.src), contraction.graph.name(edge.dst)] = known[start, to]
        return found


def mark_for_compilation(
    graph: Graph,
    options: DebugOptions | None = None,
    *,
    global_jit_level: int = 1,
    cpu_global_jit: bool = True,
    only_lowered: bool = True,
    numbers: Iterator[int] | None = None,
) -> Marking:
    """Mark a copy of `graph`: its nodes get `_XlaCluster`, or the reason why not.

    By default as in a session with JIT on, where nodes that xlanb cannot lower stay outside
    (`only_lowered`), unlike in TensorFlow. Clusters are numbered from `numbers`, by default from 0;
    TensorFlow, and a session here, continue the numbers from graph to graph.

    Raises:
        GraphError: the graph has a cycle, or a malformed loop, or a node's `_XlaCluster` is not a
            text.
        FlagError: a flag names an op type that XLA does not know.
    """
    for op in graph:
        if not isinstance(given := op.attrs.get(CLUSTER, ""), str):
            raise GraphValueError(
                f"node {op.name!r}: the attribute {CLUSTER!r} must be a cluster's name, not {given!r}"
            )
    wanted = MarkingOptions(options or current(), global_jit_level, cpu_global_jit, only_lowered)
    marking = Marking(graph.copy(), wanted, count() if numbers is None else numbers)
    for op in marking.graph:
        cluster = marking.cluster_of[op.name]
        if cluster is not None:
            note(op, **{CLUSTER: cluster, ALREADY_CLUSTERED: True})
        elif op.name in marking.reasons:
            note(op, **{REASON: marking.reasons[op.name]})
    _log_summary(marking)
    if is_observed():
        _explain(marking)
    return marking


def _is_lonely_fill(op: Operation, cluster: ClusterState, contraction: EdgeContraction) -> bool:
    if op.type != "Fill":
        return False
    readers = (contraction.cluster_at(e.dst) for e in contraction.graph.out_edges[contraction.graph.ids[op]])
    return all(reader is not cluster for reader in readers)


def note(op: Operation, **attrs: object) -> None:
    """Set attributes about clusters, which leave all shapes valid."""
    op.attrs.update(attrs)
    op.graph.touch()


def _log_summary(marking: Marking) -> None:
    if not LOG.is_on(1):
        return
    sizes = Counter(c for c in marking.cluster_of.values() if c is not None)
    total = max(1, len(marking.cluster_of))
    inside = sum(sizes.values())
    LOG.vlog(1, "*** Clustering info for graph of size %d", len(marking.cluster_of))
    LOG.vlog(1, " Built %d clusters, size %d / %d (%.2f%%)", len(sizes), inside, total, 100 * inside / total)
    for name, size in sizes.items():
        LOG.vlog(1, "  %s %d / %d (%.2f%%)", name, size, total, 100 * size / total)
    LOG.vlog(1, " Unclustered nodes: %d / %d (%.2f%%)", total - inside, total, 100 - 100 * inside / total)


def _explain(marking: Marking) -> None:
    cause = Cause(pass_name="mark_for_compilation")
    for op in marking.graph:
        taken = marking.cluster_of[op.name] is not None
        emit(Decision(cause, "cluster", (op.name,), taken, marking.predicates(op)))
    for (a, b), reason in marking.refusals.items():
        emit(Decision(cause, "contract", (a, b), False, (Predicate("the two clusters may be merged", False, reason),)))

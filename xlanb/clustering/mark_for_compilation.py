"""Which nodes XLA compiles, and together with which (TensorFlow's mark_for_compilation_pass.cc).

Every node that can be compiled starts as a cluster of its own. Edges between clusters are contracted, consumers first, again and again until nothing moves, as long as no
cycle arises: a cycle would be two clusters that wait for each other. Clusters below the minimum size are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from xlanb.clustering.compilability import evaluate, reason_against
from xlanb.clustering.graph_cycles import GraphCycles
from xlanb.debug_options import DebugOptions, current
from xlanb.graph.graph import Graph
from xlanb.graph.operation import Operation
from xlanb.tracing import Cause, Decision, Predicate, emit, is_observed

CLUSTER = "_XlaCluster"
REASON = "_xla_why_not"
_TRIVIAL = frozenset({"Identity", "Const"})  # they count nothing towards the minimum size
_EMPTY = _TRIVIAL | {"NoOp"}


@dataclass
class Marking:
    """The outcome: `cluster_of` every node (None: not compiled), and `reasons` of those that stay out.

    `refusals` gives the reason for each edge between nodes of two clusters that were not merged.
    """

    graph: Graph
    cluster_of: dict[str, str | None]
    reasons: dict[str, str]
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)


def mark_for_compilation(graph: Graph, options: DebugOptions | None = None) -> Marking:
    """Mark a copy of `graph`: its nodes bear `_XlaCluster`, or the reason why not.

    Raises:
        GraphError: the graph has a cycle.
    """
    options = options or current()
    graph = graph.copy()
    state = _Contraction(graph, options)
    state.run()
    marking = state.finish()
    for op in graph:
        cluster = marking.cluster_of[op.name]
        if cluster is not None:
            op.set_attr(CLUSTER, cluster)
        elif op.name in marking.reasons:
            op.set_attr(REASON, marking.reasons[op.name])
    if is_observed():
        _explain(graph, marking)
    return marking


class _Contraction:
    """Clusters as a union-find over node numbers, kept free of cycles."""

    def __init__(self, graph: Graph, options: DebugOptions) -> None:
        self.graph = graph
        self.options = options
        self.ops = graph.topological_order()
        self.number = {op: i for i, op in enumerate(self.ops)}
        self.reasons = {op.name: reason_against(op) for op in self.ops}
        self.members: dict[int, list[int]] = {i: [i] for i, op in enumerate(self.ops) if not self.reasons[op.name]}
        self.cycles = GraphCycles(len(self.ops))
        for op in self.ops:
            for before in (*(t.op for t in op.inputs), *op.control_inputs):
                self.cycles.insert_edge(self.number[before], self.number[op])

    def run(self) -> None:
        """Contract edges until none can be."""
        changed = True
        while changed:
            changed = False
            for node in list(self.cycles.post_order()):
                for successor in self.cycles.successors(node):
                    changed |= self._try(node, successor)

    def _try(self, a: int, b: int) -> bool:
        if a not in self.members or b not in self.members or not self.cycles.has_edge(a, b) or self._refusal(a, b):
            return False
        self.cycles.contract_edge(a, b)
        self.members[a] += self.members.pop(b)
        return True

    def _refusal(self, a: int, b: int) -> str:
        """Why two clusters that share an edge may not become one, "" if they may."""
        size = self._size(a) + self._size(b)
        if size > self.options.tf_xla_max_cluster_size:
            return f"the new cluster would have {size} operations, more than tf_xla_max_cluster_size"
        path = self.cycles.path(a, b, avoiding_edge=True)
        if path is not None:
            return f"contracting the edge would create a cycle via [{', '.join(self.ops[n].name for n in path[1:-1])}]"
        return ""

    def _refusals(self) -> dict[tuple[str, str], str]:
        """For each edge of the graph between two clusters, why they are two."""
        leader = {self.ops[n]: lead for lead, numbers in self.members.items() for n in numbers}
        found: dict[tuple[str, str], str] = {}
        for op in self.ops:
            for before in dict.fromkeys((*(t.op for t in op.inputs), *op.control_inputs)):
                if op in leader and before in leader and leader[op] != leader[before]:
                    found[before.name, op.name] = self._refusal(leader[before], leader[op])
        return found

    def _size(self, leader: int) -> int:
        return sum(self.ops[n].type not in _TRIVIAL for n in self.members[leader])

    def finish(self) -> Marking:
        """Number the clusters in the order of the graph, those below the minimum size left out."""
        cluster_of: dict[str, str | None] = dict.fromkeys((op.name for op in self.ops), None)
        order = sorted(self.members, key=lambda leader: min(self.members[leader]))
        count = 0
        for leader in order:
            size = self._size(leader)
            ops = [self.ops[n] for n in self.members[leader]]
            forced = any(op.attrs.get("_XlaCompile") is True for op in ops)
            reason = self._too_small(size, forced=forced)
            if all(op.type in _EMPTY for op in ops):
                reason = "its cluster would compute nothing"
            if reason:
                self.reasons.update(dict.fromkeys((op.name for op in ops), reason))
                continue
            cluster_of.update(dict.fromkeys((op.name for op in ops), f"cluster_{count}"))
            count += 1
        ordered = {op.name: cluster_of[op.name] for op in self.graph}
        return Marking(self.graph, ordered, {n: r for n, r in self.reasons.items() if r}, self._refusals())

    def _too_small(self, size: int, *, forced: bool) -> str:
        least = self.options.tf_xla_min_cluster_size
        if size >= least or (forced and size):
            return ""
        return f"its cluster would have {size} operation{'s' * (size != 1)}, fewer than tf_xla_min_cluster_size={least} (Const and Identity do not count)"


def predicates(op: Operation, marking: Marking) -> tuple[Predicate, ...]:
    """Every condition on a node with its outcome, the size of its cluster last."""
    found = evaluate(op)
    if all(p.holds for p in found):
        reason = marking.reasons.get(op.name, "")
        found.append(
            Predicate("its cluster has the minimum size", not reason, reason or str(marking.cluster_of.get(op.name)))
        )
    return tuple(found)


def _explain(graph: Graph, marking: Marking) -> None:
    cause = Cause(pass_name="mark_for_compilation")
    for op in graph:
        emit(Decision(cause, "cluster", (op.name,), marking.cluster_of[op.name] is not None, predicates(op, marking)))
    for (a, b), reason in marking.refusals.items():
        emit(Decision(cause, "contract", (a, b), False, (Predicate("the two clusters may be merged", False, reason),)))

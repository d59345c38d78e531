"""Form clusters by contracting edges: the conditions on a pair of clusters, and the phases.

This is the second half of mark_for_compilation_pass.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from xlanb.clustering.candidates import LOG, MarkingOptions, is_asked_for
from xlanb.clustering.control_flow import control_flow_info, cycle_detection_graph
from xlanb.clustering.deadness_analysis import DeadnessAnalysis
from xlanb.clustering.devices import compilation_device, device_of, pick_device
from xlanb.clustering.graph_cycles import GraphCycles
from xlanb.clustering.liveness_predicates import Liveness
from xlanb.clustering.node_graph import CONSTANT, IDENTITY, NodeGraph
from xlanb.clustering.resource_operation_safety_analysis import (
    describe_access,
    has_resource,
    incompatible_resource_operations,
    may_call_function,
)
from xlanb.conditions import Condition, asked, first_failing, objecting
from xlanb.graph.operation import Operation
from xlanb.tracing import Predicate

_SHAPE_CONSUMERS = frozenset({"Shape", "Rank", "Size"})
_FUNCTIONAL = frozenset({"While", "StatelessWhile", "If", "StatelessIf"})


@dataclass(eq=False, slots=True)
class ClusterState:
    """A cluster during contraction.

    `node` represents it in the cycle graph; `size` counts all nodes, `effective_size` those that
    are neither Identity nor Const; `resources` are its operations on resources, `resource_device`
    their device; `alive` says when it runs (None: unknown).
    """

    node: int
    members: list[int]
    effective_size: int
    has_functional_control_flow: bool
    devices: frozenset[str]
    resource_device: str
    resources: set[int]
    alive: Liveness | None
    is_asked_for: bool
    scope: str
    merged_into: ClusterState | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self.members)

    def absorb(self, other: ClusterState) -> None:
        """Take over another cluster."""
        self.members += other.members
        self.effective_size += other.effective_size
        self.has_functional_control_flow |= other.has_functional_control_flow
        self.devices |= other.devices
        self.resource_device = self.resource_device or other.resource_device
        self.resources |= other.resources
        self.is_asked_for |= other.is_asked_for
        self.scope = self.scope or other.scope
        other.merged_into = self

    def root(self) -> ClusterState:
        """The cluster that this one was merged into, in the end (with path halving)."""
        state = self
        while state.merged_into is not None:
            state.merged_into = state.merged_into.merged_into or state.merged_into
            state = state.merged_into
        return state


Objection = Callable[[ClusterState, ClusterState], str]


Pair: TypeAlias = tuple[ClusterState, ClusterState]


class EdgeContraction:
    """The clusters of one graph, initially one per candidate.

    `is_possible` is False if loops cannot be distinguished; then nothing is clustered.
    """

    def __init__(self, graph: NodeGraph, order: list[int], candidates: list[int], options: MarkingOptions) -> None:
        self.graph = graph
        self.options = options
        frames = control_flow_info(graph)
        made = cycle_detection_graph(graph, frames)
        self.is_possible = made is not None
        self.cycles, self._frame_names = made if made is not None else (GraphCycles(len(graph)), {})
        flags = options.flags
        is_ignored = flags.tf_xla_disable_deadness_safety_checks_for_debugging or not self.is_possible
        self.deadness = None if is_ignored else DeadnessAnalysis(graph, frames)
        self.unsafe = incompatible_resource_operations(graph, order, _is_always_compiled)
        self._at: list[ClusterState | None] = [None] * len(graph)
        for node in candidates:
            self._at[node] = self._single(node)
        self._picked: dict[frozenset[str], str] = {}
        self._known_cycles: dict[tuple[int, int], str] = {}
        self.conditions = self._conditions()
        self._quick = self.conditions[:-1]
        self._log_unsafe()

    def _single(self, node: int) -> ClusterState:
        op = self.graph.op(node)
        device = device_of(op)
        touches = has_resource(op)
        # A session with JIT uses the scopes of TensorFlow's passes, one without the program's.
        scope = op.attrs.get("_XlaInternalScope" if self.options.global_jit_level > 0 else "_XlaScope")
        return ClusterState(
            node,
            [node],
            0 if op.type in IDENTITY or op.type in CONSTANT else 1,
            op.type in _FUNCTIONAL,
            frozenset((device,)),
            device if touches else "",
            {node} if touches or may_call_function(op) else set(),
            None if self.deadness is None else self.deadness.of(node),
            is_asked_for(op, self.options),
            str(scope or ""),
        )

    def cluster_at(self, node: int) -> ClusterState | None:
        """The cluster that a node, or a node of the cycle graph, belongs to now."""
        cluster = self._at[node] if node < len(self._at) else None
        if cluster is None or cluster.merged_into is None:
            return cluster
        root = self._at[node] = cluster.root()
        return root

    # --------------------------------------------------------------------------------------- phases

    def run(self) -> None:
        """Contract edges in three phases.

        First shape consumers into their inputs; then all edges but those to ends of steps and from
        counters; then the rest.
        """
        self._each_edge(lambda _, to: self._is_shape_consumer(to))
        self._each_edge(lambda start, to: not self._is_sink_like(to) and not self._is_counter(start))
        self._each_edge(lambda _start, _to: True)

    def _each_edge(self, is_wanted: Callable[[ClusterState, ClusterState], bool]) -> None:
        for node in self.cycles.post_order():
            start = self.cluster_at(node)
            if start is None:
                continue
            for successor in self.cycles.successors(start.node):
                to = self.cluster_at(successor)
                if to is not None and is_wanted(start, to):
                    self._try(start, to)

    def _try(self, start: ClusterState, to: ClusterState) -> None:
        failed = first_failing(self._quick, (start, to))
        objection = "" if failed is None else self._quick[failed].value((start, to))
        if failed is None:
            merged = self.cycles.contract_edge(start.node, to.node)
            if merged is not None:
                start.absorb(to)
                start.node = merged
                return
            objection = "cycle"
        if LOG.is_on(3):
            reason = self._cycle(start, to) if objection == "cycle" else objection
            LOG.vlog(3, "Could not contract %s -> %s because %s.", self.show(start), self.show(to), reason)

    def _only_op(self, cluster: ClusterState) -> Operation | None:
        return self.graph.op(cluster.members[0]) if cluster.size == 1 else None

    def _is_shape_consumer(self, cluster: ClusterState) -> bool:
        op = self._only_op(cluster)
        return op is not None and op.type in _SHAPE_CONSUMERS

    def _is_sink_like(self, cluster: ClusterState) -> bool:
        """A NoOp on which no node depends: the end of a step."""
        op = self._only_op(cluster)
        return op is not None and op.type == "NoOp" and not op.control_outputs

    def _is_counter(self, cluster: ClusterState) -> bool:
        """`iteration++`: an integer variable that a scalar constant is added to."""
        op = self._only_op(cluster)
        if op is None or op.type not in ("AssignAddVariableOp", "AssignSubVariableOp"):
            return False
        dtype = op.attrs.get("dtype")
        constant = next((t.op for t in op.inputs if t.op.type in CONSTANT), None)
        if dtype is None or not dtype.is_integer or constant is None:
            return False
        return getattr(constant.attrs.get("value"), "shape", None) == ()

    # ----------------------------------------------------------------------------------- conditions

    def _conditions(self) -> tuple[Condition[Pair], ...]:
        """The conditions on contracting an edge, the costly one, on cycles, last."""
        limit = self.options.flags.tf_xla_max_cluster_size
        return (
            objecting("both have the same deadness", lambda p: self._deadness(*p), lambda p: str(p[0].alive)),
            objecting(
                "their devices are compatible",
                lambda p: self._devices(*p),
                lambda p: ", ".join(sorted(p[0].devices | p[1].devices)),
                lambda p: f"place both on one device: {', '.join(sorted(p[0].devices | p[1].devices))}",
            ),
            objecting(
                "both are in one XLA scope",
                lambda p: self._scopes(*p),
                lambda p: " and ".join(c.scope or "none" for c in p),
                lambda p: f"put both in one jit scope: they are in {' and '.join(c.scope for c in p)}",
            ),
            objecting(
                "the merged cluster does not exceed tf_xla_max_cluster_size",
                lambda p: self._max_size(*p),
                lambda p: f"{p[0].size} + {p[1].size} nodes",
                lambda p: f"raise --tf_xla_max_cluster_size from {limit} to {p[0].size + p[1].size}",
            ),
            objecting("adds no cross-device dependency", lambda p: self._inter_device(*p)),
            objecting("variables are read before they are written", lambda p: self._resources(*p)),
            objecting("creates no cycle", self._known_cycle, remedy=self._without_cycle),
        )

    def objection(self, start: ClusterState, to: ClusterState) -> str:
        """Return the first reason against contracting an edge, or ""."""
        failed = first_failing(self.conditions, (start, to))
        return "" if failed is None else self.conditions[failed].value((start, to))

    def predicates(self, start: ClusterState, to: ClusterState) -> tuple[Predicate, ...]:
        """Every condition on contracting an edge, to the end."""
        return asked(self.conditions, (start, to), to_the_end=True)

    def _known_cycle(self, pair: Pair) -> str:
        """Return `_cycle`, cached: contraction is over when it is called."""
        key = (pair[0].node, pair[1].node)
        if key not in self._known_cycles:
            self._known_cycles[key] = self._cycle(*pair)
        return self._known_cycles[key]

    def _without_cycle(self, pair: Pair) -> str:
        between = self.alternate_path(*pair) or []
        outside = [self.graph.name(n) for n in between if self.cluster_at(n) is None and n not in self._frame_names]
        return f"also compile {', '.join(f'`{n}`' for n in outside)}" if outside else ""

    def _deadness(self, start: ClusterState, to: ClusterState) -> str:
        if start.alive is to.alive:
            return ""
        return f"the two nodes have mismatching deadness: {start.alive} and {to.alive}"

    def _compatible(self, a: ClusterState, b: ClusterState) -> bool:
        if a.devices == b.devices and len(a.devices) == 1:
            return True
        devices = a.devices | b.devices
        chosen = self._picked.get(devices)
        if chosen is None:
            chosen = self._picked[devices] = pick_device(sorted(devices))
        return bool(chosen) and all(d in ("", chosen) for d in (a.resource_device, b.resource_device))

    def _devices(self, start: ClusterState, to: ClusterState) -> str:
        return "" if self._compatible(start, to) else "the two nodes have incompatible devices"

    def _scopes(self, start: ClusterState, to: ClusterState) -> str:
        differ = start.scope and to.scope and start.scope != to.scope
        return "the two nodes have mismatching XLA scopes" if differ else ""

    def _max_size(self, start: ClusterState, to: ClusterState) -> str:
        if start.size + to.size <= self.options.flags.tf_xla_max_cluster_size:
            return ""
        return "the new cluster will be larger than the max cluster size"

    def _inter_device(self, start: ClusterState, to: ClusterState) -> str:
        if len(self._all_devices) == 1:
            return ""
        for node in self.cycles.predecessors(to.node):
            other = self.cluster_at(node)
            if other is not None and not (self._compatible(to, other) and self._compatible(start, other)):
                return "the new cluster will introduce a cross device dependency"
        return ""

    @property
    def _all_devices(self) -> frozenset[str]:
        if not hasattr(self, "_device_cache"):
            self._device_cache = frozenset(d for c in self._at if c is not None for d in c.devices)
        return self._device_cache

    def _resources(self, start: ClusterState, to: ClusterState) -> str:
        if self.options.flags.tf_xla_disable_resource_variable_safety_checks_for_debugging:
            return ""
        broken = any(not to.resources.isdisjoint(self.unsafe.get(r, frozenset())) for r in start.resources)
        return "the new cluster would break resource variable semantics" if broken else ""

    def resource_conflicts(self, start: ClusterState, to: ClusterState) -> list[str]:
        """List pairs of resource operations that keep two clusters apart.

        `[w: AssignVariableOp(Write)] -> [r: ReadVariableOp(Read)]`
        """
        pairs = [
            (a, b) for a in sorted(start.resources) for b in sorted(to.resources & self.unsafe.get(a, frozenset()))
        ]
        return [f"{describe_access(self.graph.op(a))} -> {describe_access(self.graph.op(b))}" for a, b in pairs]

    def _cycle(self, start: ClusterState, to: ClusterState) -> str:
        path = self.alternate_path(start, to)
        if path is None:
            return ""
        clusters = [self.cluster_at(n) for n in path]
        names = ",".join(
            self._frame_or_name(n) if c is None else self.show(c) for n, c in zip(path, clusters, strict=True)
        )
        prefix = "" if None in clusters else "(all clusters) "
        return f"contracting the edge would create a cycle via {prefix}[{names}]"

    def alternate_path(self, start: ClusterState, to: ClusterState) -> list[int] | None:
        """Return a path in the cycle graph between two clusters other than by an edge, or None.

        It goes through a node that is not a candidate if possible.
        """
        rank = {node: i for i, node in enumerate(reversed(list(self.cycles.post_order())))}
        if rank[start.node] > rank[to.node]:
            return None
        came: dict[int, int] = {start.node: -1}
        for node in sorted((n for n in rank if rank[start.node] < rank[n] <= rank[to.node]), key=rank.__getitem__):
            before = [p for p in self.cycles.predecessors(node) if p in came and (node, p) != (to.node, start.node)]
            if before:
                came[node] = next((p for p in reversed(before) if self.cluster_at(p) is None), before[-1])
        if to.node not in came or to.node == start.node:
            return None
        path = [came[to.node]]
        while came[path[-1]] != -1:
            path.append(came[path[-1]])
        return path[-2::-1] if len(path) > 1 else None

    def _frame_or_name(self, node: int) -> str:
        return f"loop {self._frame_names[node]}" if node in self._frame_names else self.graph.name(node)

    def show(self, cluster: ClusterState) -> str:
        """As TensorFlow logs it: `<a #7>`, `<a + 4 others #7>`."""
        others = f" + {cluster.size - 1} others" if cluster.size > 1 else ""
        return f"<{self._frame_or_name(cluster.node)}{others} #{cluster.node}>"

    def label(self, node: int) -> str:
        """Return the name of a cycle graph's node in views: a cluster, a loop, or a node."""
        cluster = self.cluster_at(node)
        return self._frame_or_name(node) if cluster is None else self.show(cluster)

    def _log_unsafe(self) -> None:
        if not LOG.is_on(4):
            return
        for a, later in self.unsafe.items():
            for b in sorted(later):
                LOG.vlog(4, "Unsafe edge: %s -> %s", *(describe_access(self.graph.op(n)) for n in (a, b)))


def _is_always_compiled(op: Operation) -> bool:
    """Whether a resource operation's device compiles everything; these are never kept apart."""
    registration = compilation_device(device_of(op))
    return registration is None or registration.compiles_everything

"""Propagate shardings through a Program to a fixed point, by priorities, as Shardy does.

Follows propagation/*_propagation.cc. For each user priority, each operation priority
(directions.py) and each strategy (factor_propagation.py): visit all operations and data flow edges
in program order. Every change queues the neighbors again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field

from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy import user_priorities
from xlanb.spmd.shardy.directions import LAST_PRIORITY, directions
from xlanb.spmd.shardy.events import Event, Propagation, PropagationStep
from xlanb.spmd.shardy.factor_propagation import Direction, Setting, Strategy, propagate_factors
from xlanb.spmd.shardy.groups import share_shardings, unify_groups
from xlanb.spmd.shardy.program import DataFlowEdge, ShardyOp, ShardyProgram, ShardyRegion, ShardyValue, ValueKind
from xlanb.spmd.shardy.projection import ShardingProjection, TensorFactorShardings
from xlanb.spmd.shardy.rule import OpShardingRule, TensorMapping, pointwise_rule
from xlanb.spmd.shardy.rules import is_elementwise, sharding_rule

Node = ShardyOp | DataFlowEdge


@dataclass(frozen=True)
class PropagationOptions:
    """The parts of the propagation that run.

    `strategies` run in order. Without `op_priorities` or `user_priorities`, everything propagates
    at once.
    """

    strategies: tuple[Strategy, ...] = (Strategy.AGGRESSIVE,)
    op_priorities: bool = True
    user_priorities: bool = True


def propagate(program: ShardyProgram, options: PropagationOptions | None = None) -> Propagation:
    """Give every value a sharding if possible; return the record of all steps."""
    chosen = options or PropagationOptions()
    unify_groups(program)
    share_shardings(program)
    state = _Propagator(program)
    later: dict[int, list[user_priorities.Reference]] = {}
    if chosen.user_priorities:
        later = user_priorities.initialize(program)
    for user_priority in (0, *sorted(later)):
        if user_priority:
            user_priorities.admit(program, later[user_priority], user_priority)
        for op_priority in range(LAST_PRIORITY + 1) if chosen.op_priorities else (LAST_PRIORITY,):
            for strategy in chosen.strategies:
                state.run(PropagationStep(user_priority, op_priority, strategy))
    return Propagation(program, state.events)


@dataclass
class _Worklist:
    """Nodes to visit, last in first out; a queued node keeps its place."""

    nodes: list[Node] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)

    def push(self, node: Node) -> None:
        if id(node) not in self.waiting:
            self.waiting.add(id(node))
            self.nodes.append(node)

    def pop(self) -> Node:
        node = self.nodes.pop()
        self.waiting.remove(id(node))
        return node


class _Propagator:
    """A propagation's state: work list, dependents to notify, and events."""

    def __init__(self, program: ShardyProgram) -> None:
        self.program = program
        self.events: list[Event] = []
        self.work = _Worklist()
        self.step = PropagationStep(0, 0, Strategy.BASIC)
        self.edges_of: dict[int, list[DataFlowEdge]] = defaultdict(list)
        self.edges_from: dict[int, list[DataFlowEdge]] = defaultdict(list)
        for edge in program.edges:
            self.edges_of[id(edge.op)].append(edge)
            for source in edge.sources:
                self.edges_from[id(source)].append(edge)
        self.group_of = {id(value): group for group in program.groups for value in group}
        self.order = list(self._walk(program.body))
        self.directions: dict[int, tuple[Direction, ...]] = {}
        self.settled: dict[tuple[int, Strategy], object] = {}

    # -- order -------------------------------------------------------------------------------------

    def _walk(self, region: ShardyRegion) -> Iterator[Node]:
        """Yield operations before their bodies, and an edge directly after its owner."""
        for op in region.ops:
            yield op
            edges = self.edges_of.get(id(op), ())
            for inner in op.regions:
                mine = {id(a) for a in inner.arguments}
                yield from (e for e in edges if id(e.owner) in mine)
                yield from self._walk(inner)
            mine = {id(r) for r in op.results}
            yield from (e for e in edges if id(e.owner) in mine)

    def run(self, step: PropagationStep) -> None:
        """Visit the whole program once."""
        if step.op_priority != self.step.op_priority or not self.directions:
            for op in self.program.walk():
                self.directions[id(op)] = directions(op, step.op_priority, self._use_count)
        self.step = step
        self._propagate_results()
        for node in reversed(self.order):
            self.work.push(node)
        while self.work.nodes:
            node = self.work.pop()
            if isinstance(node, DataFlowEdge):
                self._visit_edge(node)
            elif node.kind is ValueKind.BARRIER:
                self._visit_barrier(node)
            else:
                self._visit_op(node)
        self._propagate_results()

    def _use_count(self, value: ShardyValue) -> int:
        return len(value.uses) + len(value.returned) + (id(value) in self.group_of)

    # -- nodes -------------------------------------------------------------------------------------

    def _visit_op(self, op: ShardyOp) -> None:
        rule = sharding_rule(op)
        if rule is None:
            return
        operands = [v.sharding for v in op.operands]
        results = [v.sharding for v in op.results]
        if not any(operands) and not any(results):
            return
        allowed = self.directions[id(op)]
        if not any(d is not Direction.NONE for d in allowed):
            return
        self._propagate(
            _PropagationSite(op, rule, op.operands, op.results, operands, results, allowed, is_elementwise(op))
        )

    def _visit_barrier(self, op: ShardyOp) -> None:
        shape = op.results[0].dimensions
        direction = Direction[op.attributes["allowed_direction"]]
        rule = pointwise_rule([shape], [shape])
        operands, results = [op.operands[0].sharding], [op.results[0].sharding]
        self._propagate(
            _PropagationSite(op, rule, op.operands, op.results, operands, results, (direction,) * len(shape), True)
        )

    def _visit_edge(self, edge: DataFlowEdge) -> None:
        if not edge.owner.is_array:
            return
        shape = edge.dimensions
        rule = pointwise_rule([shape] * len(edge.sources), [shape])
        operands = [edge.source_sharding(s) for s in edge.sources]
        both = (Direction.BOTH,) * len(shape)
        self._propagate(
            _PropagationSite(edge, rule, edge.sources, [edge.owner], operands, [edge.sharding], both, False)
        )

    def _propagate_results(self) -> None:
        """Propagate between the program's returned values and its result shardings."""
        for number, value in enumerate(self.program.body.results):
            if value.is_array:
                shape = value.dimensions
                given = self.program.result_shardings[number]
                both = (Direction.BOTH,) * len(shape)
                rule = pointwise_rule([shape], [shape])
                self._propagate(
                    _PropagationSite(number, rule, [value], [value], [value.sharding], [given], both, False)
                )

    def _propagate(self, site: _PropagationSite) -> None:
        mesh = self._common_mesh(site.before)
        if mesh is None or mesh.is_maximal:
            return
        strategy = self.step.strategy
        key = (site.key, strategy)
        state = (site.before, site.directions)
        if self.settled.get(key) == state:
            return
        projection = site.projection(mesh)
        setting = Setting(projection, site.rule.factor_sizes, mesh, site.directions.__getitem__, site.is_elementwise)
        propagate_factors(setting, strategy)
        changed = site.updates(projection, mesh)
        if not changed:
            self.settled[key] = state
            return
        event = Event(
            self.step,
            site.node,
            site.rule,
            tuple(v.name for v in site.values),
            site.before,
            site.directions,
            changed,
            mesh,
        )
        self.events.append(event)
        for place, sharding in changed.items():
            self._set(site, place, sharding)

    def _common_mesh(self, shardings: Sequence[TensorSharding | None]) -> Mesh | None:
        """Return the mesh of all of them, or None."""
        found: Mesh | None = None
        for sharding in shardings:
            if sharding is None:
                continue
            mesh = self.program.meshes[sharding.mesh]
            if found is None or not (found.axes or found.device_ids):
                found = mesh
            elif (mesh.axes or mesh.device_ids) and (mesh.axes, mesh.device_ids) != (found.axes, found.device_ids):
                return None
        return found

    # -- changes -----------------------------------------------------------------------------------

    def _set(self, site: _PropagationSite, place: int, sharding: TensorSharding) -> None:
        """Set the sharding of an operand or result, and queue all that depends on it."""
        node = site.node
        value = site.values[place]
        is_result = place >= len(site.operands)
        if isinstance(node, int) and is_result:
            self.program.result_shardings[node] = sharding
            return
        if isinstance(node, DataFlowEdge) and is_result:
            node.sharding = sharding
        elif isinstance(node, DataFlowEdge):
            node.set_source_sharding(value, sharding)
        else:
            value.sharding = sharding
        if not isinstance(node, int):
            self._notify(value, node)
        for other in self.group_of.get(id(value), ()):
            if other is not value:
                other.sharding = sharding
                if not isinstance(node, int):
                    self._notify(other, node)

    def _notify(self, value: ShardyValue, but: Node) -> None:
        edge = value.edge
        owner = edge.owner if edge is not None else value
        if edge is not None:
            for target in edge.targets:
                if target is not owner:
                    self._notify_users(target, but)
            if edge is not but:
                self.work.push(edge)
        elif owner.producer is not None and owner.producer is not but:
            self.work.push(owner.producer)
        self._notify_users(owner, but)

    def _notify_users(self, value: ShardyValue, but: Node) -> None:
        """Queue the users of a value so that the first is visited first."""
        edges = self.edges_from.get(id(value), ())
        for region, _ in reversed(value.returned):
            self._push_all((e for e in edges if e.op is region.parent), but)
        for user, _ in reversed(value.uses):
            self._push_all((user, *(e for e in edges if e.op is user)), but)

    def _push_all(self, nodes: Iterable[Node], but: Node) -> None:
        for node in nodes:
            if node is not but:
                self.work.push(node)


@dataclass(slots=True)
class _PropagationSite:
    """An operation, edge or program result (by number): its arrays, shardings and rule."""

    node: Node | int
    rule: OpShardingRule
    operands: list[ShardyValue]
    results: list[ShardyValue]
    operand_shardings: list[TensorSharding | None]
    result_shardings: list[TensorSharding | None]
    directions: tuple[Direction, ...]
    is_elementwise: bool

    @property
    def key(self) -> int:
        return self.node if isinstance(self.node, int) else id(self.node)

    @property
    def values(self) -> list[ShardyValue]:
        return [*self.operands, *self.results]

    @property
    def before(self) -> tuple[TensorSharding | None, ...]:
        return (*self.operand_shardings, *self.result_shardings)

    def projection(self, mesh: Mesh) -> ShardingProjection:
        return ShardingProjection.of(self.operand_shardings, self.result_shardings, self.rule, mesh)

    def updates(self, projection: ShardingProjection, mesh: Mesh) -> dict[int, TensorSharding]:
        """Return the new shardings, by position among operands and results."""
        out: dict[int, TensorSharding] = {}
        mappings = (*self.rule.operands, *self.rule.results)
        for place, (old, tensor, mapping) in enumerate(zip(self.before, projection.tensors, mappings, strict=True)):
            new = _updated(old, tensor, mapping, self.rule, mesh)
            if new is not None:
                out[place] = new
        return out


def _updated(
    old: TensorSharding | None, tensor: TensorFactorShardings, mapping: TensorMapping, rule: OpShardingRule, mesh: Mesh
) -> TensorSharding | None:
    """Return an array's new sharding if one of its factors grew, else None."""
    if not tensor.grew:
        return None
    new = tensor.sharding(mapping, rule.factor_sizes, mesh)
    if new == old or (old is None and new.empty_axes):
        return None
    return new

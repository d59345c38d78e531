"""Record propagation steps: which arrays got which axes from which others, and which factor lost.

A step stores only what is needed to compute axes, sources and conflicts later.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from xlanb.lazy_dataclass import dataclass
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import TensorSharding
from xlanb.spmd.shardy.axes import Axes, is_list_prefix
from xlanb.spmd.shardy.factor_propagation import Conflict, Direction, Setting, Strategy, propagate_factors
from xlanb.spmd.shardy.program import DataFlowEdge, ShardyOp, ShardyProgram, ShardyValue
from xlanb.spmd.shardy.projection import ShardingProjection
from xlanb.spmd.shardy.rule import OpShardingRule, symbol
from xlanb.spmd.shardy.rules import is_elementwise, sharding_rule


@dataclass(frozen=True, slots=True)
class PropagationStep:
    """When a step ran: user priority, operation priority (directions.py), and strategy."""

    user_priority: int
    op_priority: int
    strategy: Strategy

    def __str__(self) -> str:
        user = f"user priority {self.user_priority}, " if self.user_priority else ""
        return f"{user}priority {self.op_priority}, {self.strategy.value}"


@dataclass(frozen=True, slots=True)
class Gain:
    """An array got axes along a factor, from an array that had them."""

    value: str
    factor: str
    axes: Axes
    source: str

    def __str__(self) -> str:
        return f"{self.value} is split along {self.factor} by {_axes_text(self.axes)}, as {self.source}"


@dataclass(frozen=True, slots=True)
class Yielded:
    """A factor of an array wanted axes that another factor of it has."""

    value: str
    factor: str
    wanted: Axes
    got: Axes
    winner: str

    def __str__(self) -> str:
        got = f"got {_axes_text(self.got)}" if self.got else "got none"
        return f"in {self.value} factor {self.factor} wanted {_axes_text(self.wanted)} and {got}: {self.winner} has it"


def _axes_text(axes: Axes) -> str:
    return "{" + ", ".join(map(str, axes)) + "}"


@dataclass(frozen=True, eq=False)
class Event:
    """One operation, data flow edge or program result (by number) propagated shardings.

    `before` are the shardings of its operands and results; `changed` the new ones, by position
    among them.
    """

    step: PropagationStep
    node: ShardyOp | DataFlowEdge | int
    rule: OpShardingRule
    names: tuple[str, ...]
    before: tuple[TensorSharding | None, ...]
    directions: tuple[Direction, ...]
    changed: dict[int, TensorSharding]
    mesh: Mesh

    @property
    def name(self) -> str:
        """The operation's name; for an edge, that of the operation that it enters or leaves."""
        if isinstance(self.node, ShardyOp):
            return self.node.name
        return f"result {self.node}" if isinstance(self.node, int) else self.node.op.name

    @property
    def kind(self) -> str:
        """What propagated: an opcode, "data flow edge" or "result"."""
        if isinstance(self.node, ShardyOp):
            return self.node.opcode.text if self.node.kind.value == "hlo" else self.node.kind.value
        return "result" if isinstance(self.node, int) else "data flow edge"

    @cached_property
    def _replayed(self) -> tuple[ShardingProjection, ShardingProjection, list[Conflict]]:
        count = len(self.rule.operands)
        sides = self.before[:count], self.before[count:]
        old = ShardingProjection.of(*sides, self.rule, self.mesh)
        new = ShardingProjection.of(*sides, self.rule, self.mesh)
        conflicts: list[Conflict] = []
        elementwise = isinstance(self.node, ShardyOp) and is_elementwise(self.node)
        setting = Setting(new, self.rule.factor_sizes, self.mesh, self.directions.__getitem__, elementwise, conflicts)
        propagate_factors(setting, self.step.strategy)
        return old, new, conflicts

    @cached_property
    def gains(self) -> tuple[Gain, ...]:
        """Yield which array got which axes, along which factor, from which array."""
        old, new, _ = self._replayed
        out = []
        for place in self.changed:
            for factor, at in new.tensors[place].factors.items():
                if at.axes == old.tensors[place].factors[factor].axes:
                    continue
                source = next(
                    (
                        n
                        for n, t in enumerate(old.tensors)
                        if n != place and factor in t.factors and is_list_prefix(at.axes, t.factors[factor].axes)
                    ),
                    place,
                )
                out.append(Gain(self.names[place], symbol(factor), at.axes, self.names[source]))
        return tuple(out)

    @cached_property
    def conflicts(self) -> tuple[Yielded, ...]:
        """Yield which factor wanted which axes in which array, and which factor has them."""
        return tuple(
            Yielded(self.names[c.tensor], symbol(c.factor), c.wanted, c.got, symbol(c.winner))
            for c in self._replayed[2]
        )

    def __str__(self) -> str:
        changes = "; ".join(map(str, (*self.gains, *self.conflicts)))
        return f"[{self.step}] {self.kind} {self.name}: {changes}"


@dataclass(frozen=True)
class Disagreement:
    """An operation whose arrays still differ along a factor after propagation.

    The partitioner must reshard.
    """

    op: str
    factor: str
    kinds: tuple[tuple[str, Axes], ...]
    """The name of each array with the factor, and the axes that split it."""

    def __str__(self) -> str:
        each = ", ".join(f"{name} by {_axes_text(axes)}" for name, axes in self.kinds)
        return f"{self.op}: along factor {self.factor} {each}"


@dataclass(eq=False)
class Propagation:
    """The record of a propagation over a program."""

    program: ShardyProgram
    events: list[Event]

    def of(self, name: str) -> list[Event]:
        """Yield the events that gave the value of this name a sharding."""
        return [e for e in self.events if any(e.names[place] == name for place in e.changed)]

    def disagreements(self) -> Iterator[Disagreement]:
        """Yield the operations whose arrays are still split differently."""
        for op in self.program.walk():
            rule = sharding_rule(op)
            shardings = [v.sharding for v in (*op.operands, *op.results)]
            first = next((s for s in shardings if s is not None), None)
            if rule is None or first is None or any(s is not None and s.mesh != first.mesh for s in shardings):
                continue
            count = len(op.operands)
            projection = ShardingProjection.of(
                shardings[:count], shardings[count:], rule, self.program.meshes[first.mesh]
            )
            yield from _disagreements(op, rule, projection)

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))


def _disagreements(op: ShardyOp, rule: OpShardingRule, projection: ShardingProjection) -> Iterator[Disagreement]:
    values: list[ShardyValue] = [*op.operands, *op.results]
    for factor in range(len(rule.factor_sizes)):
        kinds = tuple(
            (value.name, tensor.factors[factor].axes)
            for value, tensor in zip(values, projection.tensors, strict=True)
            if factor in tensor.factors
        )
        if len({axes for _, axes in kinds}) > 1:
            yield Disagreement(op.name, symbol(factor), kinds)

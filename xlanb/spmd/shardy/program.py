"""Program: a module as Shardy sees it, with arrays and the operations between them.

There are no tuples: every Value is one array. While loops, branches, calls and manual computations
hold their bodies as Regions. A DataFlowEdge groups the values that are one array entering or
leaving a body: all its targets share the sharding of its owner.

    %w = while(tuple(a, b))
    =>  Op(WHILE, operands [a, b], results [w0, w1], regions [condition, body])
        DataFlowEdge(owner w0, targets [w0, arguments 0 of both regions],
                     sources: a, the body's first result)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from enum import Enum
from typing import Any

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.sdy import AxisRef, DimensionSharding, TensorSharding


class ValueKind(Enum):
    """The kind of an Op."""

    HLO = "hlo"
    """An HLO instruction; `opcode` gives the operation."""
    CONSTRAINT = "sharding_constraint"
    """Its result has the sharding that the user requires here."""
    BARRIER = "propagation_barrier"
    """Shardings pass only in `attributes["allowed_direction"]`: NONE, FORWARD or BACKWARD."""
    MANUAL = "manual_computation"
    """A body that runs on each device's part; see DataFlowEdge.manual_axes."""
    NAMED = "named_computation"
    """A call with its own body."""
    WHILE = "while"
    CASE = "case"
    """A conditional: a region per branch, without arguments if the operands are used directly."""
    OPTIMIZATION_BARRIER = "optimization_barrier"


@dataclass(eq=False, slots=True)
class ShardyValue:
    """One array.

    `producer` is None for a region's argument. Values on a data flow edge share its owner's
    sharding.
    """

    name: str
    shape: Shape
    producer: ShardyOp | None = None
    index: int = 0
    edge: DataFlowEdge | None = None
    """The edge that it is a target of."""
    uses: list[tuple[ShardyOp, int]] = field(default_factory=list)
    returned: list[tuple[ShardyRegion, int]] = field(default_factory=list)
    """Regions that return it, and at which position."""
    own_sharding: TensorSharding | None = None

    @property
    def is_array(self) -> bool:
        """Whether it can have a sharding; tokens cannot."""
        return isinstance(self.shape, ArrayShape)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of its dimensions."""
        return self.shape.dimensions if isinstance(self.shape, ArrayShape) else ()

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @property
    def sharding(self) -> TensorSharding | None:
        """Its sharding, or that of the edge's owner if it is a target of an edge."""
        return self.edge.owner.own_sharding if self.edge is not None else self.own_sharding

    @sharding.setter
    def sharding(self, sharding: TensorSharding | None) -> None:
        owner = self.edge.owner if self.edge is not None else self
        owner.own_sharding = sharding

    def __repr__(self) -> str:
        return f"<Value {self.name} {self.shape} {self.sharding or ''}>"


@dataclass(eq=False)
class ShardyRegion:
    """A body: arguments, operations in order, and results."""

    arguments: list[ShardyValue] = field(default_factory=list)
    ops: list[ShardyOp] = field(default_factory=list)
    results: list[ShardyValue] = field(default_factory=list)
    parent: ShardyOp | None = None

    def walk(self) -> Iterator[ShardyOp]:
        """Yield every operation, each before those of its bodies."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


@dataclass(eq=False)
class ShardyOp:
    """One operation.

    `hlo` is the instruction that it comes from; several operations may come from one. `rule` caches
    its sharding rule.
    """

    kind: ValueKind
    opcode: HloOpcode
    hlo: HloInstruction
    operands: list[ShardyValue]
    results: list[ShardyValue] = field(default_factory=list)
    regions: list[ShardyRegion] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    region: ShardyRegion | None = None
    """The region that contains it."""
    rule: Any = None

    @property
    def name(self) -> str:
        """The name of the instruction that it comes from."""
        return self.hlo.name

    def __repr__(self) -> str:
        return f"<Op {self.kind.value} {self.opcode} {self.name}>"


@dataclass(eq=False)
class DataFlowEdge:
    """The values that are one array on its way into or out of a body.

    Each source flows into every target; `owner`, one of the targets, holds the sharding. At the
    boundary of a manual computation, the inner array is a part of the outer one: `manual` are, for
    each dimension, the axes that only the outer side names, and the dimensions are the outer ones.
    Elsewhere `manual` is empty and all shapes are the owner's.
    """

    owner: ShardyValue
    targets: list[ShardyValue]
    op: ShardyOp
    """The operation whose body it enters or leaves."""
    operands: tuple[int, ...] = ()
    """Sources: operands of the operation, by position."""
    results: tuple[tuple[ShardyRegion, int], ...] = ()
    """Sources: results of its bodies."""
    manual: tuple[tuple[AxisRef, ...], ...] = ()
    manual_axes: tuple[str, ...] = ()
    replicated: tuple[AxisRef, ...] = ()
    shape: Shape | None = None
    owner_is_inside: bool = False
    """Whether a manual computation's owner is an argument of the body.

    Then its own sharding names no manual axis. Otherwise the owner is a result and names them.
    """

    @property
    def sources(self) -> list[ShardyValue]:
        """The values that flow into the targets."""
        return [*(self.op.operands[n] for n in self.operands), *(r.results[n] for r, n in self.results)]

    @property
    def dimensions(self) -> tuple[int, ...]:
        """Sizes of the outer array."""
        shape = self.shape or self.owner.shape
        return shape.dimensions if isinstance(shape, ArrayShape) else ()

    @property
    def sharding(self) -> TensorSharding | None:
        """The sharding as the outer side sees it, manual axes first."""
        inner = self.owner.own_sharding
        if not self.owner_is_inside or inner is None:
            return inner
        dims = tuple(replace(d, axes=(*m, *d.axes)) for d, m in zip(inner.dims, self.manual, strict=True))
        return replace(inner, dims=dims, replicated=(*self.replicated, *inner.replicated))

    @sharding.setter
    def sharding(self, sharding: TensorSharding | None) -> None:
        if sharding is not None and self.owner_is_inside:
            sharding = sharding.without_axes(self.manual_axes)
        self.owner.own_sharding = sharding

    def source_sharding(self, source: ShardyValue) -> TensorSharding | None:
        """Return a source's sharding as the outer side sees it.

        Inside a manual computation, the manual axes are added.
        """
        sharding = source.sharding
        if not self.manual_axes or self.owner_is_inside or sharding is None:
            return sharding
        dims = tuple(replace(d, axes=(*m, *d.axes)) for d, m in zip(sharding.dims, self.manual, strict=True))
        return replace(sharding, dims=dims, replicated=(*self.replicated, *sharding.replicated))

    def set_source_sharding(self, source: ShardyValue, sharding: TensorSharding) -> None:
        """Set a source's sharding from the one that the outer side sees."""
        inside = self.manual_axes and not self.owner_is_inside
        source.sharding = sharding.without_axes(self.manual_axes) if inside else sharding


@dataclass(eq=False)
class ShardyProgram:
    """A module: its entry as a Region, the meshes, and other inputs of the propagation.

    `result_shardings` are those of the entry's results, by the user or the propagation, or None.
    `groups` are values that must have one sharding.
    """

    body: ShardyRegion
    meshes: dict[str, Mesh]
    result_shardings: list[TensorSharding | None] = field(default_factory=list)
    edges: list[DataFlowEdge] = field(default_factory=list)
    groups: list[list[ShardyValue]] = field(default_factory=list)

    def walk(self) -> Iterator[ShardyOp]:
        """Yield every operation in program order, each before those of its bodies."""
        return self.body.walk()

    def values(self) -> Iterator[ShardyValue]:
        """Yield every value: arguments of a region first, then results in program order."""
        yield from _values(self.body)

    def mesh_of(self, sharding: TensorSharding) -> Mesh:
        """Return the mesh that a sharding names."""
        return self.meshes[sharding.mesh]


def _values(region: ShardyRegion) -> Iterator[ShardyValue]:
    yield from region.arguments
    for op in region.ops:
        yield from op.results
        for inner in op.regions:
            yield from _values(inner)


def add_op(
    region: ShardyRegion,
    kind: ValueKind,
    hlo: HloInstruction,
    operands: list[ShardyValue],
    shapes: list[Shape],
    *,
    opcode: HloOpcode | None = None,
    names: list[str] | None = None,
) -> ShardyOp:
    """Append an operation to a region, with results of these shapes."""
    op = ShardyOp(kind, opcode or hlo.opcode, hlo, operands, region=region)
    op.results = [ShardyValue(names[n] if names else hlo.name, s, op, n) for n, s in enumerate(shapes)]
    for n, value in enumerate(operands):
        value.uses.append((op, n))
    region.ops.append(op)
    return op


def set_results(region: ShardyRegion, values: list[ShardyValue]) -> None:
    """Set a region's results."""
    region.results = values
    for n, value in enumerate(values):
        value.returned.append((region, n))


def add_edge(program: ShardyProgram, edge: DataFlowEdge) -> DataFlowEdge:
    """Add an edge; its targets then share the owner's sharding."""
    for target in edge.targets:
        target.edge = edge
    program.edges.append(edge)
    return edge


__all__ = [
    "AxisRef",
    "DataFlowEdge",
    "DimensionSharding",
    "ShardyOp",
    "ShardyProgram",
    "ShardyRegion",
    "ShardyValue",
    "TensorSharding",
    "ValueKind",
    "add_edge",
    "add_op",
    "set_results",
]

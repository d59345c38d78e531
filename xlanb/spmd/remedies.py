"""Find annotation changes that might remove a collective, and try them on a copy of the program.

A remedy is a guess from what the partitioner recorded and from the program's annotations. `attempt`
checks it: it compiles the changed program and compares the plans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.display import Displayable
from xlanb.frames import framed
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.memory import size_text
from xlanb.shape import ArrayShape
from xlanb.spmd.annotations import (
    AnnotationChange,
    AnnotationKind,
    ShardingAnnotation,
    annotations_after,
    annotations_before,
    axes_named,
    dims_text,
    with_changes,
)
from xlanb.spmd.costs import Interconnect, seconds_text
from xlanb.spmd.mesh import Mesh
from xlanb.spmd.optimize import optimize
from xlanb.spmd.partitioner.causes import CollectiveCause
from xlanb.spmd.plan import CollectivePlan, PartitionedProgram, plan_of, readable
from xlanb.spmd.sdy import DimensionSharding, TensorSharding
from xlanb.spmd.shardy.axes import Axes
from xlanb.spmd.shardy.events import Propagation

if TYPE_CHECKING:
    import pandas as pd

_MORE = 1.05
"""The largest factor by which a remedy may increase each device's work."""
_MOST = 8
_NEAR = 4
"""How many annotations to consider before and after an instruction."""


@dataclass(frozen=True)
class RemedyAttempt(Displayable):
    """The plans without and with an annotation change.

    Attributes:
        remedy: the change.
        module: the changed program, ready for `xlanb.compile`.
        before: the plan without the change.
        after: the plan with the change.
        flops: floating-point operations per device (before, after).
        argument_bytes: argument bytes that each device holds (before, after).
    """

    remedy: Remedy
    module: HloModule
    before: CollectivePlan
    after: CollectivePlan
    flops: tuple[int | float, int | float]
    argument_bytes: tuple[int, int]

    @property
    def is_better(self) -> bool:
        """Whether the estimated time of the collectives falls without more work per device."""
        return self.after.seconds < self.before.seconds and self.flops[1] <= self.flops[0] * _MORE

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        if self.after.seconds == self.before.seconds and self.after.bytes == self.before.bytes:
            return "the same collectives"
        change = f"{seconds_text(self.before.seconds)} -> {seconds_text(self.after.seconds)}"
        sent = f"{size_text(self.before.bytes)} -> {size_text(self.after.bytes)} sent by each device"
        return f"{self._judgement}: {change} on {self.before.link.name}, {sent}"

    @property
    def _judgement(self) -> str:
        if self.is_better:
            return "better"
        if self.after.seconds >= self.before.seconds:
            return "no better"
        return f"less to send, but each device computes {self.flops[1] / max(1, self.flops[0]):.1f} times as much"

    @property
    def _held(self) -> tuple[str, str]:
        sides = zip(self.flops, self.argument_bytes, strict=True)
        before, after = (
            f"{flops:,.0f} flops and {size_text(held)} of arguments on each device" for flops, held in sides
        )
        return before, after

    def to_dataframe(self) -> pd.DataFrame:
        """Return one row per kind of collective: count, bytes and seconds, before and after."""
        rows = []
        for kind in sorted({*self.before.kinds, *self.after.kinds}):
            row: list[str | float] = [kind]
            for plan in (self.before, self.after):
                found = [c for c in plan.collectives if c.kind == kind]
                row += [
                    len(found),
                    sum(c.bytes * c.executions for c in found),
                    sum(c.seconds * c.executions for c in found),
                ]
            rows.append(row)
        sides = [f"{what} {side}" for side in ("before", "after") for what in ("count", "bytes", "seconds")]
        return framed(rows, ["kind", *sides])

    @property
    def tables(self) -> tuple[tuple[str, pd.DataFrame], ...]:
        """Return the same rows for display."""
        return ((f"{self.remedy.title}: {self.verdict}", readable(self.to_dataframe())),)

    def __str__(self) -> str:
        sides = zip(("before", "after"), (self.before, self.after), self._held, strict=True)
        lines = [f"  {side:8}{plan.summary}; {held}" for side, plan, held in sides]
        return "\n".join([f"{self.remedy.title}: {self.verdict}", *lines])


@dataclass(frozen=True)
class Remedy:
    """An annotation change that might remove a collective; `attempt` tries it."""

    title: str
    changes: tuple[AnnotationChange, ...]
    source: HloModule
    program: PartitionedProgram
    link: Interconnect

    def attempt(self) -> RemedyAttempt:
        """Compile the program with the change, and compare the collectives.

        Raises:
            XlanbError: the changed program does not compile.
        """
        changed = with_changes(self.source, self.changes, self.program.meshes)
        made = PartitionedProgram(optimize(changed), changed)
        return RemedyAttempt(
            self,
            changed,
            plan_of(self.program, self.link),
            plan_of(made, self.link),
            (self.program.flops, made.flops),
            (self.program.argument_bytes, made.argument_bytes),
        )

    def __str__(self) -> str:
        return self.title


def remedies_for(
    causes: Sequence[CollectiveCause], program: PartitionedProgram, link: Interconnect
) -> tuple[Remedy, ...]:
    """Return changes that might remove a collective with these causes, most likely first.

    Returns none if the source program or its mesh is not known.
    """
    if program.source is None or program.mesh is None:
        return ()
    found: dict[tuple[AnnotationChange, ...], Remedy] = {}
    for cause in causes:
        for title, *changes in _Candidates(cause, program.source, program.mesh, program).all():
            found.setdefault(tuple(changes), Remedy(title, tuple(changes), program.source, program, link))
    return tuple(found.values())[:_MOST]


def stepping_stones(had: TensorSharding, wanted: TensorSharding) -> list[TensorSharding]:
    """Return intermediate shardings that each move one axis to another dimension.

    Each step takes one all-to-all. Returns [] if there is no such path, or if one step suffices.
    """
    at = had.closed()
    way: list[TensorSharding] = []
    while at != wanted.closed():
        found = _one_axis_nearer(at, wanted)
        if found is None or len(way) > had.rank:
            return []
        at = found
        way.append(at)
    return way[:-1]


def _one_axis_nearer(at: TensorSharding, wanted: TensorSharding) -> TensorSharding | None:
    """Move the last axis of a dimension to the dimension that needs it next.

    Returns None if no axis can move.
    """
    for d, dim in enumerate(at.dims):
        for e, goal in enumerate(wanted.dims):
            place = len(at.dims[e].axes)
            if d == e or not dim.axes or goal.axes[: place + 1] != (*at.dims[e].axes, dim.axes[-1]):
                continue
            return at.with_dim(d, DimensionSharding(dim.axes[:-1])).with_dim(
                e, DimensionSharding(goal.axes[: place + 1])
            )
    return None


_Candidate = tuple[str, *tuple[AnnotationChange, ...]]
"""A change in words, and its annotation changes."""


@dataclass(frozen=True)
class _Candidates:
    cause: CollectiveCause
    source: HloModule
    mesh: Mesh
    program: PartitionedProgram

    def all(self) -> Iterator[_Candidate]:
        """Yield the candidates, most likely first."""
        instruction = self.program.in_source(self.cause.instruction, self.cause.opcode)
        if instruction is None:
            return
        moved = instruction
        if self.cause.operand is not None:
            named = self.program.in_source(self.cause.operand_name)
            moved = named or instruction.operands[min(self.cause.operand, len(instruction.operands) - 1)]
        before = list(annotations_before(self.source, moved, self.program.meshes))[:_NEAR]
        after = list(annotations_after(self.source, instruction, self.program.meshes))[:_NEAR]
        yield from self._in_steps(moved)
        yield from self._alike(before, moved, instruction)
        yield from self._towards(before, moved, self.cause.want, "as it is needed")
        yield from self._constrained(moved)
        yield from self._towards(after, instruction, self.cause.have, "as it comes")
        for one in (*after, *before):
            if one.kind is not AnnotationKind.PARAMETER:
                yield f"drop the {one.kind.value} {one.instruction}", AnnotationChange(one.instruction, None)
        others = [a for a in annotations_before(self.source, instruction, self.program.meshes) if a not in before][
            :_NEAR
        ]
        for one in (*before, *others):
            yield from self._axes_moved(one)

    def _alike(
        self, near: Sequence[ShardingAnnotation], moved: HloInstruction, instruction: HloInstruction
    ) -> Iterator[_Candidate]:
        """Yield annotations of the moved array with the axes of the instruction's other arrays."""
        propagation = self.program.module.notes.get("propagation")
        if not isinstance(propagation, Propagation):
            return
        for found in propagation.disagreements():
            has = dict(found.kinds).get(moved.name)
            if found.op != instruction.name or not has:
                continue
            for axes in dict.fromkeys(a for name, a in found.kinds if name != moved.name and a not in ((), has)):
                wanted = DimensionSharding(axes)
                for one in near:
                    if self._has_shape(one, moved):
                        yield from self._split_by(one, has, wanted)

    def _split_by(self, one: ShardingAnnotation, has: Axes, wanted: DimensionSharding) -> Iterator[_Candidate]:
        """Yield an annotation with other axes on a split dimension.

        The axes must be free and divide the dimension.
        """
        sharding, at = one.sharding.closed(), self.source.find(one.instruction)
        sizes = at.array_shape.dimensions if at is not None else ()
        for d, dim in enumerate(sharding.dims):
            taken = {axis.name for e, other in enumerate(sharding.dims) if e != d for axis in other.axes}
            is_free = taken.isdisjoint(axis.name for axis in wanted.axes)
            if dim.axes == has and is_free and sizes[d] % wanted.size(self.mesh) == 0:
                yield self._changed(one, sharding.with_dim(d, wanted))

    def _towards(
        self, near: Sequence[ShardingAnnotation], array: HloInstruction, wanted: str, words: str
    ) -> Iterator[_Candidate]:
        """Yield changes that give arrays of the same shape the other side's sharding.

        First all of them, then each.
        """
        sharding = self._named(wanted, array)
        alike = [a for a in near if self._has_shape(a, array) and a.sharding.closed() != sharding]
        if sharding is None or not alike:
            return
        for some in dict.fromkeys((tuple(alike), *((a,) for a in alike))):
            names = " and ".join(f"{a.kind.value} {a.instruction}" for a in some)
            changes = (AnnotationChange(a.instruction, sharding) for a in some)
            yield f"annotate {names} {dims_text(sharding)}, {words}", *changes

    def _has_shape(self, annotation: ShardingAnnotation, array: HloInstruction) -> bool:
        at = self.source.find(annotation.instruction)
        return at is not None and at.shape == array.shape

    def _named(self, text: str, array: HloInstruction) -> TensorSharding | None:
        if not isinstance(array.shape, ArrayShape):
            return None
        rank = len(array.shape.dimensions)
        found = axes_named(text, self.mesh, rank)
        return found if found is not None and found.rank == rank else None

    def _in_steps(self, array: HloInstruction) -> Iterator[_Candidate]:
        """Yield constraints between the current and required sharding, one all-to-all per step."""
        had, wanted = self._named(self.cause.have, array), self._named(self.cause.want, array)
        stones = stepping_stones(had, wanted) if had is not None and wanted is not None else []
        if stones:
            # Each constraint is inserted directly after the array, so insert the last one first.
            changes = (AnnotationChange(array.name, s, is_new=True) for s in reversed((had, *stones)) if s is not None)
            way = ", then ".join(map(dims_text, stones))
            yield (
                f"constrain {array.name} to {way} on the way to {dims_text(stones[-1] if wanted is None else wanted)}",
                *changes,
            )

    def _constrained(self, array: HloInstruction) -> Iterator[_Candidate]:
        """Yield a constraint on the moved array where it is computed."""
        sharding = self._named(self.cause.want, array)
        if sharding is not None and array.operands:
            title = f"constrain {array.name} to {dims_text(sharding)} where it is computed"
            yield title, AnnotationChange(array.name, sharding, is_new=True)

    def _axes_moved(self, one: ShardingAnnotation) -> Iterator[_Candidate]:
        """Yield an annotation with one dimension's axes moved to another, and with them removed."""
        at = self.source.find(one.instruction)
        if at is None or not isinstance(at.shape, ArrayShape):
            return
        sharding = one.sharding.closed()
        for d, dim in enumerate(sharding.dims):
            if not dim.axes:
                continue
            free = sharding.with_dim(d, DimensionSharding())
            for other, size in enumerate(at.shape.dimensions):
                if other != d and not free.dims[other].axes and size % dim.size(self.mesh) == 0:
                    yield self._changed(one, free.with_dim(other, dim))
            yield self._changed(one, free)

    def _changed(self, one: ShardingAnnotation, sharding: TensorSharding) -> _Candidate:
        made = replace(sharding, replicated=())
        title = f"annotate {one.kind.value} {one.instruction} {dims_text(made)} instead of {dims_text(one.sharding)}"
        return title, AnnotationChange(one.instruction, made)

"""DotCase: a dot or convolution to partition among some devices, with what each way needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

from xlanb.hlo.attributes import Window
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.collectives import all_reduce_along_sharding_dims
from xlanb.spmd.partitioner.dot_dimensions import DimNums, DotDimensions, DotOperand, PartitionCounts
from xlanb.spmd.partitioner.grouping import get_per_group_base_shape
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import make_binary_add, set_sharding
from xlanb.spmd.sharding_merge import merge_sharding
from xlanb.spmd.sharding_util import (
    partially_replicate_tiled_sharding_on_dims,
    transpose_sharding_with_collapsed_dims,
)

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.state import PartitionerOptions, PartitioningState
    from xlanb.spmd.sharding_groups import GroupedSharding

CreateSharded = Callable[[PartitionedHlo, PartitionedHlo, Window], "HloInstruction"]
"""Makes the instruction on one device's parts of the operands."""


_NO_WINDOW = Window()


@dataclass(frozen=True)
class DotCase:
    """Operands, the required output sharding, and the function that handles a smaller case.

    Shapes and shardings are those among `num_partitions` devices: if devices are grouped, those
    within a group.
    """

    hlo: HloInstruction
    lhs: PartitionedHlo
    rhs: PartitionedHlo
    output_shape: ArrayShape
    output_sharding: HloSharding
    dims: DotDimensions
    num_partitions: int
    create: CreateSharded
    recurse: Callable[[DotCase], HloInstruction]
    options: PartitionerOptions
    window: Window = _NO_WINDOW
    estimates: tuple[tuple[str, int], ...] = ()
    """Costs in bytes of the alternatives, if they decided; recorded in the causes."""
    exact_groups: bool = True
    """Group devices only as the operands do, without moving data between groups."""

    @property
    def state(self) -> PartitioningState:
        """The partitioner's state among these devices."""
        return self.lhs.state

    @cached_property
    def counts(self) -> PartitionCounts:
        """How many shards each array has by kind of dimension."""
        return PartitionCounts.of(self.lhs.sharding, self.rhs.sharding, self.output_sharding, self.dims)

    def sharding(self, side: DotOperand) -> HloSharding:
        """Return the sharding of one of the arrays."""
        if side is DotOperand.OUTPUT:
            return self.output_sharding
        return self.lhs.sharding if side is DotOperand.LHS else self.rhs.sharding

    def transposed(self, source: DotOperand, target: DotOperand) -> HloSharding | None:
        """Return one array's sharding in another's dimensions, or None if it has no such form."""
        return transposed(self.sharding(source), self.dims, source, target)

    def reshard(self, side: DotOperand, target: HloSharding | None, reason: str) -> PartitionedHlo:
        """Reshard an operand; its collectives name this dot and the reason."""
        operand = self.lhs if side is DotOperand.LHS else self.rhs
        if target is None:
            target = HloSharding.replicate()
        with self.because(side, operand.sharding, target, reason):
            return operand.reshard(target)

    def because(
        self,
        side: DotOperand,
        have: HloSharding,
        want: HloSharding,
        reason: str,
        kind: CauseKind = CauseKind.RESHARD,
    ) -> AbstractContextManager[None]:
        """Let collectives made in the block name this dot, the operand and the reason."""
        index = {DotOperand.LHS: 0, DotOperand.RHS: 1, DotOperand.OUTPUT: None}[side]
        return self.state.because(self.hlo, index, have, want, reason, kind=kind, estimates=self.estimates)

    def sharded(self, lhs: PartitionedHlo, rhs: PartitionedHlo) -> HloInstruction:
        """Make the instruction on these parts."""
        return self.create(lhs, rhs, self.window)

    def finished(self, dot: HloInstruction, sharding: HloSharding | None, reason: str) -> HloInstruction:
        """Reshard the result from `sharding` to the required sharding."""
        have = HloSharding.replicate() if sharding is None else sharding
        set_sharding(dot, have)
        made = PartitionedHlo(dot, self.output_shape, self.state)
        with self.because(DotOperand.OUTPUT, have, self.output_sharding, reason):
            return made.reshard(self.output_sharding).hlo

    def among(self, devices: int, **changes: object) -> DotCase:
        """Return the case among fewer devices."""
        return replace(self, num_partitions=devices, **changes)  # type: ignore[arg-type]


def transposed(
    sharding: HloSharding, dims: DotDimensions, source: DotOperand, target: DotOperand
) -> HloSharding | None:
    """Return one array's sharding in another's dimensions, by the dimensions that they share."""
    return transpose_sharding_with_collapsed_dims(
        sharding, dims.index_map(source, target), dims.index_map(target, source)
    )


class GroupedShardings:
    """Temporary shardings of instructions within a group of devices; undone when the block ends."""

    def __init__(self) -> None:
        self._before: list[tuple[HloInstruction, HloSharding]] = []

    def set(self, operand: PartitionedHlo, sharding: HloSharding) -> None:
        """Give an operand the sharding that it has within a group."""
        self._before.append((operand.hlo, operand.sharding))
        set_sharding(operand.hlo, sharding)

    def in_group(self, operand: PartitionedHlo, grouped: GroupedSharding, state: PartitioningState) -> PartitionedHlo:
        """Return an operand as one group of devices has it."""
        self.set(operand, grouped.sharding)
        return PartitionedHlo(operand.hlo, get_per_group_base_shape(grouped, operand.array_shape), state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for hlo, sharding in self._before:
            set_sharding(hlo, sharding)


def sum_along_sharding_dims(
    state: PartitioningState, partial: HloInstruction, sharding: HloSharding, dims: Sequence[int]
) -> HloInstruction:
    """Sum over the devices along some dimensions of a sharding."""
    add = make_binary_add(partial.array_shape.element_type, state.module)
    return all_reduce_along_sharding_dims(partial, sharding, dims, state.collectives, add)


def numbers(dims: Sequence[DimNums], side: DotOperand) -> list[int]:
    """Return the numbers of these dimensions in one of the arrays."""
    return [d.on(side) for d in dims]


def infer_dot_operand_sharding(
    output: HloSharding | None,
    other_operand: HloSharding | None,
    side: DotOperand,
    dims: DotDimensions,
    *,
    consider_other_operand: bool,
    may_combine_partial_sharding: bool,
) -> HloSharding:
    """Infer an operand's sharding from the output's and, if requested, the other operand's."""
    other = DotOperand.RHS if side is DotOperand.LHS else DotOperand.LHS
    free, other_free = dims.non_contracting(side), dims.non_contracting(other)
    sharding = HloSharding.replicate()
    if output is not None:
        # A convolution's contracting dimension may be a spatial one of the output.
        hidden = [*numbers(other_free, DotOperand.OUTPUT), *(d.output for d in dims.contracting if d.output >= 0)]
        found = transpose_sharding_with_collapsed_dims(
            partially_replicate_tiled_sharding_on_dims(output, hidden),
            _map(dims, DotOperand.OUTPUT, side, dims.batch + free),
            _map(dims, side, DotOperand.OUTPUT, dims.batch + free),
        )
        # Tiles without a dimension in the operand are replicated, so a sharding always exists.
        sharding = found or sharding
    if consider_other_operand and other_operand is not None and not other_operand.is_tile_maximal:
        hidden = [*numbers(other_free, other), *(d.on(other) for d in free if d.on(other) >= 0)]
        shared = dims.batch + dims.contracting
        from_other = transpose_sharding_with_collapsed_dims(
            partially_replicate_tiled_sharding_on_dims(other_operand, hidden),
            _map(dims, other, side, shared),
            _map(dims, side, other, shared),
        )
        if from_other is not None:
            merged = merge_sharding(sharding, from_other, may_combine_partial_sharding=may_combine_partial_sharding)
            sharding = merged or sharding
    return sharding


def _map(dims: DotDimensions, source: DotOperand, target: DotOperand, shared: Sequence[DimNums]) -> tuple[int, ...]:
    """Return `index_map` of some dimensions only."""
    found = [-1] * dims.rank(source)
    for dim in shared:
        if dim.on(source) >= 0:
            found[dim.on(source)] = dim.on(target)
    return tuple(found)

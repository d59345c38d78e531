"""Partition dots: try ways from the cheapest on.

Each way may group the devices and recurse within a group.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import Window
from xlanb.hlo.opcode import HloOpcode
from xlanb.spmd.partitioner.convolution import partition_conv, sharded_convolution
from xlanb.spmd.partitioner.dot_case import CreateSharded, DotCase, infer_dot_operand_sharding
from xlanb.spmd.partitioner.dot_contracting import partition_by_contracting, partition_without_output_replication
from xlanb.spmd.partitioner.dot_dimensions import DotDimensions, DotOperand, convolution_dimensions, dot_dimensions
from xlanb.spmd.partitioner.dot_groups import partition_by_batch, partition_by_non_contracting
from xlanb.spmd.partitioner.dot_whole import partition_after_grouping, partition_before_grouping
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction

_WAYS = (
    partition_before_grouping,
    partition_by_batch,
    partition_by_non_contracting,
    partition_by_contracting,
    partition_without_output_replication,
    partition_after_grouping,
)


def partition_dot(c: DotCase) -> HloInstruction:
    """Partition the dot, first by the operands' own groups of devices, then by moving data."""
    for exact in (True, False):
        dot = _partition(replace(c, exact_groups=exact))
        if dot is not None:
            return dot
    if not c.dims.conv_spatial:
        return _with_operands_moved_to_output(c)
    whole = c.output_sharding.replicate()
    reason = "no partitioning of this convolution applies: every device computes all of it"
    dot = c.sharded(c.reshard(DotOperand.LHS, whole, reason), c.reshard(DotOperand.RHS, whole, reason))
    return c.finished(dot, whole, reason)


def _partition(c: DotCase) -> HloInstruction | None:
    if c.hlo.opcode is HloOpcode.CONVOLUTION:
        decided, conv = partition_conv(c)
        if decided:
            return conv
    for way in _WAYS:
        dot = way(c)
        if dot is not None:
            return dot
    return None


def _with_operands_moved_to_output(c: DotCase) -> HloInstruction:
    """Reshard both operands as the output's sharding requires."""
    moved = []
    for side in (DotOperand.LHS, DotOperand.RHS):
        target = infer_dot_operand_sharding(
            c.output_sharding,
            c.sharding(side),
            side,
            c.dims,
            consider_other_operand=False,
            may_combine_partial_sharding=False,
        )
        moved.append(c.reshard(side, target, "no split of the operands applies: they get the sharding of the output"))
    return c.sharded(moved[0], moved[1])


@handles("dot")
def handle_dot(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a dot by its dimensions."""

    def create(lhs: PartitionedHlo, rhs: PartitionedHlo, window: Window) -> HloInstruction:
        # The shape is inferred from the parts. The element type is the dot's, which may be wider
        # than the operands'.
        dot = lhs.state.b.add(HloOpcode.DOT, (lhs.hlo, rhs.hlo), None, **hlo.attributes)
        element_type = hlo.array_shape.element_type
        if dot.array_shape.element_type != element_type:
            dot.parent.update(dot, shape=dot.array_shape.with_type(element_type))
        return dot

    _handle(v, hlo, dot_dimensions(hlo), create)


@handles("convolution")
def handle_convolution(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Partition a convolution as a dot, or by exchanging halos of its spatial dimensions."""
    dims = convolution_dimensions(hlo)
    _handle(v, hlo, dims, sharded_convolution(hlo, dims))


def _handle(v: SpmdPartitioningVisitor, hlo: HloInstruction, dims: DotDimensions, create: CreateSharded) -> None:
    sharding = v.sharding(hlo)
    if sharding.has_unique_device:
        v.default_action(hlo)
        return
    lhs, rhs = (v.partitioned(o) for o in hlo.operands[:2])
    if lhs.hlo is rhs.hlo:
        # The two may be resharded and grouped differently.
        copy = rhs.state.b.add(HloOpcode.COPY, (rhs.hlo,), rhs.hlo.shape)
        rhs = rhs.with_hlo(copy, rhs.sharding)
    case = DotCase(
        hlo=hlo,
        lhs=lhs,
        rhs=rhs,
        output_shape=hlo.array_shape,
        output_sharding=sharding,
        dims=dims,
        num_partitions=v.state.num_partitions,
        create=create,
        recurse=partition_dot,
        options=v.state.options,
        window=hlo.window,
    )
    v.set_partitioned(hlo, partition_dot(case))

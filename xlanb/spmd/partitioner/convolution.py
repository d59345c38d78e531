"""Partition convolutions.

The ways are by feature or batch groups, or along spatial dimensions with halo exchange.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo import shape_inference
from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.convolution_halo import grouped_dimension_is_split, partition_with_halo_on_lhs
from xlanb.spmd.partitioner.dot_case import CreateSharded, DotCase, transposed
from xlanb.spmd.partitioner.dot_dimensions import (
    DotDimensions,
    DotOperand,
    PartitionCounts,
    partitions_of,
    with_batch_groups_as_batch,
    with_feature_groups_as_batch,
)
from xlanb.spmd.partitioner.dot_groups import group_on_batch
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_zero, make_partitioned_shape, shard_count_at_dim
from xlanb.spmd.partitioner.windows import reshard_as_windowed_input
from xlanb.spmd.sharding_util import partially_replicate_tiled_sharding_on_all_dims_except, transpose_sharding

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


def sharded_convolution(conv: HloInstruction, dims: DotDimensions) -> CreateSharded:
    """Return a function that makes `conv` on operand parts, with matching window and groups."""
    n: ConvolutionDimensionNumbers = conv.get("dim_labels")

    def create(lhs: PartitionedHlo, rhs: PartitionedHlo, window: Window) -> HloInstruction:
        left, right = lhs.hlo.array_shape.dimensions, rhs.hlo.array_shape.dimensions
        attributes = dict(conv.attributes)
        attributes["window"] = _window_of_parts(conv, dims, left, right, window)
        if conv.get("feature_group_count") > 1:
            attributes["feature_group_count"] = left[n.input_feature] // right[n.kernel_input_feature]
        if conv.get("batch_group_count") > 1:
            attributes["batch_group_count"] = left[n.input_batch] // conv.array_shape.dimensions[n.output_batch]
        shape = shape_inference.infer(HloOpcode.CONVOLUTION, (lhs.hlo.shape, rhs.hlo.shape), attributes).as_array()
        shape = shape.with_type(conv.array_shape.element_type).with_layout(conv.array_shape.layout)
        return lhs.state.b.add(HloOpcode.CONVOLUTION, (lhs.hlo, rhs.hlo), shape, **attributes)

    return create


def _window_of_parts(
    conv: HloInstruction, dims: DotDimensions, left: Sequence[int], right: Sequence[int], window: Window
) -> Window:
    """Return the window over parts of the operands.

    Spatial dimensions take those of `window`; the others follow from their kind.
    """
    made = list(conv.window.dimensions)
    for d in dims.batch:
        size = left[d.lhs]
        made[d.spatial_dim] = replace(made[d.spatial_dim], size=size, stride=max(1, size - 1), base_dilation=size)
    for d in dims.contracting:
        if d.spatial_dim >= 0:
            made[d.spatial_dim] = replace(made[d.spatial_dim], size=left[d.lhs])
    for d in dims.rhs_non_contracting:
        if d.spatial_dim >= 0:
            size = right[d.rhs]
            made[d.spatial_dim] = replace(made[d.spatial_dim], size=size, padding_low=size - 1, padding_high=size - 1)
    for d in dims.conv_spatial:
        new = window.dimensions[d.spatial_dim]
        made[d.spatial_dim] = replace(
            made[d.spatial_dim], size=new.size, padding_low=new.padding_low, padding_high=new.padding_high
        )
    return Window(tuple(made))


# -- ways to partition -----------------------------------------------------------------------------


def partition_conv(c: DotCase) -> tuple[bool, HloInstruction | None]:
    """Try the ways to partition that only convolutions have.

    Returns:
        Whether they apply, and the result; None if only the default is left.
    """
    dims, counts = c.dims, c.counts
    spatial = max(
        partitions_of(c.sharding(side), dims.conv_spatial, side)
        for side in (DotOperand.LHS, DotOperand.RHS, DotOperand.OUTPUT)
    )
    otherwise_split = max(counts.lhs_batch, counts.rhs_batch, counts.output_batch) > 1 or (
        counts.lhs_contracting > 1 and counts.rhs_contracting > 1
    )
    feature_groups, batch_groups = c.hlo.get("feature_group_count"), c.hlo.get("batch_group_count")
    if not (spatial > 1 and not otherwise_split) and feature_groups == 1 and batch_groups == 1:
        return False, None
    n: ConvolutionDimensionNumbers = c.hlo.get("dim_labels")
    if feature_groups > 1 and c.rhs.hlo.array_shape.dimensions[n.kernel_input_feature] > 1:
        return True, None
    conv = _partition_whole(c, n)
    if conv is not None:
        return True, conv
    if feature_groups > 1 or batch_groups > 1:
        return True, _partition_groups(c, n)
    return False, None


def _partition_whole(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    """Partition a convolution in which all devices split one kind of dimension."""
    if c.hlo.get("batch_group_count") > 1:
        conv = _with_batch_groups(c, n)
        if conv is not None:
            return conv
    if c.hlo.get("feature_group_count") > 1:
        conv = _with_feature_groups(c, n)
        if conv is not None:
            return conv
    if not c.lhs.sharding.is_tile_maximal and not c.rhs.sharding.is_tile_maximal:
        # Exchanging halos of the lhs is XLA:CPU's choice for every convolution.
        conv = partition_with_halo_on_lhs(c, n)
        if conv is not None:
            return conv
    return None if c.output_sharding.is_tile_maximal else _with_tiled_output(c, n)


def _inverse(permutation: Sequence[int]) -> list[int]:
    found = [0] * len(permutation)
    for i, p in enumerate(permutation):
        found[p] = i
    return found


def _map(rank: int, pairs: Sequence[tuple[int, int]]) -> list[int]:
    found = [0] * rank
    for at, value in pairs:
        found[at] = value
    return found


def _aligned(
    c: DotCase, rhs_to_lhs: Sequence[int], lhs_to_output: Sequence[int], lhs_dim: int, rhs_dim: int, reason: str
) -> HloInstruction | None:
    """Align operands if all devices split one of them along its group dimension.

    The other operand and the output follow.
    """
    if shard_count_at_dim(c.lhs.sharding, lhs_dim) == c.num_partitions:
        lhs, rhs = c.lhs, c.reshard(DotOperand.RHS, transpose_sharding(c.lhs.sharding, rhs_to_lhs), reason)
    elif shard_count_at_dim(c.rhs.sharding, rhs_dim) == c.num_partitions:
        lhs = c.reshard(DotOperand.LHS, transpose_sharding(c.rhs.sharding, _inverse(rhs_to_lhs)), reason)
        rhs = c.rhs
    else:
        return None
    return c.finished(c.sharded(lhs, rhs), transpose_sharding(lhs.sharding, lhs_to_output), reason)


def _spatial(to: Sequence[int], of: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(to, of, strict=True))


def _with_batch_groups(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    groups = c.hlo.get("batch_group_count")
    batch = c.lhs.array_shape.dimensions[n.input_batch]
    if groups % c.num_partitions or not batch == groups == c.rhs.array_shape.dimensions[n.kernel_output_feature]:
        return None
    rank = c.output_shape.rank
    rhs_to_lhs = _map(
        rank,
        [
            (n.kernel_output_feature, n.input_batch),
            (n.kernel_input_feature, n.input_feature),
            *_spatial(n.kernel_spatial, n.input_spatial),
        ],
    )
    lhs_to_output = _map(
        rank,
        [
            (n.input_batch, n.output_feature),
            (n.input_feature, n.output_batch),
            *_spatial(n.input_spatial, n.output_spatial),
        ],
    )
    reason = "the convolution is split by its batch groups"
    return _aligned(c, rhs_to_lhs, lhs_to_output, n.input_batch, n.kernel_output_feature, reason)


def _with_feature_groups(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    groups = c.hlo.get("feature_group_count")
    features = c.lhs.array_shape.dimensions[n.input_feature]
    if groups % c.num_partitions or features % groups:
        return None
    if c.rhs.array_shape.dimensions[n.kernel_output_feature] % groups:
        return None
    rank = c.output_shape.rank
    rhs_to_lhs = _map(
        rank,
        [
            (n.kernel_output_feature, n.input_feature),
            (n.kernel_input_feature, n.input_batch),
            *_spatial(n.kernel_spatial, n.input_spatial),
        ],
    )
    lhs_to_output = _map(
        rank,
        [
            (n.input_feature, n.output_feature),
            (n.input_batch, n.output_batch),
            *_spatial(n.input_spatial, n.output_spatial),
        ],
    )
    reason = "the convolution is split by its feature groups"
    return _aligned(c, rhs_to_lhs, lhs_to_output, n.input_feature, n.kernel_output_feature, reason)


def _with_tiled_output(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    """Partition a convolution whose output is split along batch and spatial dimensions.

    The input is split likewise, with halos; the kernel is replicated.
    """
    if shard_count_at_dim(c.output_sharding, n.output_feature) > 1:
        return None
    if grouped_dimension_is_split(c.hlo, c.lhs, c.rhs):
        return None
    rank = c.output_shape.rank
    input_to_output = _map(
        rank,
        [
            (n.input_batch, n.output_batch),
            (n.input_feature, n.output_feature),
            *_spatial(n.input_spatial, n.output_spatial),
        ],
    )
    target = transpose_sharding(c.output_sharding, input_to_output)
    if c.hlo.get("batch_group_count") > 1 and shard_count_at_dim(target, n.input_batch) > 1:
        # Each part of the output's batch needs every group of the input's.
        return None
    reason = "the output is split along its batch or spatial dimensions"
    lhs = c.reshard(DotOperand.LHS, target, reason)
    rhs = c.reshard(DotOperand.RHS, HloSharding.replicate(), reason)
    window = [WindowDimension(1)] * rank
    for dim, wd in zip(n.input_spatial, c.window.dimensions, strict=True):
        window[dim] = wd
    zero = create_zero(array(c.output_shape.element_type), c.state.b)
    reason = "each device's part of the output reads input of other devices"
    with c.because(DotOperand.LHS, lhs.sharding, target, reason, CauseKind.HALO):
        windowed = reshard_as_windowed_input(lhs, Window(tuple(window)), target, zero)
    if windowed is None:
        return None
    shard_window = Window(tuple(windowed.shard_window.dimensions[d] for d in n.input_spatial))
    part = lhs.with_hlo(windowed.sharded_input)
    conv = c.create(part, rhs, shard_window)
    offsets = windowed.dynamic_slice_index_on_output
    if offsets is None:
        return conv
    shape = make_partitioned_shape(c.output_shape, c.output_sharding).as_array()
    offsets = tuple(offsets[input_to_output.index(d)] for d in range(rank))
    return c.state.b.add(HloOpcode.DYNAMIC_SLICE, (conv, *offsets), shape, dynamic_slice_sizes=shape.dimensions)


# -- groups of devices -----------------------------------------------------------------------------


def _partition_groups(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    """Group the devices by feature or batch groups, or split by these and replicate the rest."""
    dims = _dims_with_groups_as_batch(c, n)
    if dims is None:
        return None
    counts = PartitionCounts.of(c.lhs.sharding, c.rhs.sharding, c.output_sharding, dims)
    if counts.output_batch > 1 and counts.output_batch in (counts.lhs_batch, counts.rhs_batch):
        conv = group_on_batch(replace(c, dims=dims))
        if conv is not None:
            return conv
    most = max(counts.lhs_batch, counts.rhs_batch, counts.output_batch)
    groups = [c.hlo.get("batch_group_count"), c.hlo.get("feature_group_count")]
    if c.exact_groups or most == 1 or not any(g > 1 and g % most == 0 for g in groups):
        return None
    lhs_dim = n.input_batch if groups[0] > 1 else n.input_feature
    reason = f"the convolution is split by its groups, {most} ways, and replicated otherwise"
    for split, side, dim in (
        (counts.lhs_batch, DotOperand.LHS, lhs_dim),
        (counts.rhs_batch, DotOperand.RHS, n.kernel_output_feature),
        (counts.output_batch, DotOperand.OUTPUT, n.output_feature),
    ):
        if split == most:
            kept = partially_replicate_tiled_sharding_on_all_dims_except(c.sharding(side), (dim,))
            parts = []
            for operand in (DotOperand.LHS, DotOperand.RHS):
                first = kept if operand is side else transposed(kept, dims, side, operand)
                parts.append(c.reshard(operand, first, reason))
            output = kept if side is DotOperand.OUTPUT else transposed(kept, dims, side, DotOperand.OUTPUT)
            return c.finished(c.sharded(parts[0], parts[1]), output, reason)
    return None


def _dims_with_groups_as_batch(c: DotCase, n: ConvolutionDimensionNumbers) -> DotDimensions | None:
    """Return the dimensions with groups as batch dimensions, if the parts hold whole groups."""
    dims = None
    for count, lhs_dim, convert in (
        ("feature_group_count", n.input_feature, with_feature_groups_as_batch),
        ("batch_group_count", n.input_batch, with_batch_groups_as_batch),
    ):
        groups = c.hlo.get(count)
        if groups == 1:
            continue
        equal = c.lhs.array_shape.dimensions[lhs_dim] == c.rhs.array_shape.dimensions[n.kernel_output_feature]
        even = c.lhs.sharding.is_tiled and groups % shard_count_at_dim(c.lhs.sharding, lhs_dim) == 0
        if equal or even:
            dims = convert(c.dims, c.hlo)
    return dims

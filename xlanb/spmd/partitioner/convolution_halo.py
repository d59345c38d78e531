"""Partition a convolution with both operands split along spatial dimensions.

Exchanges halos of the lhs, then adds partial sums. Device i has part i of the kernel, and needs the
input that this part reaches from every window:

    from  rhs_shard * dilation * i - padding_low
    up to rhs_shard * dilation * (i + 1) - (dilation - 1) + (windows - 1) * stride - padding_low
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import ConvolutionDimensionNumbers, Window, WindowDimension
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.collectives import EVERYONE, get_partition_groups_for_replication
from xlanb.spmd.partitioner.dot_case import DotCase
from xlanb.spmd.partitioner.dot_dimensions import DotOperand
from xlanb.spmd.partitioner.halo import exchange_halo_and_get_valid_data
from xlanb.spmd.partitioner.offsets import MultiplyAddDivide
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import (
    create_zero,
    make_binary_add,
    make_tiled_partition_ordinals,
    shard_count_at_dim,
)
from xlanb.spmd.partitioner.windows import halo_exchange_to_pad_on_left
from xlanb.spmd.sharding_util import reverse_sharding, transpose_sharding

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction


_REACHES = "the kernel's parts read input of other devices"


def grouped_dimension_is_split(conv: HloInstruction, lhs: PartitionedHlo, rhs: PartitionedHlo) -> bool:
    """Whether devices split a dimension of groups, which is partitioned otherwise."""
    n: ConvolutionDimensionNumbers = conv.get("dim_labels")
    return any(
        conv.get(count) > 1
        and (
            shard_count_at_dim(lhs.sharding, lhs_dim) > 1
            or shard_count_at_dim(rhs.sharding, n.kernel_output_feature) > 1
        )
        for count, lhs_dim in (("feature_group_count", n.input_feature), ("batch_group_count", n.input_batch))
    )


def _aligned_operands(
    c: DotCase, rhs: PartitionedHlo, n: ConvolutionDimensionNumbers, reversed_dims: Sequence[int]
) -> tuple[PartitionedHlo, PartitionedHlo] | None:
    """Split both operands alike by resharding the smaller one, with padding zeroed.

    Returns None if batch or features are split.
    """
    rhs_to_lhs = [0] * c.output_shape.rank
    for at, value in (
        (n.kernel_output_feature, n.input_batch),
        (n.kernel_input_feature, n.input_feature),
        *zip(n.kernel_spatial, n.input_spatial, strict=True),
    ):
        rhs_to_lhs[at] = value
    lhs_to_rhs = [rhs_to_lhs.index(i) for i in range(len(rhs_to_lhs))]

    def unsupported(lhs_sharding: HloSharding, rhs_sharding: HloSharding) -> bool:
        return (
            shard_count_at_dim(lhs_sharding, n.input_batch) != 1
            or shard_count_at_dim(rhs_sharding, n.kernel_output_feature) != 1
        )

    # Reversing moves whole shards; the window's reversal reverses the data inside a shard.
    reason = "both operands are split along spatial dimensions"
    if c.lhs.base_shape.byte_size < rhs.base_shape.byte_size:
        target = transpose_sharding(reverse_sharding(rhs.sharding, reversed_dims), lhs_to_rhs)
        if unsupported(target, rhs.sharding):
            return None
        lhs = c.reshard(DotOperand.LHS, target, reason).pad_with_zero()
        return lhs, rhs.pad_with_zero(left_padded_dims=tuple(reversed_dims))
    target = reverse_sharding(transpose_sharding(c.lhs.sharding, rhs_to_lhs), reversed_dims)
    if unsupported(c.lhs.sharding, target):
        return None
    if any(
        rhs.array_shape.dimensions[d] % shard_count_at_dim(rhs.sharding, d)
        and shard_count_at_dim(rhs.sharding, d) != shard_count_at_dim(target, d)
        for d in reversed_dims
    ):
        # Padding before the data, split into other shards, would count as data.
        return None
    lhs = c.lhs.pad_with_zero()
    with c.because(DotOperand.RHS, rhs.sharding, target, reason):
        rhs = rhs.reshard(target)
    return lhs, rhs.pad_with_zero(left_padded_dims=tuple(reversed_dims))


def partition_with_halo_on_lhs(c: DotCase, n: ConvolutionDimensionNumbers) -> HloInstruction | None:
    """Exchange halos of the lhs, convolve with the device's kernel part, and add the results."""
    reversed_dims = [n.kernel_spatial[i] for i, wd in enumerate(c.window.dimensions) if wd.reversal]
    rhs = c.rhs
    if reversed_dims:
        moved = halo_exchange_to_pad_on_left(rhs, reversed_dims)
        if moved is None:
            return None
        rhs = rhs.with_hlo(moved, rhs.sharding)
    aligned = _aligned_operands(c, rhs, n, reversed_dims)
    if aligned is None:
        return None
    lhs, rhs = aligned
    if grouped_dimension_is_split(c.hlo, lhs, rhs) or any(wd.base_dilation != 1 for wd in c.window.dimensions):
        return None
    b = c.state.b
    ordinals = make_tiled_partition_ordinals(lhs.sharding, c.state.partition_id, b)
    window = list(c.window.dimensions)
    part = lhs.hlo
    for i, dim in enumerate(n.input_spatial):
        count = shard_count_at_dim(lhs.sharding, dim)
        if count == 1:
            continue
        rhs_shard = -(-rhs.array_shape.dimensions[n.kernel_spatial[i]] // count)
        with c.because(DotOperand.LHS, lhs.sharding, lhs.sharding, _REACHES, CauseKind.HALO):
            wider = _with_halo(part, lhs, c.window.dimensions[i], dim, rhs_shard, ordinals[dim])
        if wider is None:
            return None
        part = wider
        window[i] = replace(c.window.dimensions[i], size=rhs_shard, padding_low=0, padding_high=0)
    conv = c.create(lhs.with_hlo(part), rhs, Window(tuple(window)))
    whole = HloSharding.replicate()
    reason = "each device convolves with its own part of the kernel"
    with c.because(DotOperand.OUTPUT, lhs.sharding, whole, reason, CauseKind.PARTIAL_REDUCTION):
        add = make_binary_add(c.output_shape.element_type, c.state.module)
        # Devices with the same parts have the same partial result, which XLA adds once for each.
        replicated = lhs.sharding.replicate_on_last_tile_dim
        split = range(lhs.sharding.tiled_data_rank)
        groups = get_partition_groups_for_replication(lhs.sharding, split) if replicated else EVERYONE
        total = c.state.collectives.all_reduce(conv, add, groups)
    return c.finished(total, whole, reason)


def _with_halo(
    part: HloInstruction, lhs: PartitionedHlo, wd: WindowDimension, dim: int, rhs_shard: int, ordinal: HloInstruction
) -> HloInstruction | None:
    """Extend the lhs's part along a spatial dimension by what the kernel's part reaches."""
    count = shard_count_at_dim(lhs.sharding, dim)
    base = lhs.array_shape.dimensions[dim]
    lhs_shard = -(-base // count)
    reach = 1 + (wd.size - 1) * wd.window_dilation
    windows = 1 + (wd.padding_low + wd.padding_high + base - reach) // wd.stride
    extra = rhs_shard * wd.window_dilation - lhs_shard
    left = MultiplyAddDivide(-extra, wd.padding_low)
    right = MultiplyAddDivide(extra, extra + 1 - wd.window_dilation + wd.stride * (windows - 1) - wd.padding_low)
    b = lhs.state.b
    zero = create_zero(array(lhs.hlo.array_shape.element_type), b)
    return exchange_halo_and_get_valid_data(
        part,
        lhs.array_shape,
        left,
        right,
        explicit_left_padding=wd.padding_low,
        padded_full_size=0,
        shard_size_with_halo=wd.stride * (windows - 1) + (rhs_shard - 1) * wd.window_dilation + 1,
        dim=dim,
        target=lhs.sharding,
        offset_on_padded_shape=MultiplyAddDivide().calculate(ordinal, b),
        pad_value=zero,
        partition_ordinal=ordinal,
        state=lhs.state,
        # Permutes bring zeros where there is no neighbor, and uneven padding is zeroed already.
        mask_invalid_region=False,
    )

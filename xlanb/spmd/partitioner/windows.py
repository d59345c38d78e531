"""Reshard the input of a windowed operation so that every device has what its windows read.

    reduce-window over [16] in 4 shards of 4, window 3, padding 1 and 1
    shard 1 has elements 4..7, and reads 3..8: one from the left neighbor, one from the right one

`plan_dimension` returns, for one dimension, what each shard reads. `reshard_as_windowed_input` pads
and slices whole dimensions, and exchanges halos of split ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.attributes import PaddingDimension, SliceDimension, Window, WindowDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape.shape import array
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.halo import exchange_halo_and_get_valid_data
from xlanb.spmd.partitioner.offsets import MultiplyAddDivide
from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo
from xlanb.spmd.partitioner.utilities import create_zero, make_tiled_partition_ordinals
from xlanb.spmd.partitioner.window_plan import DimensionPlan, is_trivial, plan_dimension
from xlanb.spmd.sharding_util import partially_replicate_tiled_sharding_on_dims

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder


@dataclass(frozen=True)
class WindowedInputShardReturnValue:
    """The input of a device's windowed operation."""

    sharded_input: HloInstruction
    shard_window: Window
    """The window over it."""
    dynamic_slice_index_on_output: tuple[HloInstruction, ...] | None
    """Where the device's part starts in a larger result (s32[] each), or None."""


def sharding_replicated_on_windowed_dimensions(sharding: HloSharding, window: Window) -> HloSharding:
    """Return the sharding with every dimension replicated whose windows exceed one element."""
    hidden = [i for i, wd in enumerate(window.dimensions) if not is_trivial(wd)]
    return partially_replicate_tiled_sharding_on_dims(sharding, hidden)


@dataclass
class _Reshard:
    """One input, its target, and each dimension's plan."""

    operand: PartitionedHlo
    window: Window
    target: HloSharding
    pad_value: HloInstruction
    plans: list[DimensionPlan]

    @property
    def b(self) -> SpmdBuilder:
        """The builder."""
        return self.operand.state.b

    @property
    def shape(self) -> ArrayShape:
        """The shape of the whole."""
        return self.operand.array_shape

    def result(self, hlo: HloInstruction) -> WindowedInputShardReturnValue:
        """Return the resharded input, with the window and offsets of the plans."""
        offsets: tuple[HloInstruction, ...] | None = None
        if any(p.output_offset is not None for p in self.plans):
            zero = self.b.s32(0)
            offsets = tuple(zero if p.output_offset is None else p.output_offset for p in self.plans)
        return WindowedInputShardReturnValue(hlo, Window(tuple(p.window for p in self.plans)), offsets)

    def from_whole(self) -> WindowedInputShardReturnValue:
        """Pad and slice an input whose windowed dimensions are whole on every device."""
        hlo, whole = self.operand.hlo, self.operand.sharding.is_replicated
        padding, sizes = [], []
        for i, plan in enumerate(self.plans):
            # Skip a dimension that is sharded as the target, unless nothing is split yet.
            if self.target.dimension(i) == 1 or (plan.aligned and not whole):
                padding.append(PaddingDimension())
                sizes.append(hlo.array_shape.dimensions[i])
            else:
                # With base dilation, the last shard may read less than its slice, which is as long
                # as the largest shard's.
                size = max(plan.padded_size, plan.start.at(plan.tiles - 1) + plan.shard_size)
                low = plan.explicit_left_padding
                padding.append(PaddingDimension(low, size - low - self.shape.dimensions[i]))
                sizes.append(size)
        if any(p != PaddingDimension() for p in padding):  # a shift pads at the start what it slices off at the end
            padded = self.shape.with_dimensions(sizes)
            hlo = self.b.add(HloOpcode.PAD, (hlo, self.pad_value), padded, padding=tuple(padding))
        shard = self.shape.with_dimensions([p.shard_size for p in self.plans])
        offsets = [p.offset for p in self.plans]
        part = self.b.add(HloOpcode.DYNAMIC_SLICE, (hlo, *offsets), shard, dynamic_slice_sizes=shard.dimensions)
        return self.result(part)

    def trimmed_target(self) -> HloSharding:
        """Return the target without the shards whose input is unused."""
        if not any(p.trimmed for p in self.plans):
            return self.target
        tiles = self.target.tile_assignment
        index = []
        for p in self.plans:
            row = np.arange(p.tiles)
            first, skipped = p.middle
            index.append(np.where(row >= first, row + skipped, row) if first >= 0 else row)
        if self.target.replicate_on_last_tile_dim:
            index.append(np.arange(self.target.dimensions[-1]))
            return HloSharding.partial_tile(tiles[np.ix_(*index)])
        return HloSharding.tile(tiles[np.ix_(*index)])

    def with_halos(self, *, mask_invalid_region: bool, force_mask_in_compact: bool) -> HloInstruction | None:
        """Exchange halos one dimension after the other; None if the halos are too long."""
        target = self.trimmed_target()
        hlo = self.operand.hlo
        masked = [i for i, p in enumerate(self.plans) if p.needs_pre_masking]
        if masked:
            skipped = tuple(i for i in range(self.shape.rank) if i not in masked)
            hlo = self.operand.pad_with_value(self.pad_value, skipped_dims=skipped).hlo
        if any(p.sliced for p in self.plans):
            box = tuple(SliceDimension(p.slice_start, p.slice_limit) for p in self.plans)
            shape = self.shape.with_dimensions([s.limit - s.start for s in box])
            hlo = self.b.add(HloOpcode.SLICE, (hlo,), shape, slice=box)
        base = self.shape.with_dimensions([p.halo_base_size for p in self.plans])
        for dim, plan in enumerate(self.plans):
            count = target.dimension(dim)
            if count == 1 or plan.aligned:
                continue
            size = -(-base.dimensions[dim] // count)
            made = exchange_halo_and_get_valid_data(
                hlo,
                base,
                MultiplyAddDivide(size, plan.explicit_left_padding) - plan.start,
                plan.limit - MultiplyAddDivide(size, size + plan.explicit_left_padding),
                explicit_left_padding=plan.explicit_left_padding,
                padded_full_size=plan.padded_size,
                shard_size_with_halo=plan.shard_size,
                dim=dim,
                target=target,
                offset_on_padded_shape=plan.offset,
                pad_value=self.pad_value,
                partition_ordinal=plan.ordinal,
                state=self.operand.state,
                mask_invalid_region=mask_invalid_region,
                force_mask_in_compact=force_mask_in_compact,
            )
            if made is None:
                return None
            hlo = made
        return hlo


def reshard_as_windowed_input(
    operand: PartitionedHlo,
    window: Window,
    target: HloSharding,
    pad_value: HloInstruction,
    *,
    mask_invalid_region: bool = True,
    force_mask_in_compact: bool = False,
) -> WindowedInputShardReturnValue | None:
    """Reshard `operand` to what each device's windows read, for an output with sharding `target`.

    `window` has a dimension for each of the operand's. Returns None if this is not possible: the
    shards do not divide a dilation, or a window is larger than the padded input.
    """
    cache = operand.state.reshard_cache.of(operand.hlo).window_reshard
    if (target, window) in cache:
        known: WindowedInputShardReturnValue = cache[target, window]
        return known
    state = operand.state
    ordinals = make_tiled_partition_ordinals(target, state.partition_id, state.b)
    plans = []
    for i in range(operand.array_shape.rank):
        plan = plan_dimension(operand, window.dimensions[i], i, target.dimension(i), ordinals[i])
        if plan is None:
            return None
        plans.append(plan)
    r = _Reshard(operand, window, target, pad_value, plans)
    have = operand.sharding
    without_windows = sharding_replicated_on_windowed_dimensions(target, window)
    if have.is_replicated or (target != have and without_windows == have):
        made = r.from_whole()
    elif target != have:
        return reshard_as_windowed_input(operand.reshard(target), window, target, pad_value)
    elif math.prod(p.tiles for p in plans) == 1:
        made = r.result(operand.hlo)
    else:
        hlo = r.with_halos(mask_invalid_region=mask_invalid_region, force_mask_in_compact=force_mask_in_compact)
        if hlo is not None:
            made = r.result(hlo)
        elif without_windows == have:
            made = r.from_whole()
        else:
            return reshard_as_windowed_input(operand.reshard(without_windows), window, target, pad_value)
    cache[target, window] = made
    return made


def halo_exchange_to_pad_on_left(original: PartitionedHlo, dims: Sequence[int]) -> HloInstruction | None:
    """Move the padding of an uneven split from the end to the front; None if halos cannot do it."""
    if original.sharding.is_tile_maximal:
        return original.hlo
    window = []
    for i, size in enumerate(original.array_shape.dimensions):
        count = original.sharding.dimension(i)
        window.append(WindowDimension(1, padding_low=-size % count if i in dims else 0))
    zero = create_zero(array(original.array_shape.element_type), original.state.b)
    made = reshard_as_windowed_input(
        original, Window(tuple(window)), original.sharding, zero, mask_invalid_region=False
    )
    return None if made is None else made.sharded_input

"""Partition reduce-window and select-and-scatter.

Exchanges halos, then each device reduces its own windows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo import shape_inference
from xlanb.hlo.attributes import Window, WindowDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.hlo_sharding import HloSharding
from xlanb.spmd.partitioner.causes import CauseKind
from xlanb.spmd.partitioner.halo import exchange_halo_and_get_valid_data
from xlanb.spmd.partitioner.offsets import CombinedOffset, MultiplyAddDivide, OffsetCalculation
from xlanb.spmd.partitioner.utilities import make_partitioned_shape, make_tiled_partition_ordinals
from xlanb.spmd.partitioner.visitor import SpmdPartitioningVisitor, handles
from xlanb.spmd.partitioner.windows import WindowedInputShardReturnValue, reshard_as_windowed_input

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo

_READS_BEYOND = "a device's windows read elements of other devices"


@handles("reduce-window")
def handle_reduce_window(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Exchange what each device's windows read, and reduce them there."""
    sharding = v.sharding(hlo)
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    count = len(hlo.operands) // 2
    windowed: list[WindowedInputShardReturnValue] = []
    inits: list[HloInstruction] = []
    for i in range(count):
        operand = v.partitioned(hlo.operands[i])
        init = v.partitioned(hlo.operands[count + i]).replicate().hlo
        target = sharding.tuple_elements[i] if sharding.is_tuple else sharding
        with v.state.because(hlo, i, operand.sharding, target, _READS_BEYOND, kind=CauseKind.HALO):
            made = reshard_as_windowed_input(operand, hlo.window, target, init)
        if made is None:
            v.default_action(hlo)
            return
        windowed.append(made)
        inits.append(init)
    operands = [*(w.sharded_input for w in windowed), *inits]
    attributes = {**hlo.attributes, "window": windowed[0].shard_window}
    shape = shape_inference.infer(HloOpcode.REDUCE_WINDOW, [o.shape for o in operands], attributes)
    reduced = v.b.add(HloOpcode.REDUCE_WINDOW, operands, shape, **attributes)
    offsets = windowed[0].dynamic_slice_index_on_output
    if offsets is not None:
        part = make_partitioned_shape(hlo.shape, sharding).as_array()
        reduced = v.b.add(HloOpcode.DYNAMIC_SLICE, (reduced, *offsets), part, dynamic_slice_sizes=part.dimensions)
    v.set_partitioned(hlo, reduced)


# -- select-and-scatter ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _ShardWindows:
    """The windows that a dimension's shards need, and the source and data elements these need."""

    wd: WindowDimension
    first: MultiplyAddDivide
    limit: MultiplyAddDivide
    source_left: OffsetCalculation
    source_right: OffsetCalculation
    data_left: OffsetCalculation
    data_right: OffsetCalculation

    def reaches_too_far_left(self, count: int) -> bool:
        """Whether the first shard's windows start before all that halos and padding provide.

        Some of these windows do not exist.
        """
        most_source = max(0, self.source_left.max_in_range(1, count))
        most_data = max(self.wd.padding_low, self.data_left.max_in_range(1, count))
        return self.source_left.at(0) > most_source or self.data_left.at(0) > most_data

    @staticmethod
    def of(wd: WindowDimension, data: int, source: int) -> _ShardWindows:
        """Return the windows for shards with `data` elements of operand and `source` of source."""
        # Gaps between windows are in the output too: keep them.
        wd = replace(wd, size=max(wd.size, wd.stride))
        first = MultiplyAddDivide(data, wd.padding_low - wd.size + wd.stride, wd.stride)
        limit = MultiplyAddDivide(data, data + wd.padding_low + wd.stride - 1, wd.stride)
        stride = MultiplyAddDivide(0, wd.stride)
        return _ShardWindows(
            wd,
            first,
            limit,
            source_left=MultiplyAddDivide(source) - first,
            source_right=limit - MultiplyAddDivide(source, source),
            data_left=MultiplyAddDivide(data, wd.padding_low) - CombinedOffset(HloOpcode.MULTIPLY, first, stride),
            data_right=CombinedOffset(HloOpcode.MULTIPLY, limit, stride)
            - MultiplyAddDivide(data, data + wd.stride + wd.padding_low - wd.size),
        )


def _losing_value(hlo: HloInstruction) -> float | None:
    """Return a value that `select` never prefers over data.

    Returns None if `select` is not a comparison of its two parameters.
    """
    root = hlo.attributes["select"].root
    if root.opcode is not HloOpcode.COMPARE or any(o.opcode is not HloOpcode.PARAMETER for o in root.operands):
        return None
    numbers = [o.parameter_number for o in root.operands]
    direction = root.get("direction")
    if sum(numbers) != 1 or direction not in ("GE", "GT", "LE", "LT"):
        return None
    largest_wins = (direction in ("GE", "GT")) == (numbers[0] == 0)
    return -np.inf if largest_wins else np.inf


@handles("select-and-scatter")
def handle_select_and_scatter(v: SpmdPartitioningVisitor, hlo: HloInstruction) -> None:
    """Give each device all windows that touch its elements, and keep its own part of the result."""
    sharding = v.sharding(hlo)
    padding = _losing_value(hlo)
    element_type = hlo.array_shape.element_type
    if sharding.is_tile_maximal:
        v.default_action(hlo)
        return
    operand = _moved(v, hlo, 0, sharding)
    source = _moved(v, hlo, 1, sharding)
    if padding is None or element_type not in (PrimitiveType.F32, PrimitiveType.BF16):
        v.default_action(hlo)
        return
    b = v.b
    pad_value = b.constant(np.asarray(padding, hlo.array_shape.dtype))
    init = v.partitioned(hlo.operands[2]).replicate().hlo
    ordinals = make_tiled_partition_ordinals(sharding, v.state.partition_id, b)
    data_shape = make_partitioned_shape(hlo.shape, sharding).as_array()
    source_shape = make_partitioned_shape(hlo.operands[1].shape, sharding).as_array()
    plans = {
        i: _ShardWindows.of(wd, data_shape.dimensions[i], source_shape.dimensions[i])
        for i, wd in enumerate(hlo.window.dimensions)
        if sharding.dimension(i) > 1
    }
    if any(plan.reaches_too_far_left(sharding.dimension(i)) for i, plan in plans.items()):
        v.default_action(hlo)
        return
    data_part, source_part = operand.hlo, source.hlo
    for i, plan in plans.items():
        with v.state.because(hlo, None, sharding, sharding, _READS_BEYOND, kind=CauseKind.HALO):
            parts = _with_halos(
                data_part, source_part, operand, source, plan, i, sharding, ordinals[i], pad_value, init
            )
        if parts is None:
            v.default_action(hlo)
            return
        data_part, source_part = parts
    window = Window(
        tuple(
            replace(wd, padding_low=0, padding_high=0) if i in plans else wd
            for i, wd in enumerate(hlo.window.dimensions)
        )
    )
    scattered = b.add(
        HloOpcode.SELECT_AND_SCATTER,
        (data_part, source_part, init),
        data_part.shape,
        **{**hlo.attributes, "window": window},
    )
    v.set_partitioned(hlo, _own_part(v, scattered, data_shape, plans, ordinals))


def _moved(v: SpmdPartitioningVisitor, hlo: HloInstruction, index: int, sharding: HloSharding) -> PartitionedHlo:
    operand = v.partitioned(hlo.operands[index])
    reason = "its operands must have the sharding of the result"
    with v.state.because(hlo, index, operand.sharding, sharding, reason):
        return operand.reshard(sharding)


def _with_halos(
    data_part: HloInstruction,
    source_part: HloInstruction,
    operand: PartitionedHlo,
    source: PartitionedHlo,
    plan: _ShardWindows,
    dim: int,
    sharding: HloSharding,
    ordinal: HloInstruction,
    pad_value: HloInstruction,
    init: HloInstruction,
) -> tuple[HloInstruction, HloInstruction] | None:
    """Extend data and source along a dimension by halos; None if the halos are too long."""
    b, count, wd = operand.state.b, sharding.dimension(dim), plan.wd
    windows = (plan.limit - plan.first).max_in_range(0, count)
    last = plan.limit.at(count - 1)
    first = plan.first.calculate(ordinal, b)
    new_source = exchange_halo_and_get_valid_data(
        source_part,
        source.array_shape,
        plan.source_left,
        plan.source_right,
        explicit_left_padding=0,
        padded_full_size=last,
        shard_size_with_halo=windows,
        dim=dim,
        target=sharding,
        offset_on_padded_shape=first,
        pad_value=init,
        partition_ordinal=ordinal,
        state=operand.state,
    )
    if new_source is None:
        return None
    offset = MultiplyAddDivide(wd.stride).calculate(first, b)
    new_data = exchange_halo_and_get_valid_data(
        data_part,
        operand.array_shape,
        plan.data_left,
        plan.data_right,
        explicit_left_padding=wd.padding_low,
        padded_full_size=(last - 1) * wd.stride + wd.size,
        shard_size_with_halo=(windows - 1) * wd.stride + wd.size,
        dim=dim,
        target=sharding,
        offset_on_padded_shape=offset,
        pad_value=pad_value,
        partition_ordinal=ordinal,
        state=operand.state,
    )
    return None if new_data is None else (new_data, new_source)


def _own_part(
    v: SpmdPartitioningVisitor,
    scattered: HloInstruction,
    shape: ArrayShape,
    plans: dict[int, _ShardWindows],
    ordinals: list[HloInstruction],
) -> HloInstruction:
    """Return the device's own elements, without the halos."""
    if scattered.array_shape.dimensions == shape.dimensions:
        return scattered
    b = v.b
    zero = b.s32(0)
    offsets = [zero] * shape.rank
    for i, plan in plans.items():
        offsets[i] = plan.data_left.calculate(ordinals[i], b)
    return b.add(HloOpcode.DYNAMIC_SLICE, (scattered, *offsets), shape, dynamic_slice_sizes=shape.dimensions)

"""DimensionPlan: the elements of a dimension that each shard's windows read, and unused shards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.spmd.partitioner.offsets import MultiplyAddDivide, truncated_quotient, truncated_remainder

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.partitioned_hlo import PartitionedHlo


def is_trivial(wd: WindowDimension) -> bool:
    """Whether a window is a single element with stride 1."""
    return replace(wd, reversal=False) == WindowDimension(1)


_NOWHERE = MultiplyAddDivide()


@dataclass
class DimensionPlan:
    """One dimension of a windowed input.

    Positions count the dimension with its padding, but without the holes of base dilation.
    """

    offset: HloInstruction
    """Where this device's part starts (s32[])."""
    ordinal: HloInstruction
    """This device's shard ordinal (s32[])."""
    window: WindowDimension
    """The window over the part."""
    tiles: int
    """Number of shards that take part."""
    shard_size: int
    padded_size: int
    halo_base_size: int
    """Size of the whole that takes part in halo exchange."""
    slice_start: int
    slice_limit: int
    """Size of the part of a shard that takes part."""
    aligned: bool = False
    """Whether the windows are single elements, so that a shard reads what it has."""
    explicit_left_padding: int = 0
    start: MultiplyAddDivide = _NOWHERE
    limit: MultiplyAddDivide = _NOWHERE
    """Where a shard's part ends."""
    trimmed: bool = False
    middle: tuple[int, int] = (-1, -1)
    """The first shard left out in the middle, and how many."""
    needs_pre_masking: bool = False
    sliced: bool = False
    output_offset: HloInstruction | None = None
    """Where the device's part starts in the result, if that depends on the shard."""


def plan_dimension(
    operand: PartitionedHlo, wd: WindowDimension, dim: int, count: int, ordinal: HloInstruction
) -> DimensionPlan | None:
    """Plan dimension `dim` for an output of `count` shards; None if shards alone cannot do it."""
    b = operand.state.b
    base, have = operand.array_shape.dimensions[dim], operand.hlo.array_shape.dimensions[dim]
    if count == 1:
        return DimensionPlan(b.s32(0), ordinal, wd, 1, base, base, base, 0, have, aligned=is_trivial(wd))
    if is_trivial(wd):
        size = -(-base // count)
        scale = b.s32(size)
        offset = b.add(HloOpcode.MULTIPLY, (ordinal, scale), ordinal.shape)
        return DimensionPlan(offset, ordinal, wd, count, size, size * count, base, 0, have, aligned=True)
    return _Planner(b, wd, base, have, count, ordinal).plan()


@dataclass
class _Planner:
    """Builds the plan of a split dimension with windows."""

    b: SpmdBuilder
    wd: WindowDimension
    base: int
    input_shard: int
    count: int
    ordinal: HloInstruction

    def __post_init__(self) -> None:
        wd = self.wd
        self.dilated = 1 + (wd.size - 1) * wd.window_dilation
        self.full = 1 + (self.base - 1) * wd.base_dilation + wd.padding_high + wd.padding_low
        self.windows = truncated_quotient(self.full - self.dilated, wd.stride) + 1
        self.per_shard = -(-self.windows // self.count)
        self.halo_base = self.base
        self.slice_start, self.slice_limit = 0, self.input_shard
        self.trimmed = self.sliced = self.masked = False
        self.middle = (-1, -1)
        self.left_padding = 0

    def plan(self) -> DimensionPlan | None:
        """Leave out shards on the right, then in the middle, and find what the others read."""
        wd = self.wd
        few = self.windows < self.count and wd.window_dilation == wd.base_dilation == 1
        if few:
            self._trim_right()
            if self.count == 1:
                zero = self.b.s32(0)
                high = self.base + wd.padding_high - self.slice_limit
                return self._made(zero, replace(wd, padding_high=high), self.base, self.base)
        self.left_padding = truncated_quotient(wd.padding_low, wd.base_dilation)
        low = truncated_remainder(wd.padding_low, wd.base_dilation)
        if self.windows < self.count and wd.window_dilation == wd.base_dilation == 1:
            self._trim_middle()
        if self.full < self.dilated:
            return None
        step = wd.stride * self.per_shard
        if (wd.stride != 1 and step % wd.base_dilation) or low < 0:
            return None
        # The start may be in a hole of base dilation: begin with the next element.
        start = MultiplyAddDivide(step, wd.base_dilation - 1 - low, wd.base_dilation)
        dilated_shard = wd.stride * (self.per_shard - 1) + self.dilated
        limit = MultiplyAddDivide(step, dilated_shard + wd.base_dilation - 1 - low, wd.base_dilation)
        offset = start.calculate(self.ordinal, self.b)
        size = (limit - start).max_in_range(0, self.count)
        made = self._made(offset, replace(wd, padding_low=low, padding_high=0), size, limit.at(self.count - 1))
        made.start, made.limit = start, limit
        if wd.base_dilation != 1:
            self._pad_dilated(made)
        return made

    def _made(self, offset: HloInstruction, window: WindowDimension, size: int, padded: int) -> DimensionPlan:
        return DimensionPlan(
            offset,
            self.ordinal,
            window,
            self.count,
            size,
            padded,
            self.halo_base,
            self.slice_start,
            self.slice_limit,
            explicit_left_padding=self.left_padding,
            trimmed=self.trimmed,
            middle=self.middle,
            needs_pre_masking=self.masked,
            sliced=self.sliced,
        )

    def _trim_right(self) -> None:
        """Leave out shards on the right that have no useful input and no output."""
        wd = self.wd
        useful = -(-(self.base + wd.padding_high) // self.input_shard)
        if useful >= self.count:
            return
        self.count = max(useful, self.windows)
        self.trimmed = True
        if self.count == 1:
            return
        self.halo_base = self.input_shard * self.count
        if self.halo_base > self.base and wd.padding_high > 0:
            self.masked = True
        elif wd.padding_high < 0 and self.full - wd.padding_low < self.input_shard:
            # Less than a shard is useful: treat that as the shard.
            self.input_shard = self.full - wd.padding_low
            self.halo_base = self.input_shard * self.count
            self.slice_limit = self.input_shard
            self.sliced = True

    def _trim_middle(self) -> None:
        """Leave out shards that large negative padding skips and that have no output."""
        empty = truncated_quotient(-self.left_padding, self.input_shard) - self.windows
        if empty <= 0:
            return
        self.count -= empty
        self.middle = (self.windows, empty)
        self.trimmed = True
        self.left_padding += empty * self.input_shard
        self.halo_base = self.input_shard * self.count
        b, ordinal = self.b, self.ordinal
        bound = b.s32(self.windows)
        pred = ordinal.array_shape.with_type(PrimitiveType.PRED)
        on_left = b.add(HloOpcode.COMPARE, (ordinal, bound), pred, direction="LT")
        # XLA subtracts the number of windows here, not the number of omitted shards.
        on_right = b.add(HloOpcode.SUBTRACT, (ordinal, bound), ordinal.shape)
        self.ordinal = b.add(HloOpcode.SELECT, (on_left, ordinal, on_right), ordinal.shape)
        if -self.left_padding <= self.input_shard * (self.count - 1):
            return
        # Only the last shard has useful elements: omit what comes before and after them.
        skipped = -self.left_padding - self.input_shard * (self.count - 1)
        self.input_shard -= skipped
        self.left_padding += skipped * self.count
        self.slice_start = skipped
        self.sliced = True
        if self.full < self.input_shard:
            skipped = self.input_shard - self.full
            self.slice_limit -= skipped
            self.left_padding += skipped * (self.count - 1)
            self.input_shard = self.full
        self.halo_base = self.input_shard * self.count

    def _pad_dilated(self, made: DimensionPlan) -> None:
        """Set the padding of the window over a dilated part, and where the output starts."""
        wd, b = self.wd, self.b
        low = made.window.padding_low
        step = wd.stride * self.per_shard

        def first_element(shard: int) -> int:
            """Return where a shard's first element is in its dilated part."""
            return made.start.at(shard) * wd.base_dilation + low - step * shard

        wanted = wd.stride * (self.per_shard - 1) + self.dilated
        firsts = [first_element(shard) for shard in range(self.count)]
        high = max(0, *(wanted - (f + (made.shard_size - 1) * wd.base_dilation + 1) for f in firsts))
        if wd.stride != 1:
            made.window = replace(made.window, padding_high=high)
            return
        most = max(firsts)
        if any(f != low for f in firsts[1:]):
            start = made.start.calculate(self.ordinal, b)
            first_window = MultiplyAddDivide(wd.base_dilation, low - most).calculate(start, b)
            required = MultiplyAddDivide(self.per_shard).calculate(self.ordinal, b)
            made.output_offset = b.add(HloOpcode.SUBTRACT, (required, first_window), required.shape)
        made.window = replace(made.window, padding_low=most, padding_high=high)

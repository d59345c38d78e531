"""Halo exchange: give every shard the neighbors' elements that it reads, by collective-permute.

`left` and `right` map a shard's ordinal along `dim` to the number of elements that it reads beyond
its own bounds. A negative halo means that it does not read that many of its own elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.spmd.partitioner.halo_compact import exchange_halo_compact
from xlanb.spmd.partitioner.offsets import MultiplyAddDivide, OffsetCalculation
from xlanb.spmd.partitioner.utilities import create_zero

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.state import PartitioningState


def with_dimension(shape: ArrayShape, dim: int, size: int) -> ArrayShape:
    """Return the shape with one dimension resized."""
    dims = list(shape.dimensions)
    dims[dim] = size
    return shape.with_dimensions(dims)


def slice_dimension(hlo: HloInstruction, dim: int, start: int, limit: int, b: SpmdBuilder) -> HloInstruction:
    """Slice [start, limit) of one dimension; return the instruction itself if that is all of it."""
    shape = hlo.array_shape
    if (start, limit) == (0, shape.dimensions[dim]):
        return hlo
    box = [SliceDimension(0, size) for size in shape.dimensions]
    box[dim] = SliceDimension(start, limit)
    return b.add(HloOpcode.SLICE, (hlo,), with_dimension(shape, dim, limit - start), slice=tuple(box))


def pad_dimension(
    hlo: HloInstruction, dim: int, low: int, high: int, pad_value: HloInstruction, b: SpmdBuilder
) -> HloInstruction:
    """Pad one dimension."""
    shape = hlo.array_shape
    padding = [PaddingDimension() for _ in shape.dimensions]
    padding[dim] = PaddingDimension(low, high)
    padded = with_dimension(shape, dim, shape.dimensions[dim] + low + high)
    return b.add(HloOpcode.PAD, (hlo, pad_value), padded, padding=tuple(padding))


def _concatenate(pieces: Sequence[HloInstruction], dim: int, b: SpmdBuilder) -> HloInstruction:
    if len(pieces) == 1:
        return pieces[0]
    size = sum(p.array_shape.dimensions[dim] for p in pieces)
    shape = with_dimension(pieces[0].array_shape, dim, size)
    return b.add(HloOpcode.CONCATENATE, tuple(pieces), shape, dimensions=(dim,))


@dataclass
class _Exchange:
    """A halo exchange along one dimension of one array."""

    hlo: HloInstruction
    dim: int
    target: HloSharding
    state: PartitioningState
    left_bound: int
    right_bound: int

    @property
    def size(self) -> int:
        """The size of a shard."""
        return self.hlo.array_shape.dimensions[self.dim]

    def pairs(self, distance: int, *, to_right: bool) -> list[tuple[int, int]]:
        """Return (source, target) for each device with a neighbor `distance` shards before it."""
        pairs = []
        tiles = self.target.tile_assignment
        for index, device in np.ndenumerate(tiles):
            if index[self.dim] >= distance:
                other = list(index)
                other[self.dim] -= distance
                before = int(tiles[tuple(other)])
                pairs.append((before, int(device)) if to_right else (int(device), before))
        return pairs

    def left_pieces(self, max_halo: int) -> list[HloInstruction]:
        """Return the pieces from earlier shards, farthest first; zeros where there is no shard."""
        pieces: list[HloInstruction] = []
        zeros = 0
        b = self.state.b
        for i in reversed(range(-(-max_halo // self.size))):
            if (-i - 1) * self.size >= self.right_bound:
                continue
            pairs = self.pairs(i + 1, to_right=True)
            with_skips = min(max_halo - self.size * i, self.size)
            skips = max(-i * self.size - self.right_bound, 0)
            piece = slice_dimension(self.hlo, self.dim, self.size - with_skips, self.size - skips, b)
            if pairs:
                pieces.append(self.state.collectives.collective_permute(piece, pairs))
            else:
                zeros += piece.array_shape.dimensions[self.dim]
        return [self.zeros(zeros), *pieces] if zeros else pieces

    def own_pieces(self) -> list[HloInstruction]:
        """Return what the shard reads of its own elements."""
        if self.left_bound >= self.size or self.right_bound <= 0:
            return []
        start, limit = max(0, self.left_bound), min(self.size, self.right_bound)
        return [slice_dimension(self.hlo, self.dim, start, limit, self.state.b)]

    def right_pieces(self, max_halo: int) -> list[HloInstruction]:
        """Return the pieces from later shards, nearest first; zeros where there is no shard."""
        pieces: list[HloInstruction] = []
        zeros = 0
        b = self.state.b
        skipped = min(max(self.left_bound - self.size, 0), max(max_halo, 0)) // self.size
        for i in range(skipped, -(-max_halo // self.size)):
            pairs = self.pairs(i + 1, to_right=False)
            with_skips = min(max_halo - self.size * i, self.size)
            skips = max(self.left_bound - (i + 1) * self.size, 0)
            piece = slice_dimension(self.hlo, self.dim, skips, with_skips, b)
            if pairs:
                pieces.append(self.state.collectives.collective_permute(piece, pairs))
            else:
                zeros += piece.array_shape.dimensions[self.dim]
        return [*pieces, self.zeros(zeros)] if zeros else pieces

    def zeros(self, size: int) -> HloInstruction:
        """Return a halo of zeros."""
        return create_zero(with_dimension(self.hlo.array_shape, self.dim, size), self.state.b)


def exchange_halo(
    hlo: HloInstruction,
    left: OffsetCalculation,
    right: OffsetCalculation,
    dim: int,
    target: HloSharding,
    state: PartitioningState,
) -> HloInstruction | None:
    """Concatenate the largest left halo of all shards, the shard and the largest right halo.

    Returns None if the halos are so long that gathering the whole is simpler, or if no shard reads
    anything.
    """
    size = hlo.array_shape.dimensions[dim]
    count = target.dimension(dim)
    max_left = left.max_in_range(1, count)
    max_right = right.max_in_range(0, count - 1)
    if max_left + max_right + size >= size * count and (max_left > size or max_right > size):
        return None
    left_bound = -left.max_in_range(0, count)
    right_bound = size + right.max_in_range(0, count)
    if left_bound >= right_bound:
        return None
    e = _Exchange(hlo, dim, target, state, left_bound, right_bound)
    pieces = e.left_pieces(max_left)
    pieces += e.own_pieces()
    pieces += e.right_pieces(max_right)
    return _concatenate(pieces, dim, state.b)


def exchange_halo_and_get_valid_data(
    hlo: HloInstruction,
    base_shape: ArrayShape,
    left: OffsetCalculation,
    right: OffsetCalculation,
    *,
    explicit_left_padding: int,
    padded_full_size: int,
    shard_size_with_halo: int,
    dim: int,
    target: HloSharding,
    offset_on_padded_shape: HloInstruction,
    pad_value: HloInstruction,
    partition_ordinal: HloInstruction,
    state: PartitioningState,
    mask_invalid_region: bool = True,
    force_mask_in_compact: bool = False,
) -> HloInstruction | None:
    """Exchange halos along `dim`, slice each shard's window, and mask padding.

    Args:
        hlo: this device's shard.
        base_shape: the shape of the whole.
        left: the left halo by shard ordinal.
        right: the right halo by shard ordinal.
        explicit_left_padding: padding before the whole dimension.
        padded_full_size: size of the whole dimension with its padding.
        shard_size_with_halo: size of each shard's window.
        dim: the dimension.
        target: the sharding of the result.
        offset_on_padded_shape: where this shard's window starts in the padded dimension, s32[].
        pad_value: the value of padding.
        partition_ordinal: this shard's ordinal along `dim`.

    Returns:
        The window, or None if replicating is better.
    """
    count = target.dimension(dim)
    size = hlo.array_shape.dimensions[dim]
    if explicit_left_padding == left.at(0):
        max_halo = max(left.max_in_range(0, count), right.max_in_range(0, count))
        max_shard = size + (left + right).max_in_range(0, count)
        if max_shard == shard_size_with_halo and max_halo > 2 * shard_size_with_halo:
            if max_shard * 2 >= count * size:
                return None
            value = pad_value if mask_invalid_region or force_mask_in_compact else None
            return exchange_halo_compact(hlo, base_shape, left, right, value, dim, target, partition_ordinal, state)
    concat = exchange_halo(hlo, left, right, dim, target, state)
    if concat is None:
        return None
    valid = _window_of_shard(
        concat, left, explicit_left_padding, shard_size_with_halo, dim, count, pad_value, partition_ordinal, state.b
    )
    if not mask_invalid_region:
        return valid
    limit = base_shape.dimensions[dim] + explicit_left_padding
    return _mask(valid, dim, explicit_left_padding, limit, padded_full_size, offset_on_padded_shape, pad_value, state.b)


def _window_of_shard(
    concat: HloInstruction,
    left: OffsetCalculation,
    explicit_left_padding: int,
    shard_size: int,
    dim: int,
    count: int,
    pad_value: HloInstruction,
    partition_ordinal: HloInstruction,
    b: SpmdBuilder,
) -> HloInstruction:
    """Slice the window that the shard reads from the concatenation, which fits the largest one."""
    max_left = left.max_in_range(1, count)
    max_left_or_padding = max(max_left, explicit_left_padding)
    start = MultiplyAddDivide(0, max_left_or_padding) - left
    extra_left = max(0, max_left_or_padding - max(0, max_left))
    width = concat.array_shape.dimensions[dim] + extra_left
    extra_right = max(0, start.max_in_range(0, count) + shard_size - width)
    if extra_left > 0 or extra_right > 0:
        concat = pad_dimension(concat, dim, extra_left, extra_right, pad_value, b)
    shape = concat.array_shape
    if shard_size == shape.dimensions[dim]:
        return concat
    if left.is_constant and left.at(0) == explicit_left_padding:
        return slice_dimension(concat, dim, 0, shard_size, b)
    offsets = [b.s32(0)] * shape.rank
    offsets[dim] = start.calculate(partition_ordinal, b)
    cut = with_dimension(shape, dim, shard_size)
    return b.add(HloOpcode.DYNAMIC_SLICE, (concat, *offsets), cut, dynamic_slice_sizes=cut.dimensions)


def _mask(
    hlo: HloInstruction,
    dim: int,
    start: int,
    limit: int,
    padded_full_size: int,
    offset: HloInstruction,
    pad_value: HloInstruction,
    b: SpmdBuilder,
) -> HloInstruction:
    """Set elements before `start` and from `limit` on in the padded whole to `pad_value`."""
    past_limit = padded_full_size > limit
    if start <= 0 and not past_limit:
        return hlo
    shape = hlo.array_shape
    index_shape, mask_shape = shape.with_type(PrimitiveType.S32), shape.with_type(PrimitiveType.PRED)
    iota = b.add(HloOpcode.IOTA, (), index_shape, iota_dimension=dim)
    first = b.add(HloOpcode.BROADCAST, (offset,), index_shape, dimensions=())
    index = b.add(HloOpcode.ADD, (iota, first), index_shape)
    predicates = []
    for needed, bound, direction in ((start > 0, start, "GE"), (past_limit, limit, "LT")):
        if needed:
            scalar = b.s32(bound)
            wide = b.add(HloOpcode.BROADCAST, (scalar,), index_shape, dimensions=())
            predicates.append(b.add(HloOpcode.COMPARE, (index, wide), mask_shape, direction=direction))
    valid = predicates[0] if len(predicates) == 1 else b.add(HloOpcode.AND, tuple(predicates), mask_shape)
    if pad_value.array_shape.element_type != shape.element_type:
        pad_value = b.add(HloOpcode.CONVERT, (pad_value,), pad_value.array_shape.with_type(shape.element_type))
    padding = b.add(HloOpcode.BROADCAST, (pad_value,), shape, dimensions=())
    return b.add(HloOpcode.SELECT, (valid, hlo, padding), shape)

"""Compact halo exchange for long halos that differ between shards: each gets only what it reads.

A shard's window is divided into halos: parts of another shard (by a collective-permute that several
shards may share), parts of the shard itself, or padding. The n-th halos of all shards become one
piece, selected by the shard's ordinal. The pieces are concatenated, each shard slices its window,
and padding is masked.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from xlanb.hlo.attributes import PaddingDimension, SliceDimension
from xlanb.hlo.opcode import HloOpcode
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.shape.shape import array
from xlanb.spmd.partitioner.offsets import OffsetCalculation
from xlanb.spmd.partitioner.utilities import create_zero, table_lookup
from xlanb.spmd.sharding_groups import group_sharding_on_all_dims_except

if TYPE_CHECKING:
    from xlanb.hlo.instruction import HloInstruction
    from xlanb.spmd.hlo_sharding import HloSharding
    from xlanb.spmd.partitioner.builder import SpmdBuilder
    from xlanb.spmd.partitioner.collectives import CollectiveOps
    from xlanb.spmd.partitioner.state import PartitioningState

_PADDING = -2
_SELF = -1
_UNSEEN = -5


@dataclass(frozen=True)
class _Halo:
    """Elements [start, limit) of a shard, at `offset` in the window of shard `shard`."""

    shard: int
    start: int
    limit: int
    offset: int
    source: int = _SELF
    """The shard that has them, or padding."""
    permute: int = _SELF
    """The index of the collective-permute that sends them, or the shard itself, or padding."""

    @property
    def size(self) -> int:
        """The number of elements along the dimension."""
        return self.limit - self.start


@dataclass
class _Compact:
    """The state of one compact exchange."""

    hlo: HloInstruction
    base_size: int
    left: OffsetCalculation
    right: OffsetCalculation
    dim: int
    count: int
    pad_value: HloInstruction
    ordinal: HloInstruction
    b: SpmdBuilder
    collectives: CollectiveOps
    halos: list[list[_Halo]] = field(default_factory=list)
    permutes: list[tuple[HloInstruction, int]] = field(default_factory=list)
    """The collective-permutes, each with the first element of the shard that it sends."""
    pieces: list[HloInstruction] = field(default_factory=list)
    padded_width: int = 0
    self_start: int = 0
    only_padding: bool = True

    @property
    def shape(self) -> ArrayShape:
        """The shape of a shard."""
        return self.hlo.array_shape

    @property
    def size(self) -> int:
        """The size of a shard along the dimension."""
        return self.shape.dimensions[self.dim]

    def resized(self, size: int) -> ArrayShape:
        """Return the shard's shape with another size along the dimension."""
        return self.shape.with_dimensions([size if i == self.dim else d for i, d in enumerate(self.shape.dimensions)])

    def bounds(self, shard: int) -> tuple[int, int]:
        """Return where a shard's window starts and ends in the whole."""
        return shard * self.size - self.left.at(shard), (shard + 1) * self.size + self.right.at(shard)

    @property
    def window(self) -> int:
        """The size of the largest window."""
        return max(0, *(limit - start for start, limit in map(self.bounds, range(self.count))))

    # -- halos -------------------------------------------------------------------------------------

    def cut(self, shard: int) -> list[_Halo]:
        """Return the halos of one shard's window, in order."""
        halos = []
        start, limit = self.bounds(shard)
        at = start
        while at < limit:
            first, size = at % self.size, limit - at
            if at < 0 or at >= self.base_size:
                size = min(size, -at) if at < 0 else size
                halo = _Halo(shard, first, first + size, at - start, _PADDING, _PADDING)
            else:
                size = min(self.size - first, size)
                halo = _Halo(shard, first, first + size, at - start, at // self.size)
            halos.append(halo)
            at += size
        return halos

    def align(self, halos: list[list[_Halo]]) -> list[list[tuple[int, int]]]:
        """Split paddings next to data so that none is longer than a shard.

        Returns:
            For each source shard, (shard, index of the halo) of what it provides.
        """
        self.halos = [[] for _ in halos]
        readers: list[list[tuple[int, int]]] = [[] for _ in halos]
        pending = [list(reversed(of_shard)) for of_shard in halos]
        while any(pending):
            all_padding = all(p[-1].permute == _PADDING for p in pending if p)
            for shard, rest in enumerate(pending):
                if not rest:
                    continue
                halo = rest.pop()
                if not all_padding and halo.permute == _PADDING and halo.limit > self.size:
                    rest.append(replace(halo, start=0, limit=halo.limit - self.size))
                    halo = replace(halo, limit=self.size)
                self.halos[shard].append(halo)
                if halo.permute != _PADDING and halo.source != shard:
                    readers[halo.source].append((shard, len(self.halos[shard]) - 1))
        for of_source in readers:
            of_source.sort(key=lambda at: self.halos[at[0]][at[1]].offset)
        return readers

    def permute(self, readers: list[list[tuple[int, int]]]) -> None:
        """Send the halos by collective-permutes, each shard sending and receiving at most once."""
        collectives = self.collectives
        following = [0] * len(readers)
        while True:
            pairs: list[tuple[int, int]] = []
            reached: set[int] = set()
            start, limit = self.size, 0
            for source, of_source in enumerate(readers):
                if following[source] >= len(of_source):
                    continue
                shard, n = of_source[following[source]]
                halo = self.halos[shard][n]
                # One range for a short left and a short right halo would span most of the shard.
                far = (start > halo.limit and limit == self.size and halo.start == 0) or (
                    limit < halo.start and start == 0 and halo.limit == self.size
                )
                if pairs and (shard in reached or far):
                    continue
                self.halos[shard][n] = replace(halo, permute=len(self.permutes))
                reached.add(shard)
                pairs.append((source, shard))
                start, limit = min(start, halo.start), max(limit, halo.limit)
                following[source] += 1
            if not pairs:
                return
            self.permutes.append((collectives.collective_permute(self.sliced(start, limit), pairs), start))

    def sliced(self, start: int, limit: int) -> HloInstruction:
        """Return elements [start, limit) of the shard."""
        if (start, limit) == (0, self.size):
            return self.hlo
        box = [SliceDimension(0, d) for d in self.shape.dimensions]
        box[self.dim] = SliceDimension(start, limit)
        return self.b.add(HloOpcode.SLICE, (self.hlo,), self.resized(limit - start), slice=tuple(box))

    # -- pieces ------------------------------------------------------------------------------------

    def make_pieces(self) -> None:
        """Make one piece for every n for which some shard has an n-th halo."""
        self.self_start = self.size
        for n in range(max((len(h) for h in self.halos), default=0)):
            row = [h[n] if n < len(h) else None for h in self.halos]
            width, own_start, own_limit = 0, self.size, 0
            for halo in row:
                if halo is None:
                    continue
                if halo.permute >= 0:
                    width = max(width, self.width_of(halo.permute))
                elif halo.permute == _SELF:
                    own_start, own_limit = min(own_start, halo.start), max(own_limit, halo.limit)
                    width = max(width, own_limit - own_start)
                else:
                    width = max(width, halo.size)
            own_start = max(own_start - (width - (own_limit - own_start)), 0)
            if n == 0:
                self.self_start = own_start
            self.padded_width += width
            self.pieces.append(self.piece([_UNSEEN if h is None else h.permute for h in row], width, own_start))

    def width_of(self, permute: int) -> int:
        """Return how many elements a collective-permute sends."""
        return self.permutes[permute][0].array_shape.dimensions[self.dim]

    def piece(self, sources: list[int], width: int, own_start: int) -> HloInstruction:
        """Return the n-th piece, selected by the shard's ordinal; padding is masked later."""
        b, shape = self.b, self.resized(width)
        padding = b.add(HloOpcode.BROADCAST, (self.pad_value,), shape, dimensions=())
        unique: list[HloInstruction] = []
        index_of: dict[int, int] = {}
        table = []
        for source in sources:
            key = _PADDING if source == _UNSEEN else source
            if key >= 0:
                found = self.permutes[key][0]
            elif key == _SELF:
                found = self.hlo if self.size == width else self.own(own_start, width)
            else:
                found = padding
            self.only_padding = self.only_padding and key == _PADDING
            if key not in index_of:
                index_of[key] = len(unique)
                unique.append(self.widened(found, width))
            table.append(index_of[key])
        selector = table_lookup(np.asarray(table, np.int32), self.ordinal, b)
        first = 1 if len(unique) > 1 and unique[0] is padding else 0
        selected = unique[first]
        for i in range(first + 1, len(unique)):
            if unique[i] is padding:
                continue
            chosen = b.add(
                HloOpcode.COMPARE,
                (selector, b.s32(i)),
                selector.array_shape.with_type(PrimitiveType.PRED),
                direction="EQ",
            )
            wide = b.add(HloOpcode.BROADCAST, (chosen,), shape.with_type(PrimitiveType.PRED), dimensions=())
            selected = b.add(HloOpcode.SELECT, (wide, unique[i], selected), shape)
        return selected

    def own(self, start: int, width: int) -> HloInstruction:
        """Slice a part of the shard itself; as XLA does, without reusing an equal slice."""
        return self.sliced(start, start + width)

    def widened(self, piece: HloInstruction, width: int) -> HloInstruction:
        """Pad a piece on the right, or the first piece on the left so that data is adjacent."""
        missing = width - piece.array_shape.dimensions[self.dim]
        if missing == 0:
            return piece
        low, high = (missing, 0) if not self.pieces else (0, missing)
        return self.padded(piece, low, high)

    def padded(self, hlo: HloInstruction, low: int, high: int) -> HloInstruction:
        """Pad along the dimension."""
        padding = [PaddingDimension() for _ in self.shape.dimensions]
        padding[self.dim] = PaddingDimension(low, high)
        shape = self.resized(hlo.array_shape.dimensions[self.dim] + low + high)
        return self.b.add(HloOpcode.PAD, (hlo, self.pad_value), shape, padding=tuple(padding))

    # -- the window --------------------------------------------------------------------------------

    def concatenated(self) -> HloInstruction:
        """Concatenate all pieces; each shard's window is sliced from the result."""
        if len(self.pieces) == 1:
            return self.pieces[0]
        shape = self.resized(self.padded_width)
        return self.b.add(HloOpcode.CONCATENATE, tuple(self.pieces), shape, dimensions=(self.dim,))

    def window_start(self, halo: _Halo) -> int:
        """Return where in the pieces a window starts that begins with this halo."""
        first = self.pieces[0].array_shape.dimensions[self.dim]
        if halo.permute >= 0:
            return halo.start - self.permutes[halo.permute][1] + first - self.width_of(halo.permute)
        if halo.permute == _SELF:
            return halo.start - self.self_start
        return first - halo.size

    def data_bounds(self, shard: int) -> tuple[int, int]:
        """Return where in its window a shard has data: [start, limit)."""
        start = 0
        for halo in self.halos[shard]:
            if halo.permute != _PADDING:
                break
            start += halo.size
        low, high = self.bounds(shard)
        beyond = high - self.base_size
        return start, high - low - max(0, beyond)

    def cut_window(self, concat: HloInstruction) -> HloInstruction:
        """Slice each shard's window from the concatenated pieces."""
        starts = [self.window_start(h[0]) if h else 0 for h in self.halos]
        width = max(self.padded_width, *(s + self.window for s, h in zip(starts, self.halos, strict=True) if h))
        if width > self.padded_width:
            concat = self.padded(concat, 0, width - self.padded_width)
        if width <= self.window:
            return concat
        shape = self.resized(self.window)
        offsets = [self.b.s32(0)] * shape.rank
        offsets[self.dim] = table_lookup(np.asarray(starts, np.int32), self.ordinal, self.b)
        return self.b.add(HloOpcode.DYNAMIC_SLICE, (concat, *offsets), shape, dynamic_slice_sizes=shape.dimensions)

    def masked(self, hlo: HloInstruction) -> HloInstruction:
        """Set the elements for which a shard has no data to the padding value."""
        b, shape = self.b, hlo.array_shape
        index_shape, mask_shape = shape.with_type(PrimitiveType.S32), shape.with_type(PrimitiveType.PRED)
        bounds = [self.data_bounds(s) if h else (0, 0) for s, h in enumerate(self.halos)]
        iota = b.add(HloOpcode.IOTA, (), index_shape, iota_dimension=self.dim)

        def compared(table: list[int], direction: str) -> HloInstruction:
            bound = table_lookup(np.asarray(table, np.int32), self.ordinal, b)
            wide = b.add(HloOpcode.BROADCAST, (bound,), index_shape, dimensions=())
            return b.add(HloOpcode.COMPARE, (iota, wide), mask_shape, direction=direction)

        mask = compared([limit for _, limit in bounds], "LT")
        starts = [start for start, _ in bounds]
        if any(start > 0 for start in starts):
            mask = b.add(HloOpcode.AND, (mask, compared(starts, "GE")), mask_shape)
        padding = b.add(HloOpcode.BROADCAST, (self.pad_value,), shape, dimensions=())
        return b.add(HloOpcode.SELECT, (mask, hlo, padding), shape)


def exchange_halo_compact(
    hlo: HloInstruction,
    base_shape: ArrayShape,
    left: OffsetCalculation,
    right: OffsetCalculation,
    pad_value: HloInstruction | None,
    dim: int,
    sharding: HloSharding,
    shard_ordinal: HloInstruction,
    state: PartitioningState,
) -> HloInstruction:
    """Give every shard its window along `dim`; without a pad value, padding is not masked."""
    groups = group_sharding_on_all_dims_except(sharding, (dim,)).device_groups
    value = create_zero(array(hlo.array_shape.element_type), state.b) if pad_value is None else pad_value
    e = _Compact(
        hlo=hlo,
        base_size=base_shape.dimensions[dim],
        left=left,
        right=right,
        dim=dim,
        count=sharding.dimension(dim),
        pad_value=value,
        ordinal=shard_ordinal,
        b=state.b,
        collectives=state.collectives.in_groups(groups),
    )
    e.permute(e.align([e.cut(i) for i in range(e.count)]))
    e.make_pieces()
    if e.only_padding:
        return state.b.add(HloOpcode.BROADCAST, (value,), e.resized(e.window), dimensions=())
    cut = e.cut_window(e.concatenated())
    return cut if pad_value is None else e.masked(cut)

"""Offsets of buffers in one arena, or in unused parts of other allocations.

Best fit, largest first, by bytes or by bytes times lifetime (both kinds of XLA's
GlobalDecreasingSizeBestFitHeap).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from numpy.typing import NDArray

ALIGNMENT = 64
SMALL_ALIGNMENT = 16
"""The alignment of buffers of at most this size: scalars share cache lines."""
_MOST_TWICE = 2000
"""With more blocks than this, only one attempt is made."""
_ARENA = -1
"""Marks a block that is not in a bin."""
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class HeapBlock:
    """`size` bytes of memory, in use during intervals of program positions, both ends included.

    `slack` is the additional size needed outside the arena, to start at a cache line in memory that
    is not aligned to one.
    """

    size: int
    intervals: tuple[Interval, ...]
    slack: int = 0


@dataclass(frozen=True, slots=True)
class HeapPacking:
    """A bin (None: the arena) and an offset per block, and the bytes of the arena."""

    bins: tuple[int | None, ...]
    offsets: tuple[int, ...]
    size: int


def pack(blocks: Sequence[HeapBlock], bins: Sequence[HeapBlock] = ()) -> HeapPacking:
    """Place blocks so that no two that are in use at the same time overlap.

    Offsets are multiples of 64 bytes, or of 16 for blocks of at most 16 bytes. `bins` are other
    allocations of fixed size: a block that would make the arena larger is placed in a bin that has
    room while it is unused. If the arena is larger than the peak of live bytes, the blocks are
    placed again by bytes times positions, and the smaller arena is used.
    """
    by_size = _Packer(blocks, bins).pack(lambda b: b.size)
    arena = [b for b, bin_ in zip(blocks, by_size.bins, strict=True) if bin_ is None]
    if len(blocks) > _MOST_TWICE or by_size.size <= peak(arena) + ALIGNMENT:
        return by_size
    return min(by_size, _Packer(blocks, bins).pack(_bytes_times_positions), key=lambda p: p.size)


def _bytes_times_positions(block: HeapBlock) -> int:
    return block.size * sum(end - start + 1 for start, end in _joined(block.intervals))


class _Packer:
    """All blocks: first those of the bins, whose positions are fixed, then those to place."""

    def __init__(self, blocks: Sequence[HeapBlock], bins: Sequence[HeapBlock]) -> None:
        self.fixed = len(bins)
        self.blocks = [*bins, *blocks]
        count = len(self.blocks)
        self.home = np.array([*range(self.fixed), *[_ARENA] * len(blocks)], np.int64)
        self.offsets = np.zeros(count, np.int64)
        self.ends = np.array([b.size + b.slack for b in self.blocks], np.int64)
        self.is_placed = np.arange(count) < self.fixed
        intervals = [(start, end, k) for k, b in enumerate(self.blocks) for start, end in b.intervals]
        self.starts, self.lasts, self.owners = np.array(intervals, np.int64).reshape(-1, 3).T
        self.size = 0
        self.largest = sorted(range(self.fixed), key=lambda k: bins[k].size)
        self.capacities = [bins[k].size for k in self.largest]
        self.inside: list[list[tuple[int, int, int]]] = [[] for _ in bins]
        """Offset, end and number of the blocks placed in each bin, sorted."""

    def pack(self, weight: Callable[[HeapBlock], int]) -> HeapPacking:
        """Place the blocks, heaviest first."""
        blocks = self.blocks
        # Among equals, place first those that no bin can hold, so that the size of the arena is
        # known for the others.
        movable = [k >= self.fixed and self._fits_a_bin(k) for k in range(len(blocks))]
        for k in sorted(
            range(self.fixed, len(blocks)), key=lambda k: (-weight(blocks[k]), movable[k], blocks[k].intervals[0])
        ):
            self._assign_offset(k, self.is_placed & self._in_use_with(k))
            self.is_placed[k] = True
        bins = tuple(None if b == _ARENA else b for b in self.home[self.fixed :].tolist())
        return HeapPacking(bins, tuple(self.offsets[self.fixed :].tolist()), self.size)

    def _in_use_with(self, k: int) -> NDArray[np.bool_]:
        """Which blocks are in use at some position where block k is."""
        found = np.zeros(len(self.blocks), bool)
        for start, end in self.blocks[k].intervals:
            found[self.owners[(self.starts <= end) & (self.lasts >= start)]] = True
        return found

    def _fits_a_bin(self, k: int) -> bool:
        size = self.blocks[k].size + self.blocks[k].slack
        if not self.capacities or self.capacities[-1] < size:
            return False
        is_free = ~self._in_use_with(k)
        return any(is_free[b] for b in self.largest[bisect_left(self.capacities, size) :])

    def _assign_offset(self, k: int, taken: NDArray[np.bool_]) -> None:
        size = self.blocks[k].size
        offset = self._in_arena(taken & (self.home == _ARENA), size)
        if offset + size > self.size:
            found = self._in_bins(size + self.blocks[k].slack, taken.tobytes())
            if found is not None:
                self.home[k], self.offsets[k] = found
                self.ends[k] += found[1]
                insort(self.inside[found[0]], (found[1], int(self.ends[k]), k))
                return
        self.offsets[k] = offset
        self.ends[k] = offset + size
        self.size = max(self.size, offset + size)

    def _in_bins(self, size: int, taken: bytes) -> tuple[int, int] | None:
        """The bin with the smallest gap of at least `size`, and the offset in it, or None.

        `taken` has a nonzero byte for each block that is in use meanwhile.
        """
        best: tuple[int, int, int] | None = None
        step = _step(size)
        for n in range(bisect_left(self.capacities, size), self.fixed):
            b, capacity = self.largest[n], self.capacities[n]
            if taken[b]:
                continue
            start, is_empty = 0, True
            for low, high, k in self.inside[b]:
                if taken[k]:
                    is_empty = False
                    if size <= low - start and (best is None or low - start < best[0]):
                        best = low - start, b, start
                    start = max(start, -(-high // step) * step)
            if size <= capacity - start and (best is None or capacity - start < best[0]):
                best = capacity - start, b, start
            if is_empty:  # later empty bins are larger
                break
        return None if best is None else best[1:]

    def _in_arena(self, taken: NDArray[np.bool_], size: int) -> int:
        """The start of the smallest gap of at least `size` between taken blocks, or after them."""
        if not taken.any():
            return 0
        lows, highs = self.offsets[taken], self.ends[taken]
        order = np.lexsort((highs, lows))
        step = _step(size)
        starts = -(-np.maximum.accumulate(np.append(0, highs[order])) // step) * step
        gaps = lows[order] - starts[:-1]
        fitting = np.flatnonzero(gaps >= size)
        return int(starts[fitting[gaps[fitting].argmin()]] if len(fitting) else starts[-1])


def peak(blocks: Sequence[HeapBlock]) -> int:
    """The most bytes in use at one position: a lower bound for any packing."""
    events: dict[int, int] = {}
    for b in blocks:
        for start, end in _joined(b.intervals):
            events[start] = events.get(start, 0) + b.size
            events[end + 1] = events.get(end + 1, 0) - b.size
    live = most = 0
    for position in sorted(events):
        live += events[position]
        most = max(most, live)
    return most


def _joined(intervals: Sequence[Interval]) -> list[Interval]:
    """The same positions as disjoint intervals.

    Intervals that share an end overlap there: both values are live.
    """
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _step(size: int) -> int:
    """The alignment of a block."""
    return SMALL_ALIGNMENT if size <= SMALL_ALIGNMENT else ALIGNMENT

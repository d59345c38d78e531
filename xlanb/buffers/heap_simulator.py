"""Offsets for buffers in one arena, or where other memory lies idle: best fit, largest first, by bytes or bytes times positions (XLA's GlobalDecreasingSizeBestFitHeap, of both kinds)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
SMALL_ALIGNMENT = 16
"""What so few bytes are aligned to: scalars share cache lines."""
_MOST_TWICE = 2000
"""Blocks past which one attempt is enough."""
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of `size` bytes that is in use during some intervals of program positions, both ends included.

    `slack` is what it needs besides where it does not lie in the arena, for its user to start at a cache line of memory that is not aligned to one.
    """

    size: int
    intervals: tuple[Interval, ...]
    slack: int = 0


@dataclass(frozen=True, slots=True)
class Packing:
    """A bin (None: the arena) and an offset per block, and the bytes of the arena."""

    bins: tuple[int | None, ...]
    offsets: tuple[int, ...]
    size: int


def pack(blocks: Sequence[Block], bins: Sequence[Block] = ()) -> Packing:
    """Place blocks so that no two that are in use at one time overlap.

    Offsets are multiples of 64 bytes, those of blocks of 16 bytes or less of 16. `bins` are memory of other use, as large as they are: a block that would make the
    arena larger goes into a bin where one has room for it while it lies idle. Where the arena is larger than what lives at one time, the blocks are placed once more,
    first those of most bytes times positions, and the smaller arena is taken.
    """
    by_size = _Packer(blocks, bins).pack(lambda b: b.size)
    arena = [b for b, bin_ in zip(blocks, by_size.bins, strict=True) if bin_ is None]
    if len(blocks) > _MOST_TWICE or by_size.size <= peak(arena) + ALIGNMENT:
        return by_size
    return min(by_size, _Packer(blocks, bins).pack(_bytes_times_positions), key=lambda p: p.size)


def _bytes_times_positions(block: Block) -> int:
    return block.size * sum(end - start + 1 for start, end in _joined(block.intervals))


class _Packer:
    """All blocks: those of the bins, which lie where they are, and behind them those to be placed."""

    def __init__(self, blocks: Sequence[Block], bins: Sequence[Block]) -> None:
        self.fixed = len(bins)
        self.blocks = [*bins, *blocks]
        self.home: list[int | None] = [*range(self.fixed), *[None] * len(blocks)]
        self.offsets = [0] * len(self.blocks)
        self.size = 0
        self.largest = sorted(range(self.fixed), key=lambda k: bins[k].size)
        self.capacities = [bins[k].size for k in self.largest]

    def pack(self, weight: Callable[[Block], int]) -> Packing:
        """The blocks of most weight are placed first."""
        blocks, count = self.blocks, len(self.blocks)
        first = np.array([min(s for s, _ in b.intervals) for b in blocks], np.int64)
        last = np.array([max(e for _, e in b.intervals) for b in blocks], np.int64)
        placed = np.zeros(count, bool)
        placed[: self.fixed] = True
        # Of equal ones first those that no bin takes, so that the others see how large the arena is.
        movable = [k >= self.fixed and self._fits_a_bin(blocks[k]) for k in range(count)]
        for k in sorted(
            range(self.fixed, count), key=lambda k: (-weight(blocks[k]), movable[k], blocks[k].intervals[0])
        ):
            taken: dict[int | None, list[Interval]] = {None: []}
            for j in np.flatnonzero(placed & (first <= last[k]) & (last >= first[k])).tolist():
                if overlap(blocks[j].intervals, blocks[k].intervals):
                    end = self.offsets[j] + blocks[j].size + (blocks[j].slack if self.home[j] is not None else 0)
                    taken.setdefault(self.home[j], []).append((self.offsets[j], end))
            self._place(k, taken)
            placed[k] = True
        return Packing(tuple(self.home[self.fixed :]), tuple(self.offsets[self.fixed :]), self.size)

    def _fits_a_bin(self, block: Block) -> bool:
        return any(
            b.size >= block.size + block.slack and not overlap(b.intervals, block.intervals)
            for b in self.blocks[: self.fixed]
        )

    def _place(self, k: int, taken: dict[int | None, list[Interval]]) -> None:
        size = self.blocks[k].size
        offset, _ = _best_gap(sorted(taken[None]), size, None)
        if offset + size > self.size:
            found = self._in_bins(size + self.blocks[k].slack, taken)
            if found is not None:
                self.home[k], self.offsets[k] = found
                return
        self.offsets[k] = offset
        self.size = max(self.size, offset + size)

    def _in_bins(self, size: int, taken: dict[int | None, list[Interval]]) -> tuple[int, int] | None:
        """The bin with the smallest gap that holds so much, and where in it."""
        best: tuple[int, int, int] | None = None
        for n in range(bisect_left(self.capacities, size), self.fixed):
            b, capacity = self.largest[n], self.capacities[n]
            offset, gap = _best_gap(sorted(taken.get(b, ())), size, capacity)
            if offset >= 0 and (best is None or gap < best[0]):
                best = gap, b, offset
            if b not in taken:  # those after it that are as free are larger
                break
        return None if best is None else best[1:]


def overlap(a: Sequence[Interval], b: Sequence[Interval]) -> bool:
    """Whether any two intervals share a position."""
    if len(a) == len(b) == 1:
        return a[0][0] <= b[0][1] and b[0][0] <= a[0][1]
    return any(s <= f and t <= e for s, e in a for t, f in b)


def peak(blocks: Sequence[Block]) -> int:
    """The most bytes in use at one position: no packing can do with less."""
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
    """The same positions in intervals that do not overlap: values that hand over at a position both hold it."""
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def _aligned(at: int, size: int) -> int:
    step = SMALL_ALIGNMENT if size <= SMALL_ALIGNMENT else ALIGNMENT
    return -(-at // step) * step


def _best_gap(taken: Sequence[Interval], size: int, capacity: int | None) -> tuple[int, int]:
    """The start and the length of the smallest gap between taken ranges (sorted) that holds `size`; behind them where none does, or (-1, 0) where `capacity` forbids that."""
    best, best_gap, end = -1, 0, 0
    for low, high in [*taken, *([(capacity, capacity)] if capacity is not None else [])]:
        start = _aligned(end, size)
        if low - start >= size and (best < 0 or low - start < best_gap):
            best, best_gap = start, low - start
        end = max(end, high)
    if best < 0 and capacity is None:
        return _aligned(end, size), 0
    return best, best_gap

"""Offsets for buffers in one arena: best fit, largest first (XLA's GlobalDecreasingSizeBestFitHeap)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 64
Interval = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Block:
    """Memory of `size` bytes that is in use during some intervals of program positions, both ends included."""

    size: int
    intervals: tuple[Interval, ...]


@dataclass(frozen=True, slots=True)
class Packing:
    """An offset per block, and the bytes of the arena."""

    offsets: tuple[int, ...]
    size: int


def pack(blocks: Sequence[Block]) -> Packing:
    """Place blocks so that no two that are in use at one time overlap; every offset is a multiple of 64 bytes."""
    count = len(blocks)
    order = sorted(range(count), key=lambda k: (-blocks[k].size, blocks[k].intervals[0]))
    first = np.array([min(s for s, _ in b.intervals) for b in blocks], np.int64)
    last = np.array([max(e for _, e in b.intervals) for b in blocks], np.int64)
    placed = np.zeros(count, bool)
    offsets = [0] * count
    total = 0
    for k in order:
        near = np.flatnonzero(placed & (first <= last[k]) & (last >= first[k]))
        taken = sorted(
            (offsets[j], offsets[j] + _rounded(blocks[j].size))
            for j in near.tolist()
            if overlap(blocks[j].intervals, blocks[k].intervals)
        )
        offsets[k] = _best_gap(taken, _rounded(blocks[k].size))
        placed[k] = True
        total = max(total, offsets[k] + _rounded(blocks[k].size))
    return Packing(tuple(offsets), total)


def overlap(a: Sequence[Interval], b: Sequence[Interval]) -> bool:
    """Whether any two intervals share a position."""
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


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between taken ranges (sorted) that holds `size`; the end where none does."""
    best, best_size = -1, 0
    end = 0
    for low, high in taken:
        gap = low - end
        if gap >= size and (best < 0 or gap < best_size):
            best, best_size = end, gap
        end = max(end, high)
    return best if best >= 0 else end

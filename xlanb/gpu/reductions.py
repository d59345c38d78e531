"""Which reductions get the row and column emitters, and their sizes.

Follows xla/service/gpu/reduction_utils.cc.

reduce(f32[8,512,64]), dimensions={2}      a row reduction: 4096 rows of 64
reduce(f32[8,512,64]), dimensions={1}      a column reduction: 8 times 512 rows of 64 columns
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Final

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape

WARP_SIZE: Final = 32
BATCHED_RACE_FREE_BOUND: Final = 8
"""The most rows reduced by one block without atomics."""
MIN_THREADS_ROW_REDUCTION: Final = 1024
_ROW_TILE: Final = 16
_COLUMN_TILE: Final = 128


@dataclass(frozen=True)
class ReductionDimensions:
    """A reduction over three dimensions, major to minor.

    A row reduction keeps the middle one; a column reduction reduces only it.
    """

    is_row: bool
    dimensions: tuple[int, int, int]

    @property
    def race_free_bound(self) -> int:
        """The number of elements that one block reduces without atomics."""
        return MIN_THREADS_ROW_REDUCTION * _ROW_TILE if self.is_row else WARP_SIZE * _COLUMN_TILE

    @property
    def is_race_free(self) -> bool:
        """Whether one block reduces each result, so that no atomics are needed."""
        if not self.is_row:
            return self.dimensions[1] <= self.race_free_bound
        return self.dimensions[2] <= self.race_free_bound and self.dimensions[0] <= BATCHED_RACE_FREE_BOUND

    @property
    def is_faster_than_elemental(self) -> bool:
        """Whether the row or column emitter beats a loop in each thread."""
        _, middle, minor = self.dimensions
        if self.is_row:
            return minor >= WARP_SIZE or (minor > 0 and WARP_SIZE % minor == 0)
        return not (
            middle < WARP_SIZE
            or (middle < 2 * WARP_SIZE and minor < WARP_SIZE)
            or (middle < 4 * WARP_SIZE and minor < 8)
            or (middle < 8 * WARP_SIZE and minor < 3)
        )


def dimensions_of(reduce: HloInstruction) -> ReductionDimensions:
    """Return a reduction's kind; its reduced or kept dimensions must be contiguous in memory."""
    shape = reduce.operands[0].array_shape
    reduced = set(reduce.dimensions)
    kept = [d for d in range(shape.rank) if d not in reduced]
    if not kept:
        return ReductionDimensions(True, (1, 1, shape.element_count))
    if are_consecutive(shape, kept):
        major, middle, minor = _around(shape, kept)
        if middle == 1:
            return ReductionDimensions(True, (1, 1, major * minor))
        if minor == 1:
            return ReductionDimensions(False, (1, major, middle))
        return ReductionDimensions(True, (major, middle, minor))
    major, middle, minor = _around(shape, reduced)
    return (
        ReductionDimensions(True, (1, major, middle))
        if minor == 1
        else ReductionDimensions(False, (major, middle, minor))
    )


def is_reduction_of_rows_or_columns(i: HloInstruction) -> bool:
    """Whether the row or column emitter applies (IsReductionFromOrToContiguousDimensions)."""
    if i.opcode is not O.REDUCE:
        return False
    shape = i.operands[0].array_shape
    kept = [d for d in range(shape.rank) if d not in i.dimensions]
    lie_together = are_consecutive(shape, kept) or are_consecutive(shape, i.dimensions)
    return lie_together and dimensions_of(i).is_faster_than_elemental


def is_real_reduction_hero(root: HloInstruction, hero: HloInstruction) -> bool:
    """Whether a root's hero makes the kernel a reduction.

    If the hero is not the root, it must need no atomics.
    """
    if not is_reduction_of_rows_or_columns(hero):
        return False
    return root is hero or dimensions_of(hero).is_race_free


def are_consecutive(shape: ArrayShape, dimensions: Iterable[int]) -> bool:
    """Whether dimensions are contiguous in memory, in any order (AreDimensionsConsecutive)."""
    place = {d: n for n, d in enumerate(shape.minor_to_major)}
    places = sorted(place[d] for d in dimensions)
    return not places or places[-1] - places[0] == len(places) - 1


def _around(shape: ArrayShape, dimensions: Iterable[int]) -> tuple[int, int, int]:
    """Return the sizes of what is more major than contiguous dimensions, of these, and minor."""
    place = {d: n for n, d in enumerate(shape.minor_to_major)}
    places = [place[d] for d in dimensions]
    sizes = [shape.dimensions[d] for d in shape.minor_to_major]
    first, last = min(places), max(places) + 1
    return prod(sizes[last:]), prod(sizes[first:last]), prod(sizes[:first])

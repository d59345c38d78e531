"""Fuse computations along the same rows, such as softmax and normalizations.

    m = f32[64] reduce(x), dimensions={1}, to_apply=max
    e = f32[64,512] exponential(x - broadcast(m))
    s = f32[64] reduce(e), dimensions={1}, to_apply=sum
    ROOT r = f32[64,512] divide(e, broadcast(s))
      =>  ROOT f = f32[64,512] fusion(x), kind=kLoop, calls={
            m = reduce(p0), e = exponential(p0 - broadcast(m)),
            s = reduce(e), ROOT r = divide(e, broadcast(s)) }

A row stays in cache from the first reduction to the result. XLA:CPU has no such pass: it emits a
loop over the whole array for each of them. A group has one result. It consists of elementwise
instructions and broadcasts over the whole array, instructions on one value per row, and reductions
of the array's minor dimensions to such values, and bitcasts of these that add or drop dimensions of
size 1. All users of each are in the group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property, lru_cache
from heapq import heappop, heappush
from operator import itemgetter

from xlanb.analysis.call_graph import CallGraph
from xlanb.analysis.dataflow import is_squeeze
from xlanb.analysis.operand_use import is_elementwise
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape.shape import long_dimensions
from xlanb.transforms.base import HloPass
from xlanb.transforms.fusion_editing import fuse_group

_SHORTEST, _LONGEST = 192, 32_768
"""Elements of a row: a longer one does not stay in cache, and the beginning and end of a shorter
one take longer than to read it again."""
_LEAST_BYTES = 3 << 17
"""A smaller array stays in cache as a whole. Up to four times this size that may hold too, but in
transformers one kernel took no longer than several, which take longer to compile."""
_SQUEEZES = (O.BITCAST, O.RESHAPE)
_MOST = 40
"""The most instructions in a group: each reduction recomputes its operand."""


class RowFusion(HloPass):
    """Fuses row reductions with the elementwise instructions of the same rows that use them."""

    name = "row-fusion"

    def apply(self, module: HloModule) -> None:
        graph = CallGraph(module)
        for c in module.computations:
            if graph.is_control(c):
                _fuse_rows(c)


@dataclass(frozen=True)
class _Rows:
    """The array whose rows a group computes, and the dimensions that number the rows."""

    full: ArrayShape
    kept: tuple[int, ...]

    def is_row_value(self, s: ArrayShape) -> bool:
        """Whether it has one value per row, in the order of the rows."""
        return _sizes(s) == self._sizes

    def is_spread(self, i: HloInstruction) -> bool:
        """Whether it broadcasts a value per row to the elements of the row."""
        if i.opcode is not O.BROADCAST or i.array_shape.dimensions != self.full.dimensions:
            return False
        named = [d for d in i.dimensions if self.full.dimensions[d] != 1]
        return named == self._numbered and self.is_row_value(i.operands[0].array_shape)

    @cached_property
    def _numbered(self) -> list[int]:
        return [d for d in self.kept if self.full.dimensions[d] != 1]

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(self.full.dimensions[d] for d in self._numbered)


@lru_cache(maxsize=1024)
def _rows(full: ArrayShape, reduced: tuple[int, ...]) -> _Rows:
    return _Rows(full, tuple(d for d in range(full.rank) if d not in reduced))


@lru_cache(maxsize=1024)
def _sizes(s: ArrayShape) -> tuple[int, ...] | None:
    """The sizes that are not 1 of a row-major array."""
    return tuple(s.dimensions[d] for d in long_dimensions(s)) if s.is_row_major else None


def _fuse_rows(c: HloComputation) -> None:
    done: set[HloInstruction] = set()
    order = c.post_order()
    if all(i.opcode is not O.REDUCE for i in order):
        return
    place = {i: n for n, i in enumerate(order)}
    nearest = _nearest_reductions(order)
    for root in reversed(order):
        if root in done or root not in nearest or root.opcode is O.BROADCAST:
            continue
        reduction = nearest[root][1]
        rows = _rows(reduction.operands[0].array_shape, reduction.dimensions)
        group = _group(root, rows, place)
        if _pays(group, rows):
            fuse_group(group, "kLoop", "fused_rows", f"{root.opcode}_row_fusion".replace("-", "_"))
            done.update(group)


def _nearest_reductions(order: list[HloInstruction]) -> dict[HloInstruction, tuple[int, HloInstruction]]:
    """The row reduction fewest operands away from each instruction that depends on one, and the
    distance.

    All instructions between the two may be in a group.
    """
    nearest: dict[HloInstruction, tuple[int, HloInstruction]] = {}
    for i in order:
        if i.opcode is O.REDUCE and _is_simple(i) and _is_row_reduction(i):
            nearest[i] = 0, i
            continue
        found = [nearest[o] for o in i.operands if o in nearest]
        if found and _is_simple(i):
            distance, reduction = min(found, key=itemgetter(0))
            if distance < _MOST:
                nearest[i] = distance + 1, reduction
    return nearest


def _is_simple(i: HloInstruction) -> bool:
    """Whether it can be in a group at all."""
    if i.control_predecessors or i.control_successors or i.shape.is_tuple or i.shape.is_token:
        return False
    if i.opcode in _SQUEEZES:
        return is_squeeze(i)
    if i.opcode in (O.REDUCE, O.BROADCAST):
        return True
    return is_elementwise(i) and i.opcode not in (O.CONSTANT, O.FUSION, O.MAP)


def _is_row_reduction(i: HloInstruction) -> bool:
    s = i.operands[0].array_shape
    kept = s.rank - len(i.dimensions)
    if len(i.operands) != 2 or kept == 0 or sorted(i.dimensions) != list(range(kept, s.rank)):
        return False
    length = math.prod(s.dimensions[d] for d in i.dimensions)
    is_large = _SHORTEST <= length <= _LONGEST and s.byte_size >= _LEAST_BYTES
    return is_large and s.is_row_major and i.array_shape.is_row_major


def _belongs(i: HloInstruction, rows: _Rows) -> bool:
    """Whether it computes elements or values of these rows."""
    if not i.shape.is_array:
        return False
    s = i.array_shape
    whole = s.dimensions == rows.full.dimensions and s.minor_to_major == rows.full.minor_to_major
    if not (whole or rows.is_row_value(s)) or not _is_simple(i):
        return False
    if i.opcode is O.REDUCE:
        same = i.operands[0].array_shape.dimensions == rows.full.dimensions
        return same and _is_row_reduction(i) and rows.is_row_value(s)
    if i.opcode in _SQUEEZES:
        return rows.is_row_value(s) and rows.is_row_value(i.operands[0].array_shape)
    return True


def _group(root: HloInstruction, rows: _Rows, place: Mapping[HloInstruction, int]) -> list[HloInstruction]:
    """The root and all instructions on the rows that only it uses, users before operands.

    `place` gives each instruction's position in a post order.
    """
    if not _belongs(root, rows):
        return []
    group: list[HloInstruction] = []
    inside = {root}
    waiting = [(-place[root], root)]
    while waiting and len(group) < _MOST:
        _, i = heappop(waiting)
        if i is not root and (i.is_root or not all(u in inside for u in i.users) or not _belongs(i, rows)):
            continue
        group.append(i)
        inside.add(i)
        for o in dict.fromkeys(i.operands):
            if o not in inside and o in place and all(place[o] != -n for n, _ in waiting):
                heappush(waiting, (-place[o], o))
    return group


def _pays(group: list[HloInstruction], rows: _Rows) -> bool:
    """Whether a reduction of the group is used again for elements of the same rows."""
    inside = set(group)
    return any(rows.is_spread(i) and i.operands[0] in inside for i in group) and any(
        i.opcode is O.REDUCE for i in group
    )

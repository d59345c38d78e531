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
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

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

_SHORTEST, _LONGEST = 8, 32_768
"""Elements of a row: a shorter one does not vectorize, a longer one does not stay in cache."""
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
        sizes = [s.dimensions[d] for d in long_dimensions(s)]
        return sizes == [self.full.dimensions[d] for d in self._numbered] and _is_row_major(s)

    def is_spread(self, i: HloInstruction) -> bool:
        """Whether it broadcasts a value per row to the elements of the row."""
        if i.opcode is not O.BROADCAST or i.array_shape.dimensions != self.full.dimensions:
            return False
        named = [d for d in i.dimensions if self.full.dimensions[d] != 1]
        return named == self._numbered and self.is_row_value(i.operands[0].array_shape)

    @property
    def _numbered(self) -> list[int]:
        return [d for d in self.kept if self.full.dimensions[d] != 1]


def _is_row_major(s: ArrayShape) -> bool:
    return s.minor_to_major == tuple(reversed(range(s.rank)))


def _fuse_rows(c: HloComputation) -> None:
    done: set[HloInstruction] = set()
    order = c.post_order()
    if all(i.opcode is not O.REDUCE for i in order):
        return
    place = {i: n for n, i in enumerate(order)}
    simple = {i for i in order if _is_simple(i)}
    above = _above_reductions(order, simple)
    for root in reversed(order):
        if root in done or root not in above or root.opcode is O.BROADCAST:
            continue
        for rows in _rows_of(root, simple):
            group = _group(root, rows, place)
            if _pays(group, rows):
                fuse_group(group, "kLoop", "fused_rows", f"{root.opcode}_row_fusion".replace("-", "_"))
                done.update(group)
                break


def _above_reductions(order: list[HloInstruction], simple: set[HloInstruction]) -> set[HloInstruction]:
    """Instructions that may be the root of a group: simple, and dependent on a row reduction.

    All instructions between the reduction and the root must be simple too.
    """
    above: set[HloInstruction] = set()
    for i in order:
        if i in simple and (i.opcode is O.REDUCE or not above.isdisjoint(i.operands)):
            above.add(i)
    return above


def _rows_of(root: HloInstruction, simple: set[HloInstruction]) -> Iterator[_Rows]:
    """The candidate rows of a group with this root: those of the nearest reduction."""
    if root not in simple:
        return
    seen, queue = {root}, [root]
    while queue and len(seen) < _MOST:
        i = queue.pop(0)
        if i.opcode is O.REDUCE and _is_row_reduction(i):
            full = i.operands[0].array_shape
            yield _Rows(full, tuple(d for d in range(full.rank) if d not in i.dimensions))
            return
        for o in i.operands:
            if o in simple and o not in seen:
                seen.add(o)
                queue.append(o)


def _is_simple(i: HloInstruction) -> bool:
    """Whether it can be in a group at all."""
    if i.control_predecessors or i.control_successors or i.shape.is_tuple or i.shape.is_token:
        return False
    if i.opcode in (O.REDUCE, O.BROADCAST) or is_squeeze(i):
        return True
    return is_elementwise(i) and i.opcode not in (O.CONSTANT, O.FUSION, O.MAP)


def _is_row_reduction(i: HloInstruction) -> bool:
    s = i.operands[0].array_shape
    kept = s.rank - len(i.dimensions)
    if len(i.operands) != 2 or kept == 0 or sorted(i.dimensions) != list(range(kept, s.rank)):
        return False
    length = math.prod(s.dimensions[d] for d in i.dimensions)
    return _is_row_major(s) and _is_row_major(i.array_shape) and _SHORTEST <= length <= _LONGEST


def _belongs(i: HloInstruction, rows: _Rows) -> bool:
    """Whether it computes elements or values of these rows."""
    if not _is_simple(i):
        return False
    s = i.array_shape
    if i.opcode is O.REDUCE:
        same = i.operands[0].array_shape.dimensions == rows.full.dimensions
        return same and _is_row_reduction(i) and rows.is_row_value(s)
    if is_squeeze(i):
        return rows.is_row_value(s) and rows.is_row_value(i.operands[0].array_shape)
    whole = s.dimensions == rows.full.dimensions and s.minor_to_major == rows.full.minor_to_major
    return whole or rows.is_row_value(s)


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

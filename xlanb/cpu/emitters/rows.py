"""Kernels along rows (softmax, normalizations): row reductions, reused values, aliasing.

    for row:
        for r in reductions: reduce the row (that of `keeper` stores `kept` to the result's row)
        for element of the row: compute the result

Buffer assignment (`is_in_place`) and the emitter both use this, so that they agree on the rows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import TypeVar

from xlanb.analysis.dataflow import is_plain_reshape, is_squeeze
from xlanb.codegen.elemental import Leaf, array_of
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, order, same_order
from xlanb.cpu.emitters.vector_plan import HARD, plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape.shape import long_dimensions

T = TypeVar("T", bound=Hashable)
Bound = Collection[HloInstruction]
"""The instructions that a kernel reads from memory."""


@dataclass(frozen=True)
class Rows:
    """A result of `shape` whose rows are indexed by its first dimensions, `numbered`.

    Dimensions of size 1 are not counted. The reduction `keeper` stores the costly elements of
    `kept` to the result's row for reuse.
    """

    shape: ArrayShape
    numbered: tuple[int, ...] = ()
    reductions: tuple[HloInstruction, ...] = ()
    keeper: HloInstruction | None = None
    kept: HloInstruction | None = None


def rows_of(root: HloInstruction, shape: ArrayShape, run: int, bound: Bound) -> Rows | None:
    """The rows of `run` fastest dimensions of a kernel with one result; None if there are none."""
    slowest = tuple(reversed(order(shape)))
    if root in bound or not 0 < run < len(slowest):
        return None
    numbered = slowest[:-run]
    if numbered != long_dimensions(shape)[:-run]:
        return None
    inlined = _reachable(root, lambda i: (o for o in i.operands if o not in bound))
    reductions = tuple(i for i in root.parent.post_order() if i in inlined and _is_of_rows(i, shape, numbered))
    again = same_elements(root, shape, bound)
    for i in reductions:
        for c in same_elements(i.operands[0], shape, bound):
            if c in again and c is not root and c.opcode in HARD:
                if array_of(c).element_type is shape.element_type:
                    return Rows(shape, numbered, reductions, i, c)
                break
    return Rows(shape, numbered, reductions)


def _reachable(first: T, following: Callable[[T], Iterable[T]]) -> dict[T, None]:
    """Everything reachable from `first`, in breadth-first order."""
    found, rest = {first: None}, deque([first])
    while rest:
        fresh = dict.fromkeys(o for o in following(rest.popleft()) if o not in found)
        found |= fresh
        rest += fresh
    return found


def _is_of_rows(i: HloInstruction, shape: ArrayShape, numbered: tuple[int, ...]) -> bool:
    if i.opcode is not Op.REDUCE or i.shape.is_tuple or not same_order(array_of(i.operands[0]), shape):
        return False
    return tuple(d for d in long_dimensions(shape) if d not in i.dimensions) == numbered


def row_index(i: HloInstruction, at: Sequence[Ix]) -> Index:
    """The index of a row reduction's element for the row at these indices of `numbered`."""
    shape, numbers = array_of(i), iter(at)
    return Index(shape, [0 if n == 1 else next(numbers) for n in shape.dimensions])


def same_elements(root: HloInstruction, shape: ArrayShape, bound: Bound) -> dict[HloInstruction, None]:
    """The instructions whose element of the same index is used to compute an element."""

    def following(i: HloInstruction) -> Iterable[HloInstruction]:
        return i.operands if i.opcode.is_elementwise and i not in bound else ()

    return _reachable(root, lambda i: (o for o in following(i) if same_order(array_of(o), shape)))


def unshaped(root: HloInstruction, bound: Bound) -> HloInstruction:
    """The operand of a final reshape or bitcast, which shares its memory.

    Its own dimensions can be derived from a counter without divisions.
    """
    while (root.opcode is Op.BITCAST or is_plain_reshape(root)) and root not in bound:
        inner = root.operands[0]
        if not inner.shape.is_array or array_of(inner).element_type is not array_of(root).element_type:
            break
        root = inner
    return root


# -- operands that may alias the result ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Reads:
    """The reads of a loop kernel; `elsewhere` are read at other indices than the result's."""

    root: HloInstruction
    rows: Rows
    elsewhere: frozenset[HloInstruction]


def reads_of(root: HloInstruction, shape: ArrayShape) -> Reads:
    """The reads of a fused computation; `shape` is that of its first result."""
    if root.shape.is_tuple:
        rows = Rows(shape)
        return Reads(root, rows, _read_elsewhere(root, rows))
    bound = dict.fromkeys(root.parent.parameters)
    root = unshaped(root, bound)
    shape = array_of(root)
    rows = rows_of(root, shape, plan(bound, [(root, ())]).run, bound) or Rows(shape)
    return Reads(root, rows, _read_elsewhere(root, rows))


def is_in_place(reads: Reads, parameter: HloInstruction, leaf: Leaf) -> bool:
    """Whether a loop kernel may write its results over (a leaf of) a parameter.

    An element may be read to compute the result's element with the same index, and by reductions of
    its row, which finish before the row's first element is written. If values are kept in the row,
    the parameter must not be needed afterwards.
    """
    root, rows = reads.root, reads.rows
    if not same_order(array_of(parameter, leaf), rows.shape) or parameter in reads.elsewhere:
        return False
    if rows.keeper is None or rows.kept is None:
        return True
    at = rows.reductions.index(rows.keeper)
    done = {rows.kept, *rows.reductions[:at]}
    for i in (*rows.reductions[at:], root):
        if _needs(i, parameter, done):
            return False
        done.add(i)
    return True


def _needs(i: HloInstruction, parameter: HloInstruction, done: set[HloInstruction]) -> bool:
    """Whether an instruction still needs a parameter, given those already computed."""
    return parameter in _reachable(i, lambda o: o.operands if o is i or o not in done else ())


_SAME, _ROW, _WITHIN, _ELSEWHERE = range(4)
"""Which elements are read: the same index, one per result row, the whole result row, or others."""


def _read_elsewhere(root: HloInstruction, rows: Rows) -> frozenset[HloInstruction]:
    """Instructions read at other indices than the result's, except by reductions of their row."""

    def asked(i: HloInstruction, where: int) -> tuple[HloInstruction, int]:
        inside = where in (_SAME, _WITHIN) and not i.shape.is_tuple
        return i, _ELSEWHERE if inside and not same_order(array_of(i), rows.shape) else where

    def following(at: tuple[HloInstruction, int]) -> Iterable[tuple[HloInstruction, int]]:
        i, where = at
        return (asked(o, _operand_is(i, n, where, rows)) for n, o in enumerate(i.operands))

    return frozenset(i for i, where in _reachable(asked(root, _SAME), following) if where in (_ROW, _ELSEWHERE))


def _operand_is(i: HloInstruction, n: int, where: int, rows: Rows) -> int:
    if i.opcode.is_elementwise or i.opcode in (Op.COPY, Op.MAP, Op.TUPLE, Op.GET_TUPLE_ELEMENT):
        return where
    if where in (_SAME, _WITHIN) and i.opcode is Op.BROADCAST and rows.reductions:
        named = tuple(d for d in i.dimensions if rows.shape.dimensions[d] != 1)
        return _ROW if named == rows.numbered else _ELSEWHERE
    if where == _ROW and is_squeeze(i):
        return _ROW
    if where == _ROW and n == 0 and i in rows.reductions:
        return _WITHIN
    return _ELSEWHERE

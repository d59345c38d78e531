"""Loop kernels: the elements of the result in the order in which they lie in memory, as vectors where that can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

from xlanb.cpu.codegen import vector_memory, vectors
from xlanb.cpu.codegen.elemental import Elemental, Kept, Leaf, array_of
from xlanb.cpu.codegen.indexing import Index, IrArray, order, same_order
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.rows import rows_of, unshaped
from xlanb.cpu.codegen.vector_plan import Plan, plan
from xlanb.cpu.codegen.vectors import NotAVectorError, SplitError
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import ArrayShape

Output = tuple[HloInstruction, Leaf, IrArray]
_SMALL = 32
"""A loop over so few elements needs neither vectors nor LLVM's passes."""
_LONG = 4
"""Vectors that a row should have if the last may do some of its elements again: gathering takes time for each."""
_BESIDE = 4
"""Rows that are gathered side by side."""
_SHARED_ROUNDS = 16
"""Rounds that a loop should have at least where threads share it."""


def emit_loops(e: Elemental, outputs: Sequence[Output]) -> None:
    """Fill arrays with the elements of instructions; those of equal shape in one loop."""
    groups: list[list[Output]] = []
    if len(outputs) == 1:  # several stay together: a result may lie in the place of another's operand
        i, leaf, array = outputs[0]
        inner = i if i.shape.is_tuple else unshaped(i, e.bindings)
        outputs = [(inner, leaf, array if inner is i else IrArray(array.pointer, array_of(inner)))]
    for output in outputs:
        shape = output[2].shape
        for group in groups:
            if same_order(group[0][2].shape, shape):
                group.append(output)
                break
        else:
            groups.append([output])
    e.f.ready = e.f.target.explicit_vectors
    for group in groups:
        shape = group[0][2].shape
        if shape.element_count:
            with e.scope():
                _Loops(e, group, shape).emit()
                e.writes(array.pointer for _, _, array in group)


class _Loops:
    """The loops over the elements of arrays of one shape."""

    def __init__(self, e: Elemental, group: Sequence[Output], shape: ArrayShape) -> None:
        self.e = e
        self.group = group
        self.shape = shape
        self.order = list(reversed(order(shape)))
        self.sizes = [shape.dimensions[d] for d in self.order]
        self.plan: Plan = plan(e.bindings, [(i, leaf) for i, leaf, _ in group])
        root = group[0][0]
        self.rows = rows_of(root, shape, self.plan.run, e.bindings) if len(group) == 1 else None
        self.pointers = [array.pointer for _, _, array in group]

    def emit(self) -> None:
        count = self.shape.element_count
        if not self.e.f.target.explicit_vectors:
            self._nest(len(self.order) if self.plan.run < len(self.order) else 0)
        elif self.plan.run == 0 or not self.order:
            self._nest(len(self.order))
        else:
            run = min(self.plan.run, len(self.order))
            if self._gathers_alike(self.sizes[:-run]):
                self._gathered(run)
            elif count < 4 or not vectorize(
                self.e, math.prod(self.sizes[-run:]), lambda cuts: self._vectors(run, cuts)
            ):
                self.e.f.ready = self.e.f.ready and count <= _SMALL
                self._nest(len(self.order) if self.plan.run < len(self.order) else 0)

    @property
    def _again(self) -> bool:
        """Whether elements may be written twice: nothing that they are computed from lies where they are written."""
        read = (source for binding in self.e.bindings.values() for source in binding.values())
        return self.e.kept is None and not any(isinstance(s, IrArray) and s.pointer in self.pointers for s in read)

    def _begin(self) -> None:
        self.e.kept = None
        self.e.has_written_none(self.pointers)

    # -- one by one ---------------------------------------------------------------------------------------------

    def _nest(self, depth: int) -> None:
        """An element at a time: nested loops over so many dimensions, or one over all of them."""
        self._begin()
        if self.rows is not None and self.rows.reductions:
            around = len(self.rows.numbered)
            cost = self.plan.nanoseconds * math.prod(self.sizes[around:])
            with nested(self.e, self.sizes[:around], cost) as row:
                self._row(row)
                with _loops(self.e, self.sizes[around:]) as at:
                    self._store(self._index([*row, *at]))
            return
        if depth == 0:
            with parallel(self.e, self.shape.element_count, nanoseconds=self.plan.nanoseconds) as flat:
                self._store(Index(self.shape, flat=flat))
            return
        with nested(self.e, self.sizes, self.plan.nanoseconds) as at:
            self._store(self._index(at))

    def _index(self, at: Sequence[Ix]) -> Index:
        multi: list[Ix] = [0] * self.shape.rank
        for d, v in zip(self.order, at, strict=True):
            multi[d] = v
        return Index(self.shape, multi)

    def _store(self, index: Index) -> None:
        # All values first: an output may lie in the place of an operand.
        if self.e.kept is None:
            self.e.writes(self.pointers, index)
        values = [(array, self.e.element(i, index, leaf)) for i, leaf, array in self.group]
        for array, value in values:
            array.store(self.e.f, index, value)

    # -- vectors ------------------------------------------------------------------------------------------------

    def _vectors(self, run: int, cuts: Sequence[int]) -> None:
        """Vectors along the `run` fastest dimensions, in loops over the others."""
        outer, inner = self.sizes[:-run], self.sizes[-run:]
        widths = self.plan.width(self.e.f.target.vector_bits, max(b - a for a, b in pairwise(cuts)))
        cost = self.plan.nanoseconds
        self._begin()
        if not outer:
            for low, high in pairwise(cuts):
                each_vector(
                    self.e, low, high, widths, lambda q: self._store(Index(self.shape, flat=q)), cost, again=self._again
                )
            return
        with nested(self.e, outer, cost * math.prod(inner)) as at:
            self._row(at)
            for low, high in pairwise(cuts):
                each_vector(
                    self.e,
                    low,
                    high,
                    widths,
                    lambda q: self._store(self._index([*at, *split(self.e, q, inner)])),
                    again=self._again,
                )

    def _gathers_alike(self, outer: Sequence[int]) -> bool:
        """Whether rows are nothing but gathered, all of them at the same places of theirs."""
        i = self.group[0][0]
        if len(self.group) > 1 or i.opcode is not Op.GATHER or i in self.e.bindings or not outer or outer[-1] < _BESIDE:
            return False
        return self._again and set(i.ints("offset_dims")) == set(self.order[: len(outer)])

    def _gathered(self, run: int) -> None:
        """Some rows side by side, element by element: each place is found once for all of them, and the loads are fewer cycles than those of a vector."""
        outer, inner = self.sizes[:-run], self.sizes[-run:]
        cost = self.plan.nanoseconds * _BESIDE * math.prod(inner)
        last = outer[-1] - _BESIDE  # the last rows lie back over those before
        self._begin()
        with nested(self.e, [*outer[:-1], -(-outer[-1] // _BESIDE)], cost) as at:
            first = self.e.f.clamp(self.e.f.mul(at[-1], _BESIDE), 0, last)
            rows = [[*at[:-1], self.e.f.add(first, k)] for k in range(_BESIDE)]
            with self.e.loop(math.prod(inner)) as q:
                for row in rows:
                    self._store(self._index([*row, *split(self.e, q, inner)]))

    def _row(self, at: Sequence[Ix]) -> None:
        """The reductions of a row before its elements: costly ones that they are of are kept in the result's row for the elements."""
        if self.rows is None:
            return
        for i in self.rows.reductions:
            if i is self.rows.keeper and self.rows.kept is not None:
                self.e.kept = Kept(self.rows.kept, self.group[0][2])
            self.e.element(i, Index(array_of(i), list(at)))
            if self.e.kept is not None:
                self.e.kept.filled = True
                self.e.writes(self.pointers)


def split(e: Elemental, q: Ix, sizes: Sequence[int]) -> list[Ix]:
    """One counter over dimensions, outermost first, as an index for each of them."""
    out: list[Ix] = []
    for size in reversed(sizes[1:]):
        out.append(e.f.rem(q, size))
        q = e.f.div(q, size)
    return [q, *reversed(out)]


@contextmanager
def nested(e: Elemental, sizes: Sequence[int], nanoseconds: float) -> Iterator[list[Ix]]:
    """Nested loops, outermost first, around work of so many nanoseconds; the outer ones may be shared by threads. Gives the counters."""
    shared = 1
    while shared < len(sizes) and math.prod(sizes[:shared]) < _SHARED_ROUNDS:
        shared += 1
    total = math.prod(sizes[:shared])
    rest = list(sizes[shared:])
    with parallel(e, total, nanoseconds=nanoseconds * math.prod(rest)) as first, _loops(e, rest) as inner:
        yield [*split(e, first, sizes[:shared]), *inner]


@contextmanager
def _loops(e: Elemental, sizes: Sequence[int]) -> Iterator[list[Ix]]:
    if not sizes:
        yield []
        return
    with e.loop(sizes[0]) as first, _loops(e, sizes[1:]) as rest:
        yield [first, *rest]


# -- loops over vectors -------------------------------------------------------------------------------------------


def vectorize(e: Elemental, count: int, write: Callable[[Sequence[int]], None]) -> bool:
    """Write loops over vectors: `write(cuts)`, with 0, ..., `count` where the loop has to be cut. False, and nothing is written, where that cannot be."""
    back, floor = e.f.mark(), e.floor
    cuts = {0, count}
    while len(cuts) < vectors.MAX_CUTS:
        try:
            write(sorted(cuts))
        except SplitError as error:
            cuts.update(error.cuts)
        except NotAVectorError:
            break
        else:
            return True
        back()
        e.floor = floor
    back()
    e.floor = floor
    return False


def each_vector(
    e: Elemental,
    low: int,
    high: int,
    widths: tuple[int, int],
    body: Callable[[Ix], None],
    nanoseconds: float = 0.0,
    *,
    again: bool = False,
) -> None:
    """`body(q)` for q = low, ..., high - 1, of which it sees `widths[1]` at once, and at the end `widths[0]` or fewer.

    With `nanoseconds`, the time of one element, threads may share the loop. Where the body may do elements `again`, the last vectors lie back over those before, as whole
    vectors need no masks.
    """
    one, wide = widths
    rounds = (high - low) // wide
    if rounds:
        with _spaced(e, rounds, low, wide, nanoseconds * wide) as origin, e.f.vectorized(wide):
            body(vectors.counter(e.f, origin, low, high - 1, wide))
    begin = low + rounds * wide
    if begin == high:
        return
    if again and high - low >= _LONG * one:
        _back_over(e, begin, high, one, body)
        return
    with (
        _spaced(e, -(-(high - begin) // one), begin, one) as origin,
        e.f.vectorized(one, tail(e, one, begin, high, origin)),
    ):
        body(vectors.counter(e.f, origin, begin, high - 1, one))


def _back_over(e: Elemental, begin: int, high: int, width: int, body: Callable[[Ix], None]) -> None:
    """`body` for vectors from `begin` on, the last of which ends at `high`: forwards, as stores that go back early are slower."""
    last = high - width
    with e.loop(-(-(high - begin) // width)) as k, e.f.vectorized(width):
        origin = last if k == 0 else e.f.clamp(e.f.add(e.f.mul(k, width), begin), 0, last)
        body(vectors.counter(e.f, origin, min(begin, last), high - 1, width))


@contextmanager
def _spaced(e: Elemental, rounds: int, first: int, step: int, nanoseconds: float = 0.0) -> Iterator[Ix]:
    """first, first + step, ...; the loop may be shared by threads where it is told what a round takes."""
    with parallel(e, rounds, nanoseconds=nanoseconds) as k:
        yield e.f.add(e.f.mul(k, step), first)


def tail(e: Elemental, width: int, begin: int, end: int, origin: Ix) -> str:
    """The mask of what lies before `end` of `width` elements from `origin` on, in a loop from `begin`; empty where all do in each round."""
    left = (end - begin) % width
    if left == 0:
        return ""
    return vector_memory.first_lanes(e.f, width, left if end - begin < width else e.f.sub(end, origin))

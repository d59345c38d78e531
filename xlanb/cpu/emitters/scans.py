"""Cumulative sums and similar: reduce-windows that are prefix (or suffix) folds, in linear time.

Along the fastest dimension, a vector is scanned by shifts of doubling distance (W. D. Hillis and G.
L. Steele, "Data parallel algorithms", 1986) and then combined with the previous state. Along other
dimensions each lane holds a line of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from xlanb.analysis.cumulative import Cumulative, cumulative
from xlanb.codegen.elemental import flat, pack
from xlanb.codegen.elements import Element, is_narrow
from xlanb.codegen.folds import AnyOrder
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, order
from xlanb.codegen.lanes import counter
from xlanb.codegen.nest import Nest, Tail, Vectors, nested, vectorize
from xlanb.codegen.values import Value, Vector
from xlanb.cpu.emitters.reductions import Reducer
from xlanb.cpu.emitters.vector_plan import plan

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

Steps = Callable[[list[Element]], list[Element]]
"""Emits the steps of a line from a state on; returns the state after them."""


def emit_cumulative(k: Kernel) -> bool:
    """Emit a running fold in linear time; False if the reduce-window is not one."""
    scan = cumulative(k.root)
    if scan is None:
        return False
    _ScanEmitter(k, scan).emit()
    return True


def _position(scan: Cumulative, f: Function, size: int, at: Ix) -> Ix:
    """The position of element `at` in a line of the given size."""
    return f.sub(size - 1, at) if scan.reverse else at


class _ScanEmitter:
    """Emits a running fold line by line, the state in registers: of one line, or a line per lane.

    `others` are the other dimensions of more than one element, slowest first; the last `minor_dims`
    of them are faster than the axis.
    """

    def __init__(self, k: Kernel, scan: Cumulative) -> None:
        self.k, self.e, self.f, self.scan = k, k.e, k.f, scan
        self.reducer = Reducer(k.e, k.root)
        self.source, self.types = self.reducer.source, self.reducer.types
        slowest = list(reversed(order(self.source)))
        self.others = [d for d in slowest if d != scan.axis and self.source.dimensions[d] != 1]
        # An axis of one element is not in the order.
        behind = slowest[slowest.index(scan.axis) :] if scan.axis in slowest else []
        self.minor_dims = sum(d in behind for d in self.others)

    def emit(self) -> None:
        """Emit vectors within a line, a line per lane, or one line at a time."""
        f, scan, costs = self.f, self.scan, self.f.target.costs
        sizes = tuple(self.source.dimensions[d] for d in self.others)
        p = plan(self.e.bindings, [(o, ()) for o in self.reducer.inputs], costs)
        lanes, registers = p.vectors(f.target.vector_bits)
        combiner = self.reducer.any_order
        run = min(p.run, self.minor_dims)
        if f.target.explicit_vectors and run:
            f.decided("scan", "one line per vector lane", f"{math.prod(sizes[-run:])} lines of {scan.m} steps")
            nest = Nest(sizes, run, Vectors(lanes, registers), scan.m * costs.scan_step_ns / lanes, Tail.OVERLAP)
            f.ready = nest.each(f, self._line)
        elif isinstance(combiner, AnyOrder) and not self.minor_dims and p.run and scan.steps >= 2 * lanes:
            vectors = scan.m / lanes + scan.m % lanes / 3
            f.ready = self._rows(sizes, combiner, lanes, vectors * costs.scan_vector_ns + costs.scan_row_ns)
        if not f.ready:
            narrow = 1.5 if any(is_narrow(t) for t in self.types) else 1
            cost = scan.m * len(self.types) * costs.scan_element_ns * narrow
            Nest(sizes, 0, None, cost).each(f, self._line)

    # -- lines -------------------------------------------------------------------------------------

    def _index(self, at: Sequence[Ix], place: Ix) -> list[Ix]:
        multi: list[Ix] = [0] * self.source.rank
        for d, v in zip(self.others, at, strict=True):
            multi[d] = v
        multi[self.scan.axis] = place
        return multi

    def _operands_at(self, at: Sequence[Ix], place: Ix) -> list[Element]:
        """The operands' elements at a position of a line."""
        return self.reducer.elements(self._index(at, place))

    def _put(self, at: Sequence[Ix], place: Ix, values: Sequence[Element]) -> None:
        for a, v in zip(self.k.outputs.values(), self.reducer.results(values), strict=True):
            a.store(Index(a.shape, self._index(at, place)), v)

    def _line(self, at: Sequence[Ix], steps: Steps | None = None) -> None:
        """Emit one line (or a line per lane) in order; `steps`, if given, emits the main steps."""
        scan = self.scan
        state = self.reducer.start()
        self._repeat(at, 0, scan.empty, state)
        for count, first_in, first_out in ((scan.early, 0, None), (scan.steps, scan.early, scan.empty)):
            if count and steps is not None and first_out is not None:
                state = steps(state)
            elif count:
                state = self._each(at, state, range(count), first_in, first_out)
        last = scan.empty + scan.steps
        self._repeat(at, last, scan.m - last, state)

    def _each(
        self, at: Sequence[Ix], state: Sequence[Element], steps: range, first_in: int, first_out: int | None
    ) -> list[Element]:
        """Emit step after step; results are stored from `first_out` on, unless it is None."""
        f, scan = self.f, self.scan
        with f.carried(steps.stop, flat(state), steps.start) as loop, f.aside():
            given = self._operands_at(at, _position(scan, f, scan.n, f.add(loop.index, first_in)))
            made = self.reducer.step(pack(self.types, loop.values), given)
            if first_out is not None:
                self._put(at, _position(scan, f, scan.m, f.add(loop.index, first_out)), made)
            loop.next = flat(made)
        return pack(self.types, loop.values)

    def _repeat(self, at: Sequence[Ix], begin: int, count: int, state: Sequence[Element]) -> None:
        """Store the same values to `count` positions."""
        if count > 0:
            with self.f.loop(begin + count, begin) as j:
                self._put(at, _position(self.scan, self.f, self.scan.m, j), state)

    # -- vectors within a line ---------------------------------------------------------------------

    def _rows(self, sizes: Sequence[int], combiner: AnyOrder, lanes: int, cost: float) -> bool:
        """Vectorize each line along itself; if impossible, emit nothing and return False."""
        f, scan = self.f, self.scan
        first = scan.n - scan.early - scan.steps if scan.reverse else scan.early

        def write(cuts: Sequence[int]) -> None:
            ends = [first, *(c for c in cuts if first < c < first + scan.steps), first + scan.steps]
            with nested(f, sizes, cost) as at:
                self._line(at, lambda state: self._by_vectors(at, combiner, lanes, ends, state))

        if not vectorize(f, self.source.dimensions[scan.axis], write):
            return False
        f.decided("scan", "vectors along rows", f"{scan.n} elements in each")
        return True

    def _by_vectors(
        self, at: Sequence[Ix], combiner: AnyOrder, lanes: int, ends: Sequence[int], state: list[Element]
    ) -> list[Element]:
        """The steps of a line between positions of the operand: vectors, then single elements."""
        scan = self.scan
        parts = list(pairwise(ends))
        done = 0
        for low, high in reversed(parts) if scan.reverse else parts:
            whole = (high - low) // lanes
            if whole:
                state = self._vectors(at, combiner, lanes, (low, high), whole, state)
            left = range(done + whole * lanes, done + high - low)
            if left:
                state = self._each(at, state, left, scan.early, scan.empty)
            done = left.stop
        return state

    def _vectors(
        self,
        at: Sequence[Ix],
        combiner: AnyOrder,
        lanes: int,
        part: tuple[int, int],
        count: int,
        state: Sequence[Element],
    ) -> list[Element]:
        """Scan `count` vectors of a part of a line, each combined with the state before it."""
        f, scan = self.f, self.scan
        low, high = part
        last = [0 if scan.reverse else lanes - 1] * lanes
        moved = scan.m - scan.n - scan.empty + scan.early if scan.reverse else scan.empty - scan.early
        with f.carried(count, [f.splat(v, lanes) for v in flat(state)]) as loop:
            before = f.mul(loop.index, lanes)
            origin = f.sub(high - lanes, before) if scan.reverse else f.add(before, low)
            with f.vectorized(lanes):
                place = counter(f, origin, low, high - 1, lanes)
                given = [v if isinstance(v, Vector) else f.splat(v, lanes) for v in flat(self._operands_at(at, place))]
                inside = self._within(combiner, given, lanes)
                made = combiner.step(loop.values, inside)
                self._put(at, f.add(place, moved), pack(self.types, made))
                # The next state by the shorter chain: a step of floats has more latency than a
                # broadcast.
                ends = [f.shuffle(v, None, last) for v in (made if self.types[0].is_floating else inside)]
                loop.next = ends if self.types[0].is_floating else combiner.step(loop.values, ends)
        return pack(self.types, [f.extract(v, 0) for v in loop.values])

    def _within(self, combiner: AnyOrder, values: Sequence[Value], lanes: int) -> Sequence[Value]:
        """Combine each lane with all lanes before it (after it, if reversed)."""
        f, distance = self.f, 1
        nothing = [f.splat(v, lanes) for v in combiner.neutral]
        while distance < lanes:
            if self.scan.reverse:
                which = [min(lanes, lane + distance) for lane in range(lanes)]
            else:
                which = [lane - distance if lane >= distance else lanes for lane in range(lanes)]
            before = [f.shuffle(v, z, which) for v, z in zip(values, nothing, strict=True)]
            values = combiner.step(before, values)
            distance *= 2
        return values

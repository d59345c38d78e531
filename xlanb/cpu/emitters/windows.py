"""Pooling: windows folded without a test per element, as the part of each window that lies in the array is known before it is gone through.

for each result but along the fastest dimension: ranges of the window that lie inside
  fastest dimension not windowed (NHWC):  vectors of results, folded over the ranges
  fastest dimension windowed (NCHW):      a row folded over the other dimensions' ranges, in vectors; then its windows, in vectors
  any other fold:                         one result after the other
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from itertools import product
from typing import TYPE_CHECKING

from xlanb.codegen import costs
from xlanb.codegen.elemental import array_of, flat, pack
from xlanb.codegen.elements import array, memory, real
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, order, strides
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.values import Value
from xlanb.codegen.views import array_in_order, is_plain, lanes_of
from xlanb.cpu.emitters.reductions import Reducer, combine, identity, simple_reducer
from xlanb.hlo.opcode import HloOpcode as Op

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

_GROUP = 4


def emit_windows(k: Kernel) -> bool:
    """A reduce-window of an array in memory whose base is not dilated; False of another."""
    i = k.root
    inputs = i.operands[: len(i.operands) // 2]
    if any(w.base_dilation != 1 or w.reversal for w in i.window.dimensions):
        return False
    source = array_of(inputs[0])
    arrays = [array_in_order(k.e, o, source) for o in inputs]
    if source.element_count == 0 or None in arrays:
        return False
    pool = _Pool(k, next(a.pointer for a in arrays if a is not None))
    result = next(iter(k.outputs.values())).shape
    op = simple_reducer(i.to_apply) if len(inputs) == 1 else None
    t = source.element_type
    if op is not None and is_plain(t) and order(source) and order(result):
        fastest = order(source)[0]
        same = fastest == order(result)[0] and strides(result)[fastest] == strides(source)[fastest] == 1
        if same and pool.is_plain(fastest) and source.dimensions[fastest] >= lanes_of(k.f, t):
            k.f.decided("windows", "side by side in vectors", f"along dimension {fastest}, where each has one element")
            pool.beside(op, fastest)
            return True
        if same and pool.fits_a_row(fastest):
            k.f.decided("windows", "rows folded first, then the sums", f"along dimension {fastest}, a row at a time")
            pool.along(op, fastest)
            return True
    k.f.decided("windows", "one by one", "they lie in other orders, or their reducer is no plain one")
    pool.one_by_one()
    return True


class _Pool:
    def __init__(self, k: Kernel, pointer: Value) -> None:
        self.k, self.e, self.f, self.root = k, k.e, k.f, k.root
        self.inputs = self.root.operands[: len(self.root.operands) // 2]
        self.initial = self.root.operands[len(self.inputs) :]
        self.source = array_of(self.inputs[0])
        self.result = next(iter(k.outputs.values())).shape
        self.window = self.root.window.dimensions
        self.t = self.source.element_type
        self.n = lanes_of(self.f, self.t) if is_plain(self.t) else 1
        self.given = array(self.t, pointer)
        self.goal = array(self.t, next(iter(k.outputs.values())).pointer)
        self.volume = math.prod(w.size for w in self.window)

    @property
    def start(self) -> Value:
        """What a window is folded from."""
        return real(self.e.scalar(self.initial[0]))

    def is_plain(self, d: int) -> bool:
        """Whether windows have one element, the result's own, along a dimension."""
        w = self.window[d]
        return (
            w.size == 1
            and w.stride == 1
            and w.padding_low == 0
            and self.source.dimensions[d] == self.result.dimensions[d]
        )

    def _results(self, dims: Sequence[int], cost: float, body: Callable[[dict[int, Ix]], None]) -> None:
        """`body` for each index of the result along some dimensions, the first of them outermost."""
        sizes = [self.result.dimensions[d] for d in dims]
        split = max(len(dims) - 1, 1 if dims else 0)
        rest = sizes[split:]
        with parallel(self.f, math.prod(sizes[:split]), nanoseconds=cost * math.prod(rest)) as q:
            at: dict[int, Ix] = {}
            left = q
            for d, size in reversed(list(zip(dims[:split], sizes[:split], strict=True))):
                at[d], left = self.f.rem(left, size), self.f.div(left, size)
            if rest:
                with self.f.loop(rest[0]) as v:
                    body({**at, dims[split]: v})
            else:
                body(at)

    def _range(self, d: int, o: Ix) -> tuple[Ix, Ix, Ix]:
        """(the first and the last + 1 element of the window of result o that lie in the array, where its element 0 would lie) along a dimension."""
        f, w, n = self.f, self.window[d], self.source.dimensions[d]
        start = f.sub(f.mul(o, w.stride), w.padding_low)
        reach = (self.result.dimensions[d] - 1) * w.stride - w.padding_low + (w.size - 1) * w.window_dilation
        low: Ix = 0
        if w.padding_low > 0:
            low = self._ceil(f.sub(0, start), w.window_dilation, w.size)
        high: Ix = w.size
        if reach >= n:
            high = self._ceil(f.sub(n, start), w.window_dilation, w.size)
        return low, high, start

    def _ceil(self, a: Ix, b: int, limit: int) -> Ix:
        """a / b, rounded up, within 0..limit."""
        f = self.f
        return f.clamp(f.div(f.add(f.clamp(a, 0, limit * b), b - 1), b), 0, limit)

    def _fold(
        self,
        dims: Sequence[int],
        at: dict[int, Ix],
        state: list[Value],
        step: Callable[[dict[int, Ix], list[Value]], list[Value]],
    ) -> list[Value]:
        """`step(index in the array, state)` for what of a window lies inside along some dimensions; along the others the result's index is the array's."""
        f = self.f
        ranges = {d: self._range(d, at[d]) for d in dims}

        def nest(where: dict[int, Ix], state: list[Value]) -> list[Value]:
            if len(where) == len(dims):
                return step(where, state)
            d = dims[len(where)]
            low, high, start = ranges[d]
            known = isinstance(low, int) and isinstance(high, int)
            most = self.window[d].size
            with f.carried(high, state, low, guarded=not known, most=most) as loop, f.aside():
                place = f.add(start, f.mul(loop.index, self.window[d].window_dilation), wrap=True)
                loop.next = nest({**where, d: place}, list(loop.values))
            return list(loop.values)

        if any(low == high for low, high, _ in ranges.values()):
            return state
        known = [range(low, high) for low, high, _ in ranges.values() if isinstance(low, int) and isinstance(high, int)]
        if (
            f.ready
            and len(known) == len(ranges)
            and math.prod(map(len, known)) * len(state) <= costs.COMMON.written_out_vectors
        ):
            for offsets in product(*known):
                reach = {d: k * self.window[d].window_dilation for d, k in zip(dims, offsets, strict=True)}
                state = step({d: f.add(ranges[d][2], k, wrap=True) for d, k in reach.items()}, state)
            return state
        return nest({}, state)

    def _others(self, fastest: int) -> tuple[list[int], list[int], list[int]]:
        """(dimensions of the result but the fastest, outermost first; those of them that are windowed; the rest that counts)."""
        dims = [d for d in reversed(order(self.result)) if d != fastest]
        windowed = [d for d in reversed(self.source.minor_to_major) if d != fastest and not self.is_plain(d)]
        return dims, windowed, [d for d in dims if d not in windowed]

    def _offset(self, at: dict[int, Ix], last: Ix) -> Ix:
        """The offset in the array of an index, given along all dimensions that count but the fastest."""
        f = self.f
        total: Ix = 0
        for d, v in at.items():
            if self.source.dimensions[d] != 1:
                total = f.add(total, f.mul(v, strides(self.source)[d], wrap=True), wrap=True)
        return f.add(total, last, wrap=True)

    def _column(self, block: Ix, width: int, size: int) -> Ix:
        """Where a block of columns begins; the last one may lie back over the one before."""
        begin = self.f.mul(block, width)
        return self.f.clamp(begin, 0, size - width) if size % width else begin

    def _target(self, at: dict[int, Ix], last: Ix) -> Ix:
        f = self.f
        total: Ix = 0
        for d, v in at.items():
            total = f.add(total, f.mul(v, strides(self.result)[d]))
        return f.add(total, last)

    # -- vectors of results that lie side by side -----------------------------------------------------------------

    def beside(self, op: Op, fastest: int) -> None:
        """Windows that are one element wide along the fastest dimension."""
        f, n, t = self.f, self.n, self.t
        f.ready = True
        size = self.source.dimensions[fastest]
        group = next(g for g in (_GROUP, 2, 1) if size >= g * n)
        width = group * n
        dims, windowed, plain = self._others(fastest)

        def result(at: dict[int, Ix]) -> None:
            first = f.splat(self.start, n)
            full = {d: at.get(d, 0) for d in windowed}
            with f.loop(-(-size // width)) as block:
                # The last block lies back over the one before: the same results are written twice.
                column = self._column(block, width, size)

                def step(where: dict[int, Ix], state: list[Value]) -> list[Value]:
                    begin = self._offset({**{d: at[d] for d in plain}, **where}, column)
                    new = [self.given.load(f.add(begin, g * n), n) for g in range(group)]
                    return [combine(f, op, t, a, b) for a, b in zip(state, new, strict=True)]

                target = self._target(at, column)
                for g, v in enumerate(self._fold(windowed, full, [first] * group, step)):
                    self.goal.store(f.add(target, g * n), v)

        self._results(dims, self.volume * size / n * 1.0, result)

    # -- rows ---------------------------------------------------------------------------------------------------

    def fits_a_row(self, fastest: int) -> bool:
        """Whether a row with its padding may stand on the stack, and is worth vectors."""
        w = self.window[fastest]
        low = -w.padding_low if w.padding_low < 0 else 0
        length = self._row_length(fastest)
        return (
            low == 0 and w.padding_high >= 0 and self.source.dimensions[fastest] >= self.n and w.stride <= 4
            and self.result.dimensions[fastest] >= self.n // 2 and length * self.t.byte_size <= costs.COMMON.staged_row_bytes
        )  # fmt: skip

    def _row_length(self, fastest: int) -> int:
        """Elements of a row with padding, and room for the vectors of the last results."""
        w = self.window[fastest]
        rounds = -(-self.result.dimensions[fastest] // self.n)
        reach = (rounds * self.n) * w.stride + (w.size - 1) * w.window_dilation
        return max(reach, w.padding_low + self.source.dimensions[fastest]) + self.n

    def along(self, op: Op, fastest: int) -> None:
        """Windows along the fastest dimension too: a row is folded over the others first."""
        f, n, t = self.f, self.n, self.t
        f.ready = True
        w = self.window[fastest]
        size, goal = self.source.dimensions[fastest], self.result.dimensions[fastest]
        dims, windowed, plain = self._others(fastest)
        length = self._row_length(fastest)
        vectors = -(-length // n)
        # What lies behind the last window is read by no result.
        inside = w.padding_low == 0 and (goal - 1) * w.stride + (w.size - 1) * w.window_dilation < size

        def result(at: dict[int, Ix]) -> None:
            nothing = f.splat(real(identity(f, op, t)), n)
            row = array(t, f.alloca(memory(t), vectors * n))
            if not inside:
                with f.loop(vectors) as v:
                    row.store(f.mul(v, n), nothing)

            def step(column: Ix, where: dict[int, Ix], state: list[Value]) -> list[Value]:
                begin = self._offset({**{d: at[d] for d in plain}, **where}, column)
                new = self.given.load(begin, n)
                return [new if state[0] == nothing else combine(f, op, t, state[0], new)]

            full = {d: at.get(d, 0) for d in windowed}
            with f.loop(-(-size // n)) as v:
                column = self._column(v, n, size)
                (folded,) = self._fold(windowed, full, [nothing], lambda where, s: step(column, where, s))
                row.store(f.add(column, w.padding_low), folded)
            first = f.splat(self.start, n)
            if goal >= n:
                with f.loop(-(-goal // n)) as v:  # the last results may lie back over those before
                    begin = self._column(v, n, goal)
                    made = self._window(op, row, begin, w.size, first)
                    self.goal.store(self._target(at, begin), made)
                return
            made = self._window(op, row, 0, w.size, first)
            with f.loop(goal) as v:
                self.goal[self._target(at, v)] = f.extract(made, v)

        cost = (self.volume // w.size * size + w.size * goal) / n * 1.5
        self._results(dims, cost + 10, result)

    def _window(self, op: Op, row: Pointer, begin: Ix, size: int, first: Value) -> Value:
        """The windows of the results from `begin` on."""
        f, n, t = self.f, self.n, self.t
        fastest = order(self.source)[0]
        w = self.window[fastest]

        def next_of(k: Ix, total: Value) -> Value:
            at = f.add(f.mul(begin, w.stride), f.mul(k, w.window_dilation))
            if w.stride == 1:
                return combine(f, op, t, total, row.load(at, n))
            wide = row.load(at, n * w.stride)
            return combine(f, op, t, total, f.shuffle(wide, None, [lane * w.stride for lane in range(n)]))

        if size <= costs.COMMON.written_out_vectors // 4:
            return reduce(lambda total, k: next_of(k, total), range(size), first)
        with f.carried(size, [first]) as loop:
            loop.next = [next_of(loop.index, loop.values[0])]
        return loop.values[0]

    # -- any other ------------------------------------------------------------------------------------------------

    def one_by_one(self) -> None:
        """Any fold of any operands: in row-major order of the window."""
        e = self.e
        types = [array_of(o).element_type for o in self.initial]
        reducer = Reducer(e, self.root.to_apply, types)
        dims = list(reversed(order(self.result)))
        windowed = [d for d in range(self.source.rank) if not self.is_plain(d)]

        def result(at: dict[int, Ix]) -> None:
            def step(where: dict[int, Ix], state: list[Value]) -> list[Value]:
                index = [where.get(d, at.get(d, 0)) for d in range(self.source.rank)]
                values = [e.element(o, Index(array_of(o), index)) for o in self.inputs]
                return flat(reducer.step(pack(types, state), values))

            start = flat([e.scalar(o) for o in self.initial])
            state = self._fold(windowed, {d: at.get(d, 0) for d in windowed}, start, step)
            for a, v in zip(self.k.outputs.values(), pack(types, state), strict=True):
                a.store(Index(a.shape, [at.get(d, 0) for d in range(a.shape.rank)]), v)

        self._results(dims, self.volume * 2.0, result)

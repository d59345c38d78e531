"""Pooling: windows are clipped to the array first, then reduced without bounds checks.

for each result but along the fastest dimension: ranges of the window that are inside
  fastest dimension not windowed (NHWC):  vectors of results, reduced over the ranges
  fastest dimension windowed (NCHW):      a row reduced over the other dimensions' ranges, then its
                                          windows, both in vectors; of short rows several at a time
  any other layout:                       one result at a time
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

from xlanb.codegen import costs
from xlanb.codegen.elemental import array_of, flat, pack
from xlanb.codegen.elements import Element, load, memory, store
from xlanb.codegen.folds import AnyOrder
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, order
from xlanb.codegen.nest import Nest, Tail, Vectors, nested
from xlanb.codegen.values import Value
from xlanb.codegen.views import array_in_order
from xlanb.cpu.emitters.kernel import Kernel, emitter
from xlanb.cpu.emitters.reductions import Reducer
from xlanb.cpu.emitters.scans import emit_cumulative
from xlanb.cpu.emitters.short_rows import LOADED, columns, emitted_across, row_axes, row_nest, store_rows
from xlanb.cpu.emitters.vector_plan import costs_in, plan
from xlanb.hlo.attributes import WindowDimension
from xlanb.hlo.opcode import HloOpcode as Op

_FEWEST_LANES = 4
"""Elements of the shortest vectors along a row that are faster than one element at a time."""
_ROW_STEPS = 32
"""Operations on the elements of a row that is shorter than a vector, for three loops to pay."""


@emitter(Op.REDUCE_WINDOW)
def emit_windows(k: Kernel) -> bool:
    """Emit a running fold, or a reduce-window of arrays in memory without base dilation.

    Returns False for others.
    """
    i = k.root
    inputs = i.operands[: len(i.operands) // 2]
    source = array_of(inputs[0])
    is_plain = not any(w.base_dilation != 1 or w.reversal for w in i.window.dimensions)
    is_read = source.element_count and all(array_in_order(k.e, o, source) is not None for o in inputs)
    folds = _WindowFolds(k) if is_plain and is_read else None
    if folds is not None and folds.emit_across_rows():
        return True
    if emit_cumulative(k):
        return True
    if folds is not None:
        folds.emit()
    return folds is not None


class _WindowFolds:
    """Emits window reductions.

    `dims` are the result's dimensions, slowest first; `windowed` those with windows of several
    elements.
    """

    def __init__(self, k: Kernel) -> None:
        self.k, self.e, self.f = k, k.e, k.f
        self.reducer = Reducer(k.e, k.root)
        self.source, self.types = self.reducer.source, self.reducer.types
        self.result = next(iter(k.outputs.values())).shape
        self.window = k.root.window.dimensions
        self.dims = list(reversed(order(self.result)))
        self.sizes = tuple(self.result.dimensions[d] for d in self.dims)
        self.windowed = [d for d in reversed(self.source.minor_to_major) if not self._is_plain(d)]
        self.volume = math.prod(w.size for w in self.window)
        p = plan(k.e.bindings, [(o, ()) for o in self.reducer.inputs], costs_in(k.f))
        self.plan, self.vectors = p, Vectors(*p.vectors(k.f.target.vector_bits))
        self.lanes = self.vectors.lanes

    def _is_plain(self, d: int) -> bool:
        w = self.window[d]
        same = self.source.dimensions[d] == self.result.dimensions[d]
        return w.size == 1 and w.stride == 1 and w.padding_low == 0 and same

    def emit(self) -> None:
        """Emit the loops over the results."""
        f, sizes = self.f, self.sizes
        fastest = self.dims[-1] if self.dims else -1
        if f.target.explicit_vectors and fastest >= 0 and order(self.source)[:1] == (fastest,):
            f.ready = True
            combiner = self.reducer.any_order
            if fastest not in self.windowed:
                f.decided("windows", "one window per vector lane", f"along dimension {fastest}, which is not windowed")
                nest = Nest(sizes, 1, self.vectors, self.volume / self.lanes, Tail.OVERLAP)
                f.ready = nest.each(f, self._result)
            elif isinstance(combiner, AnyOrder) and self._fits_a_row(fastest):
                f.decided(
                    "windows",
                    "each row first, then the other dimensions",
                    f"along dimension {fastest}, a row at a time",
                )
                self._by_rows(combiner, fastest)
            else:
                f.ready = False
        if not f.ready:
            f.decided("windows", "one by one", "the layout does not allow vectors, or the reducer is not a simple one")
            Nest(sizes, 0, None, self.volume * 2.0).each(f, self._result)

    def emit_across_rows(self) -> bool:
        """Emit windows of short rows, several rows at a time; return False if that is impossible.

        Nothing is emitted then.
        """
        f, bits, sizes = self.f, self.result.element_type.bits, self.sizes
        if not f.target.explicit_vectors or not self.dims or order(self.source)[:1] != (self.dims[-1],):
            return False
        axes = row_axes(sizes, bits, self.plan, self.lanes, 1)
        if not axes or not set(self.windowed) <= set(self.dims[-axes:]):
            return False
        elements = math.prod(sizes[-axes:])
        nest = row_nest(sizes[:-axes], self.lanes, self.volume * elements / self.lanes, Tail.OVERLAP, elements)

        def body(at: list[Ix]) -> None:
            row = columns(self.result, at, axes)
            made = []
            for index in row:
                whole = dict(enumerate(index.multi(f)))
                made.append(self.reducer.results(self._fold(self.windowed, whole, self.reducer.start())))
            for to, values in zip(self.k.outputs.values(), zip(*made, strict=True), strict=True):
                store_rows(f, to, row[0], values)

        f.ready = True  # windows are written out
        f.ready = emitted_across(f, nest, LOADED, body)
        if f.ready:
            f.decided("windows", "one row per vector lane", f"along a row of {elements} elements")
        return f.ready

    def _whole(self, at: Sequence[Ix]) -> dict[int, Ix]:
        """An index for all dimensions, from one for those of more than one result."""
        return dict.fromkeys(range(self.result.rank), 0) | dict(zip(self.dims, at, strict=True))

    def _step(self, at: dict[int, Ix], state: Sequence[Element]) -> list[Element]:
        """The state after the elements at an index of the arrays."""
        return self.reducer.step(state, self.reducer.elements([at[d] for d in range(self.source.rank)]))

    def _result(self, at: Sequence[Ix]) -> None:
        """Emit the result at an index (or lanes of them), in row-major order of the window."""
        whole = self._whole(at)
        made = self._fold(self.windowed, whole, self.reducer.start())
        self._store(whole, made)

    def _store(self, at: dict[int, Ix], values: Sequence[Element]) -> None:
        for a, v in zip(self.k.outputs.values(), self.reducer.results(values), strict=True):
            a.store(Index(a.shape, [at[d] for d in range(a.shape.rank)]), v)

    # -- one window --------------------------------------------------------------------------------

    def _range(self, d: int, o: Ix) -> tuple[Ix, Ix, Ix]:
        """(first, last + 1, origin) along a dimension.

        The window elements of result o that are inside the array, and the position of its element
        0.
        """
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

    def _fold(self, dims: Sequence[int], at: dict[int, Ix], state: Sequence[Element]) -> Sequence[Element]:
        """Fold the window's inside part along `dims`; along others, indices are the result's."""
        f = self.f
        ranges = {d: self._range(d, at[d]) for d in dims}

        def place(d: int, offset: Ix) -> Ix:
            return f.add(ranges[d][2], f.mul(offset, self.window[d].window_dilation), wrap=True)

        def nest(left: Sequence[int], where: dict[int, Ix], state: Sequence[Element]) -> Sequence[Element]:
            if not left:
                return self._step(where, state)
            d, (low, high, _) = left[0], ranges[left[0]]
            known = isinstance(low, int) and isinstance(high, int)
            with f.carried(high, flat(state), low, guarded=not known, most=self.window[d].size) as loop, f.aside():
                inside = pack(self.types, loop.values)
                loop.next = flat(nest(left[1:], {**where, d: place(d, loop.index)}, inside))
            return pack(self.types, loop.values)

        if any(low == high for low, high, _ in ranges.values()):
            return state
        known = [range(low, high) for low, high, _ in ranges.values() if isinstance(low, int) and isinstance(high, int)]
        many = math.prod(map(len, known)) * max(1, f.width // self.lanes) > costs.COMMON.written_out_vectors
        if many or not f.ready or len(known) < len(ranges):
            return nest(dims, at, state)
        for offsets in product(*known):
            state = self._step({**at, **{d: place(d, k) for d, k in zip(dims, offsets, strict=True)}}, state)
        return state

    # -- rows --------------------------------------------------------------------------------------

    def _fits_a_row(self, fastest: int) -> bool:
        """Whether a row with its padding fits on the stack, and is worth vectorizing."""
        w = self.window[fastest]
        return (
            not self.types[0].is_complex
            and min(w.padding_low, w.padding_high) >= 0
            and w.stride <= 4
            and self._row_lanes(fastest) > 0
            and self._row_length(fastest) * self.types[0].byte_size <= costs.COMMON.staged_row_bytes
        )

    def _row_lanes(self, fastest: int) -> int:
        """Elements of the vectors along a row; 0 if it is too short even for a few."""
        size, goal = self.source.dimensions[fastest], self.result.dimensions[fastest]
        lanes = self.lanes
        while lanes > _FEWEST_LANES and (size < lanes or goal < lanes // 2):
            lanes //= 2
        pays = lanes == self.lanes or goal * self.volume >= _ROW_STEPS
        return lanes if size >= lanes and goal >= lanes // 2 and pays else 0

    def _row_length(self, fastest: int) -> int:
        w = self.window[fastest]
        return w.padding_low + self.source.dimensions[fastest] + w.padding_high

    def _by_rows(self, combiner: AnyOrder, fastest: int) -> None:
        """Windows along the fastest dimension too: first reduce a row over the other dimensions."""
        f, t, w = self.f, self.types[0], self.window[fastest]
        size, goal, length = self.source.dimensions[fastest], self.result.dimensions[fastest], self._row_length(fastest)
        others = [d for d in self.windowed if d != fastest]
        nothing = pack(self.types, combiner.neutral)
        lanes = self._row_lanes(fastest)
        cost = (self.volume // w.size * size + w.size * goal) / lanes * 1.5
        with nested(f, [self.result.dimensions[d] for d in self.dims[:-1]], cost + 10) as at:
            row = f.alloca(memory(t), length)

            def empty(q: Sequence[Ix]) -> None:
                store(t, row, q[0], nothing[0])

            def column(q: Sequence[Ix]) -> None:
                made = self._fold(others, self._whole([*at, *q]), nothing)
                store(t, row, f.add(q[0], w.padding_low), made[0])

            def result(q: Sequence[Ix]) -> None:
                self._store(self._whole([*at, *q]), self._window(row, w, f.mul(q[0], w.stride)))

            for count, write in ((length if length > size else 0, empty), (size, column), (goal, result)):
                nest = Nest((count,), 1, Vectors(lanes), tail=Tail.OVERLAP, overlapped=1)
                if count and not nest.each(f, write):
                    raise AssertionError("a row in memory cannot be vectorized")

    def _window(self, row: Value, w: WindowDimension, begin: Ix) -> Sequence[Element]:
        """Reduce the window of a row that begins at an element."""
        f, t, state = self.f, self.types[0], self.reducer.start()

        def step(k: Ix, state: Sequence[Element]) -> list[Element]:
            return self.reducer.step(state, [load(t, row, f.add(begin, f.mul(k, w.window_dilation)))])

        if w.size <= costs.COMMON.written_out_vectors // 4:
            for k in range(w.size):
                state = step(k, state)
            return state
        with f.carried(w.size, flat(state)) as loop:
            loop.next = flat(step(loop.index, pack(self.types, loop.values)))
        return pack(self.types, loop.values)

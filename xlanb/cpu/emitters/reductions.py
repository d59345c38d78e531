"""Reductions over dimensions and windows: per element, vectorized along rows, or multithreaded."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from xlanb.analysis.mixed_precision import rounded_operation
from xlanb.codegen import costs
from xlanb.codegen.elemental import Elemental, array_of, elemental, flat, pack
from xlanb.codegen.elements import Element, is_narrow, load, real, rounded, store
from xlanb.codegen.folds import AnyOrder, simple_reducer, window_position
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import SHORT_ROW, Index, IrArray, order
from xlanb.codegen.lanes import NotAVectorError, split
from xlanb.codegen.nest import Folding, Nest, Vectors, vectorize
from xlanb.codegen.parallel import is_shared, parallel
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.vector_plan import VectorPlan, costs_in, plan, without_repeated
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.emitters.variadic import VariadicPairs

T = PrimitiveType
PARTS = 16
"""Number of partial results of a full reduction: constant, whatever the number of threads, so that
the result is reproducible."""

_IN_TURNS = 4
"""Partial results of these, so that operations need not wait for one another."""
_LITTLE = 8
"""The most instructions of an element that leave a processor waiting for the last operation."""
Partial = Sequence[Sequence[Element]]
"""Accumulators of several partial results."""


class Reducer:
    """The inputs, initial values and step function of a reduce or reduce-window.

    The step is one operation (`one`), a choice between two pairs (`pairs`), or any other
    computation. `types` are those of the accumulators: sums and products of narrow floats are f32
    and rounded once, by `results`, as in XLA's evaluator (its CPU code rounds partial results).
    """

    def __init__(self, e: Elemental, i: HloInstruction) -> None:
        self.e, self.instruction, self.target, count = e, i, i.to_apply, len(i.operands) // 2
        self.inputs, self.initial = i.operands[:count], i.operands[count:]
        self.source = array_of(self.inputs[0])
        self.types = [array_of(o).element_type for o in self.initial]
        op, self._narrow = _operation(self.target) if count == 1 else (None, None)
        if self._narrow is not None:
            self.types = [T.F32]
        self.one = AnyOrder(e.f, op, self.types[0], self.target.root.name) if op is not None else None
        self.pairs = self._pairs() if count == 2 else None
        self._comes_later = self.pairs is not None and self.pairs.choice.comes_later(i)

    def _pairs(self) -> VariadicPairs | None:
        from xlanb.cpu.emitters.variadic import VariadicPairs, choice

        made = choice(self.target)
        return VariadicPairs(self.e.f, made, self.types) if made is not None else None

    def start(self) -> list[Element]:
        """The initial values."""
        return [self.e.scalar(o) for o in self.initial]

    def elements(self, at: Sequence[Ix]) -> list[Element]:
        """The elements of the inputs at an index."""
        return [self.e.element(o, Index(array_of(o), at)) for o in self.inputs]

    def elements_at(self, base: Sequence[Ix], dims: Sequence[int], places: Sequence[Ix]) -> list[Element]:
        """The elements of the inputs at the index `base`, but at these places along `dims`."""
        at = list(base)
        for d, v in zip(dims, places, strict=True):
            at[d] = v
        return self.elements(at)

    def step(self, accumulators: Sequence[Element], values: Sequence[Element]) -> list[Element]:
        """The next accumulators."""
        f = self.e.f
        if self.one is not None:
            return pack(self.types, self.one.step(flat(accumulators), flat(values)))
        mark = f.locate(self.target.root.name)
        if self.pairs is not None and f.width:
            join = self.pairs.later if self._comes_later else self.pairs.join
            made: list[Element] = [*join(flat(accumulators), flat(values))]
        else:
            made = self.e.apply(self.target, [*accumulators, *values])
        f.restore(mark)
        return made

    def results(self, accumulators: Sequence[Element]) -> list[Element]:
        """The results for final accumulators."""
        if self._narrow is None:
            return list(accumulators)
        return [rounded(self.e.f, self._narrow, real(a)) for a in accumulators]

    @property
    def any_order(self) -> AnyOrder | VariadicPairs | None:
        """The combiner of two partial results that allows any order; None if the order matters."""
        if self.pairs is not None:
            return self.pairs if self.pairs.choice.any_order(self.instruction) else None
        return self.one


def _operation(target: HloComputation) -> tuple[Op | None, PrimitiveType | None]:
    """The reorderable operation of a reducer, if any; the narrow type that rounds its results."""
    operation, to = rounded_operation(target)
    if to is not None:
        given = set(operation.operands) == set(target.parameters) and array_of(operation).element_type is T.F32
        return (operation.opcode, to) if given and len(target.parameters) == 2 else (None, None)
    op, t = simple_reducer(target), array_of(target.root).element_type
    return op, t if op in (Op.ADD, Op.MULTIPLY) and is_narrow(t) else None


# -- elements --------------------------------------------------------------------------------------


@elemental(Op.REDUCE)
def _reduce(e: Elemental, i: HloInstruction, x: Index) -> Element | Sequence[Element]:
    reducer = Reducer(e, i)
    source = reducer.source
    dims = [d for d in reversed(source.minor_to_major) if d in i.dimensions]
    kept = iter(x.multi(e.f))
    base: list[Ix] = [0 if d in i.dimensions else next(kept) for d in range(source.rank)]
    if not e.f.width:
        along = AlongRows(reducer, base)
        if along.pays:
            made = reducer.results(along.reduce())
            return made if i.shape.is_tuple else made[0]
    if e.f.ready and not e.f.width:
        e.f.ready = math.prod(source.dimensions[d] for d in i.dimensions) <= costs.COMMON.vector_sum_elements

    def body(indices: list[Ix], accumulators: list[Element]) -> list[Element]:
        return reducer.step(accumulators, reducer.elements_at(base, dims, indices))

    found = _across(reducer, base) if e.f.across_rows else _over_columns(reducer, base, dims) if dims else None
    if found is None:
        found = e.fold([source.dimensions[d] for d in dims], reducer.types, reducer.start(), body)
    made = reducer.results(found)
    return made if i.shape.is_tuple else made[0]


def _across(reducer: Reducer, base: Sequence[Ix]) -> list[Element]:
    """Reduce the elements of a short row; `base` is as in `AlongRows`."""
    along = AlongRows(reducer, base)
    slow, fast = (math.prod(reducer.source.dimensions[d] for d in dims) for dims in (along.slow, along.fast))
    if slow * fast > reducer.e.f.across_rows:
        raise NotAVectorError("rows are long")
    return _in_turns(reducer, along.elements, slow, fast, _IN_TURNS)


def _over_columns(reducer: Reducer, base: Sequence[Ix], dims: Sequence[int]) -> list[Element] | None:
    """Reduce over `dims`, slowest first, if that is long and has to wait for each operation."""
    e, source = reducer.e, reducer.source
    *slow, fast = (source.dimensions[d] for d in dims)
    turns = _IN_TURNS * e.f.target.vector_bits // (max(e.f.width, 1) * max(reducer.types[0].bits, 32))
    if not e.f.width or reducer.one is None or turns < 2 or fast < 4 * turns or reducer.types[0].is_complex:
        return None
    if len(plan(e.bindings, [(o, ()) for o in reducer.inputs]).seen) > _LITTLE:  # it need not wait
        return None

    def elements(outer: Ix, inner: Ix) -> list[Element]:
        return reducer.elements_at(base, dims, [*split(e.f, outer, slow), inner])

    return _in_turns(reducer, elements, math.prod(slow), fast, turns)


def _in_turns(
    reducer: Reducer, elements: Callable[[Ix, Ix], Sequence[Element]], slow: int, fast: int, turns: int
) -> list[Element]:
    """Reduce elements (m, n) for m below `slow`, n below `fast`; to `turns` partial results.

    To one if the order matters.
    """
    e, one = reducer.e, reducer.one
    turns = min(turns, fast) if one is not None else 1
    neutral = pack(reducer.types, one.neutral) if one is not None else []
    partial = [reducer.start(), *[neutral] * (turns - 1)]

    def rounds(count: int, partial: Partial, body: Callable[[Ix, Partial], Partial]) -> Partial:
        with e.f.carried(count, flat([v for p in partial for v in p])) as loop:
            made = body(loop.index, _apart(pack(reducer.types * turns, loop.values), turns))
            loop.next = flat([v for p in made for v in p])
        return _apart(pack(reducer.types * turns, loop.values), turns)

    def over(outer: Ix, partial: Partial) -> Partial:
        def step(n: Ix, p: Sequence[Element]) -> list[Element]:
            return reducer.step(p, elements(outer, n))

        def each(n: Ix, partial: Partial) -> Partial:
            return [step(e.f.add(e.f.mul(n, turns), k), p) for k, p in enumerate(partial)]

        done = 0
        if fast > SHORT_ROW:
            done = fast // turns * turns
            partial = rounds(fast // turns, partial, each)
        made = list(partial)
        for n in range(done, fast):
            made[n % turns] = step(n, made[n % turns])
        return made

    total, *others = over(0, partial) if slow == 1 else rounds(slow, partial, over)
    for more in others:
        total = reducer.step(total, more)
    return list(total)


def _apart(values: Sequence[Element], count: int) -> list[Sequence[Element]]:
    """`count` groups of consecutive values."""
    each = len(values) // count
    return [values[k * each : (k + 1) * each] for k in range(count)]


@elemental(Op.REDUCE_WINDOW)
def _reduce_window(e: Elemental, i: HloInstruction, x: Index) -> Element | Sequence[Element]:
    """Fold a window's elements in row-major order, skipping padding and holes of a dilated base."""
    reducer, window, multi = Reducer(e, i), i.window.dimensions, x.multi(e.f)

    def body(indices: list[Ix], accumulators: list[Element]) -> list[Element]:
        inside, where = window_position(e.f, window, multi, indices, reducer.source.dimensions)
        return e.branches(
            reducer.types,
            inside,
            lambda: reducer.step(accumulators, reducer.elements(where)),
            lambda: accumulators,
        )

    made = reducer.results(e.fold([w.size for w in window], reducer.types, reducer.start(), body))
    return made if i.shape.is_tuple else made[0]


# -- along rows of memory --------------------------------------------------------------------------


class AlongRows:
    """A reduction along the fastest dimension, in any order, vectorized along that dimension.

    for slow reduced: for vector along the fastest reduced: partial = step(partial, vector);
    then reduce partial by combining its halves until one element is left

    `base` is the index of the first element: the result's index, with 0 in the reduced dimensions.
    """

    def __init__(self, reducer: Reducer, base: Sequence[Ix]) -> None:
        self.e, self.reducer, self.base = reducer.e, reducer, list(base)
        self.source, dimensions = reducer.source, reducer.instruction.dimensions
        self.combiner = reducer.any_order
        every = fastest = order(self.source)
        if reducer.one is not None:
            fastest = without_repeated(reducer.e.bindings, reducer.instruction, fastest)
        run = next((k for k, d in enumerate(fastest) if d not in dimensions), len(fastest))
        self.repeats = len(fastest) < len(every)
        self.fast = list(reversed(fastest[:run]))
        self.slow = [d for d in reversed(every) if d in dimensions and d not in self.fast]

    @property
    def pays(self) -> bool:
        """Whether the reduction has this form and is long enough."""
        if not self.e.f.target.explicit_vectors or self.combiner is None or self.source.element_count == 0:
            return False
        c = self.e.f.target.costs
        least = c.vector_pair_elements if self.reducer.pairs else c.vector_sum_elements + 1
        return math.prod(self._sizes(self.fast)) >= least and not (self.reducer.pairs and self.slow)

    def reduce(self) -> list[Element]:
        """The results."""
        p, combiner = self._plan(), self.combiner
        run = 1 if self.repeats else max(1, min(p.run, len(self.fast)))
        if combiner is None or (combiner.neutral is None and run < len(self.fast)):
            return self._one_by_one()
        self.slow, self.fast = self.slow + self.fast[:-run], self.fast[-run:]
        made = self._nest(p).fold(self.e.f, combiner, None, self._values, combiner.later)
        if made is None:
            self.e.f.ready = False
            return self._one_by_one()
        types = self.reducer.types
        start = self.reducer.start()

        def joined() -> list[Element]:
            return self.reducer.step(start, pack(types, made))

        return self.e.branches(types, made[-1], self._one_by_one, joined) if combiner.minds_nan else joined()

    def shared(self, scratch: Value) -> Element | None:
        """Reduce with `PARTS` partial results in scratch memory, for threads to share.

        Returns None, and emits nothing, if that does not pay.
        """
        f, t, p = self.e.f, self.reducer.types[0], self._plan()
        count = self.source.element_count
        nest, combiner = self._nest(p), self.combiner
        wide = nest.widths[1]
        if combiner is not None and p.run == 0 and not self.slow:
            return self._shared_rows(scratch, p.nanoseconds)
        each = count // (wide * PARTS) * wide
        if combiner is None or self.slow or p.run < len(self.fast) or not is_shared(f, PARTS, p.nanoseconds * each):
            return None
        found: list[Element] = []

        def write(cuts: Sequence[int]) -> None:
            if len(cuts) > 2:
                raise NotAVectorError("a part must be split")
            with parallel(f, PARTS, nanoseconds=p.nanoseconds * each) as k:
                low = f.mul(k, each)
                high = f.value(k).equals(PARTS - 1).select(f.const(I64, count), f.value(f.add(low, each)))
                made = Folding(f, nest, combiner, self._values, cuts=(low, high)).result()
                store(t, scratch, k, pack([t], made)[0])
            found.append(self._total(scratch, PARTS))

        return found[0] if vectorize(f, count, write) else None

    def _shared_rows(self, scratch: Value, nanoseconds: float) -> Element | None:
        """Reduce elements that are reduced rows, one by one, as `shared` does."""
        f, (t,), count = self.e.f, self.reducer.types, self.source.element_count
        each = -(-count // PARTS)
        parts = -(-count // each)
        if not is_shared(f, parts, nanoseconds * each):
            return None

        def element(q: Ix) -> list[Element]:
            return self._elements(split(f, q, self._sizes(self.fast)))

        with parallel(f, parts, nanoseconds=nanoseconds * each) as k:
            low = f.mul(k, each)
            high = f.value(f.add(low, each)).smin(count)
            with f.carried(high, flat(element(low)), f.add(low, 1), guarded=True, most=each) as loop:
                loop.next = flat(self.reducer.step(pack([t], loop.values), element(loop.index)))
            store(t, scratch, k, pack([t], loop.values)[0])
        return self._total(scratch, parts)

    def _total(self, scratch: Value, parts: int) -> Element:
        """The reduction of partial results in scratch memory."""
        (t,), start = self.reducer.types, self.reducer.start()
        (made,) = self.e.fold([parts], [t], start, lambda k, v: self.reducer.step(v, [load(t, scratch, k[0])]))
        return made

    def _plan(self) -> VectorPlan:
        return plan(self.e.bindings, [(i, ()) for i in self.reducer.inputs], costs_in(self.e.f))

    def _nest(self, p: VectorPlan) -> Nest:
        sizes = tuple(self._sizes([*self.slow, *self.fast]))
        return Nest(sizes, len(self.fast), Vectors(*p.vectors(self.e.f.target.vector_bits)), p.nanoseconds)

    def elements(self, outer: Ix, inner: Ix) -> list[Element]:
        """The elements at a place of the slow reduced dimensions, and at one of the fast ones."""
        f = self.e.f
        return self._elements([*split(f, outer, self._sizes(self.slow)), *split(f, inner, self._sizes(self.fast))])

    def _sizes(self, dims: Sequence[int]) -> list[int]:
        return [self.source.dimensions[d] for d in dims]

    def _elements(self, at: Sequence[Ix]) -> list[Element]:
        return self.reducer.elements_at(self.base, [*self.slow, *self.fast], at)

    def _values(self, at: list[Ix]) -> Sequence[Value]:
        values = flat(self._elements(at))
        return values if self.combiner is None else self.combiner.parts(values)

    def _one_by_one(self) -> list[Element]:
        sizes, reducer = self._sizes([*self.slow, *self.fast]), self.reducer
        return self.e.fold(sizes, reducer.types, reducer.start(), lambda at, v: reducer.step(v, self._elements(at)))


def scratch_bytes(i: HloInstruction) -> int:
    """Bytes of the partial results of a full reduction of a large array."""
    return PARTS * 16 if _is_whole(i, costs.COMMON.shared_sum_elements) else 0


def whole_reduces(fusion: HloInstruction) -> list[HloInstruction]:
    """The reductions of large arrays to one number in a fusion whose results are numbers, in order.

    Losses are of this kind. Each is reduced by all threads before the numbers are computed.
    """
    if fusion.opcode is not Op.FUSION or any(
        s.is_token or s.as_array().element_count != 1 for _, s in fusion.shape.leaves()
    ):
        return []
    least = costs.COMMON.shared_loss_elements
    return [i for i in fusion.fused_computation if i.opcode is Op.REDUCE and _is_whole(i, least)]


def _is_whole(i: HloInstruction, least: int) -> bool:
    """Whether a reduce makes one number of an array of at least so many elements."""
    if i.shape.is_tuple or len(i.operands) != 2 or array_of(i).element_count != 1:
        return False
    return array_of(i.operands[0]).element_count >= least


def loss_bytes(fusion: HloInstruction) -> int:
    """Bytes of scratch memory of a fusion's `whole_reduces`: partial results, then the results."""
    count = len(whole_reduces(fusion))
    return (PARTS + count) * 16 if count else 0


def emit_whole_reduces(e: Elemental, fusion: HloInstruction, scratch: Value | None) -> None:
    """Emit a fusion's `whole_reduces` that threads can share, and bind their results in memory."""
    if scratch is None:
        return
    for n, i in enumerate(whole_reduces(fusion)):
        value = _whole(e, i, scratch)
        if value is not None:
            t = array_of(i).element_type
            place = (PARTS + n) * 16 // t.byte_size
            store(t, scratch, place, value)
            e.bindings = {**e.bindings, i: {(): _stored(t, scratch, place)}}


def _stored(t: PrimitiveType, scratch: Value, place: int) -> Callable[[Index], Element]:
    """Load a number in scratch memory where it is used, which may be another function."""
    return lambda _: load(t, scratch, place)


def _whole(e: Elemental, i: HloInstruction, scratch: Value) -> Element | None:
    """The result of a reduction to one number that threads share; None if that does not pay."""
    along = AlongRows(Reducer(e, i), [0] * array_of(i.operands[0]).rank)
    value = along.shared(scratch) if along.pays else None
    return None if value is None else along.reducer.results([value])[0]


def emit_whole_reduce(e: Elemental, i: HloInstruction, output: IrArray, scratch: Value | None) -> bool:
    """Reduce a large array to one value with several threads; False if it is another reduction."""
    if scratch is None or array_of(i).element_count != 1:
        return False
    value = _whole(e, i, scratch)
    if value is None:
        return False
    output.store(Index(array_of(i), [0] * array_of(i).rank), value)
    e.f.ready = True
    return True


def _runs(i: HloInstruction) -> list[tuple[bool, int]] | None:
    """(reduced, elements) of runs of dimensions in memory order; None if the result's differs."""
    source, result = array_of(i.operands[0]), array_of(i)
    slowest = list(reversed(order(source)))
    kept = [d for d in range(source.rank) if d not in i.dimensions]
    if not source.element_count or [d for d in slowest if d in kept] != [kept[d] for d in reversed(order(result))]:
        return None
    runs = groupby(slowest, lambda d: d in i.dimensions)
    return [(reduced, math.prod(source.dimensions[d] for d in dims)) for reduced, dims in runs]


def memory_form(i: HloInstruction) -> tuple[int, int, int] | None:
    """(arrays, rows, columns) of a reduction over rows only, in memory order; None otherwise."""
    runs = _runs(i)
    if runs is None or sum(reduced for reduced, _ in runs) != 1:
        return None
    at = next(k for k, (reduced, _) in enumerate(runs) if reduced)
    return (runs[0][1] if at else 1), runs[at][1], (runs[-1][1] if at < len(runs) - 1 else 1)

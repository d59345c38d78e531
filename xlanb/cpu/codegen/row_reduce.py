"""Reductions along rows of memory: vectors of partial results, folded at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from xlanb.cpu.codegen import vector_memory, vectors
from xlanb.cpu.codegen.elemental import Elemental, array_of, pack
from xlanb.cpu.codegen.indexing import Index, order
from xlanb.cpu.codegen.ir import Ix, Loop
from xlanb.cpu.codegen.loops import split, tail, vectorize
from xlanb.cpu.codegen.parallel import is_parallel, parallel
from xlanb.cpu.codegen.types import Value, constant, highest, is_narrow, load, lowest, names, register, store
from xlanb.cpu.codegen.vector_plan import plan
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.codegen.reduce import Reducer

T = PrimitiveType
Partial = dict[int, list[str]]
"""Vectors of partial results (two where they are complex), by width."""
SHORT = 4
"""A sum of so few elements is no work for vectors."""
PARTS = 16
"""Partial results of one sum over all of an array: so many whoever takes which, so that the result is always the same."""
LARGE = 1 << 16
"""Elements from which on a sum over all of an array may be shared by threads."""


def identity(op: Op, t: PrimitiveType) -> Value:
    """What changes nothing when it is reduced with."""
    if op is Op.MAXIMUM:
        return lowest(t)
    if op is Op.MINIMUM:
        return highest(t)
    if op is Op.ADD and t.is_floating:
        return constant(t, -0.0)
    if op is Op.AND:
        return constant(t, 1) if t is T.PRED else "-1"
    return constant(t, t.dtype.type(1 if op is Op.MULTIPLY else 0))


class RowReduce:
    """A reduction whose fastest dimension is reduced, by one operation that may be done in any order, over vectors along that dimension.

    for slow reduced: for vector along the fastest reduced: partial = step(partial, vector); then partial = step of its halves, again and again

    `base` is the index of the first element: that of the result, and 0 in the reduced dimensions.
    """

    def __init__(
        self, e: Elemental, source: HloInstruction, dimensions: Sequence[int], base: Sequence[Ix], reducer: Reducer
    ) -> None:
        self.e, self.reducer, self.base = e, reducer, list(base)
        self.input, self.source = source, array_of(source)
        self.type = reducer.types[0]
        fastest = order(self.source)
        run = next((k for k, d in enumerate(fastest) if d not in dimensions), len(fastest))
        self.slow = [d for d in reversed(fastest[run:]) if d in dimensions]
        self.fast = list(reversed(fastest[:run]))

    @property
    def pays(self) -> bool:
        """Whether it is such a reduction, and long enough."""
        e, t = self.e, self.type
        if not e.f.target.explicit_vectors or self.reducer.op is None or self.source.element_count == 0:
            return False
        if is_narrow(t) and self.reducer.op in (Op.ADD, Op.MULTIPLY):
            return False  # rounded after every step: in order
        return math.prod(self.source.dimensions[d] for d in self.fast) > SHORT

    def reduce(self, start: Value) -> Value:
        """The result, from an initial value on."""
        e = self.e
        p = plan(e.bindings, [(self.input, ())])
        run = max(1, min(p.run, len(self.fast)))
        self.slow, self.fast = self.slow + self.fast[:-run], self.fast[-run:]
        sizes = [self.source.dimensions[d] for d in self.fast]
        self.widths = p.width(e.f.target.vector_bits, math.prod(sizes))
        found: list[Value] = []

        def write(cuts: Sequence[int]) -> None:
            found[:] = [self._with_vectors(start, cuts)]

        if not vectorize(e, math.prod(sizes), write):
            e.f.ready = False
            return self._one_by_one(start)
        return found[0]

    def shared(self, start: Callable[[], Value], scratch: str) -> Value | None:
        """The result by `PARTS` partial results in scratch memory, for threads to share; None, and nothing is written, where that does not pay."""
        e, f = self.e, self.e.f
        p = plan(e.bindings, [(self.input, ())])
        count = self.source.element_count
        one, wide = self.widths = p.width(e.f.target.vector_bits, count)
        rounds = count // (wide * PARTS)
        if self.slow or p.run < len(self.fast) or not is_parallel(e, PARTS, p.nanoseconds * rounds * wide):
            return None
        found: list[Value] = []

        def write(cuts: Sequence[int]) -> None:
            if len(cuts) > 2:
                raise vectors.NotAVectorError("a part that has to be cut")
            neutral = list(self._neutral)
            with parallel(e, PARTS, nanoseconds=p.nanoseconds * rounds * wide) as k:
                begin = f.mul(k, rounds * wide)
                made = self._rounds([], {wide: neutral}, wide, rounds, 0, count - count % wide, begin)
                store(f, self.type, scratch, k, pack([self.type], self._folded(made[wide], wide, 1))[0])
            total = e.fold(
                [PARTS], [self.type], [start()], lambda k, v: self.reducer.step(v, [load(f, self.type, scratch, k[0])])
            )
            if rounds * wide * PARTS < count:
                left = self._row([], {wide: neutral, one: neutral}, rounds * wide * PARTS, count)
                for w in dict.fromkeys((wide, one)):
                    if left[w] != neutral:
                        total = self.reducer.step(total, pack([self.type], self._folded(left[w], w, 1)))
            found[:] = total

        return found[0] if vectorize(e, count, write) else None

    def _sizes(self, dims: Sequence[int]) -> list[int]:
        return [self.source.dimensions[d] for d in dims]

    def _element(self, slow: Sequence[Ix], fast: Sequence[Ix]) -> Value:
        where = list(self.base)
        for d, v in zip([*self.slow, *self.fast], [*slow, *fast], strict=True):
            where[d] = v
        return self.e.element(self.input, Index(self.source, where))

    def _one_by_one(self, start: Value) -> Value:
        count = len(self.slow)

        def body(at: list[Ix], value: list[Value]) -> list[Value]:
            return self.reducer.step(value, [self._element(at[:count], at[count:])])

        return self.e.fold(self._sizes([*self.slow, *self.fast]), [self.type], [start], body)[0]

    # -- vectors ------------------------------------------------------------------------------------------------

    def _with_vectors(self, start: Value, cuts: Sequence[int]) -> Value:
        """The result of the loops over vectors along a row that is cut at some places."""
        neutral = list(names(identity(self.reducer.op or Op.ADD, self.type)))
        one, wide = self.widths
        lengths = [b - a for a, b in pairwise(cuts)]
        used = [
            w for w, some in ((wide, any(n >= wide for n in lengths)), (one, any(n % wide for n in lengths))) if some
        ]
        partial = self._over(self._sizes(self.slow), [], dict.fromkeys(used, neutral), cuts)
        value, width = neutral, 0
        for w in used:  # the widest first
            value, width = (self._folded(value, width, w), w) if width else (partial[w], w)
            if w == one and wide in partial and wide != one:
                value = self._step(value, partial[one], one)
        return self.reducer.step([start], pack([self.type], self._folded(value, width, 1)))[0]

    def _over(self, sizes: Sequence[int], at: list[Ix], partial: Partial, cuts: Sequence[int]) -> Partial:
        """The partial results, by the width of their vectors, after loops over the slow dimensions."""
        if not sizes:
            for low, high in pairwise(cuts):
                partial = self._row(at, partial, low, high)
            return partial
        with self._carried(sizes[0], partial) as (index, inside, loop):
            loop.next = _flat(self._over(sizes[1:], [*at, index], inside, cuts))
        return self._carry(partial, loop.values)

    def _row(self, at: list[Ix], partial: Partial, low: int, high: int) -> Partial:
        """The partial results after one run of the fastest dimensions from `low` to `high`."""
        one, wide = self.widths
        rounds = (high - low) // wide
        begin = low + rounds * wide
        if rounds:
            partial = self._rounds(at, partial, wide, rounds, low, begin)
        if begin < high:
            partial = self._rounds(at, partial, one, -(-(high - begin) // one), begin, high)
        return partial

    def _rounds(
        self, at: list[Ix], partial: Partial, width: int, rounds: int, begin: int, end: int, moved: Ix = 0
    ) -> Partial:
        """The partial results after so many vectors from begin + `moved` on, all of them before `end`."""
        f = self.e.f
        with self._carried(rounds, {width: partial[width]}) as (k, inside, loop):
            origin = f.add(f.mul(k, width), f.add(begin, moved))
            mask = tail(self.e, width, begin, end, origin)
            with f.vectorized(width, mask):
                q = vectors.counter(f, origin, begin, end - 1, width)
                value = list(names(self._element(at, split(self.e, q, self._sizes(self.fast)))))
                if mask:
                    value = [self._kept(v, n, mask, width) for v, n in zip(value, self._neutral, strict=True)]
                stepped = self._step(inside[width], value, width)
                # What is the same for all lanes has to be a vector too, but for a constant.
                loop.next = [vectors.operand(f, register(self.type), v, width) if v[0] == "%" else v for v in stepped]
        return partial | self._carry({width: partial[width]}, loop.values)

    @property
    def _neutral(self) -> tuple[str, ...]:
        return names(identity(self.reducer.op or Op.ADD, self.type))

    def _kept(self, value: str, neutral: str, mask: str, width: int) -> str:
        f, type_ = self.e.f, register(self.type)
        vector = vectors.kind(type_, width)
        chosen = (
            f"{vector} {vectors.operand(f, type_, value, width)}, {vector} {vectors.operand(f, type_, neutral, width)}"
        )
        made = f.plain(f"select {vectors.kind('i1', width)} {mask}, {chosen}")
        f.lanes[made] = width
        return made

    @contextmanager
    def _carried(self, rounds: int, partial: Partial) -> Iterator[tuple[Ix, Partial, Loop]]:
        """A loop that carries partial results."""
        f, type_ = self.e.f, register(self.type)
        initial = [(vectors.kind(type_, w), vectors.operand(f, type_, v, w)) for w, vs in partial.items() for v in vs]
        with f.carried(rounds, initial) as loop:
            if rounds == 1:
                loop.values = _flat(partial)
            yield loop.index, self._carry(partial, loop.values), loop

    def _carry(self, partial: Partial, values: Sequence[str]) -> Partial:
        rest = iter(values)
        made = {w: [next(rest) for _ in vs] for w, vs in partial.items()}
        self.e.f.lanes.update({v: w for w, vs in made.items() for v in vs if v.startswith("%")})
        return made

    def _step(self, a: Sequence[str], b: Sequence[str], width: int) -> list[str]:
        """Both vectors, or scalars, reduced to one."""
        with self.e.f.vectorized(width):
            return list(names(self.reducer.step(pack([self.type], a), pack([self.type], b))[0]))

    def _folded(self, value: Sequence[str], width: int, to: int) -> list[str]:
        """A vector reduced to one of fewer elements; to a scalar where that is 1."""
        made, type_ = list(value), register(self.type)
        while width > to:
            pairs = [vector_memory.halves(self.e.f, type_, v, width) for v in made]
            made = self._step([low for low, _ in pairs], [high for _, high in pairs], width)
            width //= 2
        return made


def _flat(partial: Partial) -> list[str]:
    return [v for vs in partial.values() for v in vs]

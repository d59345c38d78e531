"""Nests of loops: axes with extents, vectors, tails, threads and reductions.

    plan = Nest(sizes=(128, 4096), run=1, vectors=Vectors(16, 4), nanoseconds=0.2,
    tail=Tail.OVERLAP)
    plan.each(f, lambda at: store(at, element(at)))               every element
    plan.fold(f, combiner, start, element)                        reduce all elements to one value

One counter covers the `run` innermost axes: first in vectors of several registers, then of one,
then the remainder by the policy `tail`. Code for one element stands for a whole vector (see
lanes.py). If a condition in it changes at known positions of that counter, the loop is split there;
if the elements cannot be vectorized at all, the loop is scalar. `print(plan)` shows the decisions;
a function keeps the plans of its loops (`Function.plans`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import Enum
from itertools import pairwise
from typing import Protocol

from xlanb.codegen import lanes
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import PHASES, Mask, NotAVectorError, PeriodError, SplitError, split
from xlanb.codegen.parallel import parallel
from xlanb.codegen.plan import time_text
from xlanb.codegen.types import I64
from xlanb.codegen.values import Value, Vector
from xlanb.lazy_dataclass import dataclass

_LONG = 4
"""The least vectors per row for which the last one may recompute elements.

Gathers take time for each element.
"""
_PIECES, _AGAIN = 24, 4
"""Where an index jumps: the most positions to split a loop at, and how often to split it again."""

_SHARED_ROUNDS = 16
"""The least number of iterations of a loop that threads share."""

ENDLESS = (1 << 40) - 1
"""Stands for an element count that is only known at run time."""

Element = Callable[[list[Ix]], Sequence[Value]]
Step = Callable[[Sequence[Value], Sequence[Value]], Sequence[Value]]


class Tail(Enum):
    """How the elements that do not fill a vector are computed."""

    MASK = "the remainder with a mask"
    OVERLAP = "the last vector overlaps the previous one"


@dataclass(frozen=True)
class Vectors:
    """The elements of a register, and the registers per vector of the main loop."""

    lanes: int
    registers: int = 1

    def within(self, count: int) -> tuple[int, int]:
        """The vector lengths, narrow and wide, for this number of elements."""
        one = self.lanes
        while one > 2 and one // 2 >= count:
            one //= 2
        wide = one * self.registers
        while wide > one and wide > count:
            wide //= 2
        return one, wide


class Combiner(Protocol):
    """A reorderable operation: `step` combines two sets of values; `neutral` changes nothing.

    Without a neutral set (None), combining an element twice must be harmless: partial results start
    as the first elements, and the last vector overlaps the previous one.
    """

    @property
    def neutral(self) -> Sequence[Value] | None:
        """The neutral values, or None."""

    def step(self, a: Sequence[Value], b: Sequence[Value]) -> Sequence[Value]:
        """Combine two sets of values, lane by lane."""


@dataclass(frozen=True)
class Nest:
    """Loops over axes of `sizes`, the outermost first.

    `nanoseconds` is the cost of one element; `is_folded` means a reduction to one value. Rows of
    fewer than `overlapped` vectors use a mask at their end whatever the tail policy. An element may
    be a row of several `interleaved` ones (see short_rows.py). Where elements lie may repeat with a
    `period`: an iteration then covers it, by several vectors.
    """

    sizes: tuple[int, ...]
    run: int = 0
    vectors: Vectors | None = None
    nanoseconds: float = 0.0
    tail: Tail = Tail.MASK
    cuts: tuple[int, ...] = ()
    is_folded: bool = False
    overlapped: int = _LONG
    interleaved: int = 1
    period: int = 1

    @property
    def outer(self) -> tuple[int, ...]:
        """The axes around the vectors."""
        return self.sizes[: len(self.sizes) - self.run]

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes that one counter covers."""
        return self.sizes[len(self.sizes) - self.run :]

    @property
    def count(self) -> int:
        """The number of elements of the inner axes."""
        return math.prod(self.inner)

    @property
    def lengths(self) -> list[int]:
        """The numbers of elements between cuts."""
        return [b - a for a, b in pairwise(self.cuts)] or [self.count]

    def __str__(self) -> str:
        lines = []
        if self.outer:
            lines.append(f"for {' x '.join(map(str, self.outer))}")
        if self.vectors is None:
            lines.append(f"for {self.count} elements, one by one{self._each}")
        else:
            one, wide = self.widths
            what = "elements" if self.interleaved == 1 else f"rows of {self.interleaved} interleaved elements"
            lines.append(f"for {self.count} {what} by {self._by(one, wide)}{self._each}")
            if len(self.cuts) > 2:
                lines.append(f"  split at {', '.join(map(str, self.cuts[1:-1]))}")
        return "\n".join("  " * k + line if k < 2 else line for k, line in enumerate(lines))

    @property
    def _each(self) -> str:
        return f"; {time_text(self.nanoseconds)} each" if self.nanoseconds else ""

    def _by(self, one: int, wide: int) -> str:
        """A description of the traversal and of the remainder."""
        by = f"vectors of {wide}" + (f", then {one}" if wide != one else "")
        if self.period > wide:
            by = f"{self.period // wide} {by}"
        left = sum(n % one for n in self.lengths)
        folded = ", reduced to one value" if self.is_folded else ""
        return by + folded + (f"; {self.tail.value}" if left else "; no remainder")

    # -- every element -----------------------------------------------------------------------------

    def each(
        self, f: Function, body: Callable[[list[Ix]], None], row: Callable[[list[Ix]], None] | None = None
    ) -> bool:
        """Emit `body(index)` for each element, `row(outer index)` before each row's.

        Returns False, and emits nothing, if they cannot be vectorized.
        """
        if self.vectors is None:
            self._one_by_one(f, body, row)
            return True
        made = _Made(self)

        def write(cuts: Sequence[int]) -> None:
            _write_vectors(f, made.cut(cuts), body, row)

        if self.count < 1 or not vectorize(f, self.count, write, made.repeat):
            return False
        f.plans.append(made.nest)
        return True

    def _one_by_one(
        self, f: Function, body: Callable[[list[Ix]], None], row: Callable[[list[Ix]], None] | None
    ) -> None:
        if row is None:
            with nested(f, self.sizes, self.nanoseconds) as at:
                body(at)
        else:
            with nested(f, self.outer, self.nanoseconds * self.count) as at:
                row(at)
                with _loops(f, self.inner) as inside:
                    body([*at, *inside])
        f.plans.append(self)

    @property
    def widths(self) -> tuple[int, int]:
        """Elements of the narrower and of the wider vectors."""
        if self.vectors is None:
            return 1, 1
        one, wide = self.vectors.within(max(self.lengths))
        return one, wide if self.period == 1 else one

    def of_period(self, period: int) -> Nest:
        """The nest with more vectors per iteration, so that elements lie alike in all iterations.

        The nest itself, if that takes no more of them, or too many.
        """
        longer = math.lcm(self.period, period, self.widths[0])
        is_long = self.vectors is not None and self.vectors.registers == 1  # code of an element, as for functions
        is_usable = self.period < longer <= PHASES // (2 if is_long else 1) * self.widths[0]
        return replace(self, period=longer) if is_usable else self

    # -- reductions --------------------------------------------------------------------------------

    def fold(
        self,
        f: Function,
        combiner: Combiner,
        start: Sequence[Value] | None,
        element: Element,
        later: Step | None = None,
    ) -> list[Value] | None:
        """Reduce all elements (and `start`) in any order, by vectors of partial results.

        Returns None, and emits nothing, if they cannot be vectorized. `later` is the combiner's
        step for when the elements of b are known to come after all those of a.
        """
        found: list[Value] = []

        tail = Tail.OVERLAP if combiner.neutral is None else Tail.MASK
        made = _Made(replace(self, is_folded=True, tail=tail))

        def write(cuts: Sequence[int]) -> None:
            total = Folding(f, made.cut(cuts), combiner, element, later).result()
            found[:] = total if start is None else combiner.step(start, total)

        if not vectorize(f, self.count, write, made.repeat):
            return None
        f.plans.append(made.nest)
        return found


class _Made:
    """The nest that is emitted: attempts have taught where to split it, and what repeats."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest

    def cut(self, cuts: Sequence[int]) -> Nest:
        """The nest, split at these places."""
        self.nest = replace(self.nest, cuts=tuple(cuts))
        return self.nest

    def repeat(self, period: int) -> bool:
        """Distinguish the vectors of a period; returns False if there are too many, or no more."""
        before, self.nest = self.nest, self.nest.of_period(period)
        return self.nest is not before


class Folding:
    """A reduction over a nest: partial results by vector width.

    `cuts` replaces the nest's if the extent of its only axis is known only at run time.
    """

    def __init__(
        self,
        f: Function,
        nest: Nest,
        combiner: Combiner,
        element: Element,
        later: Step | None = None,
        cuts: Sequence[Ix] | None = None,
    ) -> None:
        self.f, self.nest, self.combiner, self.element = f, nest, combiner, element
        self.later = later or combiner.step
        self.cuts: Sequence[Ix] = nest.cuts if cuts is None else cuts

    def result(self) -> list[Value]:
        """Combine all partial results."""
        if self.combiner.neutral is None:
            return self._from_first()
        one, wide = self.nest.widths
        lengths = self.nest.lengths if self.cuts is self.nest.cuts else [ENDLESS]
        some = ((wide, any(n >= wide for n in lengths)), (one, any(n % wide for n in lengths)))
        used = [width for width, is_used in some if is_used]
        partial = self._over(list(self.nest.outer), [], {w: self._neutral(w) for w in used})
        value: list[Value] = []
        for w in used:  # the widest first
            value = folded(self.combiner, value, w) if value else partial[w]
            if w == one and wide in partial and wide != one:
                value = list(self.combiner.step(value, partial[one]))
        return folded(self.combiner, value, 1)

    def _from_first(self) -> list[Value]:
        """Reduce all elements with partial results that start as the first vectors."""
        f, count = self.f, self.nest.count
        one, wide = self.nest.widths
        while one > count:
            one //= 2
        wide = max(one, wide if wide <= count else one)
        if self.nest.outer or len(self.nest.cuts) > 2 or one < 2:
            raise NotAVectorError("partial results cannot start from the first elements of several loops")
        total = self._values([], 0, 0, count, wide)
        if count // wide > 1:
            with f.carried(count // wide - 1, total) as loop:
                origin = f.add(f.mul(loop.index, wide), wide)
                loop.next = list(self.later(loop.values, self._values([], origin, 0, count, wide)))
            total = loop.values
        total = folded(self.combiner, total, one)
        for at in range(count // wide * wide, count, one):
            total = list(self.combiner.step(total, self._values([], min(at, count - one), 0, count, one)))
        return folded(self.combiner, total, 1)

    def _values(
        self,
        at: list[Ix],
        origin: Ix,
        begin: Ix,
        end: Ix,
        width: int,
        mask: Mask | None = None,
        cycle: tuple[int, int] | None = None,
    ) -> list[Value]:
        """The elements from `origin`, between `begin` and `end`; masked ones are neutral.

        `cycle` is (first, period) if `origin` is at a multiple of that from the first.
        """
        f = self.f
        low, high, first, period = 0, self.nest.count - 1, 0, 1
        if isinstance(begin, int) and isinstance(end, int):
            low, high = begin, end - 1
            first, period = cycle or (begin, width)
        with f.vectorized(width, mask):
            q = lanes.counter(f, origin, low, high, width, begin=first, period=period)
            value = list(self.element([*at, *split(f, q, self.nest.inner)]))
            if mask is not None:
                bits, neutral = mask.value(f), self._neutral(width)
                value = [bits.select(v, n) for v, n in zip(value, neutral, strict=True)]
        return [v if isinstance(v, Vector) else f.splat(v, width) for v in value]

    def _neutral(self, width: int) -> list[Value]:
        """Vectors of the neutral values."""
        return [self.f.splat(v, width) for v in self.combiner.neutral or ()]

    def _over(self, sizes: list[int], at: list[Ix], partial: dict[int, list[Value]]) -> dict[int, list[Value]]:
        """The partial results after loops over the outer axes."""
        if not sizes:
            for low, high in pairwise(self.cuts):
                partial = self._row(at, partial, low, high)
            return partial
        with self.f.carried(sizes[0], [v for vs in partial.values() for v in vs]) as loop:
            inside = _by_width(partial, loop.values)
            after = self._over(sizes[1:], [*at, loop.index], inside)
            loop.next = [v for vs in after.values() for v in vs]
        return _by_width(partial, loop.values)

    def _row(self, at: list[Ix], partial: dict[int, list[Value]], low: Ix, high: Ix) -> dict[int, list[Value]]:
        f, (one, wide) = self.f, self.nest.widths
        rounds = f.div(f.sub(high, low), wide)
        begin = f.add(low, f.mul(rounds, wide))
        if rounds:
            most = None if isinstance(rounds, int) or self.nest.count == ENDLESS else self.nest.count // wide
            partial = partial | {wide: self._rounds(at, partial[wide], wide, rounds, low, begin, most=most)}
        left = f.sub(high, begin)
        if isinstance(left, Value):  # whole vectors separately: a mask costs more than another loop
            whole = f.div(left, one)
            partial = partial | {one: self._rounds(at, partial[one], one, whole, begin, high, most=wide // one)}
            begin, rest = f.add(begin, f.mul(whole, one)), f.value(f.rem(left, one))
            mask = Mask.first(f, one, rest)
            with f.carried(rest.differs(0).zext(I64), partial[one], guarded=True) as loop:
                loop.next = list(self.later(loop.values, self._values(at, begin, low, high, one, mask)))
            return partial | {one: loop.values}
        if left:
            count = f.div(f.add(left, one - 1), one)
            partial = partial | {one: self._rounds(at, partial[one], one, count, begin, high, masked=True)}
        return partial

    def _rounds(
        self,
        at: list[Ix],
        partial: list[Value],
        width: int,
        rounds: Ix,
        begin: Ix,
        end: Ix,
        *,
        masked: bool = False,
        most: int | None = None,
    ) -> list[Value]:
        """The partial results over `rounds` vectors from `begin`, all before `end`.

        `masked` if the last may be incomplete. If their number is unknown, `most` bounds it to plan
        polls.
        """
        f, phases = self.f, self.nest.period // width
        if phases > 1 and isinstance(rounds, int) and isinstance(begin, int) and isinstance(end, int):
            return self._periods(at, partial, width, rounds, begin, end, phases)
        with f.carried(rounds, partial, guarded=not isinstance(rounds, int), most=most) as loop:
            origin = f.add(f.mul(loop.index, width), begin)
            mask = tail_mask(f, width, begin, end, origin) if masked else None
            loop.next = list(self.later(loop.values, self._values(at, origin, begin, end, width, mask)))
        return loop.values

    def _periods(
        self, at: list[Ix], partial: list[Value], width: int, rounds: int, begin: int, end: int, phases: int
    ) -> list[Value]:
        """`_rounds` by several vectors, the `phases` of a period; the last may be incomplete."""
        f, period = self.f, phases * width
        whole = min(rounds, (end - begin) // width) // phases
        if whole:
            with f.carried(whole, partial) as loop:
                partial = loop.values
                for first in range(begin, begin + period, width):
                    origin = f.add(f.mul(loop.index, period), first)
                    values = self._values(at, origin, begin, end, width, None, (first, period))
                    partial = list(self.later(partial, values))
                loop.next = partial
            partial = loop.values
        for origin in range(begin + whole * period, begin + rounds * width, width):
            mask = Mask(width, end - origin) if origin + width > end else None
            partial = list(self.later(partial, self._values(at, origin, begin, end, width, mask)))
        return partial


def _by_width(partial: dict[int, list[Value]], values: Sequence[Value]) -> dict[int, list[Value]]:
    rest = iter(values)
    return {w: [next(rest) for _ in vs] for w, vs in partial.items()}


def folded(combiner: Combiner, value: Sequence[Value], to: int) -> list[Value]:
    """Combine vectors to vectors of `to` elements; to scalars if that is 1."""
    made = list(value)
    while isinstance(made[0], Vector) and made[0].lanes > to:
        pairs = [v.halves() for v in made if isinstance(v, Vector)]
        made = list(combiner.step([low for low, _ in pairs], [high for _, high in pairs]))
    return made


def _write_vectors(
    f: Function, nest: Nest, body: Callable[[list[Ix]], None], row: Callable[[list[Ix]], None] | None
) -> None:
    """Emit the loops of a nest in vectors, split at its cuts."""
    if not nest.outer:
        for low, high in pairwise(nest.cuts):
            _run(f, nest, low, high, lambda q: body(split(f, q, nest.inner)), shared=True)
        return
    with nested(f, nest.outer, nest.nanoseconds * nest.count) as at:
        if row is not None:
            row(at)
        for low, high in pairwise(nest.cuts):
            _run(f, nest, low, high, lambda q: body([*at, *split(f, q, nest.inner)]))


def _run(f: Function, nest: Nest, low: int, high: int, body: Callable[[Ix], None], *, shared: bool = False) -> None:
    """Emit `body(q)` for q = low, ..., high - 1, in vectors."""
    one, wide = nest.widths
    span = max(wide, nest.period)
    nanoseconds = nest.nanoseconds * span if shared else 0.0
    rounds, overlap = (high - low) // span, nest.tail is Tail.OVERLAP and high - low >= nest.overlapped * one
    overlap = overlap and nest.period == 1  # else the last vector would lie as no other
    if overlap and one == wide and (high - low) % one:
        rounds = 0  # one loop handles all of them
    if rounds:
        with parallel(f, rounds, nanoseconds=nanoseconds) as k, f.vectorized(wide):
            for first in range(low, low + span, wide):
                origin = f.add(f.mul(k, span), first)
                body(lanes.counter(f, origin, low, high - 1, wide, begin=first, period=span))
    begin = low + rounds * span
    while nest.period > 1 and begin + wide <= high:
        with f.vectorized(wide):
            body(lanes.counter(f, begin, low, high - 1, wide))
        begin += wide
    if begin == high:
        return
    if overlap:
        _back_over(f, begin, high, one, body, 0.0 if rounds else nanoseconds)
        return
    with f.loop(-(-(high - begin) // one)) as k:
        origin = f.add(f.mul(k, one), begin)
        with f.vectorized(one, tail_mask(f, one, begin, high, origin)):
            body(lanes.counter(f, origin, begin, high - 1, one, begin=begin, period=one))


# -- loops -----------------------------------------------------------------------------------------


def _shared_axes(sizes: Sequence[int]) -> int:
    """The number of outermost axes to merge so that threads get enough iterations."""
    shared = 1
    while shared < len(sizes) and math.prod(sizes[:shared]) < _SHARED_ROUNDS:
        shared += 1
    return shared


@contextmanager
def nested(f: Function, sizes: Sequence[int], nanoseconds: float) -> Iterator[list[Ix]]:
    """Nested loops, outermost first, around work of `nanoseconds`; yields the counters.

    Threads may share the outer loops.
    """
    shared = _shared_axes(sizes)
    rest = list(sizes[shared:])
    total = math.prod(sizes[:shared])
    with parallel(f, total, nanoseconds=nanoseconds * math.prod(rest)) as first, _loops(f, rest) as inner:
        yield [*split(f, first, sizes[:shared]), *inner]


@contextmanager
def _loops(f: Function, sizes: Sequence[int]) -> Iterator[list[Ix]]:
    if not sizes:
        yield []
        return
    with f.loop(sizes[0]) as first, _loops(f, sizes[1:]) as rest:
        yield [first, *rest]


@contextmanager
def steps(f: Function, count: Ix, step: int) -> Iterator[Ix]:
    """Loop over 0, step, 2 step, ... below a run-time count, which is not zero."""
    with f.loop(f.div(f.add(count, step - 1), step)) as k:
        yield f.mul(k, step)


def vectors(f: Function, begin: Ix, end: Ix, width: int, body: Callable[[Ix], None]) -> None:
    """Emit `body` for begin, ..., end - 1, known at run time: whole vectors, then a masked rest."""
    count = f.sub(end, begin)
    whole = f.div(count, width)
    with f.loop(whole, guarded=True) as k, f.vectorized(width):
        body(lanes.counter(f, f.add(begin, f.mul(k, width)), 0, ENDLESS, width))
    origin, left = f.add(begin, f.mul(whole, width)), f.value(f.rem(count, width))
    with f.when(left.differs(0)), f.vectorized(width, Mask.first(f, width, left)):
        body(lanes.counter(f, origin, 0, ENDLESS, width))


def vectorize(
    f: Function,
    count: int,
    write: Callable[[Sequence[int]], None],
    repeat: Callable[[int], bool] | None = None,
) -> bool:
    """Emit vector loops by `write(cuts)`, where 0, ..., `count` are the positions to split at.

    `repeat(period)` returns whether `write` can from now on distinguish the vectors of a period.
    Returns False, and emits nothing, if it cannot be vectorized.
    """
    back = f.mark()
    cuts, reason, most, more = {0, count}, "too many places to split the loop", lanes.MAX_CUTS, lanes.MAX_CUTS
    while len(cuts) < most and more >= 0:
        try:
            write(sorted(cuts))
        except SplitError as error:
            cuts.update(error.cuts)
            more -= 1
            if error.is_jump:
                most, more = _PIECES, min(more, _AGAIN)
        except PeriodError as error:
            reason = str(error)
            if repeat is None or not repeat(error.period):
                break
        except NotAVectorError as error:
            reason = str(error)
            break
        else:
            return True
        back()
    back()
    f.decided("vectors", "none", reason)
    return False


def _back_over(f: Function, begin: int, high: int, width: int, body: Callable[[Ix], None], nanoseconds: float) -> None:
    """Emit `body` for vectors from `begin` on; the last one ends at `high` and overlaps.

    It runs forwards, as early stores that go back are slower.
    """
    last = high - width
    with parallel(f, -(-(high - begin) // width), nanoseconds=nanoseconds) as k, f.vectorized(width):
        origin = last if k == 0 else f.clamp(f.add(f.mul(k, width), begin), 0, last)
        period = math.gcd(width, last - begin)
        body(lanes.counter(f, origin, min(begin, last), high - 1, width, begin=begin, period=period))


def tail_mask(f: Function, width: int, begin: Ix, end: Ix, origin: Ix) -> Mask | None:
    """The mask of elements before `end`, of `width` from `origin` on; None if always all.

    The loop starts at `begin`.
    """
    count = f.sub(end, begin)
    if isinstance(count, int) and count % width == 0:
        return None
    return Mask.first(f, width, count if isinstance(count, int) and count < width else f.sub(end, origin))

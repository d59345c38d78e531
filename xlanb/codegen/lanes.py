"""Explicit vectors: code for one element becomes code for `width` consecutive ones.

In a region with a width (`Function.vectorized`) the counter of the innermost loop is a `LaneIndex`:
a number that differs from lane to lane in a known way and costs nothing until it is used. Loads at
such an index load a vector. An instruction with a vector operand is a vector instruction, its other
operands are broadcast. Everything else stays scalar and is hoisted out of the loop. Code that
cannot be vectorized raises `NotAVectorError`: the loop is then emitted for one element at a time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xlanb.codegen.types import I1, I64, Type
from xlanb.codegen.values import Ix, Value, Vector
from xlanb.errors import XlanbError
from xlanb.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xlanb.codegen.function import Function

MAX_CUTS = 64
"""The most positions at which a vector loop may be split, its ends included."""
PHASES = 8
"""The most vectors of an iteration that are emitted one by one."""
_JUMPS = 16
"""The most places where an index jumps for which a loop is split."""


class NotAVectorError(XlanbError):
    """Code that cannot be emitted for several elements at once; the loop becomes scalar."""


class SplitError(NotAVectorError):
    """A condition changes between elements at known positions: the loop must be split there.

    Or an index jumps there (`is_jump`), which may be in each of many pieces.
    """

    def __init__(self, cuts: tuple[int, ...], *, is_jump: bool = False) -> None:
        super().__init__(f"a condition that changes at {cuts}")
        self.cuts = cuts
        self.is_jump = is_jump


class PeriodError(NotAVectorError):
    """Where the elements of a vector lie depends on the vector; it repeats with this period."""

    def __init__(self, period: int) -> None:
        super().__init__("the index must be split over several variables")
        self.period = period


@dataclass(frozen=True)
class Lane:
    """The counter of a vector loop.

    `origin` is its value in the first lane; all values are in low..high, inclusive; `depth` is its
    region. `origin` modulo `period` is `phase`.
    """

    origin: Ix
    low: int
    high: int
    width: int
    depth: int
    period: int = 1
    phase: int = 0

    def steps(self, atom: Atom) -> list[int] | None:
        """How far an atom is from its first lane's value; None if that differs between vectors."""
        a, modulus, _ = atom
        period, phase = self._cycle(atom)
        if period == 0 or period % a == 0:
            begin, blocks = phase // a, period // a
            quotients = [(phase + k) // a for k in range(self.width)]
            if not modulus or (blocks and modulus % blocks == 0 and quotients[-1] < blocks):
                return [q - begin for q in quotients]
            if blocks % modulus == 0:
                return [q % modulus - begin % modulus for q in quotients]
        elif a % period == 0 and phase + self.width <= period:
            return [0] * self.width
        return None

    def first(self, atom: Atom) -> int | None:
        """An atom's value in the first lane; None if that differs between vectors."""
        a, modulus, _ = atom
        period, phase = self._cycle(atom)
        if period == 0:
            return phase // a % modulus if modulus else phase // a
        return phase // a % modulus if modulus and period % (a * modulus) == 0 else None

    def change(self, atom: Atom) -> NotAVectorError:
        """What tells how to split the loop so that an atom's steps are known.

        Where an atom jumps, if that is at a few places; else how often it does.
        """
        a, modulus, shift = atom
        span = a * (modulus or 1)
        jumps = range(-(-(self.low + shift + 1) // span) * span - shift, self.high + 1, span)
        if math.lcm(span, self.width) > PHASES * self.width and len(jumps) <= _JUMPS:
            return SplitError(tuple(jumps), is_jump=True)
        return PeriodError(span)

    def _cycle(self, atom: Atom) -> tuple[int, int]:
        """(period, phase) of the counter with an atom's shift; the period of a known one is 0."""
        shift = atom[2]
        if isinstance(self.origin, int):
            return 0, self.origin + shift
        return self.period, (self.phase + shift) % self.period


@dataclass(frozen=True)
class Mask:
    """Active lanes of a vector: the first `count` if known, else those of an i1 vector."""

    lanes: int
    count: int | None = None
    bits: Value | None = None

    @staticmethod
    def first(f: Function, lanes: int, count: Ix) -> Mask:
        """The first `count` lanes; all lanes if `count` is larger."""
        if isinstance(count, int):
            return Mask(lanes, count)
        made = f.once(("mask", lanes, count), (count,), lambda: f.constants(I64, range(lanes)).ult(count))
        return Mask(lanes, None, made)

    def value(self, f: Function, repeat: int = 1) -> Value:
        """The mask as a vector of i1, each bit repeated `repeat` times."""
        if self.count is not None:
            return f.constants(I1, [k // repeat < self.count for k in range(self.lanes * repeat)])
        if self.bits is None:
            return f.const(I1.times(self.lanes * repeat), True)
        return (
            self.bits if repeat == 1 else f.shuffle(self.bits, None, [k // repeat for k in range(self.lanes * repeat)])
        )


Atom = tuple[int, int, int]
"""(a, m, c): the counter plus c, divided by a, modulo m if m is not 0."""
Terms = tuple[tuple[Atom, int], ...]


class LaneIndex(Value):
    """base + the sum of coefficient * atom: an i64 that differs from lane to lane.

    The base is the same in all lanes.
    """

    __slots__ = ("_hash", "base", "lane", "terms")

    def __init__(self, function: Function, lane: Lane, base: Ix, terms: Terms) -> None:
        depth = max(lane.depth, base.depth if isinstance(base, Value) else 0)
        super().__init__(function, I64, "", depth)
        self.lane, self.base, self.terms = lane, base, terms
        self._hash = hash((base, terms, lane.width))

    def __repr__(self) -> str:
        raise NotAVectorError("expected a uniform index, got one that differs between lanes")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LaneIndex):
            return False
        return self is other or (self.base, self.terms, self.lane) == (other.base, other.terms, other.lane)

    def __hash__(self) -> int:
        return self._hash

    @property
    def step(self) -> int | None:
        """The difference between consecutive lanes; None if it is not constant."""
        if not self.terms:
            return 0
        (atom, coefficient), *rest = self.terms
        return coefficient if not rest and atom == (1, 0, 0) else None

    @property
    def offsets(self) -> list[int]:
        """How far each lane's value is from the first lane's.

        Raises:
            PeriodError: That differs between vectors.
            SplitError: That differs in a few places.
        """
        found = [0] * self.lane.width
        for atom, k in self.terms:
            steps = self.lane.steps(atom)
            if steps is None:
                raise self.lane.change(atom)
            found = [offset + k * step for offset, step in zip(found, steps, strict=True)]
        return found

    @property
    def numbers(self) -> list[int]:
        """The values of the lanes.

        Raises:
            PeriodError: They differ between vectors.
        """
        firsts = [self.lane.first(atom) for atom, _ in self.terms]
        if not isinstance(self.base, int) or None in firsts:
            raise PeriodError(math.lcm(*(a * (m or 1) for (a, m, _), _ in self.terms)))
        first = self.base + sum(k * (v or 0) for v, (_, k) in zip(firsts, self.terms, strict=True))
        return [first + offset for offset in self.offsets]

    @property
    def first(self) -> Ix:
        """The value of the first lane."""
        f, origin, value = self.function, self.lane.origin, self.base
        for (a, m, shift), k in self.terms:
            atom = f.div(f.add(origin, shift), a)
            value = f.add(value, f.mul(f.rem(atom, m) if m else atom, k, wrap=True), wrap=True)
        return value

    @property
    def span(self) -> tuple[int, int] | None:
        """The lowest and the highest value; None if the base is unknown."""
        if not isinstance(self.base, int):
            return None
        low = high = self.base
        for (a, m, shift), k in self.terms:
            ends = (0, m - 1) if m else ((self.lane.low + shift) // a, (self.lane.high + shift) // a)
            low, high = low + min(k * v for v in ends), high + max(k * v for v in ends)
        return low, high


# -- indices ---------------------------------------------------------------------------------------


def counter(f: Function, origin: Ix, low: int, high: int, width: int, *, begin: int = 0, period: int = 1) -> Ix:
    """The index of the lanes from `origin` on, in this region; in low..high for its whole loop.

    `origin` is `begin` or a multiple of `period` from it.
    """
    return _named(f, Lane(origin, low, high, width, len(f.regions), period, begin % period), 0, (((1, 0, 0), 1),))


def _named(f: Function, lane: Lane, base: Ix, terms: Terms) -> Ix:
    """An index of these components; just the base if lanes do not differ."""
    return LaneIndex(f, lane, base, terms) if terms else base


def _parts_of(a: Ix) -> tuple[Ix, Terms] | None:
    """The base and the terms of an index; None if it is a vector already."""
    if isinstance(a, LaneIndex):
        return a.base, a.terms
    return None if isinstance(a, Vector) else (a, ())


def _joined(lane: Lane, terms: Sequence[tuple[Atom, int]]) -> tuple[int, Terms]:
    """(constant, terms): combine equal atoms, join nested moduli, fold constant atoms.

    k*b * (q / ab mod m) + k * (q / a mod b) becomes k * (q / a mod bm).
    """
    base, found = 0, dict[Atom, int]()
    for (a, modulus, shift), k in terms:
        low, high, m = (lane.low + shift) // a, (lane.high + shift) // a, modulus
        if low == high and a > 1:
            base += k * (low % m if m else low)
        else:
            if m and low // m == high // m:
                base, m = base - k * m * (low // m), 0
            if a == 1 and m == 0:
                base, shift = base + k * shift, 0
            atom = (a, m, shift)
            found[atom] = found.get(atom, 0) + k
    joined = True
    while joined:
        joined = False
        for (a, b, shift), k in list(found.items()):
            for (c, m, other), n in list(found.items()):
                one, two = (a, b, shift), (c, m, other)
                if b and c == a * b and n == k * b and shift == other and one in found and two in found:
                    del found[one], found[two]
                    atom = (a, b * m, shift)
                    found[atom] = found.get(atom, 0) + k
                    joined = True
    return base, tuple(sorted((atom, k) for atom, k in found.items() if k))


def _made(f: Function, lane: Lane, base: Ix, terms: Sequence[tuple[Atom, int]]) -> Ix:
    more, kept = _joined(lane, terms)
    return _named(f, lane, f.add(base, more, wrap=True), kept)


def _lane(a: Ix, b: Ix) -> Lane:
    return next(v.lane for v in (a, b) if isinstance(v, LaneIndex))


def add(f: Function, a: Ix, b: Ix, *, wrap: bool = False) -> Ix:
    """a + b of indices; with `wrap` the sum may be negative."""
    if isinstance(a, int):
        if isinstance(b, int):
            return a + b
        if a == 0:
            return b
    elif isinstance(b, int) and b == 0:
        return a
    if isinstance(a, LaneIndex) or isinstance(b, LaneIndex):
        x, y = _parts_of(a), _parts_of(b)
        if x is None or y is None:
            return f.value(a) + f.value(b)
        return _made(f, _lane(a, b), add(f, x[0], y[0], wrap=True), (*x[1], *y[1]))
    return _written(f, "add" if wrap else "add nuw nsw", a, b)


def sub(f: Function, a: Ix, b: Ix) -> Ix:
    """a - b of indices, possibly negative."""
    if isinstance(b, int):
        if isinstance(a, int):
            return a - b
        if b == 0:
            return a
    if isinstance(a, LaneIndex) or isinstance(b, LaneIndex):
        x, y = _parts_of(a), _parts_of(b)
        if x is None or y is None:
            return f.value(a) - f.value(b)
        return _made(f, _lane(a, b), sub(f, x[0], y[0]), (*x[1], *((atom, -k) for atom, k in y[1])))
    return _written(f, "sub nsw", a, b)


def mul(f: Function, a: Ix, b: Ix, *, wrap: bool = False) -> Ix:
    """a * b of indices."""
    number, other = (a, b) if isinstance(a, int) else (b, a)
    if isinstance(number, int):
        if isinstance(other, int):
            return number * other
        if number in (0, 1):
            return other if number else 0
        if isinstance(other, LaneIndex):
            terms = [(atom, k * number) for atom, k in other.terms]
            return _made(f, other.lane, mul(f, other.base, number, wrap=True), terms)
    elif isinstance(a, LaneIndex) or isinstance(b, LaneIndex):
        return f.value(a) * f.value(b)
    return _written(f, "mul" if wrap else "mul nuw nsw", a, b)


def div(f: Function, a: Ix, b: int) -> Ix:
    """Floor of a / b for a >= 0."""
    if isinstance(a, int) or b == 1:
        return a // b if isinstance(a, int) else a
    return _lanes_divided(a, b) if isinstance(a, LaneIndex) else _written(f, "udiv", a, b)


def rem(f: Function, a: Ix, b: int) -> Ix:
    """a modulo b for a >= 0."""
    if isinstance(a, int) or b == 1:
        return a % b if isinstance(a, int) else 0
    return _lanes_modulo(a, b) if isinstance(a, LaneIndex) else _written(f, "urem", a, b)


def clamp(f: Function, a: Ix, low: int, high: int) -> Ix:
    """Clamp to low..high, inclusive; signed."""
    if isinstance(a, int):
        return min(max(a, low), high)
    return low if low == high else a.smax(low).smin(high)


def within(f: Function, a: Ix, low: int, high: int) -> Value:
    """i1: low <= a < high, signed.

    Raises:
        SplitError: For an index that differs from lane to lane, it holds in a known part of the
            loop.
    """
    known = low <= a < high if isinstance(a, int) else _are_within(a, low, high) if isinstance(a, LaneIndex) else None
    if known is not None:
        return f.const(I1, known)
    value = f.value(a)
    return (value if low == 0 else value - low).ult(max(high - low, 0))


def split(f: Function, q: Ix, sizes: Sequence[int]) -> list[Ix]:
    """Split one counter into an index per dimension, outermost first."""
    out: list[Ix] = []
    for size in reversed(sizes[1:]):
        out.append(rem(f, q, size))
        q = div(f, q, size)
    return [q, *reversed(out)] if sizes else []


def _written(f: Function, op: str, a: Ix, b: Ix) -> Value:
    """Emit index arithmetic once, where its operands are first known."""

    def write() -> Value:
        x, y = f.alike(f.value(a), f.value(b))
        return f.let(x.type, f"{op} {x.type.text} {x.text}, {y.text}")

    return f.once((op, a, b), (a, b), write)


# -- indices of lanes, divided and compared --------------------------------------------------------


def _divided(x: LaneIndex, b: int) -> tuple[int, list[tuple[Atom, int]], int, Terms]:
    """(base, terms) of the part divisible by b, divided; then base and terms of the rest."""
    if not isinstance(x.base, int):
        raise NotAVectorError("the index is split over several variables")
    whole = [(atom, k // b) for atom, k in x.terms if k % b == 0]
    return x.base // b, whole, x.base % b, tuple((atom, k) for atom, k in x.terms if k % b)


def _joint(left: int, rest: Terms, b: int) -> tuple[Atom, int]:
    """(atom, k): left + the rest is k * atom + left modulo k; k divides b."""
    if len(rest) != 1 or rest[0][1] <= 0 or b % rest[0][1]:
        raise NotAVectorError("the index is split over several variables")
    (p, m, shift), k = rest[0]
    if m and (m % (b // k) or left >= k):
        raise NotAVectorError("the index is split over several variables")
    return (p, m, shift + left // k * p), k


def _lanes_divided(x: LaneIndex, b: int) -> Ix:
    """x / b, for x >= 0."""
    base, terms, left, rest = _divided(x, b)
    if not _is_below(LaneIndex(x.function, x.lane, left, rest), b):
        (p, m, shift), k = _joint(left, rest, b)
        terms.append(((p * b // k, m * k // b, shift), 1))
    return _made(x.function, x.lane, base, terms)


def _lanes_modulo(x: LaneIndex, b: int) -> Ix:
    """x modulo b, for x >= 0."""
    _, _, left, rest = _divided(x, b)
    if not _is_below(LaneIndex(x.function, x.lane, left, rest), b):
        (p, _, shift), k = _joint(left, rest, b)
        rest, left = (((p, b // k, shift), k),), left % k
    return _made(x.function, x.lane, left, rest)


def _is_below(x: LaneIndex, b: int) -> bool:
    span = x.span
    return span is not None and span[0] >= 0 and span[1] < b


def _are_within(x: LaneIndex, low: int, high: int) -> bool | None:
    """Whether low <= x < high in all lanes, or in none; None if lanes may differ."""
    span = x.span
    if span is None:
        return None
    if low <= span[0] and span[1] < high:
        return True
    if span[1] < low or span[0] >= high:
        return False
    if len(x.terms) != 1 or not isinstance(x.base, int):
        return None
    ((a, m, shift), k) = x.terms[0]
    if m or (k != 1 and (a, k) != (1, -1)):
        return None
    cuts = ((low - x.base) * a, (high - x.base) * a) if k == 1 else (x.base - high + 1, x.base - low + 1)
    raise SplitError(tuple(c - shift for c in cuts if x.lane.low < c - shift <= x.lane.high))


# -- vectors ---------------------------------------------------------------------------------------


def varies(value: object) -> bool:
    """Whether a value differs from lane to lane."""
    return isinstance(value, (Vector, LaneIndex))


def materialize(x: LaneIndex) -> Value:
    """The vector of a lane index."""
    return truncated(x, I64)


def truncated(x: LaneIndex, to: Type) -> Value:
    """A lane index in a type no wider: truncates the first lane and counts in that type."""
    f = x.function

    def write() -> Value:
        offsets, first = x.offsets, f.value(x.first)
        if to is not I64:
            first = first.trunc(to)
        return f.splat(first, x.lane.width) + f.constants(to, offsets)

    return f.once(("vector", x, to), (x,), write)


def by_registers(f: Function, rule: Callable[[Sequence[Value]], Sequence[Value]], *operands: Value) -> list[Value]:
    """Apply `rule` to vectors, one register of the widest at a time.

    Masks that span several registers are slow. A result that is not a vector depends only on
    scalars, and is the same for each register.
    """
    operands = tuple(materialize(v) if isinstance(v, LaneIndex) else v for v in operands)
    vectors = [v for v in operands if isinstance(v, Vector)]
    total = vectors[0].lanes if vectors else 0
    each = f.target.vector_bits // max((v.type.bits for v in vectors), default=1)
    if total <= each:
        return list(rule(operands))
    pieces = []
    for at in range(0, total, each):
        given = [f.shuffle(v, None, range(at, at + each)) if isinstance(v, Vector) else v for v in operands]
        pieces.append(rule(given))
    return [joined(f, piece) if isinstance(piece[0], Vector) else piece[0] for piece in zip(*pieces, strict=True)]


def joined(f: Function, pieces: Sequence[Value]) -> Value:
    """Concatenate a power of two of vectors of equal sizes."""
    made = list(pieces)
    while len(made) > 1:
        lanes = made[0].type.lanes
        made = [f.shuffle(a, b, range(2 * lanes)) for a, b in zip(made[::2], made[1::2], strict=True)]
    return made[0]

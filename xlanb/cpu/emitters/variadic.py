"""Reductions of pairs (value, position) that keep one of two pairs: argmax, argmin and their kin, in vectors.

The reducer is not matched against known texts. It may only compare values with values and positions with positions, and select: then what it does depends on nothing but the
order of the two values (and which is NaN) and the order of the two positions, eighteen cases in all. It is run once for each; the table says which pair is kept, and whether
the pairs may be taken in any order (associative and commutative, checked case by case).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen.elemental import Elemental, array_of, flat
from xlanb.codegen.elements import Element, array, memory, real, register, store
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.codegen.views import Split, array_in_order, fill, is_plain, lanes_of
from xlanb.cpu.emitters.reductions import Reducer
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

T = PrimitiveType

_NAN = math.nan
_PAIRS = {
    "lt": (1.0, 2.0),
    "eq": (1.0, 1.0),
    "gt": (2.0, 1.0),
    "an": (_NAN, 1.0),
    "bn": (1.0, _NAN),
    "nn": (_NAN, _NAN),
}
_ORDERS = {"lt": (0, 1), "eq": (0, 0), "gt": (1, 0)}
_NANS = frozenset({"an", "bn", "nn"})
_ALL = frozenset(_PAIRS)
_UNROLL = 4
_TILE = 512

Which = Mapping[str, frozenset[str]]
"""By the order of the positions: the cases of the values in which the second pair is taken."""


class _Float(float):
    """A number that is told from another of the same value by its identity."""


class _Integer(int):
    """A position that is told from another of the same value by its identity."""


@dataclass(frozen=True)
class Choice:
    """What a reducer does: when it takes the second value and the second position.

    `free`: pairs may be taken in any order; `sortable`: they may be where two that meet are put in the order of their positions first; `sortable_numbers`: that
    holds as long as no value is NaN.
    """

    value: Which
    position: Which
    free: bool
    sortable: bool
    sortable_numbers: bool


# -- what the reducer does ----------------------------------------------------------------------------------------

_COMPARE = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_LOGIC: dict[Op, Callable[[Any, Any], Any]] = {Op.AND: operator.and_, Op.OR: operator.or_, Op.XOR: operator.xor}


def choice(target: HloComputation) -> Choice | None:
    """The table of a reducer of (value, position) pairs; None where it does anything but compare and select."""
    if len(target.parameters) != 4 or target.root.opcode is not Op.TUPLE or not _compares_only(target):
        return None
    value: dict[str, set[str]] = {o: set() for o in _ORDERS}
    position: dict[str, set[str]] = {o: set() for o in _ORDERS}
    for case, (a, b) in _PAIRS.items():
        for order, (i, j) in _ORDERS.items():
            given = (_Float(a), _Integer(i), _Float(b), _Integer(j))
            v, p = _run(target, given)
            if v is given[2]:
                value[order].add(case)
            if p is given[3]:
                position[order].add(case)
    # Equal positions, equal values: either will do, so take what makes the cases alike.
    position["eq"] = set(value["eq"])
    for order in _ORDERS:
        for case in ("eq", "nn"):
            (value[order].add if case in position[order] else value[order].discard)(case)
    frozen = ({k: frozenset(v) for k, v in value.items()}, {k: frozenset(v) for k, v in position.items()})
    return Choice(*frozen, *_freedom(*frozen))


def _compares_only(target: HloComputation) -> bool:
    """Whether values meet values only, positions positions, and nothing is computed but comparisons and choices."""
    tags: dict[HloInstruction, str] = {}
    for p in target.parameters:
        t = array_of(p).element_type
        tags[p] = "value" if p.parameter_number in (0, 2) else "position"
        if t.is_complex or t is T.PRED or (tags[p] == "position" and not t.is_integral):
            return False
    for i in target.post_order():
        if i.opcode is Op.PARAMETER:
            continue
        kinds = [tags.get(o) for o in i.operands]
        if i.opcode is Op.COMPARE:
            total = i.get("type") == "TOTALORDER" and array_of(i.operands[0]).element_type.is_floating
            good, tag = kinds[0] == kinds[1] and kinds[0] in ("value", "position") and not total, "truth"
        elif i.opcode is Op.SELECT:
            good, tag = kinds[0] == "truth" and kinds[1] == kinds[2] and kinds[1] is not None, str(kinds[1])
        elif i.opcode in _LOGIC or i.opcode is Op.NOT:
            good, tag = set(kinds) == {"truth"}, "truth"
        elif i.opcode in (Op.MAXIMUM, Op.MINIMUM):
            good, tag = kinds[0] == kinds[1] and kinds[0] in ("value", "position"), str(kinds[0])
        else:
            good, tag = i is target.root and kinds == ["value", "position"], "pair"
        if not good:
            return False
        tags[i] = tag
    return True


def _run(target: HloComputation, arguments: tuple[float, int, float, int]) -> tuple[float, int]:
    """The reducer on Python numbers."""
    known: dict[HloInstruction, Any] = {p: arguments[p.parameter_number] for p in target.parameters}
    for i in target.post_order():
        if i in known:
            continue
        given = [known[o] for o in i.operands]
        if i.opcode is Op.COMPARE:
            known[i] = _COMPARE[i.get("direction")](*given)
        elif i.opcode is Op.SELECT:
            known[i] = given[1] if given[0] else given[2]
        elif i.opcode is Op.NOT:
            known[i] = not given[0]
        elif i.opcode in _LOGIC:
            known[i] = _LOGIC[i.opcode](*given)
        elif i.opcode is Op.TUPLE:
            known[i] = tuple(given)
        else:
            nan = next((g for g in given if math.isnan(g)), None)
            best = max if i.opcode is Op.MAXIMUM else min
            known[i] = nan if nan is not None else best(given)
    v, p = known[target.root]
    return v, p


def _freedom(value: Which, position: Which) -> tuple[bool, bool, bool]:
    """`free`, `sortable` and `sortable_numbers` of a table (see `Choice`).

    Three values and NaN at three positions make every order that three pairs can have, so what holds of these holds of all.
    """
    pairs = [(v, p) for v in range(4) for p in range(3)]  # the value 3 is NaN

    def meet(a: tuple[int, int], b: tuple[int, int]) -> int:
        if 3 in (a[0], b[0]):
            case = "nn" if a[0] == b[0] else "an" if a[0] == 3 else "bn"
        else:
            case = _order(a[0], b[0])
        order = _order(a[1], b[1])
        v = b[0] if case in value[order] else a[0]
        p = b[1] if case in position[order] else a[1]
        return v * 3 + p

    table = np.array([[meet(a, b) for b in pairs] for a in pairs])
    a, b, c = np.ogrid[:12, :12, :12]
    free = bool((table[table[a, b], c] == table[a, table[b, c]]).all() and (table == table.T).all())
    return free, _is_sortable(table), _is_sortable(table[:9, :9])


def _order(a: int, b: int) -> str:
    return "lt" if a < b else "gt" if a > b else "eq"


def _is_sortable(table: NDArray[np.intp]) -> bool:
    """Whether three pairs at different positions may meet in any order once two that meet are sorted, and the first of all (at any position) may come last."""
    count = len(table)
    at = np.arange(count) % 3
    sorted_ = np.where(at[:, None] <= at[None, :], table, table.T)
    a, b, c = np.ogrid[:count, :count, :count]
    apart = (at[a] != at[b]) & (at[b] != at[c]) & (at[a] != at[c])
    same = sorted_[sorted_[a, b], c] == sorted_[a, sorted_[b, c]]
    from_first = table[a, sorted_[b, c]] == table[table[a, b], c]
    return bool((same | ~apart).all() and (from_first | (at[b] >= at[c])).all())


# -- one step, lane by lane ---------------------------------------------------------------------------------------

_PREDICATES = {
    frozenset(): "false", frozenset({"lt"}): "lt", frozenset({"eq"}): "eq", frozenset({"gt"}): "gt", frozenset({"lt", "eq"}): "le",
    frozenset({"gt", "eq"}): "ge", frozenset({"lt", "gt"}): "ne", frozenset({"lt", "eq", "gt"}): "true",
}  # fmt: skip


Pair = tuple[Value, Value]
"""A value and its position; vectors of them."""


class _Lanes:
    """Vectors of pairs and how two of them are joined."""

    def __init__(self, f: Function, made: Choice, value: PrimitiveType, position: PrimitiveType, n: int) -> None:
        self.f, self.choice, self.n = f, made, n
        self.t, self.p = value, position

    def _constant(self, bit: bool) -> Value:
        return self.f.const(I1.times(self.n), bit)

    def _case(self, cases: frozenset[str], a: Value, b: Value) -> Value:
        """Which lanes are in one of some cases."""
        name = _PREDICATES[cases - _NANS]
        if not self.t.is_floating:
            if name in ("true", "false"):
                return self._constant(name == "true")
            return self.f.compare("icmp", _condition(name, self.t), a, b)
        nan = cases & _NANS
        ordered = {"true": "ord", "ne": "one", "false": "false"}.get(name, "o" + name)
        either = {"true": "true", "ne": "une", "false": "uno"}.get(name, "u" + name)

        def compare(how: str, x: Value = a, y: Value = b) -> Value:
            return self.f.compare("fcmp", how, x, y)

        if nan == _NANS:
            return compare(either)
        if nan == {"bn"}:
            return compare(either) & compare("ord", a, a)
        if nan == {"an"}:
            return compare(either) & compare("ord", b, b)
        made = compare(ordered)
        if nan == {"bn", "nn"}:
            return made | b.is_nan()
        if nan == {"an", "nn"}:
            return made | a.is_nan()
        if not nan:
            return made
        return made | (a.is_nan() & b.is_nan() if nan == {"nn"} else a.is_nan() ^ b.is_nan())

    def _taken(self, which: Which, a: Pair, b: Pair, orders: tuple[str, ...]) -> Value:
        """Which lanes take b."""
        groups: dict[frozenset[str], list[str]] = {}
        for order in orders:
            groups.setdefault(which[order], []).append(order)
        if len(groups) == 1:
            return self._case(next(iter(groups)), a[0], b[0])
        always = frozenset.intersection(*groups)
        total = self._case(always, a[0], b[0]) if always else None
        for cases, those in groups.items():
            if cases - always:
                how = _condition(_PREDICATES[frozenset(those)], self.p)
                some = self.f.compare("icmp", how, a[1], b[1]) & self._case(cases - always, a[0], b[0])
                total = some if total is None else total | some
        return self._constant(False) if total is None else total

    def join(self, a: Pair, b: Pair, orders: tuple[str, ...] = ("lt", "eq", "gt")) -> Pair:
        """What the reducer gives of a and b, where the order of their positions is one of `orders`."""
        made = self.choice
        take = self._taken(made.position, a, b, orders)
        also = take if all(made.value[o] == made.position[o] for o in orders) else self._taken(made.value, a, b, orders)
        return also.select(b[0], a[0]), take.select(b[1], a[1])

    def join_any(self, a: Pair, b: Pair) -> Pair:
        """What it gives of a and b in the order of their positions."""
        if self.choice.free:
            return self.join(a, b)
        swap = self.f.compare("icmp", _condition("gt", self.p), a[1], b[1])
        first = swap.select(b[0], a[0]), swap.select(b[1], a[1])
        return self.join(first, (swap.select(a[0], b[0]), swap.select(a[1], b[1])), ("lt", "eq"))

    def positions(self, first: Ix) -> Value:
        """first, first + 1, ..."""
        f = self.f
        return f.splat(self.narrowed(first), self.n) + f.constants(register(self.p), range(self.n))

    def narrowed(self, value: Ix) -> Value:
        """An index as a position."""
        f, kind = self.f, register(self.p)
        return f.const(kind, value) if isinstance(value, int) else value.trunc(kind)


def _condition(name: str, t: PrimitiveType) -> str:
    """LLVM's condition of integers of a type."""
    return name if name in ("eq", "ne") else ("s" if t.is_signed else "u") + name


# -- the kernel ---------------------------------------------------------------------------------------------------


def emit_variadic_reduce(k: Kernel) -> bool:
    """A reduction of (value, position) pairs along one dimension in vectors; False where it is another one."""
    i = k.root
    if len(i.operands) != 4 or len(i.dimensions) != 1:
        return False
    source = array_of(i.operands[0])
    split = Split.of(source, i.dimensions[0])
    types = [array_of(o).element_type for o in i.operands[:2]]
    if not all(is_plain(t) for t in types) or not types[1].is_integral or types[1].bits < 16:
        return False
    if not all(split.keeps(a.shape) for a in k.outputs.values()):
        return False
    made = choice(i.to_apply)
    n = lanes_of(k.f, *types)
    if made is None or split.n < 2:
        return False
    lanes = _Lanes(k.f, made, types[0], types[1], n)
    if split.inner >= n:
        k.f.ready = _columns(k, split, lanes)
        return True
    rising = i.operands[1].opcode is Op.IOTA and i.operands[1].get("iota_dimension") == i.dimensions[0]
    if split.inner != 1 or split.n < 2 * n or not (made.free or (made.sortable_numbers and rising)):
        return False
    if types[1].bits < 32 and split.n > 2 ** (types[1].bits - 1):
        return False  # positions that wrap do not rise
    k.f.ready = _rows(k, split, lanes, rising=rising)
    return True


class _Reader:
    """Vectors of one operand: from memory, from a tile that is filled first, or counted (positions only: values are compared as they are)."""

    def __init__(self, e: Elemental, operand: HloInstruction, split: Split, lanes: _Lanes, *, positions: bool) -> None:
        self.e, self.operand, self.split, self.n = e, operand, split, lanes.n
        self.t = array_of(operand).element_type
        self.array = array_in_order(e, operand, split.shape)
        self.counts = positions and operand.opcode is Op.IOTA and operand.get("iota_dimension") == split.axis
        self.tile: Value | None = None
        self.vectors = True

    @property
    def is_staged(self) -> bool:
        """Whether it reads a tile."""
        return self.array is None and not self.counts

    def prepare(self, o: Ix, r: Ix, c: Ix, count: int, room: int) -> None:
        """Make `count` elements from element (o, r, c) of the split on readable; `at` counts from there then."""
        if self.is_staged:
            if self.tile is None:
                self.tile = self.e.f.alloca(memory(self.t), room)
            self.vectors &= fill(self.e, self.operand, self.split, (o, r, c), count, self.tile)

    def at(self, begin: Ix, offset: Ix) -> Value:
        """The vector `offset` elements behind `begin`."""
        if self.array is not None:
            return array(self.t, self.array.pointer).load(self.e.f.add(begin, offset), self.n)
        if self.tile is None:
            raise AssertionError("a tile that nothing filled")
        return array(self.t, self.tile).load(offset, self.n)


def _readers(k: Kernel, split: Split, lanes: _Lanes) -> list[_Reader]:
    return [_Reader(k.e, k.root.operands[which], split, lanes, positions=which == 1) for which in (0, 1)]


def _columns(k: Kernel, split: Split, lanes: _Lanes) -> bool:
    """Lines that lie side by side: each lane keeps one of them, and takes its pairs in their order, so any table will do.

    Gives whether all of it was written in vectors.
    """
    e, f, n = k.e, k.f, lanes.n
    f.decided("reduction", "lines side by side in vectors", f"{split.inner} of them, of {split.n} pairs each")
    group = next(g for g in (_UNROLL, 2, 1) if split.inner >= g * n)
    width = group * n
    blocks = -(-split.inner // width)
    with parallel(f, split.outer * blocks, nanoseconds=split.n * group * f.target.costs.pair_step_ns) as at:
        o, block = f.div(at, blocks), f.rem(at, blocks)
        # The last block lies back over the one before: the same results are written twice.
        column = f.clamp(f.mul(block, width), 0, split.inner - width)
        readers = _readers(k, split, lanes)
        starts = [f.splat(real(e.scalar(operand)), n) for operand in k.root.operands[2:]]
        with f.carried(split.n, starts * group) as loop:
            begin = split.flat(f, o, loop.index, column)
            for reader in readers:
                reader.prepare(o, loop.index, column, width, width)
            here = f.splat(lanes.narrowed(loop.index), n) if readers[1].counts else None
            made: list[Value] = []
            for g in range(group):
                new = readers[0].at(begin, g * n), readers[1].at(begin, g * n) if here is None else here
                made += lanes.join((loop.values[2 * g], loop.values[2 * g + 1]), new)
            loop.next = made
        for which, t in enumerate((lanes.t, lanes.p)):
            target = array(t, k.outputs[which,].pointer)
            for g in range(group):
                place = f.add(f.add(f.mul(o, split.inner), column), g * n)
                target.store(place, loop.values[2 * g + which])
        return all(reader.vectors for reader in readers)


def _rows(k: Kernel, split: Split, lanes: _Lanes, *, rising: bool) -> bool:
    """Lines along memory: the lanes keep pairs of their own, which are joined at the end. Gives whether all of it was written in vectors."""
    e, f, n = k.e, k.f, lanes.n
    f.decided("reduction", "vectors along lines, joined at the end", f"{split.n} pairs in each")
    types = [lanes.t, lanes.p]
    with parallel(
        f, split.outer, nanoseconds=split.n / n * f.target.costs.pair_vector_ns + f.target.costs.pair_row_ns
    ) as o:
        row = _Row(k, split, lanes, o, rising=rising)
        found, nan = row.pairs()
        reducer = Reducer(e, k.root.to_apply, types)
        initial = [e.scalar(operand) for operand in k.root.operands[2:]]

        def joined() -> list[Element]:
            pair, width = found, n
            while width > 1:
                width //= 2
                which = [(lane + width) % n for lane in range(n)]
                pair = lanes.join_any(pair, (f.shuffle(pair[0], None, which), f.shuffle(pair[1], None, which)))
            return reducer.step(initial, [f.extract(v, 0) for v in pair])

        def one_by_one() -> list[Element]:
            def body(indices: list[Ix], accumulators: list[Element]) -> list[Element]:
                index = Index(split.shape, flat=f.add(f.mul(o, split.n), indices[0]))
                return reducer.step(accumulators, [e.element(operand, index) for operand in k.root.operands[:2]])

            return e.fold([split.n], types, initial, body)

        result = joined() if nan is None else e.branches(types, nan, one_by_one, joined)
        for which, (t, v) in enumerate(zip(types, result, strict=True)):
            store(t, k.outputs[which,].pointer, o, v)
        return all(reader.vectors for reader in row.readers)


class _Row:
    """One line along memory, some vectors at once; `rising`: its positions rise."""

    def __init__(self, k: Kernel, split: Split, lanes: _Lanes, o: Ix, *, rising: bool) -> None:
        self.f, self.n, self.o = k.f, lanes.n, o
        self.split, self.lanes, self.rising = split, lanes, rising
        self.readers = _readers(k, split, lanes)
        self.base = k.f.mul(o, split.n)
        self.group = next(g for g in (_UNROLL, 2, 1) if split.n >= g * lanes.n)
        width = self.group * lanes.n
        staged = any(r.is_staged for r in self.readers)
        self.size = max(_TILE // width, 1) * width if staged else split.n
        self.minds_nan = lanes.t.is_floating and not (lanes.choice.free or lanes.choice.sortable)

    def pairs(self) -> tuple[Pair, Value | None]:
        """(the pairs that the lanes keep, the i1 whether some value is NaN; None where that does not matter)."""
        f, width, size, total = self.f, self.group * self.n, self.size, self.split.n
        state = self._first()
        whole = (total - width) // size
        if whole:
            with f.carried(whole, state) as outer:
                outer.next = self._run(f.add(f.mul(outer.index, size), width), size, outer.values)
            state = outer.values
        done = width + whole * size
        rest = (total - done) // width * width
        if rest:
            state = self._run(done, rest, state)
            done += rest
        return self._joined(state, done)

    def _pair(self, begin: Ix, offset: Ix, r: Ix) -> Pair:
        values, positions = self.readers
        at = self.lanes.positions(r) if positions.counts else positions.at(begin, offset)
        return values.at(begin, offset), at

    def _prepare(self, r: Ix, count: int) -> None:
        for reader in self.readers:
            reader.prepare(self.o, r, 0, count, self.size)

    def _first(self) -> list[Value]:
        """Pairs of the first vectors, then the lanes of theirs that are NaN where that matters."""
        self._prepare(0, self.group * self.n)
        pairs = [self._pair(self.base, g * self.n, g * self.n) for g in range(self.group)]
        return flat(pairs) + ([v.is_nan() for v, _ in pairs] if self.minds_nan else [])

    def _run(self, low: Ix, count: int, state: Sequence[Value]) -> list[Value]:
        """The state after elements low .. low + count - 1, a multiple of the group's width."""
        f, width = self.f, self.group * self.n
        begin = f.add(self.base, low)
        self._prepare(low, count)
        with f.carried(count // width, state) as loop:
            loop.next = self._step(loop.values, begin, low, f.mul(loop.index, width))
        return list(loop.values)

    def _step(self, state: Sequence[Value], begin: Ix, low: Ix, offset: Ix) -> list[Value]:
        """Take in a group of vectors; where positions rise those kept stand before the new ones."""
        f, lanes, group = self.f, self.lanes, self.group
        pairs: list[Value] = []
        marks: list[Value] = []
        for g in range(group):
            at = f.add(offset, g * self.n)
            new = self._pair(begin, at, f.add(low, at))
            old = (state[2 * g], state[2 * g + 1])
            pairs += lanes.join(old, new, ("lt",)) if self.rising else lanes.join_any(old, new)
            if self.minds_nan:
                marks.append(state[2 * group + g] | new[0].is_nan())
        return pairs + marks

    def _joined(self, state: Sequence[Value], done: int) -> tuple[Pair, Value | None]:
        """All vectors as one, with the elements from `done` on."""
        group, n = self.group, self.n
        pairs = [(state[2 * g], state[2 * g + 1]) for g in range(group)]
        marks = list(state[2 * group :])
        while done < self.split.n:
            # The last vector lies back over what was taken in already: a pair met twice changes nothing.
            at = min(done, self.split.n - n)
            self._prepare(at, n)
            pairs.append(self._pair(self.f.add(self.base, at), 0, at))
            if self.minds_nan:
                marks.append(pairs[-1][0].is_nan())
            done = at + n
        total = functools.reduce(self.lanes.join_any, pairs)
        if not self.minds_nan:
            return total, None
        return total, self.f.any_of(functools.reduce(operator.or_, marks))

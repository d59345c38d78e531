"""Reductions of pairs (value, position) that keep one of two pairs: argmax, argmin and their kin, in vectors.

The reducer is not matched against known texts. It may only compare values with values and positions with positions, and select: then what it does depends on nothing but the
order of the two values (and which is NaN) and the order of the two positions, eighteen cases in all. It is run once for each; the table says which pair is kept, and whether
the pairs may be taken in any order (associative and commutative, checked case by case).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.codegen import simd
from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import Index
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.reduce import Reducer
from xlanb.cpu.codegen.simd import Split
from xlanb.cpu.codegen.types import Value, register, store
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.codegen.kernel import Kernel

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


class _Lanes:
    """Vectors of pairs and how two of them are joined."""

    def __init__(self, f: Function, made: Choice, value: PrimitiveType, position: PrimitiveType, n: int) -> None:
        self.f, self.choice, self.n = f, made, n
        self.t, self.p = value, position
        self.value, self.position = simd.kind(value, n), simd.kind(position, n)
        self.bits = f"<{n} x i1>"

    def _constant(self, bit: bool) -> str:
        return f"splat (i1 {'true' if bit else 'false'})"

    def _both(self, how: str, a: str, b: str) -> str:
        return self.f.let(f"{how} {self.bits} {a}, {b}")

    def _fcmp(self, how: str, a: str, b: str) -> str:
        return self.f.let(f"fcmp {how} {self.value} {a}, {b}")

    def _case(self, cases: frozenset[str], a: str, b: str) -> str:
        """Which lanes are in one of some cases."""
        name = _PREDICATES[cases - _NANS]
        if not self.t.is_floating:
            if name in ("true", "false"):
                return self._constant(name == "true")
            how = name if name in ("eq", "ne") else ("s" if self.t.is_signed else "u") + name
            return self.f.let(f"icmp {how} {self.value} {a}, {b}")
        nan = cases & _NANS
        ordered = {"true": "ord", "ne": "one", "false": "false"}.get(name, "o" + name)
        either = {"true": "true", "ne": "une", "false": "uno"}.get(name, "u" + name)
        if nan == _NANS:
            return self._fcmp(either, a, b)
        if nan == {"bn"}:
            return self._both("and", self._fcmp(either, a, b), self._fcmp("ord", a, a))
        if nan == {"an"}:
            return self._both("and", self._fcmp(either, a, b), self._fcmp("ord", b, b))
        made = self._fcmp(ordered, a, b)
        if nan == {"bn", "nn"}:
            return self._both("or", made, self._fcmp("uno", b, b))
        if nan == {"an", "nn"}:
            return self._both("or", made, self._fcmp("uno", a, a))
        if not nan:
            return made
        first, second = self._fcmp("uno", a, a), self._fcmp("uno", b, b)
        return self._both("or", made, self._both("and" if nan == {"nn"} else "xor", first, second))

    def _taken(self, which: Which, a: tuple[str, str], b: tuple[str, str], orders: tuple[str, ...]) -> str:
        """Which lanes take b."""
        groups: dict[frozenset[str], list[str]] = {}
        for order in orders:
            groups.setdefault(which[order], []).append(order)
        if len(groups) == 1:
            return self._case(next(iter(groups)), a[0], b[0])
        always = frozenset.intersection(*groups)
        total = self._case(always, a[0], b[0]) if always else ""
        for cases, those in groups.items():
            if cases - always:
                name = _PREDICATES[frozenset(those)]
                how = name if name in ("eq", "ne") else ("s" if self.p.is_signed else "u") + name
                some = self.f.let(f"icmp {how} {self.position} {a[1]}, {b[1]}")
                some = self._both("and", some, self._case(cases - always, a[0], b[0]))
                total = self._both("or", total, some) if total else some
        return total or self._constant(False)

    def join(
        self, a: tuple[str, str], b: tuple[str, str], orders: tuple[str, ...] = ("lt", "eq", "gt")
    ) -> tuple[str, str]:
        """What the reducer gives of a and b, where the order of their positions is one of `orders`."""
        f, made = self.f, self.choice
        take = self._taken(made.position, a, b, orders)
        also = take if all(made.value[o] == made.position[o] for o in orders) else self._taken(made.value, a, b, orders)
        value = f.let(f"select {self.bits} {also}, {self.value} {b[0]}, {self.value} {a[0]}")
        return value, f.let(f"select {self.bits} {take}, {self.position} {b[1]}, {self.position} {a[1]}")

    def join_any(self, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        """What it gives of a and b in the order of their positions."""
        if self.choice.free:
            return self.join(a, b)
        f = self.f
        how = "s" if self.p.is_signed else "u"
        swap = f.let(f"icmp {how}gt {self.position} {a[1]}, {b[1]}")
        pairs = [
            tuple(
                f.let(f"select {self.bits} {swap}, {kind} {x}, {kind} {y}")
                for kind, x, y in zip((self.value, self.position), p, q, strict=True)
            )
            for p, q in ((b, a), (a, b))
        ]
        return self.join(pairs[0], pairs[1], ("lt", "eq"))  # type: ignore[arg-type]


# -- the kernel ---------------------------------------------------------------------------------------------------


def emit_variadic_reduce(k: Kernel) -> bool:
    """A reduction of (value, position) pairs along one dimension in vectors; False where it is another one."""
    i = k.root
    if len(i.operands) != 4 or len(i.dimensions) != 1:
        return False
    source = array_of(i.operands[0])
    split = Split.of(source, i.dimensions[0])
    types = [array_of(o).element_type for o in i.operands[:2]]
    if not all(simd.is_simple(t) for t in types) or not types[1].is_integral or types[1].bits < 16:
        return False
    if not all(split.keeps(a.shape) for a in k.outputs.values()):
        return False
    made = choice(i.to_apply)
    n = simd.lanes(k.f, *types)
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

    def __init__(self, e: Elemental, operand: HloInstruction, split: Split, n: int, *, positions: bool) -> None:
        self.e, self.operand, self.split, self.n = e, operand, split, n
        self.t = array_of(operand).element_type
        self.array = simd.array_in_order(e, operand, split.shape)
        self.counts = positions and operand.opcode is Op.IOTA and operand.get("iota_dimension") == split.axis
        self.tile = ""
        self.vectors = True

    def prepare(self, o: Ix, r: Ix, c: Ix, count: int, room: int) -> None:
        """Make `count` elements from element (o, r, c) of the split on readable; `at` counts from there then."""
        if self.array is None and not self.counts:
            if not self.tile:
                self.tile = self.e.f.alloca(f"i{self.t.bits}", room)
            self.vectors &= simd.fill(self.e, self.operand, self.split, (o, r, c), count, self.tile)

    def at(self, begin: Ix, offset: Ix) -> str:
        """The vector `offset` elements behind `begin`."""
        f = self.e.f
        if self.array is not None:
            return simd.load(f, self.t, self.array.pointer, f.add(begin, offset), self.n)
        return simd.load(f, self.t, self.tile, offset, self.n)


def _narrowed(f: Function, t: PrimitiveType, value: Ix) -> str:
    return str(value) if isinstance(value, int) or t.bits == 64 else f.let(f"trunc i64 {value} to i{t.bits}")


def _columns(k: Kernel, split: Split, lanes: _Lanes) -> bool:
    """Lines that lie side by side: each lane keeps one of them, and takes its pairs in their order, so any table will do.

    Gives whether all of it was written in vectors.
    """
    e, f, n = k.e, k.f, lanes.n
    group = next(g for g in (_UNROLL, 2, 1) if split.inner >= g * n)
    width = group * n
    blocks = -(-split.inner // width)
    with parallel(e, split.outer * blocks, nanoseconds=split.n * group * 1.0) as at:
        o, block = f.div(at, blocks), f.rem(at, blocks)
        # The last block lies back over the one before: the same results are written twice.
        column = f.clamp(f.mul(block, width), 0, split.inner - width)
        readers = [_Reader(e, k.root.operands[which], split, n, positions=which == 1) for which in (0, 1)]
        first = [str(e.scalar(operand)) for operand in k.root.operands[2:]]
        starts = [simd.splat(f, register(t), n, v) for t, v in zip((lanes.t, lanes.p), first, strict=True)]
        kinds = (lanes.value, lanes.position)
        with e.carried(
            split.n, [(kind, v) for _ in range(group) for kind, v in zip(kinds, starts, strict=True)]
        ) as loop:
            begin = split.flat(f, o, loop.index, column)
            for reader in readers:
                reader.prepare(o, loop.index, column, width, width)
            here = ""
            if readers[1].counts:
                here = simd.splat(f, register(lanes.p), n, _narrowed(f, lanes.p, loop.index))
            loop.next = []
            for g in range(group):
                new = (readers[0].at(begin, g * n), here or readers[1].at(begin, g * n))
                old = (loop.values[2 * g], loop.values[2 * g + 1])
                loop.next += lanes.join(old, new)
        for g in range(group):
            place = f.add(f.add(f.mul(o, split.inner), column), g * n)
            for which, leaf in enumerate(((0,), (1,))):
                simd.write(f, (lanes.t, lanes.p)[which], k.outputs[leaf].pointer, place, n, loop.values[2 * g + which])
        return all(reader.vectors for reader in readers)


def _rows(k: Kernel, split: Split, lanes: _Lanes, *, rising: bool) -> bool:
    """Lines along memory: the lanes keep pairs of their own, which are joined at the end. Gives whether all of it was written in vectors."""
    e, f, n = k.e, k.f, lanes.n
    types = [lanes.t, lanes.p]
    with parallel(e, split.outer, nanoseconds=split.n / n * 1.5 + 20) as o:
        readers = [_Reader(e, k.root.operands[which], split, n, positions=which == 1) for which in (0, 1)]
        found, nan = _row(k, split, lanes, o, readers, rising=rising)
        reducer = Reducer(e, k.root.to_apply, types)
        initial = [e.scalar(operand) for operand in k.root.operands[2:]]

        def joined() -> list[Value]:
            pair = found
            width = n
            while width > 1:
                width //= 2
                which = [(lane + width) % n for lane in range(n)]
                other = tuple(
                    simd.shuffle(f, kind, v, v, which)
                    for kind, v in zip((lanes.value, lanes.position), pair, strict=True)
                )
                pair = lanes.join_any(pair, (other[0], other[1]))
            kinds = (lanes.value, lanes.position)
            last: list[Value] = [
                f.let(f"extractelement {kind} {v}, i64 0") for kind, v in zip(kinds, pair, strict=True)
            ]
            return reducer.step(initial, last)

        def one_by_one() -> list[Value]:
            def body(indices: list[Ix], accumulators: list[Value]) -> list[Value]:
                index = Index(split.shape, flat=f.add(f.mul(o, split.n), indices[0]))
                return reducer.step(accumulators, [e.element(operand, index) for operand in k.root.operands[:2]])

            return e.fold([split.n], types, initial, body)

        result = joined() if not nan else e.branches(types, nan, one_by_one, joined)
        for leaf, t, v in zip(((0,), (1,)), types, result, strict=True):
            store(f, t, k.outputs[leaf].pointer, o, v)
        return all(reader.vectors for reader in readers)


def _row(
    k: Kernel, split: Split, lanes: _Lanes, o: Ix, readers: list[_Reader], *, rising: bool
) -> tuple[tuple[str, str], str]:
    """(the pairs that the lanes keep, the i1 whether some value is NaN, "" where that does not matter)."""
    e, f, n = k.e, k.f, lanes.n
    base = f.mul(o, split.n)
    staged = any(r.array is None and not r.counts for r in readers)
    group = next(g for g in (_UNROLL, 2, 1) if split.n >= g * n)
    size = max(_TILE // (group * n), 1) * group * n if staged else split.n
    minds_nan = lanes.t.is_floating and not (lanes.choice.free or lanes.choice.sortable)
    kinds = (lanes.value, lanes.position)
    count = numbers_from(lanes.p, n)

    def positions(first: Ix) -> str:
        start = simd.splat(f, register(lanes.p), n, _narrowed(f, lanes.p, first))
        return f.let(f"add {lanes.position} {start}, {count}")

    def pair(begin: Ix, offset: Ix, r: Ix) -> tuple[str, str]:
        return readers[0].at(begin, offset), positions(r) if readers[1].counts else readers[1].at(begin, offset)

    def step(state: list[str], begin: Ix, low: Ix, offset: Ix) -> list[str]:
        """Take in `group` vectors; where positions rise those kept stand before the new ones."""
        out: list[str] = []
        for g in range(group):
            at = f.add(offset, g * n)
            new = pair(begin, at, f.add(low, at))
            old = (state[2 * g], state[2 * g + 1])
            out += lanes.join(old, new, ("lt",)) if rising else lanes.join_any(old, new)
            if minds_nan:
                unordered = f.let(f"fcmp uno {lanes.value} {new[0]}, {new[0]}")
                out.append(f.let(f"or {lanes.bits} {state[2 * group + g]}, {unordered}"))
        marks = out[2::3] if minds_nan else []
        pairs = [v for m, v in enumerate(out) if not minds_nan or m % 3 != 2]
        return pairs + marks

    def first_state() -> list[str]:
        for reader in readers:
            reader.prepare(o, 0, 0, group * n, size)
        pairs = [v for g in range(group) for v in pair(base, g * n, g * n)]
        marks = [f.let(f"fcmp uno {lanes.value} {v}, {v}") for v in pairs[::2]] if minds_nan else []
        return pairs + marks

    state = first_state()
    types = [*kinds * group, *[lanes.bits] * (group if minds_nan else 0)]

    def run(low: Ix, count_: int) -> None:
        """Elements low .. low + count_ - 1, a multiple of the group's width."""
        nonlocal state
        begin = f.add(base, low)
        for reader in readers:
            reader.prepare(o, low, 0, count_, size)
        with e.carried(count_ // (group * n), list(zip(types, state, strict=True))) as loop:
            loop.next = step(loop.values, begin, low, f.mul(loop.index, group * n))
        state = loop.values

    start = group * n
    whole = (split.n - start) // size
    if whole:
        with e.carried(whole, list(zip(types, state, strict=True))) as outer:
            state = list(outer.values)
            run(f.add(f.mul(outer.index, size), start), size)
            outer.next = state
        state = outer.values
    rest = (split.n - start - whole * size) // (group * n) * group * n
    done = start + whole * size + rest
    if rest:
        run(start + whole * size, rest)
    pairs = [(state[2 * g], state[2 * g + 1]) for g in range(group)]
    marks = state[2 * group :]
    while done < split.n:
        # The last vector lies back over what was taken in already: a pair met twice changes nothing.
        at = min(done, split.n - n)
        for reader in readers:
            reader.prepare(o, at, 0, n, size)
        new = pair(f.add(base, at), 0, at)
        pairs.append(new)
        if minds_nan:
            marks.append(f.let(f"fcmp uno {lanes.value} {new[0]}, {new[0]}"))
        done = at + n
    total = pairs[0]
    for other in pairs[1:]:
        total = lanes.join_any(total, other)
    if not minds_nan:
        return total, ""
    some = marks[0]
    for mark in marks[1:]:
        some = f.let(f"or {lanes.bits} {some}, {mark}")
    whole_mask = f.let(f"bitcast {lanes.bits} {some} to i{n}")
    return total, f.let(f"icmp ne i{n} {whole_mask}, 0")


def numbers_from(t: PrimitiveType, n: int) -> str:
    """0, 1, ..., n - 1 as a constant vector."""
    return simd.numbers(t, range(n))

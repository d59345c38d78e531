"""Reductions of (value, position) pairs that keep one of two: argmax, argmin, vectorized.

The reducer is analyzed, not matched against known texts. It may only compare values with values and
positions with positions, and select. Then its result depends only on the order of the two values
(and which is NaN) and of the two positions, eighteen cases in all. Evaluating all of them gives a
table that says which pair is kept, and whether the reduction is associative and commutative.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from xlanb.codegen.elemental import array_of
from xlanb.codegen.function import Function
from xlanb.codegen.lanes import by_registers
from xlanb.codegen.types import I1
from xlanb.codegen.values import Value
from xlanb.hlo.computation import HloComputation
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

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

Which = Mapping[str, frozenset[str]]
"""By the order of the positions: the cases of the values in which the second pair is kept."""


class _Lanes(NamedTuple):
    """A value or a position in each of _CASES, and whether it is the second pair's."""

    number: NDArray[np.float64]
    is_second: NDArray[np.bool_]


_CASES = tuple((case, order) for case in _PAIRS for order in _ORDERS)
_VALUES = np.array([_PAIRS[case] for case, _ in _CASES]).T
_POSITIONS = np.array([_ORDERS[order] for _, order in _CASES], np.float64).T
_GIVEN = [_Lanes(pair[k], np.full(len(_CASES), k == 1)) for k in (0, 1) for pair in (_VALUES, _POSITIONS)]
"""The parameters of a reducer: first value, first position, second value, second position."""


@dataclass(frozen=True)
class VariadicChoice:
    """What a reducer does: when it keeps the second value and the second position.

    `free`: pairs may be combined in any order. `sortable`: they may if each two are first ordered
    by position. `sortable_numbers`: the same, provided no value is NaN.
    """

    value: Which
    position: Which
    free: bool
    sortable: bool
    sortable_numbers: bool

    def comes_later(self, i: HloInstruction) -> bool:
        """Whether each element's position in a reduce is greater than the accumulator's.

        It may equal that of the initial pair, if equal positions are treated as if one came later.
        """
        d = _counted(i)
        first = i.operands[3]
        if d is None or i.dimensions != (d,) or first.opcode is not Op.CONSTANT:
            return False
        if first.literal.is_elided or first.literal.array.any():
            return False
        different = _ALL - {"eq", "nn"}
        return all(which["lt"] & different == which["eq"] & different for which in (self.value, self.position))

    def any_order(self, i: HloInstruction) -> bool:
        """Whether a reduce may be split among lanes.

        It may if pairs can be combined in any order, or if positions are an iota that does not
        wrap.
        """
        if self.free or not self.sortable_numbers:
            return self.free
        d = _counted(i)
        return d is not None and i.dimensions == (d,)


def _counted(i: HloInstruction) -> int | None:
    """The dimension along which a reduce's positions are counted; None if they are not, or wrap."""
    at = i.operands[1]
    if at.opcode is not Op.IOTA:
        return None
    d: int = at.get("iota_dimension")
    return d if array_of(at).dimensions[d] <= 2 ** (array_of(at).element_type.bits - 1) else None


# -- analyzing the reducer -------------------------------------------------------------------------

_COMPARE = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
_LOGIC: dict[Op, Callable[[Any, Any], Any]] = {Op.AND: operator.and_, Op.OR: operator.or_, Op.XOR: operator.xor}


def choice(target: HloComputation) -> VariadicChoice | None:
    """The table of a (value, position) reducer; None unless it only compares and selects."""
    if len(target.parameters) != 4 or target.root.opcode is not Op.TUPLE or not _compares_only(target):
        return None
    value: dict[str, set[str]] = {o: set() for o in _ORDERS}
    position: dict[str, set[str]] = {o: set() for o in _ORDERS}
    second_values, second_positions = _second_taken(target)
    for (case, order), v, p in zip(_CASES, second_values.tolist(), second_positions.tolist(), strict=True):
        if v:
            value[order].add(case)
        if p:
            position[order].add(case)
    # Equal positions and values: either pair will do; choose the one that makes the cases alike.
    position["eq"] = set(value["eq"])
    for order in _ORDERS:
        for case in ("eq", "nn"):
            (value[order].add if case in position[order] else value[order].discard)(case)
    frozen = [tuple((k, frozenset(v)) for k, v in which.items()) for which in (value, position)]
    return VariadicChoice(dict(frozen[0]), dict(frozen[1]), *_freedom(*frozen))


def _compares_only(target: HloComputation) -> bool:
    """Whether it only compares values with values, positions with positions, and selects."""
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


def _second_taken(target: HloComputation) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether the reducer returns the second value, and the second position, in each of _CASES."""
    known: dict[HloInstruction, Any] = {p: _GIVEN[p.parameter_number] for p in target.parameters}
    for i in target.post_order():
        if i in known or i is target.root:
            continue
        given = [known[o] for o in i.operands]
        if i.opcode is Op.COMPARE:
            known[i] = _COMPARE[i.get("direction")](given[0].number, given[1].number)
        elif i.opcode is Op.SELECT:
            known[i] = _selected_lanes(*given)
        elif i.opcode is Op.NOT:
            known[i] = ~given[0]
        elif i.opcode in _LOGIC:
            known[i] = _LOGIC[i.opcode](*given)
        else:
            a, b = given
            better = b.number > a.number if i.opcode is Op.MAXIMUM else b.number < a.number
            known[i] = _selected_lanes(~np.isnan(a.number) & (np.isnan(b.number) | better), b, a)
    value, position = (known[o] for o in target.root.operands)
    return value.is_second, position.is_second


def _selected_lanes(condition: NDArray[np.bool_], then: _Lanes, otherwise: _Lanes) -> _Lanes:
    return _Lanes(*(np.where(condition, x, y) for x, y in zip(then, otherwise, strict=True)))


@cache
def _freedom(
    values: tuple[tuple[str, frozenset[str]], ...], positions: tuple[tuple[str, frozenset[str]], ...]
) -> tuple[bool, bool, bool]:
    """`free`, `sortable` and `sortable_numbers` of a table (see `VariadicChoice`).

    Three values and NaN at three positions produce every possible order of three pairs, which is
    sufficient for associativity.
    """
    value, position = dict(values), dict(positions)
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
    """Whether pairs at different positions can be combined in any order once sorted.

    The very first pair, whatever its position, may then be combined last.
    """
    count = len(table)
    at = np.arange(count) % 3
    sorted_ = np.where(at[:, None] <= at[None, :], table, table.T)
    a, b, c = np.ogrid[:count, :count, :count]
    apart = (at[a] != at[b]) & (at[b] != at[c]) & (at[a] != at[c])
    same = sorted_[sorted_[a, b], c] == sorted_[a, sorted_[b, c]]
    from_first = table[a, sorted_[b, c]] == table[table[a, b], c]
    return bool((same | ~apart).all() and (from_first | (at[b] >= at[c])).all())


# -- one step --------------------------------------------------------------------------------------

_PREDICATES = {
    frozenset(): "false", frozenset({"lt"}): "lt", frozenset({"eq"}): "eq", frozenset({"gt"}): "gt",
    frozenset({"lt", "eq"}): "le",
    frozenset({"gt", "eq"}): "ge", frozenset({"lt", "gt"}): "ne", frozenset({"lt", "eq", "gt"}): "true",
}  # fmt: skip


class VariadicPairs:
    """A table as a combiner of values and positions.

    It needs no neutral pair, as a pair combined with itself is unchanged. If NaN makes the order
    matter (`minds_nan`), each pair has a third part: whether its value is NaN.
    """

    neutral = None

    def __init__(self, f: Function, made: VariadicChoice, types: Sequence[PrimitiveType]) -> None:
        self.f, self.choice = f, made
        self.t, self.p = types
        self.minds_nan = self.t.is_floating and not (made.free or made.sortable)

    def parts(self, values: Sequence[Value]) -> list[Value]:
        """The parts to combine for an element's value and position."""
        return [*values, values[0].is_nan()] if self.minds_nan else list(values)

    def step(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Combine a and b in the order of their positions."""
        return self._join(a, b, ("lt", "eq", "gt") if self.choice.free else ("lt", "eq"), swap=not self.choice.free)

    def later(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Combine a and b, where b's positions come after a's."""
        return self._join(a, b, ("lt",))

    def join(self, a: Sequence[Value], b: Sequence[Value]) -> list[Value]:
        """Combine two pairs."""
        return self._join(a, b, ("lt", "eq", "gt"))

    def _join(
        self, a: Sequence[Value], b: Sequence[Value], orders: tuple[str, ...], *, swap: bool = False
    ) -> list[Value]:
        """Combine two pairs if their positions are in one of `orders`; otherwise `swap` them."""

        def rule(given: Sequence[Value]) -> list[Value]:
            x, y = given[: len(a)], given[len(a) :]
            if swap:
                other = self.f.compare("icmp", _condition("gt", self.p), x[1], y[1])
                x, y = _selected(other, y, x), _selected(other, x, y)
            return self._chosen(x, y, orders) + [u | v for u, v in zip(x[2:], y[2:], strict=True)]

        return by_registers(self.f, rule, *a, *b)

    def _chosen(self, a: Sequence[Value], b: Sequence[Value], orders: tuple[str, ...]) -> list[Value]:
        made = self.choice
        take = self._takes_b(made.position, a, b, orders)
        also = (
            take if all(made.value[o] == made.position[o] for o in orders) else self._takes_b(made.value, a, b, orders)
        )
        return [also.select(b[0], a[0]), take.select(b[1], a[1])]

    def _takes_b(self, which: Which, a: Sequence[Value], b: Sequence[Value], orders: tuple[str, ...]) -> Value:
        """The lanes that take b."""
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
        return self.f.const(I1, False) if total is None else total

    def _case(self, cases: frozenset[str], a: Value, b: Value) -> Value:
        """The lanes that are in one of the cases."""
        f, name = self.f, _PREDICATES[cases - _NANS]
        if not self.t.is_floating:
            known = name in ("true", "false")
            return f.const(I1, name == "true") if known else f.compare("icmp", _condition(name, self.t), a, b)
        nan = cases & _NANS
        ordered = {"true": "ord", "ne": "one", "false": "false"}.get(name, "o" + name)
        either = {"true": "true", "ne": "une", "false": "uno"}.get(name, "u" + name)
        if nan == _NANS:
            return f.compare("fcmp", either, a, b)
        if nan in ({"an"}, {"bn"}):
            number = b if nan == {"an"} else a
            return f.compare("fcmp", either, a, b) & f.compare("fcmp", "ord", number, number)
        made = f.compare("fcmp", ordered, a, b)
        if not nan:
            return made
        if "nn" in nan and len(nan) == 2:
            return made | (b if "bn" in nan else a).is_nan()
        return made | (a.is_nan() & b.is_nan() if nan == {"nn"} else a.is_nan() ^ b.is_nan())


def _selected(condition: Value, then: Sequence[Value], otherwise: Sequence[Value]) -> list[Value]:
    return [condition.select(x, y) for x, y in zip(then, otherwise, strict=True)]


def _condition(name: str, t: PrimitiveType) -> str:
    """The LLVM condition for integers of a type."""
    return name if name in ("eq", "ne") else ("s" if t.is_signed else "u") + name

"""geqp3: a P = Q R, where the longest of the columns that are left comes next; columns that are asked for come first and stay.

Lengths are computed anew after each step, of a matrix that is scaled by a power of two, so that no square is too large or too small.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.linalg.custom_call import NATIVE, Call, Native
from xlanb.cpu.codegen.linalg.householder import reflect_columns, reflector
from xlanb.cpu.codegen.linalg.qr import nanoseconds
from xlanb.cpu.codegen.linalg.scratch import Room, bring, has_results, is_small, normalize, step, take
from xlanb.cpu.codegen.linalg.values import Code, Place, Value, stride
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

_POINTERS = ("a", "pivots", "tau", "given", "order", "q", "v")
GEQP3 = (*(f"ptr noalias %{p}" for p in _POINTERS), "i64 %m", "i64 %n", "i64 %stride")


def emit_geqp3(call: Call) -> None:
    """Factor the first result in place; the second one holds the columns in their new order from 1 on, the third tau."""
    m, n = call.size(0)
    a, pivots, tau = call.results
    given, order, q, v = _room(call.type, m, n).addresses(call)
    step(call, "geqp3", write_geqp3, GEQP3, a, pivots, tau, given, order, q, v, m, n, stride(m, call.type))


def _room(t: PrimitiveType, m: int, n: int) -> Room:
    return Room(t, ((m, n), (2 * n + 2, 1), (m, n), (m, 1)))


def write_geqp3(c: Code) -> None:
    """The routine behind it: %pivots holds which columns come first, and then the order."""
    m, n, apart = c.given("m"), c.given("n"), c.given("stride")
    q, v, order, end = c.place("q"), c.place("v"), c.place("order", "i64"), c.up(m)
    bring(c, c.place("a"), m, n, c.place("given"), apart)
    back, _ = normalize(c, c.place("given"), apart, end, n)
    fixed = _first_order(c, n, order)
    with c.count(0, n) as loop:
        _copy(c, c.place("given").by(order[loop.index] * apart), q.by(loop.index * apart), end)
    with c.count(0, m.smallest(n)) as loop:
        k = loop.index
        with c.when(k >= fixed):
            _swap(c, q, apart, order, (k, _longest(c, q, apart, (k, n), end)), end)
        tau, _ = reflector(c, q.by(k * apart), k, end, v)
        c.place("tau")[k] = tau
        reflect_columns(c, q, apart, v, (c.down(k), end), tau, k + 1, n)
    with c.count(0, n) as loop:
        _scale_above(c, q.by(loop.index * apart), loop.index + 1, back, end)
        number = order[loop.index] + 1
        c.place("pivots", "i32")[loop.index] = c.let("i32", f"trunc i64 {number.name} to i32")
    take(c, q, apart, c.place("a"), m, n)


def _first_order(c: Code, n: Value, order: Place) -> Value:
    """The columns that are asked for, then the others; gives how many are asked for."""
    at = c.whole(0)
    fixed = at
    for asked in (True, False):
        with c.count(0, n, [at]) as loop:
            is_asked = c.place("pivots", "i32")[loop.index].differs(0)
            order[loop.values[0]] = loop.index
            more = is_asked if asked else is_asked.same(0)
            loop.next = [loop.values[0] + c.let("i64", f"zext i1 {more.name} to i64")]
        at = loop.values[0]
        fixed = at if asked else fixed
    return fixed


def _longest(c: Code, q: Place, apart: Value, columns: tuple[Value, Value], end: Value) -> Value:
    """The column whose part from row k on is the longest, the first of several; columns are those from k on."""
    k, n = columns
    with c.count(k, n, [k, c.real(-1)]) as loop:
        column = q.by(loop.index * apart)
        with c.count(c.down(k), end, [c.constant(c.vector, 0)], step=c.width) as r:
            x = c.lanes_from(r.index, k).pick(column.vector(r.index), 0)
            r.next = [r.values[0] + x * x]
        found = r.values[0].total()
        longer = found > loop.values[1]
        loop.next = [longer.pick(loop.index, loop.values[0]), longer.pick(found, loop.values[1])]
    return loop.values[0]


def _swap(c: Code, q: Place, apart: Value, order: Place, pair: Sequence[Value], end: Value) -> None:
    a, b = (q.by(k * apart) for k in pair)
    with c.count(0, end, step=c.width) as r:
        x, y = a.vector(r.index), b.vector(r.index)
        a.write(r.index, y)
        b.write(r.index, x)
    first, second = (order[k] for k in pair)
    order[pair[0]], order[pair[1]] = second, first


def _copy(c: Code, source: Place, target: Place, end: Value) -> None:
    with c.count(0, end, step=c.width) as r:
        target.write(r.index, source.vector(r.index))


def _scale_above(c: Code, column: Place, rows: Value, factor: Value, end: Value) -> None:
    """Multiply the first rows of a column."""
    with c.count(0, end, step=c.width) as r:
        x = column.vector(r.index)
        column.write(r.index, c.lanes_to(r.index, rows).pick(x * factor.everywhere(), x))


def _fits(i: HloInstruction) -> bool:
    m, n = array_of(i.operands[0]).dimensions[-2:]
    pivots = array_of(i.operands[1])
    is_order = pivots.element_type is PrimitiveType.S32 and pivots.dimensions[-1] == n
    return is_small(i) and is_order and has_results(i, (m, n), (n,), (min(m, n),), whole=1)


NATIVE["geqp3"] = Native(
    emit_geqp3,
    operands=(2, 1),
    results=(2, 1, 1),
    nanoseconds=nanoseconds,
    fits=_fits,
    overwrites=(0, 1),
    scratch=lambda i: _room(array_of(i.operands[0]).element_type, *array_of(i.operands[0]).dimensions[-2:]).bytes,
)

"""Routines that select the first of a line (see routines.py): they know no shapes, and a process has each once.

xlanb.first.ORDER (a, records, values, places, n, count)       of a few: each is the least record behind the one before
xlanb.keys.ORDER (a, keys, n)                                   keys of a line, a vector of the largest behind them
xlanb.select... (keys, records, room, counts, n, size, count)  of many: see Selection
xlanb.taken.TYPE (records, a, values, places, count)           what records say to the results
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.codegen import costs, polling
from xlanb.codegen.elements import array, memory
from xlanb.codegen.function import Function, Ix, Parameter
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.routines import routine
from xlanb.codegen.types import I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.sorting import digits
from xlanb.cpu.emitters.sorting.digits import Order
from xlanb.cpu.emitters.sorting.keys import Key, unsigned
from xlanb.shape import PrimitiveType

T = PrimitiveType
PLAIN = (T.F32, T.S32, T.U32)
"""Types whose lines in memory become keys as they are."""


def _parameters(pointers: str, sizes: str) -> tuple[Parameter, ...]:
    return (*(Parameter(PTR, p) for p in pointers.split()), *(Parameter(I64, n) for n in sizes.split()))


_FIRST = _parameters("a records values places", "n count")
_KEYS = _parameters("a keys", "n")
_TAKEN = _parameters("records a values places", "count")
_SELECTION = _parameters("keys records room counts", "n size count")


@dataclass(frozen=True)
class Lines:
    """Routines for lines of a type in memory, and s32 places."""

    type: PrimitiveType
    down: bool

    @property
    def _order(self) -> str:
        return f"{str(self.type).lower()}.{'down' if self.down else 'up'}"

    def first(self, f: Function, how: Key, pointers: Sequence[Value], n: int, count: int) -> None:
        """Write the first `count` of n elements and their places; scratch holds a record of each."""
        self._call(f, f"first.{self._order}", lambda g: _first(g, how), _FIRST, pointers, n, count)

    def keys(self, f: Function, how: Key, pointers: Sequence[Value], n: int) -> None:
        """Write the keys of n elements."""
        self._call(f, f"keys.{self._order}", lambda g: _keys(g, how), _KEYS, pointers, n)

    def taken(self, f: Function, pointers: Sequence[Value], count: int) -> None:
        """Write the elements and the places of records."""
        name = f"taken.{str(self.type).lower()}"
        self._call(f, name, lambda g: _taken(g, self.type), _TAKEN, pointers, count)

    def _call(
        self,
        f: Function,
        name: str,
        emit: Callable[[Function], None],
        parameters: Sequence[Parameter],
        pointers: Sequence[Value],
        *sizes: int,
    ) -> None:
        called = routine(f.module, ("topk", name), name, emit, parameters)
        f.call_own(called, *pointers, *(f.value(n) for n in sizes))


def _each_vector(f: Function, how: Key, lanes: int, a: Value, n: Value, body: Callable[[Ix, Value], None]) -> None:
    """body(first place, keys as a vector of i32) for all of n elements; lanes behind the line have the largest key."""
    given = array(how.element_type, a)
    with f.loop((n + (lanes - 1)).udiv(lanes), most=polling.MANY) as v:
        begin = f.mul(v, lanes)
        mask = Mask.first(f, lanes, f.sub(n, begin))
        key = unsigned(f, how, given.load(begin, lanes, mask))
        body(begin, mask.value(f).select(key, -1))


def _keys(f: Function, how: Key) -> None:
    a, keys, n = map(f.argument, _KEYS)
    lanes, target = f.target.vector_bits // 32, Pointer(keys, I32)
    _each_vector(f, how, lanes, a, n, target.store)
    target.store(n, f.const(I32.times(lanes), -1))


def _first(f: Function, how: Key) -> None:
    a, records, values, places, n, count = map(f.argument, _FIRST)
    lanes, made = f.target.vector_bits // 64, Pointer(records, I64)

    def body(begin: Ix, key: Value) -> None:
        place = f.splat(f.value(begin), lanes) + f.constants(I64, range(lanes))
        made.store(begin, (key.zext(I64) << 32) | place)

    _each_vector(f, how, lanes, a, n, body)
    rounds = (n + (lanes - 1)).udiv(lanes)
    with f.carried(count, [f.zero(I64)]) as loop:
        with f.carried(rounds, [f.const(I64.times(lanes), -1)]) as inner:
            found = made.load(f.mul(inner.index, lanes), lanes)
            left = found.uge(f.splat(loop.values[0], lanes)).select(found, -1)
            inner.next = [inner.values[0].umin(left)]
        best = f.reduce("umin", inner.values[0])
        _take(how.element_type, (a, values, places), best, loop.index)
        loop.next = [best + 1]


def _taken(f: Function, t: PrimitiveType) -> None:
    records, a, values, places, count = map(f.argument, _TAKEN)
    with f.loop(count) as v:
        _take(t, (a, values, places), Pointer(records, I64)[v], v)


def _take(t: PrimitiveType, pointers: tuple[Value, Value, Value], found: Value, at: Ix) -> None:
    """A record's element and place to place `at` of the results."""
    source, values, places = pointers
    place = found & (2**32 - 1)
    Pointer(values, memory(t))[at] = Pointer(source, memory(t))[place]
    Pointer(places, I32)[at] = place.trunc(I32)


def record(records: Pointer, at: Ix, key: Value, place: Ix) -> None:
    """Write a record of a key (i64) and a place."""
    records[at] = (key << 32) | place


def cut_short(f: Function, records: Pointer, room: Pointer, n: int, count: Ix) -> None:
    """Bring the first `count` of n records (padded) to the front in order, by counting."""
    with f.loop(n) as v:
        own = records[v]
        room[digits.rank(f, records, n, own)] = own
    with f.loop(count) as v:
        records[v] = room[v]


@dataclass(frozen=True)
class Selection:
    """The routine that finds the first of a line of keys; it depends on how a full buffer is sorted only (None: by counting), so that a process has it once.

    `void name(keys, records, room, counts, n, size, count)`: of n keys (u32, a vector of the largest behind them) the first `count`, as records in order at `records`, which has
    room for `size` of them, more than `count` and fewer than n.
    """

    order: Order | None

    def call(self, f: Function, pointers: Sequence[Value], sizes: Sequence[int]) -> None:
        """Select from a line."""
        name = "select" if self.order is None else f"select.{self.order.rounds}x{self.order.digit}"
        called = routine(f.module, self, name, lambda g: _Selecting(g, self.order).emit(), _SELECTION)
        f.call_own(called, *pointers, *(f.value(n) for n in sizes))


class _Selecting:
    """The routine that is being written."""

    def __init__(self, f: Function, order: Order | None) -> None:
        self.f, self.order = f, order
        keys, records, room, self.counts, self.n, size, self.count = map(f.argument, _SELECTION)
        self.keys, self.records, self.room = Pointer(keys, I32), Pointer(records, I64), Pointer(room, I64)
        self.size = f.const(I64, costs.COMMON.counted_elements) if order is None else size

    def emit(self) -> None:
        """Fill the buffer and cut it; then let in what stands before its last, and cut again."""
        f, size = self.f, self.size
        lanes = f.target.vector_bits // 32
        with f.loop(size) as v:
            record(self.records, v, self.keys[v].zext(I64), v)
        self._cut()
        rounds = (self.n - size + (lanes - 1)).udiv(lanes)
        with f.carried(rounds, [self.count, self._limit()]) as loop:
            begin = f.add(f.mul(loop.index, lanes), size)
            inside = self.keys.load(begin, lanes).ult(f.splat(loop.values[1], lanes))
            count, limit = loop.values
            loop.next = self._if(
                f.any_of(inside), lambda: self._entered(begin, lanes, count, limit), lambda: [count, limit]
            )
        count = loop.values[0]
        with f.loop(size) as v:
            self.records[v] = f.value(v).ult(count).select(self.records[v], -1)
        self._cut()

    def _if(
        self, condition: Value, then: Callable[[], Sequence[Value]], otherwise: Callable[[], Sequence[Value]]
    ) -> Sequence[Value]:
        return self.f.choose(condition, then, otherwise)

    def _cut(self) -> None:
        """Sort the buffer, and bring its first to the front."""
        f = self.f
        if self.order is None:
            cut_short(f, self.records, self.room, costs.COMMON.counted_elements, self.count)
            return
        found = self.order.emit(f, [self.records.base, self.room.base], self.counts, self.size)[0]
        f.move(self.records.base, found, self.count << 3)

    def _limit(self) -> Value:
        """The key of the last of the first, as an i32."""
        return self.records[self.count - 1].lshr(32).trunc(I32)

    def _entered(self, begin: Ix, lanes: int, count: Value, limit: Value) -> Sequence[Value]:
        """The count and limit of the buffer after a vector some of whose elements may enter."""
        with self.f.carried(lanes, [count, limit]) as loop:
            loop.next = self._enter(self.f.add(begin, loop.index), *loop.values)
        return loop.values

    def _enter(self, v: Ix, count: Value, limit: Value) -> Sequence[Value]:
        """Element v into the buffer if it stands before its limit; a full buffer is cut."""
        key = self.keys[v]
        record(self.records, count, key.zext(I64), v)
        more = count + key.ult(limit).zext(I64)

        def cut() -> Sequence[Value]:
            self._cut()
            return [self.count, self._limit()]

        return self._if(more.equals(self.size), cut, lambda: [more, limit])

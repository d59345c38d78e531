"""Routines that select the first of a line (see matmul.shared): they know no shapes, and a process has each once.

xlanb.first.ORDER (a, records, values, places, n, count)       of a few: each is the least record behind the one before
xlanb.keys.ORDER (a, keys, n)                                   keys of a line, a vector of the largest behind them
xlanb.select... (keys, records, room, counts, n, size, count)  of many: see Selection
xlanb.taken.TYPE (records, a, values, places, count)           what records say to the results
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen import radix, simd, vector_memory, vectors
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul import shared
from xlanb.cpu.codegen.radix import Order, address, load_at, store_at
from xlanb.cpu.codegen.sort_keys import Key, unsigned
from xlanb.cpu.codegen.types import memory, store
from xlanb.shape import PrimitiveType

T = PrimitiveType
PLAIN = (T.F32, T.S32, T.U32)
"""Types whose lines in memory become keys as they are."""


@dataclass(frozen=True)
class Lines:
    """Routines for lines of a type in memory, and s32 places."""

    type: PrimitiveType
    down: bool

    @property
    def _order(self) -> str:
        return f"{str(self.type).lower()}.{'down' if self.down else 'up'}"

    def first(self, f: Function, how: Key, pointers: Sequence[str], n: int, count: int) -> None:
        """Write the first `count` of n elements and their places; scratch holds a record of each."""
        self._call(f, f"first.{self._order}", lambda g: _first(g, how), _FIRST, pointers, n, count)

    def keys(self, f: Function, how: Key, pointers: Sequence[str], n: int) -> None:
        """Write the keys of n elements."""
        self._call(f, f"keys.{self._order}", lambda g: _keys(g, how), _KEYS, pointers, n)

    def taken(self, f: Function, pointers: Sequence[str], count: int) -> None:
        """Write the elements and the places of records."""
        name = f"taken.{str(self.type).lower()}"
        self._call(f, name, lambda g: _taken(g, memory(self.type)), _TAKEN, pointers, count)

    def _call(
        self,
        f: Function,
        name: str,
        emit: Callable[[Function], None],
        parameters: Sequence[str],
        pointers: Sequence[str],
        *sizes: int,
    ) -> None:
        called = shared.routine(f.module, ("topk", name), name, emit, parameters)
        f.do(f"call void @{called}({', '.join([*(f'ptr {p}' for p in pointers), *(f'i64 {n}' for n in sizes)])})")


_FIRST = ("ptr %a", "ptr %records", "ptr %values", "ptr %places", "i64 %n", "i64 %count")
_KEYS = ("ptr %a", "ptr %keys", "i64 %n")
_TAKEN = ("ptr %records", "ptr %a", "ptr %values", "ptr %places", "i64 %count")


def _each_vector(f: Function, how: Key, lanes: int, body: Callable[[Ix, str], None]) -> None:
    """body(first place, keys as <lanes x i32>) for all of %n elements; lanes behind the line have the largest key."""
    kind, width = memory(how.element_type), f"<{lanes} x i1>"
    vector = f"<{lanes} x {kind}>"
    name = f"llvm.masked.load.{vectors.overload(kind, lanes)}.p0"
    rounds = f.let(f"udiv i64 {f.add('%n', lanes - 1)}, {lanes}")
    with f.loop(rounds) as v:
        begin = f.mul(v, lanes)
        there = vector_memory.first_lanes(f, lanes, str(f.sub("%n", begin)))
        where = [("ptr", address(f, kind, "%a", begin)), ("i32", "4"), (width, there), (vector, "zeroinitializer")]
        given = f.plain_call(vector, name, where)
        with f.vectorized(lanes):
            f.lanes[given] = lanes
            key = unsigned(f, how, given)
        body(begin, f.plain(f"select {width} {there}, <{lanes} x i32> {key}, <{lanes} x i32> splat (i32 -1)"))


def _keys(f: Function, how: Key) -> None:
    lanes = f.target.vector_bits // 32

    def body(begin: Ix, key: str) -> None:
        f.do(f"store <{lanes} x i32> {key}, ptr {address(f, 'i32', '%keys', begin)}, align 4")

    _each_vector(f, how, lanes, body)
    f.do(f"store <{lanes} x i32> splat (i32 -1), ptr {address(f, 'i32', '%keys', '%n')}, align 4")


def _first(f: Function, how: Key) -> None:
    lanes = f.target.vector_bits // 64
    kind = f"<{lanes} x i64>"
    numbers = "<" + ", ".join(f"i64 {k}" for k in range(lanes)) + ">"

    def body(begin: Ix, key: str) -> None:
        place = f.plain(f"add {kind} {simd.splat(f, 'i64', lanes, str(begin))}, {numbers}")
        high = f.plain(f"shl {kind} {f.plain(f'zext <{lanes} x i32> {key} to {kind}')}, splat (i64 32)")
        made = f.plain(f"or {kind} {high}, {place}")
        f.do(f"store {kind} {made}, ptr {address(f, 'i64', '%records', begin)}, align 8")

    _each_vector(f, how, lanes, body)
    rounds = f.let(f"udiv i64 {f.add('%n', lanes - 1)}, {lanes}")
    with f.carried("%count", [("i64", "0")]) as loop:
        least = simd.splat(f, "i64", lanes, loop.values[0])
        with f.carried(rounds, [(kind, "splat (i64 -1)")]) as inner:
            found = f.plain(f"load {kind}, ptr {address(f, 'i64', '%records', f.mul(inner.index, lanes))}, align 8")
            behind = f.plain(f"icmp uge {kind} {found}, {least}")
            left = f.plain(f"select <{lanes} x i1> {behind}, {kind} {found}, {kind} splat (i64 -1)")
            inner.next = [f.plain_call(kind, f"llvm.umin.v{lanes}i64", [(kind, inner.values[0]), (kind, left)])]
        best = f.plain_call("i64", f"llvm.vector.reduce.umin.v{lanes}i64", [(kind, inner.values[0])])
        _take(f, memory(how.element_type), best, loop.index)
        loop.next = [f.plain(f"add i64 {best}, 1")]


def _taken(f: Function, kind: str) -> None:
    with f.loop("%count") as v:
        _take(f, kind, load_at(f, "i64", "%records", v), v)


def _take(f: Function, kind: str, found: str, at: Ix) -> None:
    """A record's element and place to place `at` of the results."""
    place = f.let(f"and i64 {found}, {2**32 - 1}")
    store_at(f, kind, "%values", at, load_at(f, kind, "%a", place))
    store_at(f, "i32", "%places", at, f.let(f"trunc i64 {place} to i32"))


def record(f: Function, records: str, at: Ix, key: str, place: Ix) -> None:
    """Write a record of a key (i64) and a place."""
    store(f, T.U64, records, at, f.let(f"or i64 {f.let(f'shl i64 {key}, 32')}, {place}"))


def cut_short(f: Function, records: str, room: str, n: int, count: Ix) -> None:
    """Bring the first `count` of n records (padded) to the front in order, by counting."""
    with f.loop(n) as v:
        own = load_at(f, "i64", records, v)
        store_at(f, "i64", room, radix.rank(f, records, n, own), own)
    with f.loop(count) as v:
        store_at(f, "i64", records, v, load_at(f, "i64", room, v))


@dataclass(frozen=True)
class Selection:
    """The routine that finds the first of a line of keys; it depends on how a full buffer is sorted only (None: by counting), so that a process has it once.

    `void name(keys, records, room, counts, n, size, count)`: of n keys (u32, a vector of the largest behind them) the first `count`, as records in order at `records`, which has
    room for `size` of them, more than `count` and fewer than n.
    """

    order: Order | None

    def call(self, f: Function, pointers: Sequence[str], sizes: Sequence[int]) -> None:
        """Select from a line."""
        name = "select" if self.order is None else f"select.{self.order.rounds}x{self.order.digit}"
        routine = shared.routine(f.module, self, name, self._emit, _SELECTION)
        f.do(f"call void @{routine}({', '.join([*(f'ptr {p}' for p in pointers), *(f'i64 {n}' for n in sizes)])})")

    def _size(self) -> Ix:
        return radix.SHORT if self.order is None else "%size"

    def _emit(self, f: Function) -> None:
        size = self._size()
        lanes = f.target.vector_bits // 32
        with f.loop(size) as v:
            record(f, "%records", v, _wide(f, load_at(f, "i32", "%keys", v)), v)
        self._cut(f)
        rest = f.let(f"add i64 {f.let(f'sub i64 %n, {size}')}, {lanes - 1}")
        rounds = f.let(f"udiv i64 {rest}, {lanes}")
        kind = f"<{lanes} x i32>"
        with f.carried(rounds, [("i64", "%count"), ("i32", _limit(f))]) as loop:
            begin = f.add(f.mul(loop.index, lanes), size)
            found = f.let(f"load {kind}, ptr {address(f, 'i32', '%keys', begin)}, align 4")
            limit = simd.splat(f, "i32", lanes, loop.values[1])
            inside = f.let(f"icmp ult {kind} {found}, {limit}")
            bits = f.let(f"bitcast <{lanes} x i1> {inside} to i{lanes}")
            loop.next = self._entered(f, f.let(f"icmp ne i{lanes} {bits}, 0"), loop.values, begin, lanes)
        with f.loop(size) as v:
            kept = f.let(f"icmp ult i64 {v}, {loop.values[0]}")
            own = load_at(f, "i64", "%records", v)
            store_at(f, "i64", "%records", v, f.let(f"select i1 {kept}, i64 {own}, i64 -1"))
        self._cut(f)

    def _cut(self, f: Function) -> None:
        """Sort the buffer, and bring its first to the front."""
        if self.order is None:
            cut_short(f, "%records", "%room", radix.SHORT, "%count")
            return
        f.module.declare("void", "llvm.memmove.p0.p0.i64", "ptr, ptr, i64, i1")
        found = self.order.emit(f, ["%records", "%room"], "%counts", "%size")[0]
        size = f.let("shl i64 %count, 3")
        f.do(f"call void @llvm.memmove.p0.p0.i64(ptr %records, ptr {found}, i64 {size}, i1 false)")

    def _entered(self, f: Function, some: str, state: list[str], begin: Ix, lanes: int) -> list[str]:
        """The count and limit of the buffer after a vector some of whose elements may enter."""
        then, end = f.fresh("enter"), f.fresh("entered")
        before = f.block
        f.branch_if(some, then, end)
        f.label(then)
        with f.aside(), f.carried(lanes, [("i64", state[0]), ("i32", state[1])]) as loop:
            loop.next = self._enter(f, f.add(begin, loop.index), loop.values)
        after = f.block
        f.branch(end)
        f.label(end)
        return [
            f.let(f"phi {kind} [ {old}, %{before} ], [ {new}, %{after} ]")
            for kind, old, new in zip(("i64", "i32"), state, loop.values, strict=True)
        ]

    def _enter(self, f: Function, v: Ix, state: list[str]) -> list[str]:
        """Element v into the buffer if it stands before its limit; a full buffer is cut."""
        count, limit = state
        key = load_at(f, "i32", "%keys", v)
        record(f, "%records", count, _wide(f, key), v)
        inside = f.let(f"zext i1 {f.let(f'icmp ult i32 {key}, {limit}')} to i64")
        more = f.let(f"add i64 {count}, {inside}")
        full, end = f.fresh("full"), f.fresh("room")
        before = f.block
        f.branch_if(f.let(f"icmp eq i64 {more}, {self._size()}"), full, end)
        f.label(full)
        with f.aside():
            self._cut(f)
            cut = _limit(f)
        after = f.block
        f.branch(end)
        f.label(end)
        return [
            f.let(f"phi i64 [ {more}, %{before} ], [ %count, %{after} ]"),
            f.let(f"phi i32 [ {limit}, %{before} ], [ {cut}, %{after} ]"),
        ]


_SELECTION = ("ptr %keys", "ptr %records", "ptr %room", "ptr %counts", "i64 %n", "i64 %size", "i64 %count")


def _wide(f: Function, key: str) -> str:
    return f.let(f"zext i32 {key} to i64")


def _limit(f: Function) -> str:
    """The key of the last of the first, as an i32."""
    last = load_at(f, "i64", "%records", f.let("sub i64 %count, 1"))
    return f.let(f"trunc i64 {f.let(f'lshr i64 {last}, 32')} to i32")

"""The k largest of each line, in order, and where they were: by selection, in one pass over the line.

The first elements fill a buffer, which is sorted and cut to k; from then on only elements beyond the last of those enter it, found a vector at a time, and it is sorted and
cut again when it is full. Of equal elements the first comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlanb.cpu.codegen import radix, simd
from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.indexing import Index, unflatten
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.kernel import SCRATCH_EACH, Kernel, special
from xlanb.cpu.codegen.matmul import shared
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.radix import Digits, Order, Plan, address, load_at, store_at
from xlanb.cpu.codegen.sort_keys import Key, unsigned
from xlanb.cpu.codegen.types import real, store
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import ArrayShape

T = PrimitiveType


def _plan(i: HloInstruction) -> Plan:
    """The buffer: all of the line where it is short, or its keys long."""
    n, k = _sizes(i)
    bits = max(array_of(i.operands[0]).element_type.bits, 8)
    if bits > 32:
        return Plan((), n, bits, value=False)
    room = radix.SHORT if k <= radix.SHORT // 2 else max(2 * k, k + 256)
    return Plan((), min(room, n), bits, value=False)


def _sizes(i: HloInstruction) -> tuple[int, int]:
    return array_of(i.operands[0]).dimensions[-1], array_of(i, (0,)).dimensions[-1]


def _key_bytes(i: HloInstruction) -> int:
    return -(-_sizes(i)[0] * 4 // 64) * 64 + 64


SCRATCH_EACH[Op.TOPK] = lambda i: 2 * _plan(i).record_bytes + _plan(i).scratch_bytes + _key_bytes(i)


@special(Op.TOPK, memory_only=True)
def _topk(k: Kernel) -> bool:
    source = array_of(k.root.operands[0])
    n, count = _sizes(k.root)
    lines = source.element_count // n
    plan = _plan(k.root)
    with parallel(k.e, lines, nanoseconds=n * (1.0 if plan.bits <= 32 else 12.0) + plan.n * 20) as line:
        at = unflatten(k.f, line, ArrayShape(source.element_type, (*source.dimensions[:-1], 1), layout=source.layout))
        _Line(k, plan, n, count, list(at[:-1])).emit()
    return True


class _Line:
    def __init__(self, k: Kernel, plan: Plan, n: int, count: int, at: list[Ix]) -> None:
        self.k, self.e, self.f, self.plan = k, k.e, k.f, plan
        self.n, self.count, self.before = n, count, at
        self.operand = k.root.operands[0]
        self.rank = array_of(self.operand).rank
        self.how = Key(self.operand, down=k.root.get("largest") is not False, total_order=True)
        self.scratch = k.own_scratch()
        self.keys = self._bytes(2 * plan.record_bytes + plan.scratch_bytes)

    def _bytes(self, offset: int) -> str:
        return address(self.f, "i8", self.scratch, offset)

    def _index(self, v: Ix) -> Index:
        return Index(array_of(self.operand), [*self.before, v])

    def _key(self, v: Ix) -> str:
        """The key of element v as an i64, the first of the order lowest."""
        bits = unsigned(self.f, self.how, real(self.e.element(self.operand, self._index(v))))
        width = max(self.how.bits, 8)
        return bits if width == 64 else self.f.let(f"zext i{width} {bits} to i64")

    def emit(self) -> None:
        if self.plan.n == self.n:
            self._whole()
        else:
            self._selected()

    def _write(self, records: str, places: str) -> None:
        """The first of the records to the results."""
        f = self.f
        values, positions = self.k.outputs[0,], self.k.outputs[1,]
        with self.e.loop(self.count) as v:
            place = radix.place_of(f, v, records, places)
            values.store(f, Index(values.shape, [*self.before, v]), self.e.element(self.operand, self._index(place)))
            t = positions.shape.element_type
            low = place if t.bits == 64 else f.let(f"trunc i64 {place} to i{t.bits}")
            positions.store(f, Index(positions.shape, [*self.before, v]), low)

    def _whole(self) -> None:
        """Sort the line."""
        e, plan = self.e, self.plan
        types = (T.U64, self.how.element_type)
        if plan.is_short:
            radix.pad(self.f, self.scratch, plan.n)
            self.f.ready = simd.along(
                e, plan.n, types, lambda v: self._record(self.scratch, v, self._key(v), v), hard=True
            )
            self._write(self._cut(), "")
            return
        sorter = Digits(e, plan, self.scratch)
        self.f.ready = simd.along(e, plan.n, types, lambda v: sorter.set(v, self._key(v), v), hard=True)
        self._write(*sorter.sort())

    def _record(self, records: str, at: Ix, key: str, place: Ix) -> None:
        record(self.f, records, at, key, place)

    def _cut(self) -> str:
        """Sort a short line; gives where the first `count` of it lie: at the beginning of the scratch."""
        cut_short(self.f, self.scratch, self._bytes(self.plan.record_bytes), self.plan.n, self.count)
        return self.scratch

    def _selected(self) -> None:
        """The keys of the line, from which a routine takes the first."""
        e, f, plan, n = self.e, self.f, self.plan, self.n
        lanes = f.target.vector_bits // 32

        def key(v: Ix) -> None:
            store(f, T.U32, self.keys, v, f.let(f"trunc i64 {self._key(v)} to i32"))

        f.ready = simd.along(e, n, (T.U32, self.how.element_type), key, hard=True)
        # Behind the line stand keys that never enter.
        f.do(f"store <{lanes} x i32> splat (i32 -1), ptr {address(f, 'i32', self.keys, n)}, align 4")
        order = None if plan.is_short else Order(plan.rounds, plan.digit, wide=False)
        Selection(order).call(
            f,
            (self.keys, self.scratch, self._bytes(plan.record_bytes), self._bytes(2 * plan.record_bytes)),
            (n, plan.n, self.count),
        )
        self._write(self.scratch, "")


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

"""The k largest of each line, in order, and where they were: by selection, in one pass over the line.

The first elements fill a buffer, which is sorted and cut to k; from then on only elements beyond the last of those enter it, found a vector at a time, and it is sorted and
cut again when it is full. Of equal elements the first comes first.
"""

from __future__ import annotations

from xlanb.cpu.codegen import radix, simd
from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.indexing import Index, IrArray, unflatten
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.kernel import SCRATCH_EACH, Kernel, special
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.radix import Digits, Order, Plan, address
from xlanb.cpu.codegen.selection import PLAIN, Lines, Selection, cut_short, record
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


def _is_plain(i: HloInstruction) -> bool:
    """Whether the lines of operand and results lie in memory as the routines for lines take them."""
    arrays = [array_of(i.operands[0]), array_of(i, (0,)), array_of(i, (1,))]
    flat = all(list(s.minor_to_major) == list(range(s.rank))[::-1] for s in arrays)
    return flat and arrays[0].element_type in PLAIN and arrays[2].element_type is T.S32


def _is_few(i: HloInstruction) -> bool:
    """Whether it costs less to look for the least of a line again and again than to select and sort."""
    n, count = _sizes(i)
    return _is_plain(i) and n <= _RECORDS and _few_nanoseconds(n, count) < 600 + n * 0.4


def _few_nanoseconds(n: int, count: int) -> float:
    return count * (n * 0.04 + 6) + n * 0.15


_RECORDS = 8192
"""Elements of the longest line that has a record of each."""


def _scratch_bytes(i: HloInstruction) -> int:
    # A few of plain lines need less, but not where the operand is a constant, which has no address here.
    few = -(-_sizes(i)[0] // 8) * 64 if _is_few(i) else 0
    return max(few, 2 * _plan(i).record_bytes + _plan(i).scratch_bytes + _key_bytes(i))


SCRATCH_EACH[Op.TOPK] = _scratch_bytes


@special(Op.TOPK, memory_only=True)
def _topk(k: Kernel) -> bool:
    source = array_of(k.root.operands[0])
    n, count = _sizes(k.root)
    lines = source.element_count // n
    plan = _plan(k.root)
    bound = k.e.bindings.get(k.root.operands[0], {}).get(())
    if isinstance(bound, IrArray) and _is_plain(k.root) and (_is_few(k.root) or plan.n < n):
        _PlainLines(k, plan, bound.pointer).emit(lines)
        return True
    with parallel(k.e, lines, nanoseconds=n * (1.0 if plan.bits <= 32 else 12.0) + plan.n * 20) as line:
        at = unflatten(k.f, line, ArrayShape(source.element_type, (*source.dimensions[:-1], 1), layout=source.layout))
        _Line(k, plan, n, count, list(at[:-1])).emit()
    return True


class _PlainLines:
    """Lines in memory, by routines alone."""

    def __init__(self, k: Kernel, plan: Plan, source: str) -> None:
        self.k, self.f, self.plan, self.source = k, k.f, plan, source
        self.n, self.count = _sizes(k.root)
        operand = k.root.operands[0]
        self.how = Key(operand, down=k.root.get("largest") is not False, total_order=True)
        self.routines = Lines(self.how.element_type, self.how.down)

    def emit(self, lines: int) -> None:
        """All lines."""
        f, plan, n, count, few = self.f, self.plan, self.n, self.count, _is_few(self.k.root)
        cost = _few_nanoseconds(n, count) if few else n * 1.0 + plan.n * 20
        with parallel(self.k.e, lines, nanoseconds=cost) as line:
            source = address(f, "i8", self.source, f.mul(line, 4 * n))
            made = [address(f, "i8", self.k.outputs[leaf,].pointer, f.mul(line, 4 * count)) for leaf in (0, 1)]
            records = self.k.own_scratch()
            if few:
                self.routines.first(f, self.how, (source, records, *made), n, count)
            else:
                self._select(source, records, made)
        f.ready = f.calls_only = True

    def _select(self, source: str, records: str, made: list[str]) -> None:
        f, plan = self.f, self.plan
        room, counts = (address(f, "i8", records, k * plan.record_bytes) for k in (1, 2))
        keys = address(f, "i8", records, 2 * plan.record_bytes + plan.scratch_bytes)
        self.routines.keys(f, self.how, (source, keys), self.n)
        order = None if plan.is_short else Order(plan.rounds, plan.digit, wide=False)
        Selection(order).call(f, (keys, records, room, counts), (self.n, plan.n, self.count))
        self.routines.taken(f, (records, source, *made), self.count)


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
        width = self.how.bits
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

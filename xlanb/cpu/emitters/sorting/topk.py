"""The k largest of each line, in order, and where they were: by selection, in one pass over the line.

The first elements fill a buffer, which is sorted and cut to k; from then on only elements beyond the last of those enter it, found a vector at a time, and it is sorted and
cut again when it is full. Of equal elements the first comes first.
"""

from __future__ import annotations

from xlanb.codegen import costs
from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import real, register
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, IrArray, unflatten
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.plan import time_text
from xlanb.codegen.types import I8, I32, I64
from xlanb.codegen.values import Value
from xlanb.codegen.views import along
from xlanb.cpu.emitters.kernel import MEMORY_ONLY, SCRATCH_EACH, Kernel, emitter
from xlanb.cpu.emitters.sorting import digits
from xlanb.cpu.emitters.sorting.digits import Digits, Order, Plan
from xlanb.cpu.emitters.sorting.keys import Key, unsigned
from xlanb.cpu.emitters.sorting.selection import PLAIN, Lines, Selection, cut_short, record
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
    room = costs.COMMON.counted_elements if k <= costs.COMMON.counted_elements // 2 else max(2 * k, k + 256)
    return Plan((), min(room, n), bits, value=False)


def _sizes(i: HloInstruction) -> tuple[int, int]:
    return array_of(i.operands[0]).dimensions[-1], array_of(i, (0,)).dimensions[-1]


def _key_bytes(i: HloInstruction) -> int:
    return -(-_sizes(i)[0] * 4 // 64) * 64 + 64


def _is_plain(i: HloInstruction) -> bool:
    """Whether the lines of operand and results lie in memory as the routines for lines take them."""
    arrays = [array_of(i.operands[0]), array_of(i, (0,)), array_of(i, (1,))]
    ordered = all(list(s.minor_to_major) == list(range(s.rank))[::-1] for s in arrays)
    return ordered and arrays[0].element_type in PLAIN and arrays[2].element_type is T.S32


def _is_few(i: HloInstruction) -> bool:
    """Whether it costs less to look for the least of a line again and again than to select and sort."""
    n, count = _sizes(i)
    return _is_plain(i) and n <= costs.COMMON.recorded_elements and _few_nanoseconds(n, count) < 600 + n * 0.4


def _few_nanoseconds(n: int, count: int) -> float:
    return count * (n * 0.04 + 6) + n * 0.15


def _selecting(plan: Plan, n: int) -> float:
    """What a line of n elements costs."""
    c = costs.COMMON
    return n * (c.selected_element_ns if plan.bits <= 32 else c.selected_wide_ns) + plan.n * c.kept_element_ns


def _scratch_bytes(i: HloInstruction) -> int:
    # A few of plain lines need less, but not where the operand is a constant, which has no address here.
    few = -(-_sizes(i)[0] // 8) * 64 if _is_few(i) else 0
    return max(few, 2 * _plan(i).record_bytes + _plan(i).scratch_bytes + _key_bytes(i))


SCRATCH_EACH[Op.TOPK] = _scratch_bytes
MEMORY_ONLY.add(Op.TOPK)


@emitter(Op.TOPK)
def _topk(k: Kernel) -> bool:
    source = array_of(k.root.operands[0])
    n, _ = _sizes(k.root)
    lines = source.element_count // n
    plan = _plan(k.root)
    bound = k.e.bindings.get(k.root.operands[0], {}).get(())
    if isinstance(bound, IrArray) and _is_plain(k.root) and (_is_few(k.root) or plan.n < n):
        _PlainLines(k, plan, bound.pointer).emit(lines)
        return True
    with parallel(k.f, lines, nanoseconds=_selecting(plan, n)) as line:
        at = unflatten(k.f, line, ArrayShape(source.element_type, (*source.dimensions[:-1], 1), layout=source.layout))
        _Line(k, plan, list(at[:-1])).emit()
    return True


def _how(k: Kernel) -> Key:
    return Key(k.root.operands[0], down=k.root.get("largest") is not False, total_order=True)


class _PlainLines:
    """Lines in memory, by routines alone."""

    def __init__(self, k: Kernel, plan: Plan, source: Value) -> None:
        self.k, self.f, self.plan, self.source = k, k.f, plan, source
        self.n, self.count = _sizes(k.root)
        self.how = _how(k)
        self.routines = Lines(self.how.element_type, self.how.down)

    def emit(self, lines: int) -> None:
        """All lines."""
        f, n, count, few = self.f, self.n, self.count, _is_few(self.k.root)
        ways = {
            f"the least of a line, {count} times": _few_nanoseconds(n, count),
            f"a buffer of {self.plan.n}, sorted at the end": _selecting(self.plan, n),
        }
        taken, other = ways if few else reversed(ways)
        cost = ways[taken]
        f.decided("top_k", taken, f"{time_text(cost)} a line", [(other, time_text(ways[other]))])
        with parallel(f, lines, nanoseconds=cost) as line:
            source = Pointer(self.source, I8).address(f.mul(line, 4 * n))
            made = [Pointer(self.k.outputs[leaf,].pointer, I8).address(f.mul(line, 4 * count)) for leaf in (0, 1)]
            records = self.k.own_scratch()
            if few:
                self.routines.first(f, self.how, (source, records, *made), n, count)
            else:
                self._select(source, records, made)
        f.ready = f.calls_only = True

    def _select(self, source: Value, records: Value, made: list[Value]) -> None:
        f, plan, scratch = self.f, self.plan, Pointer(records, I8)
        room, counts = (scratch.address(k * plan.record_bytes) for k in (1, 2))
        keys = scratch.address(2 * plan.record_bytes + plan.scratch_bytes)
        self.routines.keys(f, self.how, (source, keys), self.n)
        order = None if plan.is_short else Order(plan.rounds, plan.digit, wide=False)
        Selection(order).call(f, (keys, records, room, counts), (self.n, plan.n, self.count))
        self.routines.taken(f, (records, source, *made), self.count)


class _Line:
    """One line of any operand."""

    def __init__(self, k: Kernel, plan: Plan, at: list[Ix]) -> None:
        self.k, self.e, self.f, self.plan = k, k.e, k.f, plan
        self.n, self.count = _sizes(k.root)
        self.before = at
        self.operand = k.root.operands[0]
        self.how = _how(k)
        self.scratch = Pointer(k.own_scratch(), I8)
        self.records = Pointer(self.scratch.base, I64)

    def _index(self, v: Ix) -> Index:
        return Index(array_of(self.operand), [*self.before, v])

    def _key(self, v: Ix) -> Value:
        """The key of element v as an i64, the first of the order lowest."""
        return unsigned(self.f, self.how, real(self.e.element(self.operand, self._index(v)))).zext(I64)

    def emit(self) -> None:
        """Sort the line, or select from it."""
        if self.plan.n == self.n:
            self._whole()
        else:
            self._selected()

    def _write(self, records: Pointer, places: Pointer | None) -> None:
        """The first of the records to the results."""
        values, positions = self.k.outputs[0,], self.k.outputs[1,]
        kind = register(positions.shape.element_type)
        with self.f.loop(self.count) as v:
            place = digits.place_of(v, records, places)
            values.store(Index(values.shape, [*self.before, v]), self.e.element(self.operand, self._index(place)))
            positions.store(Index(positions.shape, [*self.before, v]), place.trunc(kind))

    def _whole(self) -> None:
        """Sort the line."""
        f, plan = self.f, self.plan
        types = (T.U64, self.how.element_type)
        if plan.is_short:
            digits.pad(f, self.records, plan.n)
            f.ready = along(f, plan.n, types, lambda v: record(self.records, v, self._key(v), v), registers=1)
            room = Pointer(self.scratch.address(plan.record_bytes), I64)
            cut_short(f, self.records, room, plan.n, self.count)
            self._write(self.records, None)
            return
        sorter = Digits(f, plan, self.scratch.base)
        f.ready = along(f, plan.n, types, lambda v: sorter.set(v, self._key(v), v), registers=1)
        self._write(*sorter.sort())

    def _selected(self) -> None:
        """The keys of the line, from which a routine takes the first."""
        f, plan, n = self.f, self.plan, self.n
        keys = Pointer(self.scratch.address(2 * plan.record_bytes + plan.scratch_bytes), I32)

        def key(v: Ix) -> None:
            keys[v] = self._key(v).trunc(I32)

        f.ready = along(f, n, (T.U32, self.how.element_type), key, registers=1)
        # Behind the line stand keys that never enter.
        keys.store(n, f.const(I32.times(f.target.vector_bits // 32), -1))
        order = None if plan.is_short else Order(plan.rounds, plan.digit, wide=False)
        room, counts = (self.scratch.address(k * plan.record_bytes) for k in (1, 2))
        Selection(order).call(f, (keys.base, self.records.base, room, counts), (n, plan.n, self.count))
        self._write(self.records, None)

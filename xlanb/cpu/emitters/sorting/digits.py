"""LSD radix sort: stable, with a fixed number of rounds per key length.

A line's elements become records: an i64 with the key (high half) and the element itself (low half)
if there is one operand of at most 32 bits, otherwise its position. Keys of more than 32 bits have
their positions in a second array. A round is skipped if all records have the same digit. Lines of
up to `costs.counted_elements` are sorted by counting the smaller records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xlanb.codegen import costs, polling
from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import Element, from_memory, load, memory, real, register, store, to_memory
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import Index, IrArray
from xlanb.codegen.memory import Pointer
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I8, I32, I64, PTR, integer
from xlanb.codegen.values import Value
from xlanb.codegen.views import along
from xlanb.cpu.emitters.sorting.keys import Key, packed, sort_keys
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.emitters.kernel import Kernel

T = PrimitiveType

Place = Callable[[int, Ix], Index]


@dataclass(frozen=True)
class RadixPlan:
    """How lines of n elements are sorted; with `value`, records hold the elements themselves."""

    keys: tuple[Key, ...]
    n: int
    bits: int
    value: bool

    @property
    def is_short(self) -> bool:
        """Whether lines are sorted by counting."""
        return self.n <= costs.COMMON.counted_elements and self.bits <= 32

    @property
    def rounds(self) -> int:
        """The number of digits of a key."""
        return -(-self.bits // (11 if self.n >= costs.COMMON.wide_digit_elements else 8))

    @property
    def digit(self) -> int:
        """Bits of a digit."""
        return -(-self.bits // self.rounds)

    @property
    def record_bytes(self) -> int:
        """Bytes of a line's records: whole cache lines and one vector more."""
        return -(-self.n * 8 // 64) * 64 + 64

    @property
    def place_bytes(self) -> int:
        """Bytes of a line's positions; 0 if the records hold them."""
        return -(-self.n * 4 // 64) * 64 if self.bits > 32 else 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory: records and positions twice, and the counts of each round."""
        if self.is_short:
            return self.record_bytes
        return 2 * (self.record_bytes + self.place_bytes) + (self.rounds * 4 << self.digit)

    @property
    def nanoseconds(self) -> float:
        """Estimated nanoseconds of a line."""
        c = costs.COMMON
        if self.is_short:
            return self.n * (c.counted_element_ns + self.n * c.counted_pair_ns)
        counts = self.rounds * (1 << self.digit) * c.digit_count_ns
        return (self.rounds + 1) * self.n * c.digit_element_ns + counts


def plan(i: HloInstruction) -> RadixPlan | None:
    """How to sort by digits.

    None if the comparison does not order keys of at most 64 bits, or lines are too short or too
    long.
    """
    n = array_of(i.operands[0]).dimensions[i.dimensions[0]]
    keys = sort_keys(i.to_apply)
    if keys is None or not 1 <= n < 2**31:
        return None
    bits = sum(max(key.bits, 8) if key.bits == 1 else key.bits for key in keys)
    first = array_of(i.operands[0]).element_type
    value = len(i.operands) == 1 and bits <= 32 and first.bits <= 32 and not first.is_complex
    if bits > 64 or (bits > 32 and n <= costs.COMMON.counted_elements):
        return None
    return RadixPlan(keys, n, bits, value)


def counts_places(i: HloInstruction, operand: int) -> bool:
    """Whether an operand is the iota along the sorted dimension.

    Its sorted elements are the original positions, so that it need not be read.
    """
    o = i.operands[operand]
    (axis,) = i.dimensions
    return (
        o.opcode is Op.IOTA
        and o.attributes["iota_dimension"] == axis
        and array_of(o).element_type.is_integral
        and array_of(o).element_type.bits in (8, 16, 32, 64)
        and array_of(o).dimensions[axis] <= 2 ** (array_of(o).element_type.bits - 1)
    )


class SortedLine:
    """A line to sort from operands to results; `place(operand, v)` is the index of element v."""

    def __init__(self, k: Kernel, plan: RadixPlan, place: Place) -> None:
        self.k, self.e, self.f = k, k.e, k.f
        self.plan, self.place = plan, place
        self.operands = k.root.operands
        self.types = [T.U64, *(key.element_type for key in plan.keys)]
        self.leaves = [leaf for leaf, _ in k.root.shape.leaves()]
        self.saved: dict[int, Value] = {}

    def emit(self) -> None:
        """Sort by counting if the line is short, otherwise by digits."""
        if self.plan.is_short:
            self._by_counting()
        else:
            self._by_digits()

    def _by_counting(self) -> None:
        """Store each element at the rank of its record.

        Records are distinct because they contain their positions. They are on the stack, with
        copies of the operands that the results overwrite.
        """
        f, n = self.f, self.plan.n
        records = Pointer(f.alloca(I64, self.plan.record_bytes // 8), I64)
        pad(f, records, n)

        def record(v: Ix) -> None:
            key, _ = self._key(v)
            records[v] = (key << 32) | v

        ready = along(f, n, self.types, record, registers=1)
        for o in range(len(self.operands)):
            ready &= self._save(o)
        f.ready = ready
        with f.loop(n) as v:
            self._move(v, rank(f, records, n, records[v]))

    def _save(self, o: int) -> bool:
        """Copy an operand's line to the stack if its result overwrites it.

        Returns whether the loop needs no LLVM vectorizer.
        """
        source, result = self.e.bindings.get(self.operands[o], {}).get(()), self.k.outputs.get(self.leaves[o])
        if result is None or not isinstance(source, IrArray) or source.pointer != result.pointer:
            return True
        t = source.shape.element_type
        line = self.saved[o] = self.f.alloca(I8, self.plan.n * t.byte_size)
        return along(self.f, self.plan.n, [t], lambda v: store(t, line, v, self._element(o, v)))

    def _by_digits(self) -> None:
        f, plan = self.f, self.plan
        sorter = Digits(f, plan, self.k.own_scratch())

        def record(v: Ix) -> None:
            key, values = self._key(v)
            sorter.set(v, key, self._bits(values[0]) if plan.value else v)

        ready = along(f, plan.n, self.types, record, registers=1)
        records, places = sorter.sort()
        if plan.value:
            ready &= along(f, plan.n, self.types, lambda v: self._result(v, records), registers=1)
        else:
            with f.loop(plan.n) as v:
                self._move(place_of(v, records, places), v)
        f.ready = ready

    def _element(self, o: int, v: Ix) -> Element:
        return self.e.element(self.operands[o], self.place(o, v))

    def _key(self, v: Ix) -> tuple[Value, list[Element]]:
        """The packed key of element v, and its values."""
        values = [self._element(o, v) for o in range(len(self.operands))]
        return packed(self.e, self.plan.keys, self.k.root.to_apply, values), values

    def _move(self, source: Ix, target: Ix) -> None:
        """Copy element `source` of every operand to position `target` of the results."""
        for o, leaf in enumerate(self.leaves):
            if leaf in self.k.outputs:
                self.k.outputs[leaf].store(self.place(o, target), self._source_element(o, source))

    def _source_element(self, o: int, source: Ix) -> Element:
        t = array_of(self.operands[o]).element_type
        if o in self.saved:
            return load(t, self.saved[o], source)
        return self.f.value(source).trunc(register(t)) if counts_places(self.k.root, o) else self._element(o, source)

    def _bits(self, value: Element) -> Value:
        """The only operand's element, in its form in memory, as an i64."""
        f, t = self.f, array_of(self.operands[0]).element_type
        raw = to_memory(f, t, real(value))
        return (raw if memory(t).is_integer else raw.bits_as(integer(t.bits))).zext(I64)

    def _result(self, v: Ix, records: Pointer) -> None:
        """The element in a record's low half."""
        f = self.f
        t = array_of(self.operands[0]).element_type
        low = records[v].trunc(integer(max(t.bits, 8)))
        raw = low if memory(t).is_integer else low.bits_as(memory(t))
        self.k.outputs[self.leaves[0]].store(self.place(0, v), from_memory(f, t, raw))


def pad(f: Function, records: Pointer, n: int) -> None:
    """Fill the last vector of n records with maximal records, before they are written."""
    lanes = f.target.vector_bits // 64
    records.store((n - 1) // lanes * lanes, f.const(I64.times(lanes), -1))


def rank(f: Function, records: Pointer, n: int, own: Value) -> Value:
    """The number of the n (padded) records that are smaller than `own`."""
    lanes = f.target.vector_bits // 64
    mine = f.splat(own, lanes)
    with f.carried(-(-n // lanes), [f.zero(I64.times(lanes))]) as loop:
        others = records.load(f.mul(loop.index, lanes), lanes)
        loop.next = [loop.values[0] + others.ult(mine).zext(I64)]
    return f.reduce("add", loop.values[0])


def place_of(v: Ix, records: Pointer, places: Pointer | None) -> Value:
    """The original position of record v."""
    return places[v].zext(I64) if places is not None else records[v] & (2**32 - 1)


class Digits:
    """Records in scratch memory, and how to sort them.

    Keys of up to 32 bits are in the records' high halves; longer ones have a separate array of
    positions.
    """

    def __init__(self, f: Function, plan: RadixPlan, scratch: Value) -> None:
        self.f, self.plan = f, plan
        self.wide = plan.bits > 32
        room = Pointer(scratch, I8)
        self.records = [room.address(h * plan.record_bytes) for h in (0, 1)]
        after = 2 * plan.record_bytes
        self.places = [room.address(after + h * plan.place_bytes) for h in (0, 1)] if self.wide else []
        self.counts = room.address(after + 2 * plan.place_bytes)

    def set(self, v: Ix, key: Value, low: Ix) -> None:
        """Store record v: a key (i64) and its position, or 32 bits of payload."""
        if self.wide:
            Pointer(self.places[0], I32)[v] = self.f.value(low).trunc(I32)
        else:
            key = (key << 32) | low
        Pointer(self.records[0], I64)[v] = key

    def sort(self) -> tuple[Pointer, Pointer | None]:
        """Sort the records; return pointers to them and to positions (None: in the records)."""
        f, plan = self.f, self.plan
        out = Pointer(f.alloca(PTR, 2), PTR)
        (r0, r1), (q0, q1) = self.records, self.places or [f.zero(PTR)] * 2
        order = Order(plan.rounds, plan.digit, self.wide)
        _sort_records(f, order, r0, r1, q0, q1, self.counts, plan.n, out.base)
        return Pointer(out[0], I64), Pointer(out[1], I32) if self.wide else None


@dataclass(frozen=True)
class Order:
    """How records are sorted; depends only on the form of the keys.

    Keys of up to 32 bits are in the records' high halves; `wide` ones have positions in another
    array.
    """

    rounds: int
    digit: int
    wide: bool

    def emit(self, f: Function, pointers: Sequence[Value], counts: Value, n: Value) -> list[Value]:
        """Emit the sort inline; return pointers to records and positions, and to spare buffers."""
        self._count(f, pointers[0], counts, n)
        with f.carried(self.rounds, pointers) as loop:
            loop.next = self._round(f, loop.index, loop.values, counts, n)
        return loop.values

    def _shift(self, f: Function, round_: Ix) -> Ix:
        return f.add(f.mul(round_, self.digit), 0 if self.wide else 32)

    def _digit(self, record: Value, shift: Ix) -> Value:
        return record.lshr(shift) & ((1 << self.digit) - 1)

    def _count(self, f: Function, records: Value, counts: Value, n: Value) -> None:
        """Count how often each digit occurs in each round."""
        f.fill_zero(counts, self.rounds * 4 << self.digit)
        with f.loop(n, most=polling.MANY) as v:
            record = Pointer(records, I64)[v]
            for r in range(self.rounds):
                spot = Pointer(counts, I32).by(f.add(self._digit(record, self._shift(f, r)), r << self.digit))
                spot[0] = spot[0] + 1

    def _round(self, f: Function, round_: Ix, pointers: Sequence[Value], counts: Value, n: Value) -> list[Value]:
        """Sort by one digit; return pointers to the records, and to the spare buffers."""
        shift = self._shift(f, round_)
        own = Pointer(counts, I32).by(f.mul(round_, 2**self.digit))
        given, sorted_ = Pointer(pointers[0], I64), Pointer(pointers[1], I64)
        same = own[self._digit(given[0], shift)].equals(n.trunc(I32))
        with f.when(~same):
            with f.carried(2**self.digit, [f.zero(I32)]) as loop:
                count = own[loop.index]
                own[loop.index] = loop.values[0]
                loop.next = [loop.values[0] + count]
            with f.loop(n, most=polling.MANY) as v:
                record = given[v]
                spot = own.by(self._digit(record, shift))
                goal = spot[0]
                spot[0] = goal + 1
                target = goal.zext(I64)
                sorted_[target] = record
                if self.wide:
                    Pointer(pointers[3], I32)[target] = Pointer(pointers[2], I32)[v]
        out = []
        for a, b in zip(pointers[::2], pointers[1::2], strict=True):
            out += [same.select(a, b), same.select(b, a)]
        return out


@shared("digits")
def _sort_records(
    f: Function, order: Order, r0: Value, r1: Value, q0: Value, q1: Value, counts: Value, n: Ix, out: Value
) -> None:
    """Sort n records, at least one; store pointers to records and positions to `out`."""
    found = order.emit(f, [r0, r1, *([q0, q1] if order.wide else [])], counts, f.value(n))
    places = Pointer(out, PTR)
    places[0] = found[0]
    if order.wide:
        places[1] = found[2]

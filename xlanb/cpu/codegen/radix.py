"""Sorting by the digits of keys, least significant first (H. Hollerith's card sorter): stable, and as many rounds as a key has digits, whatever comes.

A line's elements become records: an i64 of key (high) and, low, the element itself where there is one operand of at most 32 bits, or its place. Keys of more than
32 bits stand beside their places. A round whose digit is the same in all records is left out. Lines of up to `SHORT` elements are sorted by counting, for each record, those
that stand before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlanb.cpu.codegen import simd
from xlanb.cpu.codegen.elemental import Elemental, array_of
from xlanb.cpu.codegen.indexing import Index, IrArray
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul import shared
from xlanb.cpu.codegen.sort_keys import Key, packed, sort_keys
from xlanb.cpu.codegen.types import Value, from_memory, load, memory, real, store, to_memory
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.cpu.codegen.kernel import Kernel

T = PrimitiveType
SHORT = 64
"""Lines of up to so many elements are sorted by counting."""
_LONG = 3000
"""Lines of so many elements are worth digits of 11 bits."""

Place = Callable[[int, Ix], Index]


@dataclass(frozen=True)
class Plan:
    """How lines of n elements are sorted: `value` says that records hold the elements themselves."""

    keys: tuple[Key, ...]
    n: int
    bits: int
    value: bool

    @property
    def is_short(self) -> bool:
        """Whether lines are sorted by counting."""
        return self.n <= SHORT and self.bits <= 32

    @property
    def rounds(self) -> int:
        """How many digits a key has."""
        return -(-self.bits // (11 if self.n >= _LONG else 8))

    @property
    def digit(self) -> int:
        """Bits of a digit."""
        return -(-self.bits // self.rounds)

    @property
    def record_bytes(self) -> int:
        """Bytes of a line's records, whole cache lines with a vector to spare."""
        return -(-self.n * 8 // 64) * 64 + 64

    @property
    def place_bytes(self) -> int:
        """Bytes of a line's places; none where the records hold them."""
        return -(-self.n * 4 // 64) * 64 if self.bits > 32 else 0

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch: records and places twice, and the counts of each round."""
        if self.is_short:
            return self.record_bytes
        return 2 * (self.record_bytes + self.place_bytes) + (self.rounds * 4 << self.digit)

    @property
    def nanoseconds(self) -> float:
        """What a line costs, roughly."""
        if self.is_short:
            return self.n * (10 + self.n * 0.1)
        return self.rounds * (self.n * 2.0 + (1 << self.digit) * 0.5) + self.n * 2.0


def plan(i: HloInstruction) -> Plan | None:
    """How a sort can be done by digits; None where its comparison is no order of keys of 64 bits, or lines are too short or too long."""
    n = array_of(i.operands[0]).dimensions[i.dimensions[0]]
    keys = sort_keys(i.to_apply)
    if keys is None or not 1 <= n < 2**31:
        return None
    bits = sum(max(key.bits, 8) if key.bits == 1 else key.bits for key in keys)
    first = array_of(i.operands[0]).element_type
    value = len(i.operands) == 1 and bits <= 32 and first.bits <= 32 and not first.is_complex
    if bits > 64 or (bits > 32 and n <= SHORT):
        return None
    return Plan(keys, n, bits, value)


def counts_places(i: HloInstruction, operand: int) -> bool:
    """Whether an operand's elements are the places 0, 1, ... along the lines that are sorted: the sorted ones are where the others came from, and need not be read."""
    o = i.operands[operand]
    (axis,) = i.dimensions
    return (
        o.opcode is Op.IOTA
        and o.attributes["iota_dimension"] == axis
        and array_of(o).element_type.is_integral
        and array_of(o).element_type.bits in (8, 16, 32, 64)
        and array_of(o).dimensions[axis] <= 2 ** (array_of(o).element_type.bits - 1)
    )


def sort_line(k: Kernel, plan: Plan, place: Place) -> None:
    """Sort one line from the operands into the results; `place(operand, v)` is where its element v lies."""
    if plan.is_short:
        _Short(k, plan, place).emit()
    else:
        _Long(k, plan, place).emit()


class _Line:
    """What both ways share: keys, and where things lie."""

    def __init__(self, k: Kernel, plan: Plan, place: Place) -> None:
        self.k, self.e, self.f = k, k.e, k.f
        self.plan, self.place = plan, place
        self.operands = k.root.operands
        self.types = [T.U64, *(key.element_type for key in plan.keys)]
        self.leaves = [leaf for leaf, _ in k.root.shape.leaves()]
        self.saved: dict[int, str] = {}

    def element(self, o: int, v: Ix) -> Value:
        return self.e.element(self.operands[o], self.place(o, v))

    def key(self, v: Ix) -> tuple[str, list[Value]]:
        """The packed key of element v, and its values."""
        values = [self.element(o, v) for o in range(len(self.operands))]
        return packed(self.e, self.plan.keys, self.k.root.to_apply, values), values

    def move(self, source: Ix, target: Ix) -> None:
        """Element `source` of every operand to place `target` of the results."""
        for o, leaf in enumerate(self.leaves):
            if leaf in self.k.outputs:
                self.k.outputs[leaf].store(self.f, self.place(o, target), self._moved(o, source))

    def _moved(self, o: int, source: Ix) -> Value:
        if o in self.saved:
            return load(self.f, array_of(self.operands[o]).element_type, self.saved[o], source)
        if not counts_places(self.k.root, o):
            return self.element(o, source)
        t = array_of(self.operands[o]).element_type
        if isinstance(source, int) or t.bits == 64:
            return str(source)
        return self.f.let(f"trunc i64 {source} to i{t.bits}")


class _Short(_Line):
    """By counting: an element's place is the number of records below its own, which are all different as they end in their places.

    The records are on the stack, and with them the elements of operands that the results are written over.
    """

    def emit(self) -> None:
        e, f, n = self.e, self.f, self.plan.n
        records = f.alloca("i64", self.plan.record_bytes // 8)
        pad(f, records, n)

        def record(v: Ix) -> None:
            key, _ = self.key(v)
            store(f, T.U64, records, v, f.let(f"or i64 {f.let(f'shl i64 {key}, 32')}, {v}"))

        ready = simd.along(e, n, self.types, record, hard=True)
        for o in range(len(self.operands)):
            ready &= self._save(o)
        f.ready = ready
        with e.loop(n) as v:
            self.move(v, rank(f, records, n, load_at(f, "i64", records, v)))

    def _save(self, o: int) -> bool:
        """Copy an operand's line to the stack where its result lies in its place; whether that needs no passes of LLVM's."""
        source, leaf = self.e.bindings.get(self.operands[o], {}).get(()), self.leaves[o]
        result = self.k.outputs.get(leaf)
        if result is None or not isinstance(source, IrArray) or source.pointer != result.pointer:
            return True
        t = source.shape.element_type
        line = self.saved[o] = self.f.alloca("i8", self.plan.n * t.byte_size)
        return simd.along(self.e, self.plan.n, [t], lambda v: store(self.f, t, line, v, self.element(o, v)), hard=False)


def pad(f: Function, records: str, n: int) -> None:
    """Fill the last vector of n records, before they are written, with records that stand behind all others."""
    lanes = f.target.vector_bits // 64
    f.do(f"store <{lanes} x i64> splat (i64 -1), ptr {address(f, 'i64', records, (n - 1) // lanes * lanes)}, align 8")


def rank(f: Function, records: str, n: int, own: str) -> str:
    """How many of n records (padded) are below one."""
    lanes = f.target.vector_bits // 64
    kind = f"<{lanes} x i64>"
    mine = simd.splat(f, "i64", lanes, own)
    with f.carried(-(-n // lanes), [(kind, "zeroinitializer")]) as loop:
        others = f.let(f"load {kind}, ptr {address(f, 'i64', records, f.mul(loop.index, lanes))}, align 8")
        one = f.let(f"zext <{lanes} x i1> {f.let(f'icmp ult {kind} {others}, {mine}')} to {kind}")
        loop.next = [f.let(f"add {kind} {loop.values[0]}, {one}")]
    return f.call("i64", f"llvm.vector.reduce.add.v{lanes}i64", (kind, loop.values[0]))


class _Long(_Line):
    """By digits."""

    def emit(self) -> None:
        e, plan = self.e, self.plan
        sorter = Digits(e, plan, self.k.own_scratch())

        def record(v: Ix) -> None:
            key, values = self.key(v)
            sorter.set(v, key, self._bits(values[0]) if plan.value else v)

        ready = simd.along(e, plan.n, self.types, record, hard=True)
        records, places = sorter.sort()
        if plan.value:
            ready &= simd.along(e, plan.n, self.types, lambda v: self._result(v, records), hard=True)
        else:
            with e.loop(plan.n) as v:
                self.move(place_of(self.f, v, records, places), v)
        self.f.ready = ready

    def _bits(self, value: Value) -> str:
        """The memory form of the only operand's element as an i64."""
        f, t = self.f, array_of(self.operands[0]).element_type
        raw, kind = to_memory(f, t, real(value)), memory(t)
        if not kind.startswith("i"):
            kind, raw = f"i{t.bits}", f.let(f"bitcast {kind} {raw} to i{t.bits}")
        return f.let(f"zext {kind} {raw} to i64")

    def _result(self, v: Ix, records: str) -> None:
        """The element in a record's low half."""
        f = self.f
        t = array_of(self.operands[0]).element_type
        low = f.let(f"trunc i64 {real(load(f, T.U64, records, v))} to i{max(t.bits, 8)}")
        if not memory(t).startswith("i"):
            low = f.let(f"bitcast i{t.bits} {low} to {memory(t)}")
        self.k.outputs[self.leaves[0]].store(f, self.place(0, v), from_memory(f, t, low))


def place_of(f: Function, v: Ix, records: str, places: str) -> str:
    """Where the record v came from."""
    if places:
        return f.let(f"zext i32 {load_at(f, 'i32', places, v)} to i64")
    return f.let(f"and i64 {load_at(f, 'i64', records, v)}, {2**32 - 1}")


class Digits:
    """Records in scratch, and how they are brought into order. Keys of up to 32 bits stand in the records' high halves, longer ones have their places beside them."""

    def __init__(self, e: Elemental, plan: Plan, scratch: str) -> None:
        self.e, self.f, self.plan = e, e.f, plan
        self.wide = plan.bits > 32
        self.records = [self._bytes(scratch, h * plan.record_bytes) for h in (0, 1)]
        beside = 2 * plan.record_bytes
        self.places = [self._bytes(scratch, beside + h * plan.place_bytes) for h in (0, 1)] if self.wide else []
        self.counts = self._bytes(scratch, beside + 2 * plan.place_bytes)

    def _bytes(self, pointer: str, offset: int) -> str:
        return address(self.f, "i8", pointer, offset)

    def set(self, v: Ix, key: str, low: Ix) -> None:
        """Make record v of a key (i64) and what it carries: its place, or 32 bits."""
        f = self.f
        if self.wide:
            store(f, T.U32, self.places[0], v, f.let(f"trunc i64 {low} to i32"))
        else:
            key = f.let(f"or i64 {f.let(f'shl i64 {key}, 32')}, {low}")
        store(f, T.U64, self.records[0], v, key)

    def sort(self) -> tuple[str, str]:
        """Sort the records; gives where they and their places lie then ("": in the records)."""
        f, plan = self.f, self.plan
        order = Order(plan.rounds, plan.digit, self.wide)
        out = f.alloca("ptr", 2)
        places = self.places or ["null", "null"]
        order.call(f, (*self.records, *places, self.counts), plan.n, out)
        records = f.let(f"load ptr, ptr {out}")
        return records, f.let(f"load ptr, ptr {address(f, 'ptr', out, 1)}") if self.wide else ""


@dataclass(frozen=True)
class Order:
    """The routine that brings records into order; it depends on the form of the keys only, so that a process has it once (see matmul.shared).

    `void name(records, room, places, room, counts, n, out)`: at `out` it writes where records and places lie then. Keys of up to 32 bits stand in the records' high halves,
    `wide` ones have their places beside them.
    """

    rounds: int
    digit: int
    wide: bool

    def call(self, f: Function, pointers: Sequence[str], n: Ix, out: str) -> None:
        """Sort n records, of which there is one at least."""
        name = f"digits.{self.rounds}x{self.digit}{'.wide' if self.wide else ''}"
        routine = shared.routine(f.module, self, name, self._emit, _ORDER)
        f.do(f"call void @{routine}({', '.join(f'ptr {p}' for p in pointers)}, i64 {n}, ptr {out})")

    def emit(self, f: Function, pointers: Sequence[str], counts: str, n: str) -> list[str]:
        """The same within another routine; gives where records and places lie, and where there is room."""
        self._count(f, pointers[0], counts, n)
        with f.carried(self.rounds, [("ptr", p) for p in pointers]) as loop:
            loop.next = self._round(f, loop.index, loop.values, counts, n)
        return loop.values

    def _emit(self, f: Function) -> None:
        found = self.emit(f, ["%r0", "%r1", *(["%q0", "%q1"] if self.wide else [])], "%counts", "%n")
        f.do(f"store ptr {found[0]}, ptr %out")
        if self.wide:
            f.do(f"store ptr {found[2]}, ptr {address(f, 'ptr', '%out', 1)}")

    def _shift(self, f: Function, round_: Ix) -> Ix:
        return f.add(f.mul(round_, self.digit), 0 if self.wide else 32)

    def _digit(self, f: Function, record: str, shift: Ix) -> str:
        low = f.let(f"lshr i64 {record}, {shift}")
        return f.let(f"and i64 {low}, {2**self.digit - 1}")

    def _count(self, f: Function, records: str, counts: str, n: str) -> None:
        """How often each digit comes in each round."""
        f.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
        size = self.rounds * 4 << self.digit
        f.do(f"call void @llvm.memset.p0.i64(ptr align 64 {counts}, i8 0, i64 {size}, i1 false)")
        with f.loop(n) as v:
            record = load_at(f, "i64", records, v)
            for r in range(self.rounds):
                spot = address(f, "i32", counts, f.add(self._digit(f, record, self._shift(f, r)), r << self.digit))
                more = f.let(f"add i32 {f.let(f'load i32, ptr {spot}')}, 1")
                f.do(f"store i32 {more}, ptr {spot}")

    def _round(self, f: Function, round_: Ix, pointers: list[str], counts: str, n: str) -> list[str]:
        """Bring the records into the order of one digit; gives where they lie then, and where there is room."""
        shift = self._shift(f, round_)
        own = address(f, "i32", counts, f.mul(round_, 2**self.digit))
        first = self._digit(f, load_at(f, "i64", pointers[0], 0), shift)
        all_of_them = f.let(f"trunc i64 {n} to i32")
        same = f.let(f"icmp eq i32 {load_at(f, 'i32', own, first)}, {all_of_them}")
        with f.when(f.let(f"xor i1 {same}, true")), f.aside():
            with f.carried(2**self.digit, [("i32", "0")]) as loop:
                count = load_at(f, "i32", own, loop.index)
                store_at(f, "i32", own, loop.index, loop.values[0])
                loop.next = [f.let(f"add i32 {loop.values[0]}, {count}")]
            with f.loop(n) as v:
                record = load_at(f, "i64", pointers[0], v)
                spot = address(f, "i32", own, self._digit(f, record, shift))
                goal = f.let(f"load i32, ptr {spot}")
                f.do(f"store i32 {f.let(f'add i32 {goal}, 1')}, ptr {spot}")
                target = f.let(f"zext i32 {goal} to i64")
                store_at(f, "i64", pointers[1], target, record)
                if self.wide:
                    store_at(f, "i32", pointers[3], target, load_at(f, "i32", pointers[2], v))
        out = []
        for a, b in zip(pointers[::2], pointers[1::2], strict=True):
            out += [f.let(f"select i1 {same}, ptr {x}, ptr {y}") for x, y in ((a, b), (b, a))]
        return out


_ORDER = ("ptr %r0", "ptr %r1", "ptr %q0", "ptr %q1", "ptr %counts", "i64 %n", "ptr %out")


# -- memory -------------------------------------------------------------------------------------------------------


def address(f: Function, kind: str, pointer: str, offset: Ix) -> str:
    """The address of an element."""
    return pointer if offset == 0 else f.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}")


def load_at(f: Function, kind: str, pointer: str, offset: Ix) -> str:
    """An element of the scratch."""
    return f.let(f"load {kind}, ptr {address(f, kind, pointer, offset)}")


def store_at(f: Function, kind: str, pointer: str, offset: Ix, value: str) -> None:
    """Set an element of the scratch."""
    f.do(f"store {kind} {value}, ptr {address(f, kind, pointer, offset)}")

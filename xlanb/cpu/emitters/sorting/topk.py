"""The k largest elements of each line, in order, and their positions.

For short lines and few results: repeatedly find the least record (a key and its position) after the
previous one. Otherwise by selection in one pass: the first elements fill a buffer, which is sorted
and truncated to k. Later elements enter only if they precede the last of these; they are found a
vector at a time. A full buffer is sorted and truncated again. Lines with long keys are sorted as a
whole. Of equal elements, the first comes first.

The routines do not depend on shapes: a process compiles each once (see routines.py).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlanb.codegen import costs, polling
from xlanb.codegen.elemental import array_of
from xlanb.codegen.elements import array, memory
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import IrArray, flatten, strides, unflatten
from xlanb.codegen.memory import Pointer
from xlanb.codegen.nest import vectors as each_vector
from xlanb.codegen.parallel import parallel
from xlanb.codegen.plan import time_text
from xlanb.codegen.routines import shared
from xlanb.codegen.types import I8, I32, I64, PTR, Type, integer
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.kernel import SCRATCH_EACH, Kernel, emitter
from xlanb.cpu.emitters.sorting.digits import Digits, Order, RadixPlan, place_of, rank
from xlanb.cpu.emitters.sorting.keys import unsigned_bits
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType
from xlanb.shape.shape import ArrayShape

T = PrimitiveType


def _sizes(i: HloInstruction) -> tuple[int, int]:
    """The number of elements of a line, and the number requested."""
    return array_of(i.operands[0]).dimensions[-1], array_of(i, (0,)).dimensions[-1]


def _bits(i: HloInstruction) -> int:
    return max(array_of(i.operands[0]).element_type.bits, 8)


def _buffer(i: HloInstruction) -> RadixPlan:
    """The buffer of a selection; the whole line if it is short or its keys are long."""
    (n, k), c = _sizes(i), costs.COMMON
    room = n if _bits(i) > 32 else c.counted_elements if k <= c.counted_elements // 2 else max(2 * k, k + 256)
    return RadixPlan((), min(room, n), _bits(i), value=False)


def _is_few(i: HloInstruction) -> bool:
    """Whether repeatedly finding the least is cheaper than selecting and sorting."""
    n, count = _sizes(i)
    return _bits(i) <= 32 and n <= costs.COMMON.recorded_elements and _few_nanoseconds(n, count) < 600 + n * 0.4


def _few_nanoseconds(n: int, count: int) -> float:
    return count * (n * 0.04 + 6) + n * 0.15


def _selecting_nanoseconds(plan: RadixPlan, n: int) -> float:
    c = costs.COMMON
    return n * (c.selected_element_ns if plan.bits <= 32 else c.selected_wide_ns) + plan.n * c.kept_element_ns


def _record_bytes(n: int) -> int:
    return RadixPlan((), n, 32, value=False).record_bytes


def _scratch_bytes(i: HloInstruction) -> int:
    n, count = _sizes(i)
    if _is_few(i):
        return _record_bytes(n) + _record_bytes(count)
    plan = _buffer(i)
    return 2 * plan.record_bytes + plan.scratch_bytes + _record_bytes(n) // 2 + 64


SCRATCH_EACH[Op.TOPK] = _scratch_bytes


@emitter(Op.TOPK)
def _topk(k: Kernel) -> bool:
    source = k.memory(k.root.operands[0])
    (n, count), plan, few = _sizes(k.root), _buffer(k.root), _is_few(k.root)
    ways = {
        f"the minimum of a line, {count} times": _few_nanoseconds(n, count),
        f"a buffer of {plan.n}, sorted at the end": _selecting_nanoseconds(plan, n),
    }
    taken, other = ways if few else reversed(ways)
    cost = ways[taken]
    k.f.decided("top_k", taken, f"{time_text(cost)} per line", [(other, time_text(ways[other]))])
    shape = source.shape
    with parallel(k.f, shape.element_count // n, nanoseconds=cost) as line:
        at = unflatten(k.f, line, ArrayShape(shape.element_type, (*shape.dimensions[:-1], 1), layout=shape.layout))
        made = _Line(k, plan, source, at)
        if few:
            made.few()
        elif plan.n == n:
            made.whole()
        else:
            made.selected()
    k.f.ready = k.f.calls_only = True
    return True


class _Line:
    """A line of an array, processed only by routines."""

    def __init__(self, k: Kernel, plan: RadixPlan, source: IrArray, at: Sequence[Ix]) -> None:
        self.f, self.plan = k.f, plan
        self.n, self.count = _sizes(k.root)
        self.type, self.down = source.shape.element_type, k.root.get("largest") is not False
        arrays = source, k.outputs[0,], k.outputs[1,]
        self.begins = [array(x.shape.element_type, x.pointer).address(flatten(k.f, at, x.shape)) for x in arrays]
        self.steps = [strides(x.shape)[-1] for x in arrays]
        self.place_type = memory(arrays[2].shape.element_type)
        self.scratch = Pointer(k.own_scratch(), I8)

    def _keys(self, form: str, target: Value, places: Value) -> None:
        """Write the keys of the line; see the routine."""
        fixed = self.type, self.down, form, self.steps[0] == 1
        _write_keys(self.f, *fixed, self.begins[0], self.steps[0], target, places, self.n)

    def _take(self, records: Value, places: Value | None = None) -> None:
        """Write the first records to the results."""
        given = places or self.f.zero(PTR)
        fixed = integer(8 * self.type.byte_size), self.place_type, places is not None
        (a, values, positions), (a_step, value_step, position_step) = self.begins, self.steps
        _write_results(
            self.f, *fixed, records, given, a, a_step, values, value_step, positions, position_step, self.count
        )

    def few(self) -> None:
        """Write records of all elements and find the least ones, one after the other."""
        records, found = (self.scratch.address(at) for at in (0, _record_bytes(self.n)))
        self._keys("records", records, self.f.zero(PTR))
        _first(self.f, records, found, self.n, self.count)
        self._take(found)

    def whole(self) -> None:
        """Sort the line."""
        sorter = Digits(self.f, self.plan, self.scratch.base)
        places = sorter.places[0] if sorter.wide else self.f.zero(PTR)
        self._keys("beside" if sorter.wide else "records", sorter.records[0], places)
        records, beside = sorter.sort()
        self._take(records.base, beside.base if beside is not None else None)

    def selected(self) -> None:
        """Write the keys of the line; a routine selects the first."""
        f, plan = self.f, self.plan
        records, room, counts = (self.scratch.address(k * plan.record_bytes) for k in (0, 1, 2))
        keys = self.scratch.address(2 * plan.record_bytes + plan.scratch_bytes)
        self._keys("keys", keys, f.zero(PTR))
        order = None if plan.is_short else Order(plan.rounds, plan.digit, wide=False)
        _select(f, order, keys, records, room, counts, self.n, plan.n, self.count)
        self._take(records)


@shared("topk.keys")
def _write_keys(
    f: Function, t: PrimitiveType, down: bool, form: str, is_row: bool, a: Value, step: Ix,
    target: Value, places: Value, n: Ix,
) -> None:  # fmt: skip
    """Write the keys of n elements with a given stride, followed by a vector of maximal keys.

    `form`: "keys" of 32 bits; "records" of a key and a position; "beside": keys of 64 bits, and
    positions in a second array.
    """
    element = I32 if form == "keys" else I64
    made = Pointer(target, element)

    def write(v: Ix) -> None:
        raw = Pointer(a, integer(8 * t.byte_size))[v if is_row else f.mul(v, step)]
        key = unsigned_bits(t, raw.trunc(integer(8 if t is T.PRED else t.bits)), down=down)
        if form == "records":
            _record(made, v, key, v)
        else:
            made[v] = key.zext(element)
        if form == "beside":
            Pointer(places, I32)[v] = f.value(v).trunc(I32)

    if is_row and f.target.explicit_vectors:
        each_vector(f, 0, n, f.target.vector_bits // element.bits, write)
    else:
        with f.loop(n, most=polling.MANY) as v:
            write(v)
    made.store(n, f.const(element.times(f.target.vector_bits // element.bits), -1))


@shared("topk.results")
def _write_results(
    f: Function, unit: Type, counted: Type, beside: bool,
    records: Value, places: Value, a: Value, a_step: Ix, values: Value, value_step: Ix,
    positions: Value, position_step: Ix, count: Ix,
) -> None:  # fmt: skip
    """Write the elements and positions of `count` records.

    Strides of the operand's elements, the values and the positions are integers.
    """
    with f.loop(count) as v:
        place = place_of(v, Pointer(records, I64), Pointer(places, I32) if beside else None)
        Pointer(values, unit)[f.mul(v, value_step)] = Pointer(a, unit)[f.mul(place, a_step)]
        Pointer(positions, counted)[f.mul(v, position_step)] = place.trunc(counted)


def _record(records: Pointer, at: Ix, key: Value, place: Ix) -> None:
    """Write a record of a key and a position."""
    records[at] = (key.zext(I64) << 32) | place


@shared("topk.first")
def _first(f: Function, records: Value, found: Value, n: Ix, count: Ix) -> None:
    """Write the first `count` of n records in order, each the least after the previous one.

    A vector of maximal records follows the n.
    """
    lanes, given, made = f.target.vector_bits // 64, Pointer(records, I64), Pointer(found, I64)
    rounds = f.value(f.add(n, lanes - 1)).udiv(lanes)
    with f.carried(count, [f.zero(I64)]) as loop:
        with f.carried(rounds, [f.const(I64.times(lanes), -1)]) as inner:
            here = given.load(f.mul(inner.index, lanes), lanes)
            left = here.uge(f.splat(loop.values[0], lanes)).select(here, -1)
            inner.next = [inner.values[0].umin(left)]
        best = f.reduce("umin", inner.values[0])
        made[loop.index] = best
        loop.next = [best + 1]


@shared("topk.select")
def _select(
    f: Function,
    order: Order | None,
    keys: Value,
    records: Value,
    room: Value,
    counts: Value,
    n: Ix,
    size: Ix,
    count: Ix,
) -> None:
    """Write the first `count` of n keys (u32, padded with maximal keys) as sorted records.

    There is room for `size` records, more than `count` and fewer than n. `order` is how a full
    buffer is sorted (None: by counting).
    """
    arrays = Pointer(keys, I32), Pointer(records, I64), Pointer(room, I64)
    held = f.const(I64, costs.COMMON.counted_elements) if order is None else f.value(size)
    _Buffer(f, order, *arrays, counts, held, f.value(count)).emit(f.value(n))


@dataclass(frozen=True)
class _Buffer:
    """The buffer of a selection whose routine is being emitted."""

    f: Function
    order: Order | None
    keys: Pointer
    records: Pointer
    room: Pointer
    counts: Value
    size: Value
    count: Value

    def emit(self, n: Value) -> None:
        """Fill and truncate the buffer, insert all elements before its last, truncate it again."""
        f, size = self.f, self.size
        lanes = f.target.vector_bits // 32
        with f.loop(size) as v:
            _record(self.records, v, self.keys[v], v)
        self._cut()
        with f.carried((n - size + (lanes - 1)).udiv(lanes), [self.count, self._limit()]) as loop:
            begin = f.add(f.mul(loop.index, lanes), size)
            count, limit = loop.values
            inside = self.keys.load(begin, lanes).ult(f.splat(limit, lanes))
            loop.next = f.choose(
                f.any_of(inside), lambda: self._entered(begin, lanes, count, limit), lambda: [count, limit]
            )
        count = loop.values[0]
        with f.loop(size) as v:
            self.records[v] = f.value(v).ult(count).select(self.records[v], -1)
        self._cut()

    def _cut(self) -> None:
        """Sort the buffer and move its first records to the front."""
        f = self.f
        if self.order is not None:
            found = self.order.emit(f, [self.records.base, self.room.base], self.counts, self.size)[0]
            f.move(self.records.base, found, self.count << 3)
            return
        with f.loop(self.size) as v:
            own = self.records[v]
            self.room[rank(f, self.records, costs.COMMON.counted_elements, own)] = own
        f.move(self.records.base, self.room.base, self.count << 3)

    def _limit(self) -> Value:
        """The key of the last of the first `count` records, as an i32."""
        return self.records[self.count - 1].lshr(32).trunc(I32)

    def _entered(self, begin: Ix, lanes: int, count: Value, limit: Value) -> Sequence[Value]:
        """The buffer's count and limit after a vector of elements, some of which may enter."""
        with self.f.carried(lanes, [count, limit]) as loop:
            loop.next = self._enter(self.f.add(begin, loop.index), *loop.values)
        return loop.values

    def _enter(self, v: Ix, count: Value, limit: Value) -> Sequence[Value]:
        """Insert element v if it precedes the limit; truncate a full buffer."""
        key = self.keys[v]
        _record(self.records, count, key, v)
        more = count + key.ult(limit).zext(I64)

        def cut() -> Sequence[Value]:
            self._cut()
            return [self.count, self._limit()]

        return self.f.choose(more.equals(self.size), cut, lambda: [more, limit])

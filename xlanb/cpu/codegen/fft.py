"""Fourier transforms of short lines: Stockham's algorithm on as many lines at once as a vector has elements, each in a lane of its own.

    for each stage of radix r, with lines of n = r m elements that are s apart:
        y[q + s (r p + k)] = w^(p k) DFT_r(x[q + s (p + j m)] over j)[k]        p < m, q < s, w = e^(-2 pi i / n)

(Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992, section 1.7.) Real and imaginary parts lie apart in scratch. The first stage reads the operand and the
last one writes the result, so nothing is copied. A transform over several dimensions goes through them one after the other. Lengths with prime factors above 13, long
lines and layouts that are not row-major are left to the runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xlanb.cpu.codegen.elemental import array_of
from xlanb.cpu.codegen.indexing import IrArray
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.kernel import ROUNDS, SCRATCH, SCRATCH_EACH, Kernel, special
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.types import float_text, memory, part
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_RADICES = (4, 2, 3, 5, 7, 11, 13)
_LONGEST = 4096
"""Elements of the longest line: its scratch is still in the second cache."""
_FAR = 2048
"""Bytes of a row from which on rows meet in the same places of the first cache."""
_LANES = 16
"""Lanes that scratch is made for; narrower machines use less of it."""

Pair = tuple[str, str]
_Turns = np.ndarray[tuple[int, ...], np.dtype[np.complex128]]
Read = Callable[[Ix], Pair]
Write = Callable[[Ix, Pair], None]


def _factors(n: int) -> list[int] | None:
    """Radices whose product is n; None where it has another factor."""
    found = []
    for r in _RADICES:
        while n % r == 0:
            found.append(r)
            n //= r
    return (found or [1]) if n == 1 else None


@dataclass(frozen=True)
class _Pass:
    """The transform of all lines along one dimension: `outer` times `inner` lines of n elements, of which there are `read` and `written` in memory."""

    n: int
    outer: int
    inner: int
    read: int
    written: int

    @property
    def cost(self) -> float:
        """Nanoseconds for a vector of lines."""
        return self.n * (10.0 + 3.0 * math.log2(self.n + 1))

    @property
    def rounds(self) -> tuple[int, float]:
        """Lines, and nanoseconds for each where the last vector may be half empty: at least what `_Lines.emit` finds, whatever the width."""
        return self.outer * self.inner, 2 * self.cost / _LANES


def _kind(i: HloInstruction) -> str:
    return str(i.attributes["fft_type"]).removeprefix("FFT_TYPE_")


def _passes(i: HloInstruction) -> list[_Pass]:
    """The passes, in order: the dimension that is half as long as complex numbers is the first or the last."""
    source, result, lengths = array_of(i.operands[0]), array_of(i), i.ints("fft_length")
    kind, rank = _kind(i), source.rank
    axes = list(range(rank - len(lengths), rank))
    axes = axes if kind == "IRFFT" else axes[::-1]
    dims = list(source.dimensions)
    made = []
    for axis in axes:
        before, after = dims[axis], result.dimensions[axis]
        outer, inner = math.prod(dims[:axis]), math.prod(dims[axis + 1 :])
        made.append(_Pass(lengths[axis - rank], outer, inner, before, after))
        dims[axis] = after
    return made


def has_kernel(i: HloInstruction) -> bool:
    """Whether a transform is one that is written here."""
    source, result = array_of(i.operands[0]), array_of(i)
    flat = all(list(s.minor_to_major) == list(range(s.rank))[::-1] for s in (source, result))
    if not flat or not result.element_count or not source.element_count or _kind(i) not in _KINDS:
        return False
    return all(p.n <= _LONGEST and _factors(p.n) is not None for p in _passes(i))


_KINDS = ("FFT", "IFFT", "RFFT", "IRFFT")


def _line_bytes(i: HloInstruction) -> int:
    """Bytes of the two buffers of a thread."""
    if not has_kernel(i):
        return 0
    return 4 * max(p.n for p in _passes(i)) * _LANES * part(array_of(i).element_type).byte_size


def _between(i: HloInstruction) -> int:
    """Bytes of the complex numbers between the passes of an inverse real transform."""
    if not has_kernel(i) or _kind(i) != "IRFFT" or len(_passes(i)) == 1:
        return 0
    source = array_of(i.operands[0])
    return source.element_count * source.element_type.byte_size


def _rounds(i: HloInstruction) -> tuple[int, float]:
    if not has_kernel(i):
        return 1, 0.0
    return max((p.rounds for p in _passes(i)), key=lambda r: (r[0] > 1, r[0] * r[1]))


SCRATCH[Op.FFT] = _between
SCRATCH_EACH[Op.FFT] = _line_bytes
ROUNDS[Op.FFT] = _rounds


@special(Op.FFT, memory_only=True)
def _fft(k: Kernel) -> bool:
    i, e = k.root, k.e
    operand = i.operands[0]
    bound = e.constants(operand) if operand.opcode is Op.CONSTANT else e.bindings[operand][()]
    if not isinstance(bound, IrArray):
        return False
    passes, kind = _passes(i), _kind(i)
    source, target = bound.pointer, k.output.pointer
    for number, p in enumerate(passes):
        is_last = number == len(passes) - 1
        is_real = (kind == "RFFT" and number == 0, kind == "IRFFT" and is_last)
        to = target if is_last or kind != "IRFFT" else k.scratch
        _Lines(k, p, source, to, inverse=kind in ("IFFT", "IRFFT"), is_real=is_real).emit()
        source = to
    k.f.ready = True
    return True


class _Lines:
    """Writes one pass: a vector of lines at a time."""

    def __init__(
        self, k: Kernel, p: _Pass, source: str, target: str, *, inverse: bool, is_real: tuple[bool, bool]
    ) -> None:
        self.k, self.f, self.p = k, k.f, p
        self.source, self.target, self.inverse, self.is_real = source, target, inverse, is_real
        self.element = memory(array_of(k.root).element_type)
        self.bytes = 4 if self.element == "float" else 8
        self.width = min(_LANES, max(2, k.f.target.vector_bits // (8 * self.bytes)))
        self.vector = f"<{self.width} x {self.element}>"
        # Lanes side by side in memory, where there are enough of them.
        self.beside = p.inner % self.width == 0 or p.inner >= 2 * self.width

    def emit(self) -> None:
        p, f = self.p, self.f
        blocks = -(-p.inner // self.width)
        count = p.outer * blocks if self.beside else -(-p.outer * p.inner // self.width)
        with parallel(self.k.e, count, nanoseconds=p.cost * self.width / _LANES) as group:
            first = f.mul(f.rem(group, blocks) if self.beside else group, self.width)
            end = p.inner if self.beside else p.outer * p.inner
            lanes = f.plain(f"add <{self.width} x i64> {self._splat('i64', first)}, {self._numbers()}")
            self.mask = f.plain(f"icmp ult <{self.width} x i64> {lanes}, {self._splat('i64', end)}")
            self.lanes, self.first = lanes, first
            self.outer = f.div(group, blocks) if self.beside else 0
            self._stages()

    def _numbers(self) -> str:
        return "<" + ", ".join(f"i64 {k}" for k in range(self.width)) + ">"

    def _splat(self, type_: str, value: Ix, width: int = 0) -> str:
        width = width or self.width
        vector = f"<{width} x {type_}>"
        if isinstance(value, int) or not value.startswith("%"):
            return f"splat ({type_} {value})"
        one = self.f.plain(f"insertelement {vector} poison, {type_} {value}, i64 0")
        return self.f.plain(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer")

    # -- arithmetic -------------------------------------------------------------------------------------------------

    def op(self, name: str, a: str, b: str) -> str:
        return self.f.plain(f"{name} {self.vector} {a}, {b}")

    def number(self, value: float) -> str:
        return f"splat ({self.element} {float_text(value, self.element)})"

    def fma(self, a: str, b: str, c: str) -> str:
        name = f"llvm.fmuladd.v{self.width}{'f32' if self.bytes == 4 else 'f64'}"
        return self.f.plain_call(self.vector, name, [(self.vector, v) for v in (a, b, c)])

    def neg(self, a: str) -> str:
        return self.f.plain(f"fneg {self.vector} {a}")

    def add(self, a: Pair, b: Pair) -> Pair:
        return self.op("fadd", a[0], b[0]), self.op("fadd", a[1], b[1])

    def sub(self, a: Pair, b: Pair) -> Pair:
        return self.op("fsub", a[0], b[0]), self.op("fsub", a[1], b[1])

    def times(self, a: Pair, w: Pair) -> Pair:
        re = self.fma(a[0], w[0], self.neg(self.op("fmul", a[1], w[1])))
        return re, self.fma(a[0], w[1], self.op("fmul", a[1], w[0]))

    def _transform(self, x: list[Pair]) -> list[Pair]:
        """DFT of a radix; the inverse one is that with its results but the first backwards."""
        made = self._forward(x)
        return [made[0], *made[:0:-1]] if self.inverse else made

    def _forward(self, x: list[Pair]) -> list[Pair]:
        if len(x) == 1:
            return x
        if len(x) == 2:
            return [self.add(*x), self.sub(*x)]
        if len(x) == 4:
            even, odd = self._forward([x[0], x[2]]), self._forward([x[1], x[3]])
            turned = odd[1][1], self.neg(odd[1][0])
            return [
                self.add(even[0], odd[0]),
                self.add(even[1], turned),
                self.sub(even[0], odd[0]),
                self.sub(even[1], turned),
            ]
        return self._odd(x)

    def _odd(self, x: list[Pair]) -> list[Pair]:
        """An odd radix by sums and differences of what lies opposite."""
        r = len(x)
        half = range(1, r // 2 + 1)
        sums = {j: self.add(x[j], x[r - j]) for j in half}
        differences = {j: self.sub(x[j], x[r - j]) for j in half}
        first = x[0]
        for j in half:
            first = self.add(first, sums[j])
        made = [first] + [first] * (r - 1)
        for k in half:
            even, turned = x[0], ("", "")
            for j in half:
                angle = 2 * math.pi * (j * k % r) / r
                c, sine = self.number(math.cos(angle)), self.number(math.sin(angle))
                even = self.fma(sums[j][0], c, even[0]), self.fma(sums[j][1], c, even[1])
                im, re = differences[j]
                if j == 1:
                    turned = self.op("fmul", re, sine), self.op("fmul", im, sine)
                else:
                    turned = self.fma(re, sine, turned[0]), self.fma(im, sine, turned[1])
            made[k] = self.op("fadd", even[0], turned[0]), self.op("fsub", even[1], turned[1])
            made[r - k] = self.op("fsub", even[0], turned[0]), self.op("fadd", even[1], turned[1])
        return made

    # -- stages -----------------------------------------------------------------------------------------------------

    def _stages(self) -> None:
        radices = _factors(self.p.n) or [1]
        scratch = self.k.own_scratch() if len(radices) > 1 else ""
        size = 2 * self.p.n * self.width * self.bytes
        buffers = [scratch, self.f.plain(f"getelementptr inbounds i8, ptr {scratch}, i64 {size}")] if scratch else []
        n, step, number, last = self.p.n, 1, 0, len(radices) - 1
        turned = self._turned(self.p.read, 1 if self.is_real[0] else 2) if buffers else 0
        if turned:
            self._rows_in(turned, buffers[1])
        gives = self._turned(self.p.written, 1 if self.is_real[1] else 2) if buffers else 0
        while number <= last:
            r = radices[number]
            middle = (
                [k for k in range(number, last) if radices[number : k + 1].count(r) == k + 1 - number] if number else []
            )
            if len(middle) > 1:
                buffers = self._repeated_stage(n, step, r, len(middle), buffers)
            else:
                read = self._from(buffers[0]) if number else self._mirrored(buffers[1]) if turned else self._read
                write = self._into(buffers[number > 0]) if number < last or gives else self._write
                table = self._table([_turns(n, r, inverse=self.inverse)]) if n > r else ""
                self._stage(n // r, step, r, table, read, write)
                buffers = buffers[::-1] if number else buffers
            done = max(len(middle), 1)
            n, step, number = n // r**done, step * r**done, number + done
        if gives:
            self._rows_out(gives, buffers[0])

    # -- rows of memory, turned into lanes by blocks: a gather of lines that are a power of two apart would throw one out of the cache for the other -----

    def _turned(self, length: int, parts: int) -> int:
        """Elements of a row that are read or written together; 0 where lanes are gathered."""
        size = parts * self.bytes
        one = 64 // size
        usable = self.p.inner == 1 and size in (4, 8) and self.width == _LANES and length * size >= _FAR
        return one if usable else 0

    def _row(self, base: str, length: int, lane: int, at: Ix, parts: int) -> str:
        """The address of element `at` in the row of a lane; of a lane that is not there that in the last row."""
        f = self.f
        last = self.p.outer - 1
        line = f.plain_call("i64", "llvm.umin.i64", [("i64", str(f.add(self.first, lane))), ("i64", str(last))])
        offset = f.add(f.mul(line, length), at)
        return f.plain(f"getelementptr inbounds [{parts} x {self.element}], ptr {base}, i64 {offset}")

    def _transposed(self, rows: list[str], element: str) -> list[str]:
        """Vectors of as many elements as there are of them: element k of vector j becomes element j of vector k."""
        size, vector = len(rows), f"<{len(rows)} x {element}>"
        step = 1
        while step < size:
            made = list(rows)
            for j in range(size):
                if not j & step:
                    a, b = rows[j], rows[j + step]
                    low = [k if not k & step else size + k - step for k in range(size)]
                    high = [k + step if not k & step else size + k for k in range(size)]
                    for at, order in ((j, low), (j + step, high)):
                        numbers = ", ".join(f"i32 {k}" for k in order)
                        made[at] = self.f.plain(f"shufflevector {vector} {a}, {vector} {b}, <{size} x i32> <{numbers}>")
            rows, step = made, 2 * step
        return rows

    def _rows_in(self, size: int, buffer: str) -> None:
        """Copy the operand's rows into a buffer, element after element with the lanes side by side."""
        f, p, parts = self.f, self.p, 1 if self.is_real[0] else 2
        element = "i32" if parts == 1 else "i64"
        with self.k.e.loop(p.read // size) as block:
            at = f.mul(block, size)
            rows = [
                f.plain(f"load <{size} x {element}>, ptr {self._row(self.source, p.read, lane, at, parts)}, align 4")
                for lane in range(self.width)
            ]
            for k, value in enumerate(self._columns(rows, size, element)):
                self._into(buffer)(f.add(at, k), value)
        for at in range(p.read - p.read % size, p.read):
            loaded = self._load(self.source, p.read, at, parts)
            self._into(buffer)(at, (loaded[0], loaded[1] if parts == 2 else "zeroinitializer"))

    def _columns(self, rows: list[str], size: int, element: str) -> list[Pair]:
        """The numbers of all lanes, element after element, from rows of `size` elements."""
        f, w = self.f, self.width
        blocks = [self._transposed(rows[k : k + size], element) for k in range(0, w, size)]
        wide = f"<{16} x float>"
        cast = [[f.plain(f"bitcast <{size} x {element}> {v} to {wide}") for v in block] for block in blocks]
        if element == "i32":
            return [(v, "zeroinitializer") for v in cast[0]]
        orders = (", ".join(f"i32 {2 * k + odd}" for k in range(w)) for odd in (0, 1))
        re, im = (
            [f.plain(f"shufflevector {wide} {a}, {wide} {b}, <{w} x i32> <{o}>") for a, b in zip(*cast, strict=True)]
            for o in orders
        )
        return list(zip(re, im, strict=True))

    def _mirrored(self, buffer: str) -> Read:
        """Reads from a buffer; of half a spectrum the other half too."""
        return lambda at: self._whole(at, self._from(buffer))

    def _rows_out(self, size: int, buffer: str) -> None:
        """Copy lanes from a buffer into the result's rows."""
        f, p, w, parts = self.f, self.p, self.width, 1 if self.is_real[1] else 2
        element = "i32" if parts == 1 else "i64"
        wide, vector = "<16 x float>", f"<{size} x {element}>"
        with self.k.e.loop(p.written // size) as block:
            at = f.mul(block, size)
            columns = [self._scaled(self._from(buffer)(f.add(at, k))) for k in range(size)]
            blocks: list[list[str]] = []
            for half in range(w // size):
                order = ", ".join(f"i32 {half * 8 + k // 2 + (k % 2) * w}" for k in range(w))
                cast = [
                    re if parts == 1 else f.plain(f"shufflevector {wide} {re}, {wide} {im}, <16 x i32> <{order}>")
                    for re, im in columns
                ]
                blocks.append(self._transposed([f.plain(f"bitcast {wide} {v} to {vector}") for v in cast], element))
            name = f"llvm.masked.store.v{size}{element}.p0"
            for lane, row in enumerate(v for b in blocks for v in b):
                there = self._splat("i1", f.plain(f"extractelement <{w} x i1> {self.mask}, i64 {lane}"), size)
                place = self._row(self.target, p.written, lane, at, parts)
                self._do(name, [(vector, row), ("ptr", place), ("i32", "4"), (f"<{size} x i1>", there)])
        for at in range(p.written - p.written % size, p.written):
            value = self._scaled(self._from(buffer)(at))
            self._store(self.target, p.written, at, value[:parts])

    def _repeated_stage(self, n: int, step: int, r: int, count: int, buffers: Sequence[str]) -> list[str]:
        """Stages of the same radix in a loop; gives the buffers, that with the result first."""
        f = self.f
        table = self._table([_turns(n // r**k, r, inverse=self.inverse) for k in range(count)])
        begin = [("i64", str(n // r)), ("i64", str(step)), ("ptr", table), ("ptr", buffers[0]), ("ptr", buffers[1])]
        with self.k.e.carried(count, begin) as stages:
            m, steps, turns, source, target = stages.values
            self._stage(m, steps, r, turns, self._from(source), self._into(target))
            used = f.mul(m, 2 * (r - 1))
            rest = f.plain(f"getelementptr inbounds {self.element}, ptr {turns}, i64 {used}")
            less = f.plain(f"udiv i64 {m}, {r}")
            stages.next = [less, str(f.mul(steps, r)), rest, target, source]
        return stages.values[3:]

    def _stage(self, m: Ix, step: Ix, r: int, table: str, read: Read, write: Write) -> None:
        """One stage; without a table there is one p, whose factors are ones."""
        f = self.f
        with self.k.e.loop(m) as p:
            w = [self._turn(table, f.add(f.mul(p, r - 1), j)) for j in range(r - 1)] if table else []
            with self.k.e.loop(step) as q:
                x = [read(f.add(q, f.mul(f.add(p, f.mul(m, j)), step))) for j in range(r)]
                y = self._transform(x)
                y = [y[0], *(self.times(v, turn) for v, turn in zip(y[1:], w, strict=True))] if w else y
                for j, v in enumerate(y):
                    write(f.add(q, f.mul(f.add(f.mul(p, r), j), step)), v)

    def _table(self, stages: Sequence[_Turns]) -> str:
        turns = np.concatenate([s.ravel() for s in stages])
        values = np.stack([turns.real, turns.imag], -1).astype(np.float32 if self.bytes == 4 else np.float64)
        data = "\\" + values.tobytes().hex("\\")
        name = "@" + self.f.module.unique("turns")
        self.f.module.globals.append(f'{name} = private constant [{values.nbytes} x i8] c"{data}", align 64')
        return name

    def _turn(self, table: str, at: Ix) -> Pair:
        re, im = (
            self.f.plain(
                f"load {self.element}, ptr {self.f.plain(f'getelementptr inbounds {self.element}, ptr {table}, i64 {self.f.add(self.f.mul(at, 2), k)}')}"
            )
            for k in (0, 1)
        )
        return self._splat(self.element, re), self._splat(self.element, im)

    def _places(self, buffer: str, at: Ix) -> tuple[str, str]:
        first = self.f.plain(f"getelementptr inbounds [2 x {self.vector}], ptr {buffer}, i64 {at}")
        return first, self.f.plain(f"getelementptr inbounds {self.vector}, ptr {first}, i64 1")

    def _from(self, buffer: str) -> Read:
        def read(at: Ix) -> Pair:
            re, im = (self.f.plain(f"load {self.vector}, ptr {place}") for place in self._places(buffer, at))
            return re, im

        return read

    def _into(self, buffer: str) -> Write:
        def write(at: Ix, value: Pair) -> None:
            for place, v in zip(self._places(buffer, at), value, strict=True):
                self.f.do(f"store {self.vector} {v}, ptr {place}")

        return write

    # -- the arrays -------------------------------------------------------------------------------------------------

    def _read(self, at: Ix) -> Pair:
        """Element `at` of each line; of half a spectrum the other half too."""
        if self.is_real[0]:
            (value,) = self._load(self.source, self.p.read, at, 1)
            return value, "zeroinitializer"
        return self._whole(at, self._loaded)

    def _loaded(self, at: Ix) -> Pair:
        re, im = self._load(self.source, self.p.read, at, 2)
        return re, im

    def _whole(self, at: Ix, read: Read) -> Pair:
        """An element of the whole spectrum."""
        f, p = self.f, self.p
        if p.read == p.n:
            return read(at)
        mirrored = f.sub(p.n, at)
        is_far = f.plain(f"icmp ugt i64 {at}, {p.n // 2}")
        re, im = read(f.plain(f"select i1 {is_far}, i64 {mirrored}, i64 {at}"))
        return re, f.plain(f"select i1 {is_far}, {self.vector} {self.neg(im)}, {self.vector} {im}")

    def _scaled(self, value: Pair) -> Pair:
        """A result; of an inverse transform divided by the length."""
        if not self.inverse:
            return value
        scale = self.number(1 / self.p.n)
        return self.op("fmul", value[0], scale), self.op("fmul", value[1], scale)

    def _write(self, at: Ix, value: Pair) -> None:
        """Set element `at` of each line, where the result has it."""
        p = self.p
        value = self._scaled(value)
        parts = value[:1] if self.is_real[1] else value
        if p.written == p.n:
            self._store(self.target, p.written, at, parts)
        else:
            with self.f.when(self.f.plain(f"icmp ult i64 {at}, {p.written}")):
                self._store(self.target, p.written, at, parts)

    def _begin(self, base: str, length: int, at: Ix, parts: int) -> tuple[str, str]:
        """(the address of the first lane, the elements from there to each lane)."""
        f, inner = self.f, self.p.inner
        if self.beside:
            offset = f.add(f.add(f.mul(self.outer, length * inner), self.first), f.mul(at, inner))
            return f.plain(f"getelementptr inbounds [{parts} x {self.element}], ptr {base}, i64 {offset}"), ""
        address = f.plain(f"getelementptr inbounds [{parts} x {self.element}], ptr {base}, i64 {f.mul(at, inner)}")
        key = ("lanes", base, length, self.lanes)
        found = f.recall(key)
        if found is None:
            with f.outside(f.home(self.lanes)):
                kind = f"<{self.width} x i64>"
                line = self.lanes
                if inner > 1:
                    line = f.plain(f"udiv {kind} {self.lanes}, {self._splat('i64', inner)}")
                found = f.plain(f"mul {kind} {line}, {self._splat('i64', length * inner)}")
                if inner > 1:
                    rest = f.plain(f"urem {kind} {self.lanes}, {self._splat('i64', inner)}")
                    found = f.plain(f"add {kind} {found}, {rest}")
                f.remember(key, found)
        return address, str(found)

    def _load(self, base: str, length: int, at: Ix, parts: int) -> Sequence[str]:
        f, w = self.f, self.width
        address, lanes = self._begin(base, length, at, parts)
        if lanes:
            if parts == 2 and self.bytes == 4:
                both = self._gather("i64", address, lanes, 1)
                return self._apart(f.plain(f"bitcast <{w} x i64> {both} to <{2 * w} x float>"))
            return [self._gather(self.element, address, lanes, parts, k) for k in range(parts)]
        wide = f"<{parts * w} x {self.element}>"
        mask = self._repeated(parts)
        name = f"llvm.masked.load.v{parts * w}{'f32' if self.bytes == 4 else 'f64'}.p0"
        given = [("ptr", address), ("i32", str(self.bytes)), (f"<{parts * w} x i1>", mask), (wide, "zeroinitializer")]
        loaded = f.plain_call(wide, name, given)
        return self._apart(loaded) if parts == 2 else [loaded]

    def _store(self, base: str, length: int, at: Ix, value: Sequence[str]) -> None:
        f, w, parts = self.f, self.width, len(value)
        address, lanes = self._begin(base, length, at, parts)
        wide = f"<{parts * w} x {self.element}>"
        made = value[0]
        if parts == 2 and not (lanes and self.bytes == 8):
            order = ", ".join(f"i32 {k // 2 + (k % 2) * w}" for k in range(2 * w))
            made = f.plain(
                f"shufflevector {self.vector} {value[0]}, {self.vector} {value[1]}, <{2 * w} x i32> <{order}>"
            )
        if not lanes:
            name = f"llvm.masked.store.v{parts * w}{'f32' if self.bytes == 4 else 'f64'}.p0"
            mask = self._repeated(parts)
            self._do(name, [(wide, made), ("ptr", address), ("i32", str(self.bytes)), (f"<{parts * w} x i1>", mask)])
        elif parts == 2 and self.bytes == 4:
            self._scatter("i64", f.plain(f"bitcast {wide} {made} to <{w} x i64>"), address, lanes, 1)
        else:
            for k, v in enumerate(value):
                self._scatter(self.element, v, address, lanes, parts, k)

    def _apart(self, both: str) -> Sequence[str]:
        wide = f"<{2 * self.width} x {self.element}>"
        orders = (", ".join(f"i32 {2 * k + odd}" for k in range(self.width)) for odd in (0, 1))
        return [self.f.plain(f"shufflevector {wide} {both}, {wide} poison, <{self.width} x i32> <{o}>") for o in orders]

    def _repeated(self, parts: int) -> str:
        """The mask with each bit `parts` times."""
        if parts == 1:
            return self.mask
        bits = f"<{self.width} x i1>"
        order = ", ".join(f"i32 {k // parts}" for k in range(parts * self.width))
        return self.f.plain(f"shufflevector {bits} {self.mask}, {bits} poison, <{parts * self.width} x i32> <{order}>")

    def _pointers(self, element: str, address: str, lanes: str, parts: int, k: int) -> str:
        if k:
            address = self.f.plain(f"getelementptr inbounds {element}, ptr {address}, i64 {k}")
        step = f"[{parts} x {element}]"
        return self.f.plain(f"getelementptr {step}, ptr {address}, <{self.width} x i64> {lanes}")

    def _gather(self, element: str, address: str, lanes: str, parts: int, k: int = 0) -> str:
        w, vector = self.width, f"<{self.width} x {element}>"
        pointers = self._pointers(element, address, lanes, parts, k)
        name = f"llvm.masked.gather.v{w}{_SUFFIX[element]}.v{w}p0"
        where = [(f"<{w} x ptr>", pointers), ("i32", str(self.bytes)), (f"<{w} x i1>", self.mask)]
        return self.f.plain_call(vector, name, [*where, (vector, "zeroinitializer")])

    def _scatter(self, element: str, value: str, address: str, lanes: str, parts: int, k: int = 0) -> None:
        w = self.width
        pointers = self._pointers(element, address, lanes, parts, k)
        name = f"llvm.masked.scatter.v{w}{_SUFFIX[element]}.v{w}p0"
        where = [(f"<{w} x ptr>", pointers), ("i32", str(self.bytes)), (f"<{w} x i1>", self.mask)]
        self._do(name, [(f"<{w} x {element}>", value), *where])

    def _do(self, name: str, arguments: Sequence[tuple[str, str]]) -> None:
        self.f.module.declare("void", name, ", ".join(t for t, _ in arguments))
        self.f.do(f"call void @{name}({', '.join(f'{t} {v}' for t, v in arguments)})")


_SUFFIX = {"i64": "i64", "float": "f32", "double": "f64"}


def _turns(n: int, r: int, *, inverse: bool) -> _Turns:
    """e^(-+2 pi i p k / n) for p < n / r and 0 < k < r."""
    exponents = np.outer(np.arange(n // r), np.arange(1, r)) % n
    made: _Turns = np.exp((2j if inverse else -2j) * np.pi * exponents / n)
    return made

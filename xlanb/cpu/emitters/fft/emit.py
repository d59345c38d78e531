"""Emit the transform along one dimension as routine calls.

A call transforms a block of lines in lanes, or one line as a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from xlanb.codegen.function import Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import DOUBLE, FLOAT, I8
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.fft import copies, tables
from xlanb.cpu.emitters.fft.copies import FftLine, Scratch
from xlanb.cpu.emitters.fft.plan import FftAxis, FftMatrix
from xlanb.cpu.emitters.fft.radices import ELEMENT, call_pass
from xlanb.cpu.emitters.interleaved import interleave
from xlanb.cpu.emitters.kernel import Kernel
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import Literal

_CHUNK = 4096
"""Numbers of a spectrum that a thread computes at once; a multiple of the lane count."""
_NANOSECONDS = 0.2
"""Nanoseconds per number of a spectrum."""
SOURCE, TARGET, SPARE, CONVOLVED, MATRIX = "source", "target", "spare", "convolved", "matrix"
"""Where numbers of a line are: in memory before and after the transform, or in scratch memory.

The scratch memory holds the complex numbers of a real line, the line of a convolution, and the
matrix.
"""


class FftEmitter:
    """Emits the transform of all lines along an axis."""

    def __init__(self, k: Kernel, axis: FftAxis, source: Value, target: Value) -> None:
        self.k, self.f, self.axis, self.arrays = k, k.f, axis, (source, target)
        self.element = FLOAT if axis.part_bytes == 4 else DOUBLE
        self.scale = self.f.const(self.element, 1 / axis.n if axis.inverse else 1.0)

    def emit(self) -> None:
        """Emit the loop that threads share.

        They share blocks of lines, or lines, or the parts of each stage if lines are few and long.
        """
        axis, (count, cost) = self.axis, self.axis.rounds
        if axis.matrix is not None and axis.is_whole:
            self._as_matrix(axis.matrix, None)
            return
        with parallel(self.f, count, nanoseconds=cost) as part:
            if axis.matrix is None:
                self._in_lanes(part)
            else:
                self._as_matrix(axis.matrix, part)

    def _pointer(self, base: Value, offset: Ix = 0, parts: int = 1) -> Pointer:
        """A pointer to parts of numbers, or to complex numbers, at a byte offset."""
        return Pointer(Pointer(base, I8).address(offset), self.element, parts)

    def _table(self, literal: Literal) -> Pointer:
        """A pointer to a constant table."""
        root = self.k.root
        held = HloInstruction(f"{root.name}.table", Op.CONSTANT, literal.shape, (), {"literal": literal}, root.parent)
        return Pointer(self.k.e.constants(held).pointer, self.element)

    def _buffers(self) -> tuple[Scratch, Scratch]:
        """The two buffers of a thread's scratch memory that hold lines in lanes."""
        own = self.k.own_scratch()
        return Scratch.at(self._pointer(own)), Scratch.at(self._pointer(own, self.axis.buffer_bytes))

    def _passes(self, n: int, here: Scratch, spare: Scratch) -> tuple[Scratch, Scratch]:
        """Transform the lines in `here`; return the buffer with the result, then the other one."""
        self.f.goes_on = True  # an interrupted pass leaves garbage, but no addresses
        for radix, m, s, factors in tables.passes(n, self.axis.part_bytes):
            a, b = (Pointer(buffer.re.base, I8) for buffer in (here, spare))
            call_pass(self.f, radix, a, b, self._table(factors), m, s)
            here, spare = spare, here
        self.f.goes_on = False
        return here, spare

    def _transform(self, here: Scratch, spare: Scratch) -> tuple[Scratch, Scratch]:
        """Transform the lines in `here`, convolved or not; return as `_passes` does.

        With factors w[k] = e^(-pi i k^2 / n), result k is w[k] times the convolution of the line
        times w with conj w. Its second transform, an inverse one, is of conjugates.
        """
        f, axis, n, m = self.f, self.axis, self.axis.length, self.axis.convolved
        if not m:
            return self._passes(n, here, spare)
        size = axis.part_bytes
        before, after = (self._table(tables.chirp(n, False, last, size)) for last in (False, True))
        copies.times(f, here, before, n, False)
        f.fill_zero(here.re.address(2 * axis.width * n), (m - n) * ELEMENT)
        here, spare = self._passes(m, here, spare)
        copies.times(f, here, self._table(tables.spectrum(n, m, False, 1 / m, size)), m, True)
        here, spare = self._passes(m, here, spare)
        copies.times(f, here, after, n, True)
        return here, spare

    def _mirror(self, a: Scratch | FftLine, b: Scratch | FftLine, begin: Ix, end: Ix) -> None:
        h, inverse = self.axis.length, self.axis.inverse
        table = FftLine(replace(self._table(tables.mirror(h, inverse, self.axis.part_bytes)), parts=2))
        copies.mirror(self.f, a, table, b, h, not inverse, begin, end)

    # -- blocks of lines in lanes ------------------------------------------------------------------

    def _in_lanes(self, block: Ix) -> None:
        axis, (here, spare) = self.axis, self._buffers()
        half, odd, inverse = axis.is_half, axis.is_real and not axis.is_half, axis.inverse
        to = here.swapped if inverse else here
        if odd and not inverse:
            self.f.fill_zero(here.re.base, axis.n * ELEMENT)
            self._copy(block, here.reals, 2)
        elif half and inverse:
            self._copy(block, spare, 1)
            self._mirror(spare, to, 1, axis.length)
        else:
            self._copy(block, to, 1)
            if odd:
                copies.conjugates(self.f, to, axis.n)
        here, spare = self._transform(here, spare)
        if half and not inverse:
            self._mirror(here, spare, 1, axis.length)
            here = spare
        made = here.swapped if inverse else here
        self._copy(block, *((made.reals, 2) if odd and inverse else (made, 1)), self.scale)

    def _copy(self, block: Ix, s: Scratch, step: int, scale: Value | None = None) -> None:
        """Copy a block from memory to scratch; with a scale, from scratch to memory."""
        axis, f, is_out = self.axis, self.f, scale is not None
        first, memory, size = f.mul(block, axis.width), self._pointer(self.arrays[is_out]), axis.parts[is_out]
        if axis.inner == 1:
            rows, lines = memory.by(f.mul(first, size)), f.sub(axis.outer, first)
            interleave(f, rows, s.re, s.im, size, size, lines, step, is_out, scale)
        else:
            blocks = -(-axis.inner // axis.width)
            first = f.mul(f.rem(block, blocks), axis.width)
            begin = f.add(f.mul(f.div(block, blocks), axis.n * axis.inner), first)
            numbers, lines = replace(memory, parts=2).by(begin), f.sub(axis.inner, first)
            copies.strided(f, numbers, s, axis.n, axis.inner, lines, is_out, scale)

    # -- lines as matrices -------------------------------------------------------------------------

    def _as_matrix(self, way: FftMatrix, line: Ix | None) -> None:
        """Transform one line, or all if None, as a matrix.

        Real lines use the spare line for the complex spectrum before or after.
        """
        from_real, to_real = self.axis.reals
        if to_real:
            self._between(line, SOURCE, SPARE)
        places = SPARE if to_real else SOURCE, SPARE if from_real else TARGET
        if self.axis.convolved:
            self._convolve(way, line, *places)
        else:
            self._columns(way, line, places[0])
            self._rows(way, line, places[1])
        if from_real:
            self._between(line, SPARE, TARGET)

    def _convolve(self, way: FftMatrix, line: Ix | None, source: str, target: str) -> None:
        """Transform as `_transform` does; inverse transforms have conjugate factors instead."""
        axis, n, m = self.axis, self.axis.length, self.axis.convolved
        inverse, size = axis.inverse, axis.part_bytes
        scale = 1 / m / (axis.n if inverse else 1)
        self._times(line, source, CONVOLVED, tables.chirp(n, inverse, False, size), n, False)
        self._matrix_of(way, line)
        self._times(line, CONVOLVED, CONVOLVED, tables.spectrum(n, m, inverse, scale, size), m, True)
        self._matrix_of(way, line)
        self._times(line, CONVOLVED, target, tables.chirp(n, inverse, True, size), n, True)

    def _matrix_of(self, way: FftMatrix, line: Ix | None) -> None:
        self._columns(way, line, CONVOLVED)
        self._rows(way, line, CONVOLVED)

    def _times(self, line: Ix | None, source: str, target: str, factors: Literal, count: int, conjugate: bool) -> None:
        """Multiply numbers by factors; a line to be convolved is filled up with zeros."""
        f, table = self.f, FftLine(replace(self._table(factors), parts=2))
        chunk, whole = min(count, _CHUNK), self.axis.convolved
        with self._stage(line, -(-count // chunk), chunk * _NANOSECONDS) as (own, number):
            a, b = self._line_at(source, own), self._line_at(target, own)
            begin = f.mul(number, chunk)
            end = f.value(f.add(begin, chunk)).smin(count)
            copies.times_line(f, a, table, b, conjugate, begin, end)
            if target == CONVOLVED and count < whole:
                with f.when(f.value(end).equals(count)):
                    f.fill_zero(b.address(count), (whole - count) * 2 * self.axis.part_bytes, 2 * self.axis.part_bytes)

    @contextmanager
    def _stage(self, line: Ix | None, count: int, nanoseconds: float) -> Iterator[tuple[Ix, Ix]]:
        """Yield (line, part) for independent parts of a stage; if None, threads share all lines."""
        f = self.f
        if line is not None:
            with f.loop(count) as part:
                yield line, part
        else:
            with parallel(f, self.axis.outer * count, nanoseconds=nanoseconds) as part:
                yield f.div(part, count), f.rem(part, count)

    def _line_at(self, name: str, line: Ix) -> Pointer:
        """The numbers of a line; real lines of even length are read as complex numbers."""
        axis, f, k = self.axis, self.f, self.k
        if name in (SOURCE, TARGET):
            which = name == TARGET
            at = self._pointer(self.arrays[which], f.mul(line, axis.parts[which] * axis.part_bytes))
            return at if axis.reals[which] and not axis.is_half else replace(at, parts=2)
        offset = {SPARE: 0, CONVOLVED: axis.spare_bytes, MATRIX: axis.spare_bytes + axis.convolved_bytes}[name]
        if not axis.is_whole or k.scratch is None:
            return self._pointer(k.own_scratch(), f.add(offset, 2 * axis.buffer_bytes), 2)
        first = f.add(k.shared_scratch - axis.scratch_bytes[0], f.mul(line, axis.line_bytes))
        return self._pointer(k.scratch, f.add(first, offset), 2)

    def _between(self, line: Ix | None, source: str, target: str) -> None:
        """Convert the spectrum of a real line to that of complex numbers, or back.

        Handles odd lengths too.
        """
        f, axis, h = self.f, self.axis, self.axis.length
        chunk = _CHUNK if axis.is_half else h + 1
        with self._stage(line, -(-(h - 1) // chunk), min(h, chunk) * _NANOSECONDS) as (own, number):
            a, b = (self._line_at(name, own) for name in (source, target))
            if axis.is_half:
                begin = f.add(f.mul(number, chunk), 1)
                self._mirror(FftLine(a), FftLine(b), begin, f.value(f.add(begin, chunk)).smin(h))
            else:
                f.copy(b.base, a.base, (h // 2 + 1) * 2 * axis.part_bytes)
                if axis.inverse:
                    copies.conjugates(f, FftLine(b), h)

    @property
    def _is_swapped(self) -> bool:
        """Whether matrices have real and imaginary parts exchanged: inverse transforms."""
        return self.axis.inverse and not self.axis.convolved

    def _columns(self, way: FftMatrix, line: Ix | None, source: str) -> None:
        """Transform columns in lanes, multiply them by roots of unity, store them to the matrix."""
        f, axis = self.f, self.axis
        high, low = (self._table(tables.matrix(way, high, axis.part_bytes)) for high in (True, False))
        with self._stage(line, way.blocks[0], way.block_ns[0]) as (own, block):
            first, (here, spare) = f.mul(block, axis.width), self._buffers()
            lines, place = f.sub(way.columns, first), here.swapped if self._is_swapped else here
            copies.strided(f, self._line_at(source, own).by(first), place, way.rows, way.columns, lines, False, None)
            made, _ = self._passes(way.rows, here, spare)
            high_part, low_part = (table.by(f.mul(block, 2 * axis.width)) for table in (high, low))
            stride, into = way.row_bytes // (2 * axis.part_bytes), self._line_at(MATRIX, own).by(first)
            copies.out_twiddled(f, into, made, way.rows, stride, lines, high_part, low_part, way.part, way.blocks[0])

    def _rows(self, way: FftMatrix, line: Ix | None, target: str) -> None:
        """Transform the matrix's rows in lanes and store them as columns of the result."""
        f, axis = self.f, self.axis
        stride = way.row_bytes // axis.part_bytes
        with self._stage(line, way.blocks[1], way.block_ns[1]) as (own, block):
            first, (here, spare) = f.mul(block, axis.width), self._buffers()
            lines, rows = (
                f.sub(way.rows, first),
                replace(self._line_at(MATRIX, own), parts=1).by(f.mul(first, stride)),
            )
            interleave(f, rows, here.re, here.im, 2 * way.columns, stride, lines, 1, False, None)
            made, _ = self._passes(way.columns, here, spare)
            place, out = made.swapped if self._is_swapped else made, self._line_at(target, own).by(first)
            scale = self.f.const(self.element, 1.0) if axis.convolved else self.scale
            copies.strided(f, out, place, way.columns, way.rows, lines, True, scale)

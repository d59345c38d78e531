"""The transform along one dimension as calls of routines: what blocks of lines and single lines have in common, and blocks of lines in lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.codegen.fft import copies, tables
from xlanb.cpu.codegen.fft.copies import Routine
from xlanb.cpu.codegen.fft.plan import Axis, Lanes, lanes
from xlanb.cpu.codegen.fft.radices import call_passes
from xlanb.cpu.codegen.fft.simd import ELEMENT, PART, lanes_of, moved
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.kernel import Kernel
from xlanb.cpu.codegen.parallel import parallel
from xlanb.cpu.codegen.types import float_text
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op


class Calls:
    """Writes calls of routines for the lines of an axis."""

    def __init__(self, k: Kernel, axis: Axis) -> None:
        self.k, self.e, self.f, self.axis = k, k.e, k.f, axis
        self.element = "float" if axis.part_bytes == 4 else "double"
        self.size = 2 * axis.part_bytes
        self.lanes = lanes_of(axis.part_bytes)

    def call(self, routine: Routine, *values: Ix) -> None:
        """Call a routine."""
        routine.call(self.f, self.element, *values)

    def number(self, value: float) -> str:
        """A number of the type."""
        return float_text(float(np.float32(value)) if self.axis.part_bytes == 4 else value, self.element)

    def table(self, name: str, key: object, make: Callable[[], NDArray[np.float64]]) -> str:
        """The address of a table, a constant of the program."""
        literal = tables.kept((name, key), make, self.axis.part_bytes)
        root = self.k.root
        held = HloInstruction(f"{root.name}.{name}", Op.CONSTANT, literal.shape, (), {"literal": literal}, root.parent)
        return self.e.constants(held).pointer

    def at(self, base: str, index: Ix, size: int) -> str:
        """The address of an item of so many bytes."""
        return moved(self.f, base, self.f.mul(index, size))

    def least(self, a: Ix, b: Ix) -> Ix:
        """The smaller of two."""
        if isinstance(a, int) and isinstance(b, int):
            return min(a, b)
        return self.f.plain_call("i64", "llvm.smin.i64", [("i64", str(a)), ("i64", str(b))])

    def parts(self, buffer: str, *, swapped: bool = False) -> tuple[str, str]:
        """Where real and imaginary parts of a buffer begin. An inverse transform is one of numbers whose parts are exchanged, exchanged again."""
        re, im = buffer, moved(self.f, buffer, PART)
        return (im, re) if swapped else (re, im)

    def passes(self, way: Lanes, buffers: Sequence[str]) -> list[str]:
        """A transform of the lines in the first buffer; gives the buffers, that with the result first."""
        if way.chirp is not None:
            return self._convolved(way, way.chirp, list(buffers))
        if not way.radices:
            return list(buffers)
        begins, make = tables.pass_tables(way)
        table = self.table("turns", way, make)
        n, s, made = way.n, 1, []
        for r, begin in zip(way.radices, begins, strict=True):
            made.append((r, begin * self.axis.part_bytes, n // r, s))
            n, s = n // r, s * r
        call_passes(self.f, self.element, made, table, *buffers)
        return list(buffers) if len(made) % 2 == 0 else list(buffers)[::-1]

    def _convolved(self, way: Lanes, inner: Lanes, here: list[str]) -> list[str]:
        """Times the chirp, convolved with its inverse (a product of spectra, then the inverse transform), times the chirp."""
        n, m = way.n, inner.n
        chirp = self.table("chirp", (n, n), lambda: tables.pairs(tables.chirp(n, n, inverse=False)))
        factors = self.table("factors", (n, m), lambda: tables.pairs(tables.kernel(n, m, inverse=False)))
        self.call(copies.PRODUCT, *self.parts(here[0]), *self.parts(here[0]), chirp, n)
        self.call(copies.ZEROS, *self.parts(self.at(here[0], n, ELEMENT)), m - n)
        here = self.passes(inner, here)
        self.call(copies.PRODUCT, *self.parts(here[0]), *self.parts(here[0], swapped=True), factors, m)
        here = self.passes(inner, here)
        self.call(copies.PRODUCT, *self.parts(here[0], swapped=True), *self.parts(here[0]), chirp, n)
        return here


class Blocks(Calls):
    """Writes the transform of lines in lanes, a block of them at a time."""

    def emit(self, source: str, target: str) -> None:
        """All blocks."""
        axis = self.axis
        with parallel(self.e, axis.blocks, nanoseconds=axis.block_cost) as block:
            way = lanes(axis.length)
            scratch = self.k.own_scratch()
            buffers = [scratch, moved(self.f, scratch, way.elements * ELEMENT)]
            if axis.is_real:
                self._real(way, block, buffers, source, target)
            elif axis.inner == 1:
                self._rows(way, block, buffers, source, target)
            elif axis.beside:
                self._beside(way, block, buffers, source, target)
            else:
                self._apart(way, block, buffers, source, target)

    @property
    def _scale(self) -> str:
        return self.number(1 / self.axis.n if self.axis.inverse else 1.0)

    def _rows(self, way: Lanes, block: Ix, buffers: list[str], source: str, target: str) -> None:
        """Lines one after the other."""
        axis, f = self.axis, self.f
        first = f.mul(block, self.lanes)
        rows, stride = f.sub(axis.lines, first), axis.n * self.size
        even, odd = self.parts(buffers[0], swapped=axis.inverse)
        self.call(copies.IN_ROWS, self.at(source, first, stride), even, odd, 2 * axis.n, stride, rows, ELEMENT)
        made = self.passes(way, buffers)[0]
        even, odd = self.parts(made, swapped=axis.inverse)
        to = self.at(target, first, stride)
        self.call(copies.OUT_ROWS, even, odd, to, 2 * axis.n, stride, rows, ELEMENT, self._scale)

    def _beside(self, way: Lanes, block: Ix, buffers: list[str], source: str, target: str) -> None:
        """Lines side by side."""
        axis, f = self.axis, self.f
        blocks = -(-axis.inner // self.lanes)
        first = f.mul(f.rem(block, blocks), self.lanes)
        offset = f.add(f.mul(f.div(block, blocks), axis.n * axis.inner * self.size), f.mul(first, self.size))
        count, stride = f.sub(axis.inner, first), axis.inner * self.size
        re, im = self.parts(buffers[0], swapped=axis.inverse)
        self.call(copies.IN_BESIDE, moved(f, source, offset), re, im, axis.n, stride, count)
        made = self.passes(way, buffers)[0]
        re, im = self.parts(made, swapped=axis.inverse)
        self.call(copies.OUT_BESIDE, re, im, moved(f, target, offset), axis.n, stride, count, self._scale)

    def _apart(self, way: Lanes, block: Ix, buffers: list[str], source: str, target: str) -> None:
        """Lines that interleave by little."""
        axis = self.axis
        first = self.f.mul(block, self.lanes)
        re, im = self.parts(buffers[0], swapped=axis.inverse)
        self.call(copies.IN_APART, source, re, im, axis.n, axis.inner, first, axis.lines)
        made = self.passes(way, buffers)[0]
        re, im = self.parts(made, swapped=axis.inverse)
        self.call(copies.OUT_APART, re, im, target, axis.n, axis.inner, first, axis.lines, self._scale)

    # -- real lines -----------------------------------------------------------------------------------------------------

    def _real(self, way: Lanes, block: Ix, buffers: list[str], source: str, target: str) -> None:
        """Real lines, one after the other."""
        axis = self.axis
        first = self.f.mul(block, self.lanes)
        rows = self.f.sub(axis.lines, first)
        real, half = axis.n * axis.part_bytes, (axis.n // 2 + 1) * self.size
        at = self.at(source, first, real if axis.real_in else half)
        to = self.at(target, first, half if axis.real_in else real)
        if axis.real_in:
            self._spectra(way, buffers, (at, real), (to, half), rows)
        else:
            self._signals(way, buffers, (at, half), (to, real), rows)

    def _mirror(self, h: int) -> str:
        inverse = self.axis.inverse
        return self.table("mirror", (h, inverse), lambda: tables.pairs(tables.mirror(h, inverse=inverse)))

    def _spectra(self, way: Lanes, buffers: list[str], source: _Array, target: _Array, rows: Ix) -> None:
        n, (at, stride), (to, written) = self.axis.n, source, target
        if self.axis.is_half:
            self.call(copies.IN_ROWS, at, *self.parts(buffers[0]), n, stride, rows, ELEMENT)
            made = self.passes(way, buffers)
            self.call(copies.SPECTRUM, made[0], *self.parts(made[1]), self._mirror(n // 2), n // 2)
            spectrum = made[1]
        else:
            re, im = self.parts(buffers[0])
            self.call(copies.ZEROS, im, im, n)
            self.call(copies.IN_ROWS, at, re, moved(self.f, re, ELEMENT), n, stride, rows, 2 * ELEMENT)
            spectrum = self.passes(way, buffers)[0]
        parts = written // self.axis.part_bytes
        self.call(copies.OUT_ROWS, *self.parts(spectrum), to, parts, written, rows, ELEMENT, self.number(1.0))

    def _signals(self, way: Lanes, buffers: list[str], source: _Array, target: _Array, rows: Ix) -> None:
        n, (at, stride), (to, written) = self.axis.n, source, target
        parts = stride // self.axis.part_bytes
        if self.axis.is_half:
            self.call(copies.IN_ROWS, at, *self.parts(buffers[1]), parts, stride, rows, ELEMENT)
            self.call(copies.SIGNAL, buffers[1], *self.parts(buffers[0], swapped=True), self._mirror(n // 2), n // 2)
            even, odd = self.parts(self.passes(way, buffers)[0], swapped=True)
            self.call(copies.OUT_ROWS, even, odd, to, n, written, rows, ELEMENT, self._scale)
            return
        re, im = self.parts(buffers[0], swapped=True)
        self.call(copies.IN_ROWS, at, re, im, parts, stride, rows, ELEMENT)
        self.call(copies.CONJUGATES, re, im, n)
        re, _ = self.parts(self.passes(way, buffers)[0], swapped=True)
        self.call(copies.OUT_ROWS, re, moved(self.f, re, ELEMENT), to, n, written, rows, 2 * ELEMENT, self._scale)


_Array = tuple[str, int]
"""The address of a block's first line, and the bytes from a line to the next."""

"""The transform along one dimension as calls of routines: of blocks of lines in lanes, or of lines by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from xlanb.codegen.function import Ix
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import parallel
from xlanb.codegen.types import DOUBLE, FLOAT, I8
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.fft import copies, tables
from xlanb.cpu.emitters.fft.copies import Line, Scratch
from xlanb.cpu.emitters.fft.plan import Axis, Lanes, lanes
from xlanb.cpu.emitters.fft.plan import Line as LineWay
from xlanb.cpu.emitters.fft.radices import ELEMENT, call_passes
from xlanb.cpu.emitters.interleaved import interleave
from xlanb.cpu.emitters.kernel import Kernel
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as Op

_CHUNK = 4096
"""Numbers of a line that a thread takes at once where it only multiplies them; a multiple of the lanes."""
_NANOSECONDS = 0.2
"""Of a number that is multiplied."""
_Factors = tuple[Pointer, int] | None
"""A table that a line is multiplied by, and how many numbers the line has."""


@dataclass(frozen=True)
class _Places:
    """Where a line is ("source"), its result ("target"), a line and a matrix in scratch, and the thread's buffers in lanes."""

    lines: dict[str, Pointer]
    matrix: Pointer
    buffers: tuple[Scratch, Scratch]


class Transform:
    """Writes the transform of all lines along an axis."""

    def __init__(self, k: Kernel, axis: Axis, source: Value, target: Value) -> None:
        if k.scratch is None:
            raise AssertionError("a transform without scratch memory")
        self.k, self.f, self.axis, self.scratch, self.arrays = k, k.f, axis, k.scratch, (source, target)
        self.element = FLOAT if axis.part_bytes == 4 else DOUBLE
        self.scale = self.f.const(self.element, 1 / axis.n if axis.inverse else 1.0)
        self.places: _Places | None = None

    def emit(self) -> None:
        """Threads share blocks of lines in lanes, or lines or, where these are few and long, the parts of each stage."""
        axis, (count, cost) = self.axis, self.axis.rounds
        if axis.line is not None and axis.is_whole:
            self._by_itself(axis.line)
            return
        with parallel(self.f, count, nanoseconds=cost) as part:
            own = self.k.own_scratch()
            if axis.line is None:
                self._in_lanes(part, *self.buffers(own))
            else:
                self.places = self._places(part, self.pointer(own, 2 * axis.buffer_bytes).base, own)
                self._by_itself(axis.line)

    def pointer(self, base: Value, offset: Ix = 0, parts: int = 1) -> Pointer:
        """Parts of numbers, or complex numbers, from so many bytes on."""
        return Pointer(Pointer(base, I8).address(offset), self.element, parts)

    def table(self, name: str, key: object, make: Callable[[], tables.Table], parts: int = 2) -> Pointer:
        """A table, a constant of the program."""
        literal, root = tables.kept((name, key), make, self.axis.part_bytes), self.k.root
        held = HloInstruction(f"{root.name}.{name}", Op.CONSTANT, literal.shape, (), {"literal": literal}, root.parent)
        return Pointer(self.k.e.constants(held).pointer, self.element, parts)

    def chirps(self, n: int, m: int, scale: float = 1.0, *, inverse: bool = False) -> tuple[Pointer, Pointer]:
        """The factors of numbers, and of spectra, in a convolution of lines of n numbers in lines of m."""
        chirp = self.table("chirp", (n, scale, inverse), lambda: tables.chirp(n, scale, inverse=inverse))
        return chirp, self.table("factors", (n, m, inverse), lambda: tables.kernel(n, m, inverse=inverse))

    def buffers(self, own: Value) -> tuple[Scratch, Scratch]:
        """The two buffers in lanes of a thread's scratch."""
        return Scratch.at(self.pointer(own)), Scratch.at(self.pointer(own, self.axis.buffer_bytes))

    def passes(self, way: Lanes, here: Scratch, spare: Scratch) -> tuple[Scratch, Scratch]:
        """Transform the lines in `here`; gives the buffer with the result, and the other."""
        if way.chirp is not None:
            return self._convolved(way.n, way.chirp, here, spare)
        if not way.radices:
            return here, spare
        table = self.table("turns", way, lambda: tables.passes(way))
        call_passes(
            self.f, self.element, tables.steps(way, 2 * self.axis.part_bytes), here.re.base, spare.re.base, table.base
        )
        return (here, spare) if len(way.radices) % 2 == 0 else (spare, here)

    def _convolved(self, n: int, inner: Lanes, here: Scratch, spare: Scratch) -> tuple[Scratch, Scratch]:
        """Times the chirp, convolved with its inverse (a product of spectra, then the inverse transform), times the chirp."""
        f, m = self.f, inner.n
        chirp, factors = map(Line, self.chirps(n, m))
        copies.product(f, here, chirp, here, n)
        f.fill_zero(self.pointer(here.re.base, n * ELEMENT).base, (m - n) * ELEMENT)
        here, spare = self.passes(inner, here, spare)
        copies.product(f, here, factors, here.swapped, m)
        here, spare = self.passes(inner, here, spare)
        copies.product(f, here.swapped, chirp, here, n)
        return here, spare

    def _mirror(self, a: Scratch | Line, b: Scratch | Line, *part: Ix) -> None:
        h, inverse = self.axis.length, self.axis.inverse
        table = Line(self.table("mirror", (h, inverse), lambda: tables.mirror(h, inverse=inverse)))
        copies.mirror(self.f, a, table, b, h, not inverse, *part)

    # -- blocks of lines in lanes -------------------------------------------------------------------------------------

    def _in_lanes(self, block: Ix, here: Scratch, spare: Scratch) -> None:
        axis = self.axis
        half, odd, inverse = axis.is_half, axis.is_real and not axis.is_half, axis.inverse
        to = here.swapped if inverse else here
        if odd and not inverse:
            self.f.fill_zero(here.re.base, axis.n * ELEMENT)
            self._copy(block, here.reals, 2)
        elif half and inverse:
            self._copy(block, spare, 1)
            self._mirror(spare, to)
        else:
            self._copy(block, to, 1)
            if odd:
                copies.conjugates(self.f, to, axis.n)
        here, spare = self.passes(lanes(axis.length), here, spare)
        if half and not inverse:
            self._mirror(here, spare)
            here = spare
        made = here.swapped if inverse else here
        self._copy(block, *((made.reals, 2) if odd and inverse else (made, 1)), self.scale)

    def _copy(self, block: Ix, s: Scratch, step: int, scale: Value | None = None) -> None:
        """A block from memory to scratch; with a scale, from scratch to memory."""
        axis, f, is_out = self.axis, self.f, scale is not None
        first, memory, size = f.mul(block, axis.width), self.pointer(self.arrays[is_out]), axis.parts[is_out]
        if axis.inner == 1:
            rows, lines = memory.by(f.mul(first, size)), f.sub(axis.lines, first)
            interleave(f, rows, s.re, s.im, size, size, lines, step, is_out, scale)
        else:
            blocks = -(-axis.inner // axis.width)
            first = f.mul(f.rem(block, blocks), axis.width)
            begin = f.add(f.mul(f.div(block, blocks), axis.n * axis.inner), first)
            numbers, lines = replace(memory, parts=2).by(begin), f.sub(axis.inner, first)
            copies.beside(f, numbers, s, axis.n, axis.inner, lines, is_out, scale, 0)

    # -- lines by themselves ------------------------------------------------------------------------------------------

    @contextmanager
    def _stage(self, count: int, nanoseconds: float) -> Iterator[tuple[_Places, Ix]]:
        """Parts of the work on a line that do not depend on one another: where the line is, and the number of the part."""
        axis, f = self.axis, self.f
        if self.places is not None:
            with f.loop(count) as part:
                yield self.places, part
            return
        with parallel(f, axis.lines * count, nanoseconds=nanoseconds) as g:
            line, part = f.div(g, count), f.rem(g, count)
            begin = f.add(self.k.shared_scratch - axis.scratch_bytes[0], f.mul(line, axis.line_bytes))
            yield self._places(line, self.pointer(self.scratch, begin).base, self.k.own_scratch()), part

    def _places(self, line: Ix, scratch: Value, own: Value) -> _Places:
        axis, f = self.axis, self.f
        outer, inner = f.div(line, axis.inner), f.rem(line, axis.inner)
        found = {"spare": self.pointer(scratch, 0, 2)}
        for name, base, size, is_real in zip(("source", "target"), self.arrays, axis.parts, axis.reals, strict=True):
            at = self.pointer(base).by(f.add(f.mul(outer, size * axis.inner), f.mul(inner, 2)))
            found[name] = replace(at, parts=1 if is_real and not axis.is_half else 2)
        return _Places(found, self.pointer(scratch, axis.spare_bytes), self.buffers(own))

    def _by_itself(self, way: LineWay) -> None:
        """Complex numbers one after the other, perhaps in the spare line; their transform, perhaps there too; the result."""
        axis = self.axis
        prepared, finished = (axis.inner > 1 or (axis.is_real and axis.inverse is back) for back in (True, False))
        if prepared:
            self._between("source", "spare", axis.sizes[0], axis.inner, 1)
        self._transform(way, "spare" if prepared else "source", "spare" if finished else "target")
        if finished:
            self._between("spare", "target", axis.sizes[1], 1, axis.inner)

    def _between(self, source: str, target: str, count: int, from_: int, to: int) -> None:
        """The spectrum of a real line to that of complex numbers, or back; of other lines a copy of `count` numbers."""
        axis, f, h = self.axis, self.f, self.axis.length
        if axis.is_half:
            with self._stage(-(-(h - 1) // _CHUNK), min(h, _CHUNK) * _NANOSECONDS) as (at, chunk):
                begin = f.add(f.mul(chunk, _CHUNK), 1)
                end = f.value(f.add(begin, _CHUNK)).smin(h)
                self._mirror(Line(at.lines[source]), Line(at.lines[target]), begin, end)
            return
        with self._stage(1, axis.n * 2 * _NANOSECONDS) as (at, _):
            copies.strided(f, at.lines[source], at.lines[target], count, from_, to)
            if axis.is_real and axis.inverse:
                copies.conjugates(f, Line(at.lines[target]), axis.n)

    def _transform(self, way: LineWay, source: str, target: str) -> None:
        inverse = self.axis.inverse
        if way.chirp is None:
            self._matrix(way, source, target, swapped=inverse)
            return
        n, m = way.n, way.chirp.n
        chirp, factors = self.chirps(n, m, inverse=inverse)
        scaled, _ = self.chirps(n, m, 1 / self.axis.n if inverse else 1.0, inverse=inverse)
        self._matrix(way.chirp, source, "spare", swapped=False, before=(chirp, n), after=(factors, m))
        self._matrix(way.chirp, "spare", target, swapped=True, after=(scaled, n))

    def _matrix(
        self, way: LineWay, source: str, target: str, *, swapped: bool, before: _Factors = None, after: _Factors = None
    ) -> None:
        """Columns in lanes, times roots of unity, into the matrix; then its rows in lanes, out as columns of the result."""
        f, rows, columns, width = self.f, way.first.n, way.second.n, self.axis.width
        high, low = (
            self.table(f"high {is_high}", (way.n, rows, width), partial(tables.matrix, way, high=is_high), 1)
            for is_high in (True, False)
        )
        stride = way.row_bytes // self.axis.part_bytes
        with self._stage(way.blocks[0], way.costs[0]) as (at, block):
            first, (here, spare) = f.mul(block, width), at.buffers
            given, place = at.lines[source].by(first), here.swapped if swapped else here
            copies.beside(f, given, place, rows, columns, f.sub(columns, first), False, *_from(before, first))
            made, _ = self.passes(way.first, here, spare)
            factors = [table.by(f.mul(block, 2 * width)) for table in (high, low)]
            matrix = replace(at.matrix, parts=2).by(first), made, rows, stride // 2, f.sub(columns, first)
            copies.out_turned(f, *matrix, factors[0], factors[1], way.part, way.blocks[0])
        with self._stage(way.blocks[1], way.costs[1]) as (at, block):
            first, (here, spare) = f.mul(block, width), at.buffers
            lines = f.sub(rows, first)
            numbers = at.matrix.by(f.mul(first, stride))
            interleave(f, numbers, here.re, here.im, 2 * columns, stride, lines, 1, False, None)
            made, _ = self.passes(way.second, here, spare)
            out, place = at.lines[target].by(first), made.swapped if swapped else made
            by = _from(after, first) if after else (self.scale, 0)
            copies.beside(f, out, place, columns, rows, lines, True, *by)


def _from(factors: _Factors, first: Ix) -> tuple[Pointer | None, Ix]:
    """A table from a number on, and how many numbers the line has from there."""
    if factors is None:
        return None, 0
    table, count = factors
    return table.by(first), table.base.function.sub(count, first)

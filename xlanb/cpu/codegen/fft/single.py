"""The transform along one dimension, each line by itself: stages of calls, which threads share line by line or, where lines are few and long, within each stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from xlanb.cpu.codegen.fft import copies, lines, tables
from xlanb.cpu.codegen.fft.emit import Calls
from xlanb.cpu.codegen.fft.plan import Axis, Line
from xlanb.cpu.codegen.fft.simd import ELEMENT, moved
from xlanb.cpu.codegen.ir import Ix
from xlanb.cpu.codegen.kernel import Kernel
from xlanb.cpu.codegen.parallel import parallel

_CHUNK = 4096
"""Numbers that a thread takes at once where it only multiplies them; a multiple of the lanes."""
_NANOSECONDS = 0.2
"""Of a number that is multiplied."""


@dataclass(frozen=True)
class _Places:
    """Where a line is, what becomes of it, and its scratch: the matrix, two lines `p` and `q`, and the lanes' buffers."""

    source: str
    target: str
    matrix: str
    p: str
    q: str
    buffers: tuple[str, str]


_Place = Callable[[_Places], str]
_SOURCE: _Place = attrgetter("source")
_TARGET: _Place = attrgetter("target")
_P: _Place = attrgetter("p")
_Q: _Place = attrgetter("q")


@dataclass(frozen=True)
class _Stage:
    """Parts of the work on a line that do not depend on one another."""

    count: int
    nanoseconds: float
    emit: Callable[[_Places, Ix], None]


class Singles(Calls):
    """Writes the transform of lines, each by itself."""

    def __init__(self, k: Kernel, axis: Axis, way: Line) -> None:
        super().__init__(k, axis)
        self.way = way

    def emit(self, source: str, target: str) -> None:
        """All lines."""
        axis, e, f = self.axis, self.e, self.f
        stages = self._stages()
        if axis.is_whole:
            for stage in stages:
                with parallel(e, axis.lines * stage.count, nanoseconds=stage.nanoseconds) as g:
                    line, part = f.div(g, stage.count), f.rem(g, stage.count)
                    first = moved(f, self.k.scratch, self.k.shared_scratch - axis.scratch_bytes[0])
                    scratch = self.at(first, line, axis.line_bytes)
                    stage.emit(self._places(line, source, target, scratch, self.k.own_scratch()), part)
            return
        with parallel(e, axis.lines, nanoseconds=axis.line_cost) as line:
            own = self.k.own_scratch()
            places = self._places(line, source, target, moved(f, own, 2 * axis.lane_elements * ELEMENT), own)
            for stage in stages:
                with e.loop(stage.count) as part:
                    stage.emit(places, part)

    def _places(self, line: Ix, source: str, target: str, scratch: str, own: str) -> _Places:
        axis, f = self.axis, self.f
        q = moved(f, scratch, axis.spare_bytes)
        matrix = moved(f, q, axis.spare_bytes)
        buffers = own, moved(f, own, axis.lane_elements * ELEMENT)
        return _Places(*self._ends(line, source, target), matrix, scratch, q, buffers)

    def _ends(self, line: Ix, source: str, target: str) -> tuple[str, str]:
        """Where a line begins in the source, and in the target."""
        axis, f = self.axis, self.f
        read, written = (axis.part_bytes if real else self.size for real in (axis.real_in, axis.real_out))
        outer, inner = f.div(line, axis.inner), f.rem(line, axis.inner)
        begin = f.add(f.mul(outer, axis.read * axis.inner * read), f.mul(inner, read))
        end = f.add(f.mul(outer, axis.written * axis.inner * written), f.mul(inner, written))
        return moved(f, source, begin), moved(f, target, end)

    # -- stages -----------------------------------------------------------------------------------------------------

    def _stages(self) -> list[_Stage]:
        axis, n, way = self.axis, self.axis.n, self.way
        if axis.inner > 1:
            stride = axis.inner * self.size
            return [
                self._once(lambda at, _: self.call(lines.COLLECT, at.source, at.q, n, stride)),
                *self._transform(way, _Q, _P, inverse=axis.inverse, scale=1 / n if axis.inverse else 1.0),
                self._once(lambda at, _: self.call(lines.SPREAD, at.p, at.target, n, stride)),
            ]
        if not axis.is_real:
            return self._transform(way, _SOURCE, _TARGET, inverse=axis.inverse, scale=1 / n if axis.inverse else 1.0)
        if axis.is_half:
            return self._half(way)
        if axis.real_in:
            size = axis.written * self.size
            return [
                self._once(lambda at, _: self.call(lines.WIDEN, at.source, at.q, n)),
                *self._transform(way, _Q, _P, inverse=False, scale=1.0),
                self._once(lambda at, _: self._copy(at.target, at.p, size)),
            ]
        return [
            self._once(lambda at, _: self.call(lines.UNFOLD, at.source, at.q, n)),
            *self._transform(way, _Q, _P, inverse=True, scale=1 / n),
            self._once(lambda at, _: self.call(lines.NARROW, at.p, at.target, n)),
        ]

    def _copy(self, target: str, source: str, size: int) -> None:
        self.f.module.declare("void", "llvm.memcpy.p0.p0.i64", "ptr, ptr, i64, i1")
        self.f.do(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {size}, i1 false)")

    def _once(self, emit: Callable[[_Places, Ix], None]) -> _Stage:
        return _Stage(1, self.axis.n * 2 * _NANOSECONDS, emit)

    def _half(self, way: Line) -> list[_Stage]:
        """A real line of n numbers as n / 2 complex ones."""
        h, n = way.n, self.axis.n
        if self.axis.real_in:
            return [
                *self._transform(way, _SOURCE, _P, inverse=False, scale=1.0),
                self._once(lambda at, _: self.call(lines.ENDS, at.p, at.target, h)),
                *self._mirror(h, _P, _TARGET, inverse=False),
            ]
        return [
            self._once(lambda at, _: self.call(lines.START, at.source, at.q, h)),
            *self._mirror(h, _SOURCE, _Q, inverse=True),
            *self._transform(way, _Q, _TARGET, inverse=True, scale=1 / n),
        ]

    def _mirror(self, h: int, source: _Place, target: _Place, *, inverse: bool) -> list[_Stage]:
        table = self.table(
            "line.mirror",
            (h, self.lanes, inverse),
            lambda: tables.parted(tables.mirror(h, inverse=inverse), self.lanes),
        )

        def part(at: _Places, chunk: Ix) -> None:
            begin = self.f.add(self.f.mul(chunk, _CHUNK), 1)
            end = self.least(self.f.add(begin, _CHUNK), h)
            self.call(lines.MIRROR, source(at), table, target(at), begin, end, h, self.number(1.0 if inverse else 0.5))

        return [_Stage(-(-(h - 1) // _CHUNK), min(h, _CHUNK) * _NANOSECONDS, part)]

    def _transform(self, way: Line, source: _Place, target: _Place, *, inverse: bool, scale: float) -> list[_Stage]:
        if way.chirp is None:
            return self._matrix(way, source, target, swapped=inverse, scale=scale)
        n, m = way.n, way.chirp.n
        width = self.lanes

        def chirp(scale: float) -> Callable[[], NDArray[np.float64]]:
            return lambda: tables.parted(tables.chirp(n, m, inverse=inverse, scale=scale), width)

        first = self.table("line.chirp", (n, m, width, inverse, 1.0), chirp(1.0))
        last = self.table("line.chirp", (n, m, width, inverse, scale), chirp(scale))
        factors = self.table(
            "line.factors", (n, m, width, inverse), lambda: tables.parted(tables.kernel(n, m, inverse=inverse), width)
        )
        return [
            self._product(source, first, _P, m, n),
            *self._matrix(way.chirp, _P, _Q, swapped=False, scale=1.0),
            self._product(_Q, factors, _Q, m, m),
            *self._matrix(way.chirp, _Q, _P, swapped=True, scale=1.0),
            self._product(_P, last, target, n, n),
        ]

    def _product(self, source: _Place, table: str, target: _Place, n: int, limit: int) -> _Stage:
        def part(at: _Places, chunk: Ix) -> None:
            begin = self.f.mul(chunk, _CHUNK)
            end = self.least(self.f.add(begin, _CHUNK), n)
            self.call(lines.PRODUCT, source(at), table, target(at), begin, end, limit)

        return _Stage(-(-n // _CHUNK), min(n, _CHUNK) * _NANOSECONDS, part)

    # -- the four steps -----------------------------------------------------------------------------------------------

    def _matrix(self, way: Line, source: _Place, target: _Place, *, swapped: bool, scale: float) -> list[_Stage]:
        """Columns in lanes, times turns, into the matrix; then its rows in lanes, out as columns of the result."""
        key = (way.n, way.first.n, self.lanes)
        high = self.table("high", key, lambda: tables.high_turns(way))
        low = self.table("low", key, lambda: tables.low_turns(way))
        step = way.column_blocks * ELEMENT
        rows, columns, f = way.first.n, way.second.n, self.f

        def column(at: _Places, block: Ix) -> None:
            first = f.mul(block, self.lanes)
            count, offset = f.sub(columns, first), f.mul(first, self.size)
            re, im = self.parts(at.buffers[0], swapped=swapped)
            self.call(copies.IN_BESIDE, moved(f, source(at), offset), re, im, rows, columns * self.size, count)
            made = self.passes(way.first, at.buffers)[0]
            to = (moved(f, at.matrix, offset), rows, way.row_bytes, count)
            turns = [self.at(table, block, ELEMENT) for table in (high, low)]
            self.call(copies.OUT_TURNED, *self.parts(made), *to, *turns, way.part, step)

        def row(at: _Places, block: Ix) -> None:
            first = f.mul(block, self.lanes)
            count = f.sub(rows, first)
            begin = self.at(at.matrix, first, way.row_bytes)
            self.call(copies.IN_ROWS, begin, *self.parts(at.buffers[0]), 2 * columns, way.row_bytes, count, ELEMENT)
            made = self.passes(way.second, at.buffers)[0]
            re, im = self.parts(made, swapped=swapped)
            to = (self.at(target(at), first, self.size), columns, rows * self.size, count)
            self.call(copies.OUT_BESIDE, re, im, *to, self.number(scale))

        return [_Stage(way.column_blocks, way.column_cost, column), _Stage(way.row_blocks, way.row_cost, row)]

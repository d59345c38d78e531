"""Operands packed into panels, in the order that the tiles of large products read.

A panel is `units` rows of a, or columns of b, over a slice of depth. Each step of depth is a line
of lanes:

    line[d][u] = source[u, d]                                        one element
    line[d][u] = source[u, g * d], ..., source[u, g * d + g - 1]     a group of narrow neighbours

Elements are converted to the accumulation type unless the machine multiplies groups of them. If
they are contiguous along depth in memory, squares of lanes are transposed in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xlanb.codegen.elements import memory
from xlanb.codegen.function import Function
from xlanb.codegen.groups import Group
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine
from xlanb.codegen.shuffles import transposed
from xlanb.codegen.types import I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.grid import PART
from xlanb.cpu.emitters.matmul.lanes import Lanes
from xlanb.cpu.emitters.matmul.shared import types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

WORDS = ("source", "target", "unit_step", "step", "units", "depth", "panel")
"""The context: addresses; byte strides between rows (columns) and between steps of depth; the
number of rows and their depth; bytes of a panel.
"""
_AHEAD = 8
"""Lines of a panel that are prefetched ahead of the one being packed."""
_SIGN = 0x80808080
"""XORed with four signed bytes, makes them unsigned by adding 128 to each."""


@dataclass(frozen=True)
class Packing:
    """The memory layout of panels of `units`: lines of `vectors` vectors of `width` lanes."""

    units: int
    vectors: int
    width: int
    source_type: PrimitiveType
    type: PrimitiveType
    """The lanes' type: an accumulation type."""
    along: bool
    """Whether elements are contiguous along depth in the source."""
    group: Group | None = None
    """Groups of elements of the source type, if lanes hold groups."""
    flips: bool = False
    """Whether 128 is added to signed bytes, to make them unsigned."""
    totals: bool = False
    """Whether a last line holds 128 times each column's sum.

    That is the excess of a product whose bytes were made unsigned.
    """
    pads: bool = False
    """Whether lines of the last square beyond the depth are zeros."""
    turned: bool = False
    """Whether a square's line is a unit, with its lanes along depth, and the rest zeros."""
    beside: int = 1
    """Panels that are packed at once, side by side: they share cache lines in the source."""

    @property
    def size(self) -> int:
        """Elements per lane."""
        return self.group.size if self.group is not None else 1

    @property
    def line_bytes(self) -> int:
        """Bytes of a line of one panel."""
        return self.vectors // self.beside * self.width * self.type.byte_size

    def lines(self, depth: int) -> int:
        """Lines of a panel in whole squares, without the totals."""
        return -(-depth // (self.size * self.width)) * self.width

    def panel_bytes(self, depth: int) -> int:
        """Bytes of a panel, or of those packed at once."""
        return (self.lines(depth) + self.totals) * self.line_bytes * self.beside

    @property
    def name(self) -> str:
        """The routine's name."""
        kind = f"{'.along' if self.along else ''}{f'.groups{self.size}' if self.group is not None else ''}"
        kind += f"{'.flips' if self.flips else ''}{'.totals' if self.totals else ''}"
        kind += f"{'.pads' if self.pads else ''}{'.turned' if self.turned else ''}"
        kind += f".beside{self.beside}" if self.beside > 1 else ""
        return f"pack.{types_text(self.source_type, self.type)}.{self.units}x{self.width}{kind}"


def packing_routine(module: ModuleBuilder, p: Packing) -> str:
    """The name of the routine that packs panels lo..hi of an operand."""
    return routine(module, p, p.name, partial(_emit, p), PART)


def _emit(p: Packing, f: Function) -> None:
    context, low, high, _ = map(f.argument, PART)
    addresses, numbers = Pointer(context, PTR), Pointer(context, I64)
    source, target = addresses[0], addresses[1]
    unit_step, step, units, depth, size = (numbers[k] for k in range(2, len(WORDS)))
    with f.loop(high, low) as at:
        first = f.value(at) * p.units
        here, there = displaced(source, first * unit_step), displaced(target, f.value(at) * size)
        panel = _Panel(f, p, here, there, (units - first).smin(p.units), size.udiv(p.beside) if p.beside > 1 else size)
        totals = panel.along(unit_step, depth) if p.along else panel.across(step, depth)
        for k, total in enumerate(totals):
            panel.store(displaced(there, size - p.line_bytes), k, total)


class _Panel:
    """Emits the code that packs one panel, of which `left` units exist."""

    def __init__(self, f: Function, p: Packing, source: Value, target: Value, left: Value, size: Value) -> None:
        self.f, self.p = f, p
        self.source, self.target, self.left, self.size = source, target, left, size
        self.v = Lanes(f, p.type, p.width)
        self.lanes = I32.times(p.width) if p.group is not None else self.v.kind

    def store(self, line: Value, k: int, value: Value) -> None:
        """Store vector `k` of a line."""
        size = self.p.width * self.p.type.byte_size
        panel, k = divmod(k, self.p.vectors // self.p.beside)
        at = displaced(displaced(line, self.size * panel) if panel else line, k * size)
        self.f.store(value, at, size)

    def _start(self) -> list[Value]:
        return [self.f.zero(self.lanes)] * (self.p.vectors if self.p.totals else 0)

    def _finish(self, value: Value) -> Value:
        return value ^ (_SIGN - (1 << 32)) if self.p.flips else value

    def _added(self, total: Value, line: Value) -> Value:
        group = self.p.group
        if group is None:
            raise AssertionError("the total needs a grouping")
        return group.add(total, self.f.const(self.lanes, _SIGN - (1 << 32)), line)

    # -- elements along the units ------------------------------------------------------------------

    def across(self, step: Value, depth: Value) -> list[Value]:
        """Copy lines contiguous in the source, `size` per packed line; return the totals."""
        if self.p.turned:
            self._transpose_lines(step, depth)
            return []
        whole = self.left.equals(self.p.units)
        return self.f.choose(
            whole, lambda: self._lines(step, depth, whole=True), lambda: self._lines(step, depth, whole=False)
        )

    def _lines(self, step: Value, depth: Value, *, whole: bool) -> list[Value]:
        f, p = self.f, self.p
        counts = None
        if not whole or p.units % p.width:
            counts = [(self.left - k * p.width).smax(0) for k in range(p.vectors)]
        state = [self.source, self.target, *self._start()]
        kept = depth.udiv(p.size)
        lines: list[tuple[Value, Value | None]] = [(kept, None)]
        if p.size > 1:
            left_over = depth - kept * p.size
            lines.append(((left_over > 0).zext(I64), left_over))
        for count, rest in lines:
            with f.carried(count, state, guarded=True) as loop:
                here, there, *totals = loop.values
                below = [displaced(here, step * j) if j else here for j in range(p.size)]
                if rest is None:
                    for at in below:
                        f.prefetch(displaced(at, step * (p.size * _AHEAD)))
                for k in range(p.vectors):
                    made = self._line(below, k, None if counts is None else counts[k], rest)
                    if p.totals:
                        totals[k] = self._added(totals[k], made)
                    self.store(there, k, self._finish(made))
                loop.next = [displaced(here, step * p.size), displaced(there, p.line_bytes), *totals]
            state = list(loop.values)
        if p.pads:
            self._pad(state[1], depth)
        return state[2:]

    def _pad(self, place: Value, depth: Value) -> None:
        """Store the lines of zeros of the last square."""
        f, p = self.f, self.p
        lines, each = (depth + (p.size - 1)).udiv(p.size), p.width
        with f.carried(((lines + (each - 1)) & -each) - lines, [place], guarded=True) as loop:
            (line,) = loop.values
            for k in range(p.vectors):
                self.store(line, k, f.zero(self.lanes))
            loop.next = [displaced(line, p.line_bytes)]

    def _transpose_lines(self, step: Value, depth: Value) -> None:
        """Transpose squares of lines, so that each line is a unit."""
        f, p = self.f, self.p
        each = p.size * p.width
        counts = [(self.left - k * p.width).smax(0) for k in range(p.vectors)]
        with f.carried((depth + (each - 1)).udiv(each), [f.zero(I64), self.source, self.target]) as loop:
            at, here, there = loop.values
            for k, count in enumerate(counts):
                lines = []
                for r in range(p.width):
                    below = [displaced(here, step * (r * p.size + j)) for j in range(p.size)]
                    lines.append(self._line(below, k, count, (depth - at - r * p.size).smax(0)))
                self._store_square(there, k, transposed(lines))
            loop.next = [at + each, displaced(here, step * each), displaced(there, p.width * p.line_bytes)]

    def _store_square(self, place: Value, k: int, lines: Sequence[Value]) -> None:
        """Store square `k` of a step of squares: its lines, one after another."""
        size = self.p.line_bytes // self.p.vectors
        for r, line in enumerate(lines):
            self.f.store(self._finish(line), displaced(place, (k * self.p.width + r) * size), size)

    def _line(self, below: Sequence[Value], k: int, count: Value | None, rest: Value | None) -> Value:
        """A vector of a line: `count` of its lanes, `rest` source lines or more (None: all)."""
        f, p = self.f, self.p
        if p.group is None:
            mask = Mask.first(f, p.width, count) if count is not None else None
            return self.v.load(p.source_type, below[0], k * p.width, mask)
        kind = memory(p.source_type)
        made = f.zero(self.lanes)
        for j, at in enumerate(below):
            lanes = count
            if rest is not None:
                lanes = (rest > j).select(p.width if count is None else count, f.zero(I64))
            mask = Mask.first(f, p.width, lanes) if lanes is not None else None
            raw = Pointer(at, kind).load(k * p.width, p.width, mask).zext(I32)
            made = made | (raw << (j * kind.bits)) if j else raw
        return made

    # -- elements along depth ----------------------------------------------------------------------

    def along(self, unit_step: Value, depth: Value) -> list[Value]:
        """Transpose squares of vector registers; return the totals.

        Rows past the end repeat the last one; their sums are not stored.
        """
        f, p = self.f, self.p
        squares = (depth + (p.size * p.width - 1)).udiv(p.size * p.width)
        rows = [displaced(self.source, (self.left - 1).smin(u) * unit_step) for u in range(p.units)]
        places = [f.alloca(PTR) for _ in rows]
        for place, row in zip(places, rows, strict=True):
            f.store(row, place, 8)
        item = p.source_type.byte_size
        with f.carried(squares, [f.zero(I64), self.target, *self._start()], guarded=True) as loop:
            at, there, *totals = loop.values
            mask = depth - at
            whole = mask >= p.size * p.width
            for k in range(p.vectors):
                units = range(k * p.width, (k + 1) * p.width)
                given = [displaced(f.load(PTR, places[min(u, p.units - 1)], 8), at * item) for u in units]
                given = given[: max(1, p.units - k * p.width)]
                square = f.choose(whole, partial(self._loaded, given), partial(self._loaded, given, mask))
                square += [square[-1]] * (p.width - len(square))
                if p.turned:
                    self._store_square(there, k, square)
                    continue
                for r, made in enumerate(transposed(square)):
                    if p.totals:
                        totals[k] = self._added(totals[k], made)
                    self.store(displaced(there, r * p.line_bytes), k, self._finish(made))
            loop.next = [at + p.size * p.width, displaced(there, p.width * p.line_bytes), *totals]
        return loop.values[2:]

    def _loaded(self, rows: Sequence[Value], left: Value | None = None) -> list[Value]:
        """Load a vector of each row, of which `left` elements exist."""
        f, p = self.f, self.p
        if p.group is None:
            mask = Mask.first(f, p.width, left) if left is not None else None
            return [self.v.load(p.source_type, row, 0, mask) for row in rows]
        kind, count = memory(p.source_type), p.size * p.width
        mask = Mask.first(f, count, left) if left is not None else None
        return [Pointer(row, kind).load(0, count, mask).bits_as(self.lanes) for row in rows]


__all__ = ["WORDS", "Packing", "packing_routine"]

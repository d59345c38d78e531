"""Operands packed into panels, in the order that a blocked product's tile reads (see blocks).

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
from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.groups import Group
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import ModuleBuilder
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine
from xlanb.codegen.types import I32, I64, PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.copies import transposed
from xlanb.cpu.emitters.matmul.lanes import Lanes
from xlanb.cpu.emitters.matmul.shared import types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

PART = (
    Parameter(PTR, "context", "noalias readonly"),
    Parameter(I64, "lo"),
    Parameter(I64, "hi"),
    Parameter(I64, "slot"),
)
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

    @property
    def size(self) -> int:
        """Elements per lane."""
        return self.group.size if self.group is not None else 1

    @property
    def line_bytes(self) -> int:
        """Bytes of a line."""
        return self.vectors * self.width * self.type.byte_size

    def lines(self, depth: int) -> int:
        """Lines of a panel in whole squares, without the totals."""
        return -(-depth // (self.size * self.width)) * self.width

    def panel_bytes(self, depth: int) -> int:
        """Bytes of a panel."""
        return (self.lines(depth) + self.totals) * self.line_bytes

    @property
    def name(self) -> str:
        """The routine's name."""
        kind = f"{'.along' if self.along else ''}{f'.groups{self.size}' if self.group is not None else ''}"
        kind += f"{'.flips' if self.flips else ''}{'.totals' if self.totals else ''}"
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
        panel = _Panel(f, p, here, there, (units - first).smin(p.units))
        totals = panel.along(unit_step, depth) if p.along else panel.across(step, depth)
        for k, total in enumerate(totals):
            panel.store(displaced(there, size - p.line_bytes), k, total)


class _Panel:
    """Emits the code that packs one panel, of which `left` units exist."""

    def __init__(self, f: Function, p: Packing, source: Value, target: Value, left: Value) -> None:
        self.f, self.p = f, p
        self.source, self.target, self.left = source, target, left
        self.v = Lanes(f, p.type, p.width)
        self.lanes = I32.times(p.width) if p.group is not None else self.v.kind

    def store(self, line: Value, k: int, value: Value) -> None:
        """Store vector `k` of a line."""
        at = displaced(line, k * self.p.width * self.p.type.byte_size)
        self.f.store(value, at, self.p.width * self.p.type.byte_size)

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
        return state[2:]

    def _line(self, below: Sequence[Value], k: int, count: Value | None, rest: Value | None) -> Value:
        """A vector of a line: `count` of its lanes, `rest` source lines (None: all)."""
        f, p = self.f, self.p
        if p.group is None:
            mask = Mask.first(f, p.width, count) if count is not None else None
            return self.v.load(p.source_type, below[0], k * p.width, mask)
        kind = memory(p.source_type)
        made = f.zero(self.lanes)
        for j, at in enumerate(below):
            lanes = count
            if j and rest is not None:
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


__all__ = ["PART", "WORDS", "Packing", "packing_routine"]

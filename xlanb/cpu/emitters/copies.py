"""Copies of arrays in memory, with another layout or type; threads share large ones.

    c[i, j, ...] = a[i, j, ...]         for axes with a stride in each array

The loops over blocks are a grid (see matmul.grid). A block is a few lines or, if the source is not
contiguous along the target's fastest axis, a band of squares transposed in registers; with a short
axis, as of colours, a line of it that is taken apart, or lines that are interleaved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xlanb.codegen.costs import COMMON
from xlanb.codegen.elements import is_narrow
from xlanb.codegen.function import Function, Parameter
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.parallel import is_shared
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import ATTRIBUTES, routine, word
from xlanb.codegen.shuffles import interleaved, taken_apart, transposed
from xlanb.codegen.types import PTR
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis, count, merged
from xlanb.cpu.emitters.matmul.grid import PART, Span, Work, call_part, emit_grid, even
from xlanb.cpu.emitters.matmul.lanes import Lanes, has_masks, lanes_of
from xlanb.cpu.emitters.matmul.shared import ROUTINE, types_text
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_UNITS = {1: PrimitiveType.U8, 2: PrimitiveType.U16, 4: PrimitiveType.U32, 8: PrimitiveType.U64}
"""Types that elements are copied as if not converted, by their byte sizes."""
PAGE = 2048
"""Lines at a multiple of this many bytes share few sets of the caches."""
_PARAMETERS = (Parameter(PTR, "p0", "noalias noundef"), Parameter(PTR, "p1", "noalias readonly noundef"))


@dataclass(frozen=True)
class Copy:
    """Elements of `source_type` at strides `a`, converted to `type` at strides `c`."""

    axes: tuple[ContractionAxis, ...]
    source_type: PrimitiveType
    type: PrimitiveType
    pair: int = 0
    """Distance to a second source line whose elements are interleaved as 16-bit halves of each lane
    (see Lanes.together); 0: none.
    """

    def normalized(self) -> Copy:
        """Drop axes of size one, join neighbouring ones, and sort by descending target stride.

        Elements that are not converted become integers of their size.
        """
        axes, source, to = self.axes, self.source_type, self.type
        if source is to:
            if to.byte_size == 16:
                axes = (ContractionAxis(2, 1, 0, 1), *(replace(x, a=2 * x.a, c=2 * x.c) for x in axes))
            source = to = _UNITS[min(to.byte_size, 8)]
        axes = merged(axes, lambda x: (x.c, x.a))
        return Copy(axes if axes and axes[-1].c == 1 else (*axes, ContractionAxis(1, 1, 0, 1)), source, to, self.pair)


@dataclass(frozen=True)
class CopyLoops:
    """A copy as blocks: each calls the routine `name` with the table `words`, for `nanoseconds`."""

    spans: list[Span]
    name: str
    words: list[int]
    nanoseconds: float


def emit_copy(f: Function, copy: Copy, source: Value, target: Value) -> None:
    """Emit the copy; threads share it if it is long."""
    if not prod(x.size for x in copy.axes):
        return
    made = moves(f, copy)
    emit_grid(f, made.spans, Work(made.name, made.words, (source, source, target), made.nanoseconds))


def is_transposing(copy: Copy) -> bool:
    """Whether the source is not contiguous along the target's fastest axis."""
    return copy.normalized().axes[-1].a != 1


def moves(f: Function, copy: Copy) -> CopyLoops:
    """The blocks of a copy: lines, or squares if it transposes."""
    copy = copy.normalized()
    across = next((n for n, x in enumerate(copy.axes[:-1]) if x.a == 1), None)
    if across is None or copy.axes[-1].a == 1:
        return _lines(f, copy)
    return _combs(f, copy, across) or _squares(f, copy, across)


def _moves(f: Function, copy: Copy, name: str, words: list[int], steps: dict[ContractionAxis, int]) -> CopyLoops:
    """The blocks with `steps` elements along the given axes and one along all others."""
    sizes = copy.source_type.byte_size, copy.type.byte_size
    spans = [Span(x.size, steps.get(x, 1), (x.a * sizes[0], 0, x.c * sizes[1])) for x in copy.axes]
    elements = prod(steps.values())
    return CopyLoops(spans, name, words, 3 + elements * sizes[1] * f.target.costs.turned_byte_ns)


def emit_bytes(f: Function, target: Value, source: Value, size: int, *, spread: bool = False) -> str | None:
    """Copy bytes between arrays that do not overlap.

    `spread` says that threads wrote the source, each a part, which is still in its cache: then they
    share shorter copies too.

    Returns the name of the called function, or None if the copy is emitted inline.
    """
    c = f.target.costs
    blocks, nanoseconds = -(-size // COMMON.block_elements), COMMON.block_elements * c.turned_byte_ns
    if spread and size >= c.spread_copy_bytes:
        nanoseconds = max(nanoseconds, c.wake_ns / blocks)
    if not is_shared(f, blocks, nanoseconds):
        f.copy(target, source, size)
        return None

    key, made = ("copy", size, nanoseconds), f.module.made
    if key not in made:
        own = f.module.function(f"xlanb.copy.{size}", _PARAMETERS, ATTRIBUTES, "")
        made[key] = own.name
        name, places = routine(own.module, "bytes", "bytes", _emit_bytes, PART), map(own.argument, _PARAMETERS)
        call_part(own, name, [size], list(places), blocks, nanoseconds)
        own.ready = own.calls_only = True
        own.sign(_PARAMETERS, ATTRIBUTES)
    f.call_own(made[key], target, source)
    return made[key]


def _emit_bytes(f: Function) -> None:
    """Copy blocks low..high; the table holds the total byte count."""
    context, low, high, _ = map(f.argument, PART)
    p, target, source = (Pointer(context, PTR)[k] for k in range(3))
    begin, end = low * COMMON.block_elements, (high * COMMON.block_elements).umin(word(p, 0))
    f.copy(displaced(target, begin), displaced(source, begin), end - begin)


def _lanes(f: Function, to: PrimitiveType, width: int) -> Lanes:
    """Vectors of elements on their way to a type: those of narrow floats are f32 until stored."""
    return Lanes(f, PrimitiveType.F32 if is_narrow(to) else to, width)


# -- lines -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CopyLine:
    """Copy lines of elements, by vectors if the source is contiguous too. The routine's table:

    lines, a, c      the line count, and byte strides between lines in source and target
    vectors, lanes   per line, whole vectors and remaining elements (`tail`: how many; -1: in the
    table)
    count, step      instead, if `strided`: elements, and the byte stride between them in the source
    pair             if `pairs`: byte offset of the line that is interleaved with each line
    """

    width: int
    tail: int
    strided: bool
    pairs: bool
    source_type: PrimitiveType
    type: PrimitiveType

    @property
    def name(self) -> str:
        """The routine's name."""
        kind = f"{'.strided' if self.strided else ''}{'.pairs' if self.pairs else ''}"
        end = f".lanes{self.tail}" if self.tail > 0 else ".lanes" if self.tail else ""
        return f"lines.{types_text(self.source_type, self.type)}.x{self.width}{kind}{end}"


def _lines(f: Function, copy: Copy) -> CopyLoops:
    *outer, fast = copy.axes
    size = even(fast.size, COMMON.block_elements)
    below = outer[-1] if outer and size == fast.size else ContractionAxis(1)
    count = even(below.size, max(1, COMMON.block_elements // size))
    source, to = copy.source_type, copy.type
    width = lanes_of(f.target, to.bits)
    lanes = size % width
    strided = fast.a != 1
    tail = 0 if strided else -1 if lanes and has_masks(f.target) else lanes
    line = CopyLine(width, tail, strided, copy.pair != 0, source, to)
    words = [count, below.a * source.byte_size, below.c * to.byte_size]
    words += [size, fast.a * source.byte_size] if strided else [size // width, lanes]
    words.append(copy.pair * source.byte_size)
    name = routine(f.module, line, line.name, lambda f: _emit_lines(f, line), ROUTINE)
    return _moves(f, copy, name, words, {below: count, fast: size})


def _emit_lines(f: Function, line: CopyLine) -> None:
    a, _, c, p = map(f.argument, ROUTINE)
    count, a_step, c_step, *sizes = (word(p, k) for k in range(6))
    write = _elements if line.strided else _vectors
    with f.carried(count, [a, c]) as lines:
        here, there = lines.values
        write(f, line, sizes, here, there)
        lines.next = [displaced(here, a_step), displaced(there, c_step)]


def _elements(f: Function, line: CopyLine, sizes: Sequence[Value], a: Value, c: Value) -> None:
    """Copy elements with a stride in the source."""
    (count, step, _), one = sizes, _lanes(f, line.type, 1)
    with f.carried(count, [a, c]) as loop:
        here, there = loop.values
        one.store(line.type, there, 0, one.load(line.source_type, here, 0))
        loop.next = [displaced(here, step), displaced(there, line.type.byte_size)]


def _vectors(f: Function, line: CopyLine, sizes: Sequence[Value], a: Value, c: Value) -> None:
    """Copy whole vectors, then the remaining elements."""
    (vectors, lanes, pair), v = sizes, _lanes(f, line.type, line.width)

    def move(a: Value, c: Value, mask: Mask | None = None) -> None:
        value = v.load(line.source_type, a, 0, mask)
        if line.pairs:
            value = v.together(value, v.load(line.source_type, displaced(a, pair), 0, mask))
        v.store(line.type, c, 0, value, mask)

    with f.carried(vectors, [a, c], guarded=True) as loop:
        here, there = loop.values
        move(here, there)
        steps = line.width * line.source_type.byte_size, line.width * line.type.byte_size
        loop.next = [displaced(at, step) for at, step in zip((here, there), steps, strict=True)]
    if line.tail:
        a, c = loop.values
        move(a, c, Mask.first(f, line.width, lanes) if line.tail < 0 else v.some(line.tail))


# -- squares ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Squares:
    """Transpose squares of elements, each row contiguous in the source. The routine's table:

    a, c             byte strides between rows in the source and, transposed, in the target
    squares, last    squares along the target's fastest axis; the last one's first element (it
    overlaps)
    across           squares along the source's fastest axis
    """

    side: int
    source_type: PrimitiveType
    type: PrimitiveType


def _squares(f: Function, copy: Copy, across: int) -> CopyLoops:
    fast, along = copy.axes[-1], copy.axes[across]
    source, to = copy.source_type, copy.type
    limit = min(f.target.vector_bits // to.bits, 16, fast.size, along.size)
    side = 1 << (limit.bit_length() - 1)
    squares = Squares(side, source, to)
    is_paged = along.c * to.byte_size % PAGE == 0 and count(copy.axes) * to.byte_size <= COMMON.paged_transpose_bytes
    many = COMMON.paged_tiles_across if is_paged else COMMON.tiles_across
    size, per_row = even(fast.size, COMMON.band_elements), min(many, along.size // side)
    words = [fast.a * source.byte_size, along.c * to.byte_size, -(-size // side), size - side, per_row]
    name = f"squares.{types_text(source, to)}.x{side}"
    name = routine(f.module, squares, name, lambda f: _emit_squares(f, squares), ROUTINE)
    return _moves(f, copy, name, words, {fast: size, along: per_row * side})


def _emit_squares(f: Function, squares: Squares) -> None:
    n, v = squares.side, _lanes(f, squares.type, squares.side)
    a, _, c, p = map(f.argument, ROUTINE)
    row_step, column_step, count, last, across = (word(p, k) for k in range(5))
    with f.loop(count) as i, f.loop(across) as j:
        row, column = (f.value(i) * n).smin(last), f.value(j) * n
        here = displaced(a, row * row_step + column * squares.source_type.byte_size)
        there = displaced(c, column * column_step + row * squares.type.byte_size)
        rows: list[Value] = []
        for r in range(n):
            here = displaced(here, row_step) if r else here
            rows.append(v.load(squares.source_type, here, 0))
        for r, made in enumerate(transposed(rows)):
            there = displaced(there, column_step) if r else there
            v.store(squares.type, there, 0, made)


# -- combs -----------------------------------------------------------------------------------------

_TEETH = 7
"""The most lines that are interleaved; more fill rows of squares."""


@dataclass(frozen=True)
class Comb:
    """Take a line apart, every `teeth`-th element to a line, or if `joins` interleave such lines.

    The routine's table:

    lines            byte stride between the lines of which each has every `teeth`-th element
    vectors, last    vectors of each; the last one's first element (it overlaps)
    """

    teeth: int
    width: int
    joins: bool
    source_type: PrimitiveType
    type: PrimitiveType


def _combs(f: Function, copy: Copy, across: int) -> CopyLoops | None:
    """The blocks of a copy whose axis that is contiguous on one side is short; None for others."""
    fast, along = copy.axes[-1], copy.axes[across]
    joins = fast.size < along.size
    teeth, long = (fast, along) if joins else (along, fast)
    source, to = copy.source_type, copy.type
    if not 1 < teeth.size <= _TEETH or (long.c if joins else long.a) != teeth.size or copy.pair:
        return None
    limit = min(f.target.vector_bits // max(source.bits, to.bits), long.size)
    width = 1 << (limit.bit_length() - 1)
    if width < 4:
        return None
    comb = Comb(teeth.size, width, joins, source, to)
    size = even(long.size, COMMON.band_elements)
    words = [teeth.a * source.byte_size if joins else teeth.c * to.byte_size, -(-size // width), size - width]
    name = f"comb.{types_text(source, to)}.{teeth.size}x{width}{'.joins' if joins else ''}"
    name = routine(f.module, comb, name, lambda f: _emit_combs(f, comb), ROUTINE)
    return _moves(f, copy, name, words, {long: size, teeth: teeth.size})


def _emit_combs(f: Function, comb: Comb) -> None:
    v, n, width = _lanes(f, comb.type, comb.width), comb.teeth, comb.width
    a, _, c, p = map(f.argument, ROUTINE)
    line, count, last = (word(p, k) for k in range(3))
    with f.loop(count) as i:
        first = (f.value(i) * width).smin(last)
        if comb.joins:
            here, there = first * comb.source_type.byte_size, first * (n * comb.type.byte_size)
            lines = [v.load(comb.source_type, displaced(displaced(a, here), line * k), 0) for k in range(n)]
            for k, made in enumerate(interleaved(lines)):
                v.store(comb.type, displaced(c, there), k * width, made)
        else:
            here, there = first * (n * comb.source_type.byte_size), first * comb.type.byte_size
            lines = [v.load(comb.source_type, displaced(a, here), k * width) for k in range(n)]
            for k, made in enumerate(taken_apart(lines)):
                v.store(comb.type, displaced(displaced(c, there), line * k), 0, made)

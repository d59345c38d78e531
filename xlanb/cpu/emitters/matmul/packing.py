"""Operands copied into scratch, where their order or their type does not suit the tiles: rows as vectors, transposes in square blocks of registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlanb.codegen.costs import Costs
from xlanb.codegen.function import Function
from xlanb.codegen.lanes import Mask
from xlanb.codegen.memory import Pointer
from xlanb.codegen.module import Target
from xlanb.codegen.routines import moved, routine, word
from xlanb.codegen.types import I1, I8
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.matmul.contraction import Axis, count, merged
from xlanb.cpu.emitters.matmul.grid import Span, Work, digits_of, emit_grid
from xlanb.cpu.emitters.matmul.lanes import Lanes, Place, has_masks, lanes_of
from xlanb.cpu.emitters.matmul.shared import ROUTINE, types_text
from xlanb.shape import PrimitiveType

_BLOCK = 64
"""Bytes of zeros in a store."""
_MOVED_AS = {
    PrimitiveType.BF16: PrimitiveType.U16,
    PrimitiveType.F16: PrimitiveType.U16,
    PrimitiveType.C64: PrimitiveType.U64,
    PrimitiveType.C128: PrimitiveType.U64,
}
"""Types of the same size, or half of it, that vectors are made of."""


@dataclass(frozen=True)
class Copy:
    """Elements of `source_type` at strides `a`, converted to `type` at strides `c`."""

    axes: tuple[Axis, ...]
    source_type: PrimitiveType
    type: PrimitiveType

    def normalized(self) -> Copy:
        """Without axes of one element, neighbours joined, in falling order of the target's strides; where nothing is converted, as integers of that size."""
        axes, t = self.axes, _MOVED_AS.get(self.type) if self.source_type is self.type else None
        if self.type is PrimitiveType.C128:
            axes = (Axis(2, 1, 0, 1), *(replace(x, a=2 * x.a, c=2 * x.c) for x in axes))
        return Copy(merged(axes, lambda x: (x.c, x.a)), t or self.source_type, t or self.type)


@dataclass(frozen=True)
class Line:
    """A run of elements along one axis as a routine: a vector at a time where they lie side by side in the source too. Its table:

    vectors, lanes          whole vectors, and elements after them (`tail`: how many; -1 where the table has it)
    count, step             instead, where `strided`: elements, and bytes from one to the next in the source
    blocks, rest, bytes     of zeros before the run, and the same after it, where `padded`: blocks of 64 bytes, the bytes after them as bits, and bytes in all
    """

    width: int
    tail: int
    strided: bool
    padded: bool
    source_type: PrimitiveType
    type: PrimitiveType

    @property
    def name(self) -> str:
        """What the routine is called."""
        kind = f"{'.strided' if self.strided else ''}{'.padded' if self.padded else ''}"
        end = f".lanes{self.tail}" if self.tail > 0 else ".lanes" if self.tail else ""
        return f"line.{types_text(self.source_type, self.type)}.x{self.width}{kind}{end}"


@dataclass(frozen=True)
class _Square:
    """A square of elements, each row contiguous in the source, exchanged. Its table: bytes from row to row in the source and, after the exchange, in the target."""

    side: int
    source_type: PrimitiveType
    type: PrimitiveType


def emit_copy(f: Function, copy: Copy, source: Place, target: Place) -> None:
    """Emit the copy, shared by threads where it is long; the places are the first bytes. The target's fastest axis must have stride 1."""
    if not count(copy.axes):
        return
    made = moves(f, copy)
    copy = copy.normalized()
    begin = source.at(copy.source_type, 0)
    arrays = begin, begin, target.at(copy.type, 0)
    emit_grid(f, made.spans, digits_of(made.spans), Work(made.name, made.words, arrays, made.nanoseconds))


@dataclass(frozen=True)
class Moves:
    """A copy as blocks: the routine `name` with the table `words` at each, some `nanoseconds` long."""

    spans: list[Span]
    name: str
    words: list[int]
    nanoseconds: float


def moves(f: Function, copy: Copy) -> Moves:
    """The blocks of a copy of some elements."""
    copy = copy.normalized()
    axes = copy.axes or (Axis(1, 1, 0, 1),)
    types = copy.source_type, copy.type
    fast = axes[-1]
    side = min(8, f.target.vector_bits // copy.type.bits)
    across = next((n for n, x in enumerate(axes[:-1]) if x.a == 1 and x.size >= side), None)
    if fast.a != 1 and across is not None and fast.size >= side > 1 and fast.c == 1:
        square = _Square(side, *types)
        name = routine(
            f.module, square, f"square.{types_text(*types)}.x{side}", lambda f: _emit_square(f, square), ROUTINE
        )
        words = [fast.a * copy.source_type.byte_size, axes[across].c * copy.type.byte_size]
        steps = [side if n in (across, len(axes) - 1) else 1 for n in range(len(axes))]
        return Moves(_spans(copy, axes, steps), name, words, _cost(side * side, f.target.costs))
    size = min(fast.size, 4096)
    name, words = line_routine(f, size, types, stride=fast.a)
    return Moves(_spans(copy, axes, [size if x is fast else 1 for x in axes]), name, words, _cost(size, f.target.costs))


def line_routine(
    f: Function,
    size: int,
    types: tuple[PrimitiveType, PrimitiveType],
    *,
    stride: int = 1,
    zeros: tuple[int, int] | None = None,
) -> tuple[str, list[int]]:
    """The name of a routine (ptr source, ptr, ptr target) that copies a run of so many elements and converts them, with so many zeros around it, and its table.

    The target's address is that of the zeros before the run.
    """
    source_type, to = types
    width = lanes_of(f.target, to.bits)
    vectors, lanes = divmod(size, width)
    line = Line(
        width,
        0 if stride != 1 else -1 if lanes and has_masks(f.target) else lanes,
        stride != 1,
        zeros is not None,
        *types,
    )
    words = [size, stride * source_type.byte_size] if line.strided else [vectors, lanes]
    for n in zeros or ():
        words += _zero_words(f.target, n * to.byte_size)
    return routine(f.module, line, line.name, lambda f: _emit_line(f, line), ROUTINE), words


def _cost(elements: int, costs: Costs) -> float:
    return 3 + elements * costs.moved_element_ns


def _spans(copy: Copy, axes: Sequence[Axis], steps: Sequence[int]) -> list[Span]:
    sizes = copy.source_type.byte_size, copy.type.byte_size
    return [Span(x.size, by, (x.a * sizes[0], 0, x.c * sizes[1])) for x, by in zip(axes, steps, strict=True)]


def _emit_line(f: Function, line: Line) -> None:
    a, _, c, p = map(f.argument, ROUTINE)
    first, second = word(p, 0), word(p, 1)
    if line.padded:
        c = _zeros(c, p, 2)
    if line.strided:
        one = Lanes(f, line.type, 1)
        with f.carried(first, [a, c]) as loop:
            here, there = loop.values
            one.store(line.type, there, 0, one.load(line.source_type, here, 0))
            loop.next = [moved(here, second), moved(there, line.type.byte_size)]
        c = loop.values[1]
    else:
        c = _vectors(f, line, first, second, a, c)
    if line.padded:
        _zeros(c, p, 5)


def _vectors(f: Function, line: Line, vectors: Value, lanes: Value, a: Value, c: Value) -> Value:
    """Whole vectors and what remains; the address after it."""
    v = Lanes(f, line.type, line.width)
    sizes = (line.width * line.source_type.byte_size, line.width * line.type.byte_size)
    with f.carried(vectors, [a, c], guarded=True) as loop:
        here, there = loop.values
        v.store(line.type, there, 0, v.load(line.source_type, here, 0))
        loop.next = [moved(p, n) for p, n in zip((here, there), sizes, strict=True)]
    a, c = loop.values
    if not line.tail:
        return c
    some = Mask.first(f, line.width, lanes) if line.tail < 0 else v.some(line.tail)
    v.store(line.type, c, 0, v.load(line.source_type, a, 0, some), some)
    return moved(c, lanes * line.type.byte_size)


def _zero_words(target: Target, size: int) -> list[int]:
    """Words for `_zeros`: blocks, bits of the rest, and bytes in all."""
    blocks, rest = divmod(size, _BLOCK)
    return [blocks, (1 << rest) - 1, size] if has_masks(target) else [0, 0, size]


def _zeros(at: Value, p: Value, first: int) -> Value:
    """Zeros as the three words from `first` on say; the address after them."""
    f = at.function
    blocks, rest, size = (word(p, first + k) for k in range(3))
    end = moved(at, size)
    if not has_masks(f.target):
        f.fill_zero(at, size, 1)
        return end
    nothing = f.zero(I8.times(_BLOCK))
    with f.carried(blocks, [at], guarded=True) as loop:
        (here,) = loop.values
        Pointer(here, I8).store(0, nothing)
        loop.next = [moved(here, _BLOCK)]
    mask = Mask(_BLOCK, None, rest.bits_as(I1.times(_BLOCK)))
    Pointer(loop.values[0], I8).store(0, nothing, mask)
    return end


def _emit_square(f: Function, square: _Square) -> None:
    n = square.side
    v = Lanes(f, square.type, n)
    a, _, c, p = map(f.argument, ROUTINE)
    row_step, column_step = word(p, 0), word(p, 1)
    rows: list[Value] = []
    for r in range(n):
        a = moved(a, row_step) if r else a
        rows.append(v.load(square.source_type, a, 0))
    for r, row in enumerate(transposed(rows)):
        c = moved(c, column_step) if r else c
        v.store(square.type, c, 0, row)


def transposed(rows: list[Value]) -> list[Value]:
    """The columns of a square of vectors, by halves: exchange blocks of half the side, then of a quarter, ..."""
    n = len(rows)
    half = n // 2
    while half:
        out = list(rows)
        for r in range(n):
            if r & half:
                continue
            low, high = rows[r], rows[r + half]
            f = low.function
            out[r] = f.shuffle(low, high, [k if not k & half else n + k - half for k in range(n)])
            out[r + half] = f.shuffle(low, high, [k + half if not k & half else n + k for k in range(n)])
        rows, half = out, half // 2
    return rows

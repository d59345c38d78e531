"""Operands copied into scratch, where their order or their type does not suit the tiles: rows as vectors, transposes in square blocks of registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.ir import Function, ModuleBuilder
from xlanb.cpu.codegen.matmul.contraction import Axis, count, merged
from xlanb.cpu.codegen.matmul.grid import Span, digits_of, grid
from xlanb.cpu.codegen.matmul.lanes import Lanes, Place, lanes_of
from xlanb.cpu.codegen.matmul.tile import once
from xlanb.shape import PrimitiveType

_NANOSECONDS = 0.1
"""Of copying one element."""


@dataclass(frozen=True)
class Copy:
    """Elements of `source_type` at strides `a`, converted to `type` at strides `c`."""

    axes: tuple[Axis, ...]
    source_type: PrimitiveType
    type: PrimitiveType

    def normalized(self) -> Copy:
        """Without axes of one element, neighbours joined, in falling order of the target's strides."""
        return replace(self, axes=merged(self.axes, lambda x: (x.c, x.a)))


@dataclass(frozen=True)
class _Line:
    """A run of elements along one axis: a vector at a time where `stride` is 1."""

    size: int
    stride: int
    source_type: PrimitiveType
    type: PrimitiveType
    width: int


@dataclass(frozen=True)
class _Square:
    """A square of elements: rows at `a` in the source (each contiguous), at `c` in the target after the exchange."""

    side: int
    a: int
    c: int
    source_type: PrimitiveType
    type: PrimitiveType


def emit_copy(e: Elemental, copy: Copy, source: Place, target: Place) -> None:
    """Emit the copy, shared by threads where it is long. The target's fastest axis must have stride 1."""
    copy = copy.normalized()
    if not count(copy.axes):
        return
    axes = copy.axes or (Axis(1, 1, 0, 1),)
    fast = axes[-1]
    side = min(8, e.f.target.vector_bits // copy.type.bits)
    across = next((n for n, x in enumerate(axes[:-1]) if x.a == 1 and x.size >= side), None)
    if fast.a != 1 and across is not None and fast.size >= side > 1 and fast.c == 1:
        _squares(e, copy, axes, across, side, source, target)
        return
    width = lanes_of(e.f.target, copy.type.bits)
    line = _Line(min(fast.size, 4096), fast.a, copy.source_type, copy.type, width)
    spans = [Span(x.size, 1, (x.a, x.c)) for x in axes[:-1]] + [Span(fast.size, line.size, (fast.a, fast.c))]
    name = once(e.f.module, line, "line", lambda f: _emit_line(f, line))
    _call(e, spans, copy, name, line.size, source, target)


def line_function(module: ModuleBuilder, size: int, source_type: PrimitiveType, to: PrimitiveType) -> str:
    """The name of a function (ptr source, ptr source, ptr target) that copies a run of so many elements and converts them."""
    line = _Line(size, 1, source_type, to, lanes_of(module.target, to.bits))
    return once(module, line, "line", lambda f: _emit_line(f, line))


def _squares(
    e: Elemental, copy: Copy, axes: tuple[Axis, ...], across: int, side: int, source: Place, target: Place
) -> None:
    square = _Square(side, axes[-1].a, axes[across].c, copy.source_type, copy.type)
    name = once(e.f.module, square, "square", lambda f: _emit_square(f, square))
    spans = [Span(x.size, side if n in (across, len(axes) - 1) else 1, (x.a, x.c)) for n, x in enumerate(axes)]
    _call(e, spans, copy, name, side * side, source, target)


def _call(
    e: Elemental, spans: Sequence[Span], copy: Copy, name: str, elements: int, source: Place, target: Place
) -> None:
    f = e.f
    with grid(e, spans, digits_of(spans), 2, nanoseconds=3 + elements * _NANOSECONDS) as at:
        a, c = source.at(f, copy.source_type, at.offsets[0]), target.at(f, copy.type, at.offsets[1])
        f.do(f"call void @{name}(ptr {a}, ptr {a}, ptr {c})")


def _emit_line(f: Function, line: _Line) -> None:
    if line.stride != 1:
        one = Lanes(f, line.type, 1)
        with f.loop(line.size) as i:
            one.store(line.type, "%c", i, one.load(line.source_type, "%a", f.mul(i, line.stride), 1), 1)
        return
    v = Lanes(f, line.type, line.width)
    whole = line.size // line.width
    if whole:
        with f.loop(whole) as i:
            at = f.mul(i, line.width)
            v.store(line.type, "%c", at, v.load(line.source_type, "%a", at, line.width), line.width)
    rest = line.size % line.width
    if rest:
        at = whole * line.width
        v.store(line.type, "%c", at, v.load(line.source_type, "%a", at, rest), rest)


def _emit_square(f: Function, square: _Square) -> None:
    n = square.side
    v = Lanes(f, square.type, n)
    rows = [v.load(square.source_type, "%a", r * square.a, n) for r in range(n)]
    for r, row in enumerate(transposed(f, v.kind, rows)):
        v.store(square.type, "%c", r * square.c, row, n)


def transposed(f: Function, kind: str, rows: list[str]) -> list[str]:
    """The columns of a square of vectors, by halves: exchange blocks of half the side, then of a quarter, ..."""
    n = len(rows)
    half = n // 2
    while half:
        out = list(rows)
        for r in range(n):
            if r & half:
                continue
            low, high = rows[r], rows[r + half]
            first = [k if not k & half else n + k - half for k in range(n)]
            second = [k + half if not k & half else n + k for k in range(n)]
            for target, picks in ((r, first), (r + half, second)):
                mask = ", ".join(f"i32 {p}" for p in picks)
                out[target] = f.let(f"shufflevector {kind} {low}, {kind} {high}, <{n} x i32> <{mask}>")
        rows, half = out, half // 2
    return rows

"""The input as the window sees it: with its padding, with the holes of a base dilation, in the type that is summed in; copied into scratch where it is not so already."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from math import prod

from xlanb.cpu.codegen.conv.numbers import Convolution
from xlanb.cpu.codegen.conv.phases import phases
from xlanb.cpu.codegen.elemental import Elemental
from xlanb.cpu.codegen.indexing import strides
from xlanb.cpu.codegen.ir import Function, Ix
from xlanb.cpu.codegen.matmul.grid import Span, digits_of, grid
from xlanb.cpu.codegen.matmul.lanes import Place, address
from xlanb.cpu.codegen.matmul.packing import line_function
from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class Side:
    """One dimension of the padded input: position p holds element (p - low) / dilation of `size`, where there is such a one, and else zero."""

    extent: int
    size: int
    low: int = 0
    dilation: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether every position is an element, and the first the first."""
        return self.low == 0 and self.dilation == 1 and self.extent <= self.size

    @property
    def is_whole(self) -> bool:
        """Whether the positions are the elements, all of them."""
        return self.is_plain and self.extent == self.size

    @property
    def skipped(self) -> int:
        """Elements before the first that has a position."""
        return max(0, -(self.low // self.dilation))

    @property
    def first(self) -> int:
        """The position of the first element that has one."""
        return self.skipped * self.dilation + self.low

    @property
    def held(self) -> int:
        """Elements that have a position."""
        return max(0, min(self.size - self.skipped, -(-(self.extent - self.first) // self.dilation)))


@dataclass(frozen=True)
class Padded:
    """The input that a convolution runs over: sides by dimension, `order` of the dimensions from slow to fast, strides by dimension; `bytes` of scratch, 0 where it is the input itself."""

    sides: tuple[Side, ...]
    order: tuple[int, ...]
    strides: tuple[int, ...]
    source_type: PrimitiveType
    type: PrimitiveType
    bytes: int = 0


def padded(c: Convolution) -> Padded:
    """The input of a convolution, or what has to be made of it."""
    spatial = c.numbers.input_spatial
    sides = [Side(size, size) for size in c.source.dimensions]
    for d, w, found in zip(spatial, c.window, phases(c), strict=True):
        low = max(phase.low for phase in found)
        reach = max(
            (phase.count - 1) * phase.stride + max(phase.taps - 1, 0) * w.window_dilation + 1 - phase.low
            for phase in found
        )
        sides[d] = Side(low + reach, c.source.dimensions[d], low, found[0].dilation)
    order = tuple(reversed(c.source.minor_to_major))
    source_type = c.source.element_type
    if all(s.is_plain for s in sides) and source_type is c.type:
        return Padded(tuple(sides), order, strides(c.source), source_type, source_type)
    steps, step = [0] * len(sides), 1
    for d in reversed(order):
        steps[d] = step
        step *= sides[d].extent
    size = -(-step * c.type.byte_size // 64) * 64
    return Padded(tuple(sides), order, tuple(steps), source_type, c.type, size)


def emit_padded(e: Elemental, p: Padded, c: Convolution, source: Place, target: Place) -> None:
    """Fill the scratch, a row at a time: all that lies behind the fastest dimension that is not whole is one run of memory."""
    f = e.f
    at = max((k for k, d in enumerate(p.order) if not p.sides[d].is_whole), default=0)
    outer, row, inner = p.order[:at], p.order[at], p.order[at + 1 :]
    run = prod(p.sides[d].extent for d in inner)
    side, from_ = p.sides[row], strides(c.source)
    spans = [Span(p.sides[d].extent, 1, (p.strides[d],)) for d in outer]
    work = 5 + side.extent * run * 0.1
    with grid(e, spans, digits_of(spans), 1, nanoseconds=work) as position:
        inside = "true"
        begin: Ix = side.skipped * from_[row]
        for d, start in zip(outer, position.starts, strict=True):
            hit, element = _element(f, p.sides[d], start)
            inside = f.both(inside, hit)
            begin = f.add(begin, f.mul(element, from_[d], wrap=True), wrap=True)
        base = target.at(f, p.type, position.offsets[0])
        whole = side.held == side.extent
        if inside != "true" or not (whole or (side.dilation == 1 and side.held)):
            _zero(f, p, base, 0, side.extent * run)
        if side.held:
            with f.when(inside) if inside != "true" else nullcontext():
                _row(e, p, (side, run, from_[row]), base, source.at(f, p.source_type, begin))


def _row(e: Elemental, p: Padded, row: tuple[Side, int, int], base: str, begin: str) -> None:
    """The elements of a row that has some; the zeros around them where nothing has written them yet."""
    f = e.f
    side, run, step = row
    if side.dilation == 1:
        name = line_function(f.module, side.held * run, p.source_type, p.type)
        _zero(f, p, base, 0, side.first * run)
        f.do(f"call void @{name}(ptr {begin}, ptr {begin}, ptr {address(f, p.type, base, side.first * run)})")
        after = side.first + side.held
        _zero(f, p, base, after * run, (side.extent - after) * run)
        return
    name = line_function(f.module, run, p.source_type, p.type)
    with f.loop(side.held) as k:
        a = address(f, p.source_type, begin, f.mul(k, step))
        c = address(f, p.type, base, f.add(f.mul(k, side.dilation * run), side.first * run))
        f.do(f"call void @{name}(ptr {a}, ptr {a}, ptr {c})")


def _element(f: Function, side: Side, position: Ix) -> tuple[str, Ix]:
    """(i1: does a position hold an element, which one)."""
    if side.is_plain:
        return "true", position
    reach = f.sub(position, side.low) if side.low >= 0 else f.add(position, -side.low)
    inside = f.within(reach, 0, (side.size - 1) * side.dilation + 1)
    if side.dilation == 1:
        return inside, reach
    left = f.rem(reach, side.dilation)
    hit = ("true" if left == 0 else "false") if isinstance(left, int) else f.let(f"icmp eq i64 {left}, 0")
    return f.both(inside, hit), f.div(reach, side.dilation)


def _zero(f: Function, p: Padded, base: str, first: int, count: int) -> None:
    if count > 0:
        f.module.declare("void", "llvm.memset.p0.i64", "ptr, i8, i64, i1")
        at = address(f, p.type, base, first)
        f.do(f"call void @llvm.memset.p0.i64(ptr {at}, i8 0, i64 {count * p.type.byte_size}, i1 false)")

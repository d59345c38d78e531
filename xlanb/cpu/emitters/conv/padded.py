"""The input as the window sees it: with its padding, with the holes of a base dilation, in the type that is summed in; copied into scratch where it is not so already."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xlanb.codegen.function import Function
from xlanb.codegen.indexing import strides
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.conv.numbers import Convolution
from xlanb.cpu.emitters.conv.phases import phases
from xlanb.cpu.emitters.matmul.grid import Span, Work, digits_of, emit_grid
from xlanb.cpu.emitters.matmul.lanes import Place
from xlanb.cpu.emitters.matmul.packing import line_routine
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


def emit_padded(f: Function, p: Padded, c: Convolution, source: Place, target: Place) -> None:
    """Fill the scratch: its elements in runs of memory, as long as they are in the source and here, and the zeros around each run."""
    sides = p.sides
    if any(s.dilation != 1 or not s.held for s in sides):
        _zero(target.at(p.type, 0), p.bytes // p.type.byte_size * p.type.byte_size)
        if all(s.held for s in sides):
            _rows(f, p, c, source, target, holes=True)
        return
    at = _row(p)
    for k, d in enumerate(p.order[:at]):
        side, run = sides[d], p.strides[d]
        for first, last in ((0, side.first), (side.first + side.held, side.extent)):
            if last > first:
                _slab(f, p, p.order[:k], target, first * run, (last - first) * run)
    _rows(f, p, c, source, target, holes=False)


def _row(p: Padded) -> int:
    """Where in the order of dimensions the one stands with which runs end: all that lies behind it is whole."""
    return max((k for k, d in enumerate(p.order) if not p.sides[d].is_whole), default=0)


def _slab(f: Function, p: Padded, outer: tuple[int, ...], target: Place, first: int, count: int) -> None:
    """Zeros from element `first` on at all elements of the outer dimensions."""
    spans = [Span(p.sides[d].held, 1, (0, 0, p.strides[d] * p.type.byte_size)) for d in outer]
    first += sum(p.sides[d].first * p.strides[d] for d in outer)
    begin = target.at(p.type, first)
    size = count * p.type.byte_size
    if prod(s.size for s in spans) == 1:
        _zero(begin, size)
        return
    name, words = line_routine(f, 0, (p.type, p.type), zeros=(0, count))
    emit_grid(
        f,
        spans,
        digits_of(spans),
        Work(name, words, (begin, begin, begin), 3 + count * f.target.costs.moved_element_ns),
    )


def _rows(f: Function, p: Padded, c: Convolution, source: Place, target: Place, *, holes: bool) -> None:
    """The elements. With `holes` all zeros are there already, and a run is what lies behind the row; else it is the row, with the zeros at its ends."""
    from_ = strides(c.source)
    at = _row(p)
    walked = p.order[: at + 1] if holes else p.order[:at]
    side, inner = p.sides[p.order[at]], prod(p.sides[d].extent for d in p.order[at + 1 :])
    sizes = p.source_type.byte_size, p.type.byte_size
    spans = [
        Span(s.held, 1, (from_[d] * sizes[0], 0, p.strides[d] * s.dilation * sizes[1]))
        for d, s in ((d, p.sides[d]) for d in walked)
    ]
    ends = (side.first * inner, (side.extent - side.first - side.held) * inner)
    run = inner if holes else side.held * inner
    name, words = line_routine(f, run, (p.source_type, p.type), zeros=None if holes else ends)
    a = source.at(p.source_type, sum(p.sides[d].skipped * from_[d] for d in p.order[: at + 1]))
    first = sum(p.sides[d].first * p.strides[d] for d in walked)
    arrays = (a, a, target.at(p.type, first))
    emit_grid(f, spans, digits_of(spans), Work(name, words, arrays, 5 + run * f.target.costs.moved_element_ns))


def _zero(at: Value, size: int) -> None:
    at.function.fill_zero(at, size, 1)

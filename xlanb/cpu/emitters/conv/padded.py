"""The padded input of a convolution: with base dilation, in the accumulation type.

It is copied into scratch memory unless the input already has this form.
"""

from __future__ import annotations

from xlanb.codegen.convolution import Convolution
from xlanb.codegen.elements import array
from xlanb.codegen.function import Function
from xlanb.codegen.indexing import strides
from xlanb.codegen.memory import Pointer
from xlanb.codegen.places import displaced
from xlanb.codegen.routines import routine, word
from xlanb.codegen.values import Value
from xlanb.cpu.emitters.conv.phases import phases
from xlanb.cpu.emitters.copies import Copy, emit_copy
from xlanb.cpu.emitters.matmul.contraction import ContractionAxis
from xlanb.cpu.emitters.matmul.grid import Span, Work, emit_grid
from xlanb.cpu.emitters.matmul.shared import ROUTINE
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType


@dataclass(frozen=True, slots=True)
class PaddedSide:
    """One dimension of the padded input.

    Position p holds element (p - low) / dilation of `size` elements if there is one, otherwise
    zero.
    """

    extent: int
    size: int
    low: int = 0
    dilation: int = 1

    @property
    def is_plain(self) -> bool:
        """Whether the positions are exactly the elements, without padding or dilation."""
        return self.low == 0 and self.dilation == 1 and self.extent <= self.size

    @property
    def skipped(self) -> int:
        """Elements before the first one that has a position."""
        return max(0, -(self.low // self.dilation))

    @property
    def first(self) -> int:
        """The position of the first element that has one."""
        return self.skipped * self.dilation + self.low

    @property
    def held(self) -> int:
        """The number of elements that have a position."""
        return max(0, min(self.size - self.skipped, -(-(self.extent - self.first) // self.dilation)))


@dataclass(frozen=True)
class PaddedInput:
    """The input that a convolution reads: one side per dimension.

    `order` lists the dimensions from slowest to fastest, `strides` are by dimension. `bytes` is the
    scratch memory needed, 0 if the input is read in place.
    """

    sides: tuple[PaddedSide, ...]
    order: tuple[int, ...]
    strides: tuple[int, ...]
    source_type: PrimitiveType
    type: PrimitiveType
    bytes: int = 0


def padded(c: Convolution, *, features_last: bool = False) -> PaddedInput:
    """Plan the padded input of a convolution, in its layout or with features fastest."""
    spatial = c.numbers.input_spatial
    sides = [PaddedSide(size, size) for size in c.source.dimensions]
    for d, w, found in zip(spatial, c.window, phases(c), strict=True):
        low = max(phase.low for phase in found)
        reach = max(
            (phase.count - 1) * phase.stride + max(phase.taps - 1, 0) * w.window_dilation + 1 - phase.low
            for phase in found
        )
        sides[d] = PaddedSide(low + reach, c.source.dimensions[d], low, found[0].dilation)
    own = order = tuple(reversed(c.source.minor_to_major))
    if features_last:
        feature = c.numbers.input_feature
        order = (*(d for d in own if d != feature), feature)
    source_type = c.source.element_type
    if order == own and all(s.is_plain for s in sides) and source_type is c.type:
        return PaddedInput(tuple(sides), order, strides(c.source), source_type, source_type)
    steps, step = [0] * len(sides), 1
    for d in reversed(order):
        steps[d] = step
        step *= sides[d].extent
    size = -(-step * c.type.byte_size // 64) * 64
    return PaddedInput(tuple(sides), order, tuple(steps), source_type, c.type, size)


def emit_padded(f: Function, p: PaddedInput, c: Convolution, source: Value, target: Value) -> None:
    """Fill the scratch memory: zeros around or (with dilation) between elements, then elements."""
    from_ = strides(c.source)
    is_held = all(side.held for side in p.sides)
    if not is_held or any(side.dilation != 1 for side in p.sides):
        f.fill_zero(target, p.bytes)
    else:
        for k, d in enumerate(p.order):
            _zero_ends(f, p, p.order[:k], d, array(p.type, target))
    if is_held:
        axes = tuple(
            ContractionAxis(side.held, from_[d], 0, p.strides[d] * side.dilation) for d, side in enumerate(p.sides)
        )
        a = sum(side.skipped * from_[d] for d, side in enumerate(p.sides))
        to = sum(side.first * p.strides[d] for d, side in enumerate(p.sides))
        begin, goal = array(p.source_type, source).address(a), array(p.type, target).address(to)
        emit_copy(f, Copy(axes, p.source_type, p.type), begin, goal)


def _zero_ends(f: Function, p: PaddedInput, outer: tuple[int, ...], d: int, target: Pointer) -> None:
    """Write zeros before and after a dimension's elements, for all elements of the outer ones."""
    side, step, size = p.sides[d], p.strides[d], p.type.byte_size
    low, high = side.first * step, (side.extent - side.first - side.held) * step
    if low + high:
        spans = [Span(p.sides[o].held, 1, (0, 0, p.strides[o] * size)) for o in outer]
        begin = target.address(sum(p.sides[o].first * p.strides[o] for o in outer))
        name = routine(f.module, "zeros", "zeros", _emit_zeros, ROUTINE)
        words = [low * size, (low + side.held * step) * size, high * size]
        cost = 3 + (low + high) * f.target.costs.moved_element_ns
        emit_grid(f, spans, Work(name, words, (begin, begin, begin), cost))


def _emit_zeros(f: Function) -> None:
    """Fill two ranges with zeros; the table has the first's size, the second's offset and size."""
    _, _, c, p = map(f.argument, ROUTINE)
    f.fill_zero(c, word(p, 0), 1)
    f.fill_zero(displaced(c, word(p, 1)), word(p, 2), 1)

"""Select-and-scatter, as in gradients of max pooling: each window keeps one element and updates it.

for each window, in memory order; threads share the slowest dimensions whose windows are disjoint
  fastest dimension not windowed (NHWC):  vectors of windows: find the offsets that they keep, then
                                          update what is at each offset where it is the one
  any other layout:                       one window at a time
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product, takewhile

from xlanb.codegen import arithmetic
from xlanb.codegen.elemental import array_of, pack
from xlanb.codegen.elements import Element, parts, real
from xlanb.codegen.folds import window_position
from xlanb.codegen.function import Ix
from xlanb.codegen.indexing import Index, order
from xlanb.codegen.lanes import split
from xlanb.codegen.nest import nested
from xlanb.codegen.types import I32, I64
from xlanb.codegen.values import Value
from xlanb.codegen.views import along
from xlanb.cpu.emitters.kernel import Kernel, emitter
from xlanb.cpu.emitters.updates import fill
from xlanb.hlo.opcode import HloOpcode as Op

_UNROLLED = 16
"""Windows of at most this many elements are unrolled in vectors."""


@emitter(Op.SELECT_AND_SCATTER)
def _select_and_scatter(k: Kernel) -> bool:
    """For each source element, `scatter` it into the element of its window that `select` keeps."""
    ready = fill(k, k.root.operands[2])
    windows = _Windows(k)
    if windows.shape.element_count:
        k.f.ready = windows.emit() and ready
    return True


class _Windows:
    """Emits the windows; `shape` has one element for each."""

    def __init__(self, k: Kernel) -> None:
        self.k, self.e, self.f, i = k, k.e, k.f, k.root
        self.operand, self.source, self.initial = i.operands
        self.base, self.shape = array_of(self.operand), array_of(self.source)
        self.dims = i.window.dimensions
        self.sizes = [w.size for w in self.dims]
        self.volume = math.prod(self.sizes)
        self.numbers = I32 if self.volume < 1 << 31 else I64
        self.select, self.scatter = i.attributes["select"], i.attributes["scatter"]

    def emit(self) -> bool:
        """Emit the loops over windows; return whether they are vectorized."""
        slowest = order(self.shape)[::-1]
        lanes = slowest[-1:] if self._has_lanes() else ()
        around = slowest[: len(slowest) - len(lanes)]
        shared = list(takewhile(self._is_disjoint, around))
        inner = [d for d in around if d not in shared]
        count = math.prod(self.shape.dimensions[d] for d in (*inner, *lanes))
        cost = count * self.volume * self.f.target.costs.updated_element_ns
        with self._loops(shared, cost) as first, self._loops(inner, 0.0) as rest:
            at = {**first, **rest}
            if not lanes:
                self._window(at)
                return False
            (fast,) = lanes
            size = self.shape.dimensions[fast]
            return along(self.f, size, (self.base.element_type,), lambda q: self._window({**at, fast: q}))

    def _has_lanes(self) -> bool:
        """Whether windows that follow one another in memory keep elements that do, too."""
        fast = order(self.shape)[:1]
        return bool(fast) and order(self.base)[:1] == fast and self._is_plain(fast[0])

    def _is_plain(self, d: int) -> bool:
        w = self.dims[d]
        return w.size == w.stride == w.base_dilation == 1 and not w.padding_low and not w.padding_high

    def _is_disjoint(self, d: int) -> bool:
        """Whether windows at different positions along a dimension have no element in common."""
        w = self.dims[d]
        return w.base_dilation == 1 and w.stride > (w.size - 1) * w.window_dilation

    @contextmanager
    def _loops(self, dims: Sequence[int], nanoseconds: float) -> Iterator[dict[int, Ix]]:
        with nested(self.f, [self.shape.dimensions[d] for d in dims], nanoseconds) as at:
            yield dict(zip(dims, at, strict=True))

    def _window(self, at: dict[int, Ix]) -> None:
        """Emit a window, or a vector of windows."""
        f, where = self.f, [at.get(d, 0) for d in range(self.shape.rank)]
        spot = self._kept(where)
        value = self.e.element(self.source, Index(self.shape, where))
        if not f.width:
            with f.when(spot >= 0):
                _, place = self._position(where, split(f, spot.sext(I64), self.sizes))
                self._update(place, value, None)
            return

        def put(number: Ix, offset: Sequence[Ix]) -> None:
            inside, place = self._position(where, offset)
            with f.when(inside) if inside.number is None else f.aside():
                if inside.number != 0:
                    self._update(place, value, spot.equals(self._number(number)))

        self._each(put)

    def _kept(self, where: Sequence[Ix]) -> Value:
        """The number of the offset that a window keeps; -1 if it is outside of the array."""
        f, e, t = self.f, self.e, self.base.element_type
        state = [f.const(self.numbers, -1), *parts(e.scalar(self.initial))]

        def pick(number: Ix, offset: Sequence[Ix], carried: Sequence[Value]) -> list[Value]:
            inside, place = self._position(where, offset)

            def visit() -> list[Value]:
                value = e.element(self.operand, Index(self.base, place))
                best = pack([t], carried[1:])[0]
                stays = (carried[0] >= 0) & real(e.apply(self.select, [best, value])[0])
                chosen = arithmetic.select(stays, best, value)
                return [stays.select(carried[0], self._number(number)), *parts(chosen)]

            return f.choose(inside, visit, lambda: carried)

        if self._is_unrolled:
            for number, offset in self._offsets():
                state = pick(number, offset, state)
            return state[0]
        with f.carried(self.volume, state) as loop:
            loop.next = pick(loop.index, split(f, loop.index, self.sizes), loop.values)
        return loop.values[0]

    @property
    def _is_unrolled(self) -> bool:
        return bool(self.f.width) and self.volume <= _UNROLLED

    def _offsets(self) -> Iterable[tuple[int, tuple[int, ...]]]:
        return enumerate(product(*(range(n) for n in self.sizes)))

    def _each(self, body: Callable[[Ix, Sequence[Ix]], None]) -> None:
        """Emit `body(number, offset)` for all offsets in a window."""
        if self._is_unrolled:
            for number, offset in self._offsets():
                body(number, offset)
            return
        with self.f.loop(self.volume) as at:
            body(at, split(self.f, at, self.sizes))

    def _position(self, where: Sequence[Ix], offset: Sequence[Ix]) -> tuple[Value, list[Ix]]:
        return window_position(self.f, self.dims, where, offset, self.base.dimensions)

    def _number(self, number: Ix) -> Value:
        return self.f.const(self.numbers, number) if isinstance(number, int) else number.trunc(self.numbers)

    def _update(self, place: Sequence[Ix], value: Element, mask: Value | None) -> None:
        """Combine a value into the element at a place, where the mask is set."""
        index, output = Index(self.base, place), self.k.output
        old = output.load(index)
        made = self.e.apply(self.scatter, [old, value])[0]
        output.store(index, made if mask is None else arithmetic.select(mask, made, old))

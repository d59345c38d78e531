"""Split long cumulative sums and products into two steps.

    reduce-window(f32[128] x), window={size=128 pad=127_0}
      =>  inner  = reduce-window(reshape(f32[8,16], x)), window={size=1x16 pad=0_0x15_0}
          before = slice(reduce-window(last column of inner), window={size=8 pad=8_0})
          reshape(f32[128], map(inner, broadcast(before)))

`inner` holds the running values within each run of 16, `before` the totals of all previous runs. A
window of n over n elements costs n * n steps; this costs n * (16 + n / 256). A window over one
dimension gets a second one of size 1.
Source: xla/hlo/transforms/simplifiers/reduce_window_rewriter.h.
"""

from __future__ import annotations

from xlanb.hlo.attributes import PaddingDimension, Window, WindowDimension
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.module import HloModule
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.transforms.base import HloPass
from xlanb.transforms.builder import Builder
from xlanb.transforms.reductions.reduce_window_util import with_second_dimension
from xlanb.transforms.verdict import REAL


@dataclass(frozen=True)
class ReduceWindowRewriter(HloPass):
    """Splits scans written as reduce-windows into runs of `base_length`."""

    name = "reduce-window-rewriter"
    keeps = REAL
    ulps = 8.0
    base_length: int = 16

    def apply(self, module: HloModule) -> None:
        if self.base_length <= 1:
            return
        for c in module.post_order():
            for i in c.post_order():
                # Operands that are reduced together depend on each other; leave them unchanged.
                if i.opcode is not O.REDUCE_WINDOW or len(i.operands) != 2 or i.operands[0].array_shape.is_dynamic:
                    continue
                made = rewrite_scan(i, self.base_length)
                if made is not None:
                    c.replace(i, made)
                elif i.operands[0].array_shape.rank == 1:
                    c.replace(i, with_second_dimension(i))


def rewrite_scan(i: HloInstruction, base_length: int) -> HloInstruction | None:
    """The two-step replacement of a reduce-window that is a long scan.

    None unless it is a scan over more than `base_length` elements.
    """
    scan = _scan_of(i)
    return _Rewrite(i, scan, base_length).result() if scan is not None and scan.length > base_length else None


@dataclass(frozen=True)
class _PrefixFold:
    """A running reduction along a dimension, forwards or backwards.

    An exclusive one returns what comes before each element, and one element more.
    """

    dimension: int
    length: int
    is_forward: bool
    is_exclusive: bool


def _scan_of(i: HloInstruction) -> _PrefixFold | None:
    """The scan that a reduce-window computes, or None."""
    wide = [d for d, w in enumerate(i.window.dimensions) if w != WindowDimension(1)]
    if len(wide) != 1:
        return None
    d, w = wide[0], i.window.dimensions[wide[0]]
    n = i.operands[0].array_shape.dimensions[d]
    is_forward = w.padding_high == 0 and w.padding_low in (n - 1, n)
    is_backward = w.padding_low == 0 and w.padding_high in (n - 1, n)
    if (
        w.size != n
        or not (is_forward or is_backward)
        or w.stride != 1
        or w.reversal
        or w.base_dilation != 1
        or w.window_dilation != 1
    ):
        return None
    return _PrefixFold(d, n, is_forward, n in (w.padding_low, w.padding_high))


class _Rewrite:
    """One scan, its dimension moved to the end and split into columns of `base` elements."""

    def __init__(self, i: HloInstruction, scan: _PrefixFold, base: int) -> None:
        self.i, self.scan, self.base, self.b = i, scan, base, Builder(i)
        self.start = i.operands[1]
        self.rank = i.operands[0].array_shape.rank
        self.order = list(range(self.rank))
        self.order[scan.dimension], self.order[-1] = self.order[-1], self.order[scan.dimension]

    def result(self) -> HloInstruction:
        b, scan = self.b, self.scan
        x = _permuted(b, self.i.operands[0], self.order)
        padded = -(-scan.length // self.base) * self.base
        if padded != scan.length:
            edges = (*[PaddingDimension()] * (self.rank - 1), PaddingDimension(0, padded - scan.length))
            x = b.add(O.PAD, (x, self.start), _resized(x.array_shape, -1, padded), padding=edges)
        whole = b.add(O.RESHAPE, (self._run_totals(x),), x.shape)
        out = _permuted(b, whole, self.order)
        if padded != scan.length:
            limits = list(out.array_shape.dimensions)
            limits[scan.dimension] = scan.length
            out = self._slice(out, [0] * self.rank, limits)
        return self._shifted(out) if scan.is_exclusive else out

    def _run_totals(self, x: HloInstruction) -> HloInstruction:
        """Running values of x within each column, and the totals of all columns before it.

        For a backward scan, of all columns after it.
        """
        b, rank, base, forward = self.b, self.rank, self.base, self.scan.is_forward
        columns = x.array_shape.dimensions[-1] // base
        tiled = _resized(x.array_shape, -1, columns)
        # The new dimension is the most major one in memory, as in XLA.
        tiled = ArrayShape(tiled.element_type, (*tiled.dimensions, base)).with_layout((*tiled.minor_to_major, rank))
        inner = self._window(b.add(O.RESHAPE, (x,), tiled), base, base - 1, tiled)
        starts, limits = [0] * (rank + 1), list(tiled.dimensions)
        starts[-1], limits[-1] = (base - 1, base) if forward else (0, 1)
        ends = self._slice(inner, starts, limits)
        flat = ArrayShape(tiled.element_type, tiled.dimensions[:-1]).with_layout(tiled.minor_to_major[:-1])
        totals = b.add(O.RESHAPE, (ends,), flat)
        running = self._window(totals, columns, columns, _resized(flat, -1, columns + 1))
        if rank == 1:
            wide = with_second_dimension(running)
            b.computation.replace(running, wide)
            running = wide
        first = [0] * rank
        first[-1] = 0 if forward else 1
        before = self._slice(running, first, [s + n for s, n in zip(first, flat.dimensions, strict=True)])
        spread = b.add(O.BROADCAST, (before,), tiled, dimensions=tuple(range(rank)))
        return b.add(O.MAP, (inner, spread), tiled, dimensions=tuple(range(rank + 1)), to_apply=self.i.to_apply)

    def _window(self, x: HloInstruction, size: int, padding: int, shape: ArrayShape) -> HloInstruction:
        low, high = (padding, 0) if self.scan.is_forward else (0, padding)
        dims = (*[WindowDimension(1)] * (x.array_shape.rank - 1), WindowDimension(size, 1, low, high))
        return self.b.add(O.REDUCE_WINDOW, (x, self.start), shape, window=Window(dims), to_apply=self.i.to_apply)

    def _slice(self, x: HloInstruction, starts: list[int], limits: list[int]) -> HloInstruction:
        sliced = self.b.slice(x, starts, limits)
        x.parent.update(sliced, shape=sliced.array_shape.with_layout(x.array_shape.minor_to_major))
        return sliced

    def _shifted(self, out: HloInstruction) -> HloInstruction:
        edge = PaddingDimension(1, 0) if self.scan.is_forward else PaddingDimension(0, 1)
        edges = tuple(edge if d == self.scan.dimension else PaddingDimension() for d in range(self.rank))
        return self.b.add(O.PAD, (out, self.start), self.i.shape, padding=edges)


def _resized(shape: ArrayShape, dimension: int, size: int) -> ArrayShape:
    """The shape with another size of one dimension and the same layout."""
    dims = list(shape.dimensions)
    dims[dimension] = size
    return ArrayShape(shape.element_type, tuple(dims)).with_layout(shape.minor_to_major)


def _permuted(b: Builder, x: HloInstruction, order: list[int]) -> HloInstruction:
    """A transpose that moves no bytes; `order` is its own inverse."""
    if order == sorted(order):
        return x
    s = x.array_shape
    shape = ArrayShape(s.element_type, tuple(s.dimensions[d] for d in order)).with_layout(
        [order[d] for d in s.minor_to_major]
    )
    return b.add(O.TRANSPOSE, (x,), shape, dimensions=tuple(order))

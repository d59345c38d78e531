"""Rows of a few elements, computed for as many rows at a time as a vector has lanes.

A vector along such a row would have two or four elements, and a row whose elements are computed
differently (stacked coordinates, say) would not be one at all. Here each column is a vector of
equal elements of consecutive rows. All columns are interleaved by shuffles, and stored in order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from xlanb.codegen.elements import Element, array, real, to_memory
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.indexing import SHORT_ROW, Index, IrArray, flatten, order
from xlanb.codegen.lanes import LaneIndex, Mask, NotAVectorError, varies
from xlanb.codegen.nest import Nest, Tail, Vectors
from xlanb.codegen.shuffles import interleaved
from xlanb.codegen.values import Value, Vector
from xlanb.cpu.emitters.vector_plan import VectorPlan
from xlanb.shape import ArrayShape

_ELEMENTS = 7
"""The most elements of a row, if each is worth many shuffles: a function, or a narrow float."""
LOADED = SHORT_ROW
"""The most elements of an operand's row that are loaded for the sake of some."""


def row_axes(sizes: Sequence[int], bits: int, p: VectorPlan, lanes: int, run: int) -> int:
    """The number of innermost axes that make up a short row; 0 if rows are long, or few.

    `run` axes share one counter. Vectors along a row are as fast from 7 elements on, or from 5 of
    64 bits.
    """
    longest = _ELEMENTS if p.hard or bits < 32 else 6 if p.widest <= 32 else 4
    found, most = 0, (0, 0)
    for axes in range(max(run, 1), len(sizes)):
        rows, elements = (sizes[-axes - 1], math.prod(sizes[:-axes])), math.prod(sizes[-axes:])
        if 1 < elements <= min(longest, lanes - 1) and rows > most and rows[1] >= lanes // 2:
            found, most = axes, rows
    return found


def row_nest(sizes: tuple[int, ...], lanes: int, nanoseconds: float, tail: Tail, elements: int = 1) -> Nest:
    """A nest over rows, a row per lane; `nanoseconds` is the cost of a row of `elements` elements.

    If the innermost axis has fewer indices than half a vector's lanes, all axes share a counter.
    """
    run = 1 if sizes[-1] >= lanes // 2 else len(sizes)
    return Nest(sizes, run, Vectors(lanes), nanoseconds, tail, interleaved=elements)


def emitted_across(f: Function, nest: Nest, longest: int, body: Callable[[list[Ix]], None]) -> bool:
    """Emit vectors across rows of at most `longest` elements (`Function.across_rows`).

    Returns False, and emits nothing, if that is impossible.
    """
    back = f.mark()
    f.across_rows = longest
    try:
        done = nest.each(f, body)
    finally:
        f.across_rows = 0
    if not done:
        back()
    return done


def columns(shape: ArrayShape, at: Sequence[Ix], axes: int) -> list[Index]:
    """The indices of a row's elements in memory order; `at` has those of the outer axes."""
    slowest = order(shape)[::-1]
    found = []
    for inside in itertools.product(*(range(shape.dimensions[d]) for d in slowest[len(slowest) - axes :])):
        multi: list[Ix] = [0] * shape.rank
        for d, v in zip(slowest, (*at, *inside), strict=True):
            multi[d] = v
        found.append(Index(shape, multi))
    return found


def store_rows(f: Function, to: IrArray, first: Index, elements: Sequence[Element]) -> None:
    """Store a vector per column as rows; `first` is the index of the first column."""
    t, width, count = to.shape.element_type, f.width, len(elements)
    if t.is_complex:
        raise NotAVectorError("parts of elements are interleaved")
    at = flatten(f, first.multi(f), to.shape)
    if not isinstance(at, LaneIndex) or at.step != count:
        raise NotAVectorError("rows are not consecutive")
    vectors = [_vector(f, to_memory(f, t, real(v))) for v in elements]
    pointer = array(t, to.pointer).by(at.first)
    for k, made in enumerate(interleaved(vectors)):
        mask = _part(f, f.mask, count, k)
        if mask is None or mask.count != 0:
            pointer.store(k * width, made, mask)


def _vector(f: Function, value: Value) -> Value:
    made = f.alike(value)[0] if varies(value) else value
    return made if isinstance(made, Vector) else f.splat(made, f.width)


def _part(f: Function, mask: Mask | None, repeat: int, k: int) -> Mask | None:
    """The mask of the k-th vector, where each row of a mask stands for `repeat` elements."""
    width = f.width
    if mask is None:
        return None
    if mask.count is not None:
        return Mask(width, min(max(mask.count * repeat - k * width, 0), width))
    return Mask(width, None, f.shuffle(mask.value(f, repeat), None, range(k * width, (k + 1) * width)))

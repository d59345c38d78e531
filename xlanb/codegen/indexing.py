"""Addresses of elements: multi-dimensional and linear indices, layouts, reshapes.

Every index used for memory consists of loop counters within bounds and of clamped values, so that
nothing is read or written out of bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from xlanb.codegen.elements import Element, array, from_memory, load, store, zero
from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import LaneIndex, NotAVectorError, split, varies
from xlanb.codegen.memory import Pointer
from xlanb.codegen.shuffles import store_columns, taken_apart
from xlanb.codegen.values import Value
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape
from xlanb.shape.shape import common_factors, memory_order


@lru_cache(maxsize=65536)
def strides(shape: ArrayShape) -> tuple[int, ...]:
    """Element strides per dimension, by the layout."""
    out = [0] * shape.rank
    step = 1
    for d in shape.minor_to_major:
        out[d] = step
        step *= shape.dimensions[d]
    return tuple(out)


def same_order(a: ArrayShape, b: ArrayShape) -> bool:
    """Whether two shapes have equal dimensions in the same memory order."""
    if a is b:
        return True
    return a.dimensions == b.dimensions and (a.layout is b.layout or order(a) == order(b))


order = memory_order


class Index:
    """An element of `shape`: an index per dimension, the linear memory offset (`flat`), or both."""

    __slots__ = ("_multi", "flat", "shape")

    def __init__(self, shape: ArrayShape, multi: Sequence[Ix] | None = None, flat: Ix | None = None) -> None:
        self.shape = shape
        self._multi = tuple(multi) if multi is not None else (() if not shape.dimensions else None)
        self.flat = flat

    @property
    def is_flat(self) -> bool:
        """Whether only the offset is known."""
        return self._multi is None

    @property
    def key(self) -> tuple[object, ...]:
        """A key that is equal for equal indices."""
        return ("flat", self.flat, self.shape.minor_to_major) if self._multi is None else self._multi

    @property
    def names(self) -> tuple[Ix, ...]:
        """The components of the index."""
        return (0 if self.flat is None else self.flat,) if self._multi is None else self._multi

    def multi(self, f: Function) -> tuple[Ix, ...]:
        """The index per dimension; computed by divisions if only the offset is known."""
        if self._multi is None:
            return unflatten(f, 0 if self.flat is None else self.flat, self.shape)
        return self._multi


def unflatten(f: Function, flat: Ix, shape: ArrayShape) -> tuple[Ix, ...]:
    """The index per dimension of an offset in memory order."""
    out: list[Ix] = [0] * shape.rank
    slowest = order(shape)[::-1]
    for d, v in zip(slowest, split(f, flat, [shape.dimensions[d] for d in slowest]), strict=True):
        out[d] = v
    return tuple(out)


def flatten(f: Function, multi: Sequence[Ix], shape: ArrayShape) -> Ix:
    """The offset in memory order of an index per dimension."""
    total: Ix = 0
    for d in reversed(shape.minor_to_major):
        if shape.dimensions[d] != 1:
            total = f.add(total, f.mul(multi[d], strides(shape)[d]))
    return total


def flatten_at(f: Function, index: Index, shape: ArrayShape) -> Ix:
    """The offset of an index in an array of the same dimensions, possibly with another layout."""
    if index.flat is not None and same_order(index.shape, shape):
        return index.flat
    return flatten(f, index.multi(f), shape)


def reshape(f: Function, index: Index, to: ArrayShape) -> Index:
    """The element of `to` that a row-major reshape moves to `index`.

    Groups of dimensions with equal products are split and merged separately. Where lanes cannot be
    split so, the offset is still known if both are in row-major order.
    """
    source = index.shape
    keeps_offset = _row_major(source) and _row_major(to)
    if index.flat is not None and keeps_offset:
        return Index(to, flat=index.flat)
    try:
        return Index(to, _regrouped(f, index, to))
    except NotAVectorError:
        if not keeps_offset:
            raise
        return Index(to, flat=flatten_at(f, index, source))


def _regrouped(f: Function, index: Index, to: ArrayShape) -> list[Ix]:
    """The index per dimension of `to` that a row-major reshape moves to `index`."""
    source, multi = index.shape, index.multi(f)
    out: list[Ix] = [0] * to.rank
    for begin, end, to_begin, to_end in common_factors(source.dimensions, to.dimensions):
        wide = [d for d in range(begin, end) if source.dimensions[d] != 1]
        goal = [d for d in range(to_begin, to_end) if to.dimensions[d] != 1]
        rest: Ix = 0
        for d in wide:
            rest = f.add(f.mul(rest, source.dimensions[d]), multi[d])
        for d, v in zip(goal, split(f, rest, [to.dimensions[d] for d in goal]), strict=True):
            out[d] = v
    return out


def bitcast(f: Function, index: Index, to: ArrayShape) -> Index:
    """The element of `to` at the same memory offset as `index`."""
    flat = flatten_at(f, index, index.shape)
    if same_order(index.shape, to):
        return Index(to, index.multi(f), flat) if index.flat is None else Index(to, flat=flat)
    if index.flat is None and _row_major(index.shape) and _row_major(to):
        return reshape(f, index, to)
    return Index(to, flat=flat)


def _row_major(shape: ArrayShape) -> bool:
    return all(a > b for a, b in pairwise(order(shape)))


@dataclass(frozen=True, slots=True)
class IrArray:
    """An array in memory: the address of its first element, and its shape with layout."""

    pointer: Value
    shape: ArrayShape

    def load(self, index: Index) -> Element:
        """The element at an index of the same dimensions; zero if the array is empty.

        That happens for a gather from an empty array.
        """
        f, t = self.pointer.function, self.shape.element_type
        if self.shape.element_count == 0:
            return zero(f, t)
        if f.across_rows and (column := _column(f, self, index)) is not None:
            return column
        return load(t, self.pointer, flatten_at(f, index, self.shape))

    def store(self, index: Index, value: Element) -> None:
        """Store the element at an index of the same dimensions."""
        offset = flatten_at(self.pointer.function, index, self.shape)
        store(self.shape.element_type, self.pointer, offset, value)


SHORT_ROW = 8
"""The most elements of a row that stay in registers; columns of longer ones go to the stack."""


def _column(f: Function, a: IrArray, index: Index) -> Value | None:
    """The element at one place of rows, of which each lane has one; None for other elements.

    The rows are loaded whole, once for all columns.
    """
    if index.is_flat:
        return None
    t, here = a.shape.element_type, list(index.multi(f))
    count = 1
    inside: list[tuple[Ix, int]] = []
    for d in order(a.shape):
        if varies(here[d]):
            break
        inside.append((here[d], count))
        here[d], count = 0, count * a.shape.dimensions[d]
    rows = flatten(f, here, a.shape)
    if not 1 < count <= f.across_rows or t.is_complex or f.mask is not None:
        return None
    if not isinstance(rows, LaneIndex) or rows.step != count:
        return None
    place: Ix = 0
    for at, step in inside:
        place = f.add(place, f.mul(at, step))
    pointer, width = array(t, a.pointer), f.width

    def load_all() -> list[Value]:
        first = pointer.by(rows.first)
        return taken_apart([first.load(k * width, width) for k in range(count)])

    def transpose_all() -> Pointer:
        to = Pointer(f.alloca(pointer.element, -(-count // width) * width**2), pointer.element)
        store_columns(f, pointer.by(rows.first), to, count, pointer.element.times(width))
        return to

    key = "rows", a.pointer, t, rows, count
    if count <= SHORT_ROW and isinstance(place, int):
        columns: list[Value] = f.once(key, (rows,), load_all)
        return from_memory(f, t, columns[place])
    if not f.runs_with(rows.lane.depth):
        raise NotAVectorError("rows would be transposed again for each element")
    held: Pointer = f.once((*key, "held"), (rows,), transpose_all)
    return from_memory(f, t, held.load(f.mul(place, width), width))

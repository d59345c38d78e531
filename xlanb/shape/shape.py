"""Shapes and layouts (xla/shape.h, xla/layout.h): immutable values with XLA's text form.

f32[2,?<=3]{1,0:T(8,128)S(1)}      an array: element type, dimensions (`<=` bounded dynamic), layout
(f32[2]{0}, token[])               a tuple
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from xlanb.display import Displayable
from xlanb.errors import ShapeError
from xlanb.lazy_dataclass import dataclass
from xlanb.shape.primitive_type import PrimitiveType, from_dtype

Index = tuple[int, ...]

MAX_LEAVES = 100_000
"""The most arrays in a tuple, including nested tuples."""
MAX_DEPTH = 100
"""The most levels of nested tuples."""
EXTENT_LIMIT = 2**63
"""XLA rejects a shape if the product of its nonzero dimensions reaches this.

It could not compute its bytes.
"""
MOST_DIMENSIONS = 64
"""The most dimensions of an array with a value: NumPy's limit."""


@dataclass(frozen=True, slots=True)
class Layout(Displayable):
    """The memory layout of an array: `minor_to_major` has the most minor dimension first.

    The other fields are those of xla/layout.h that its text shows after the colon: tiles
    `T(8,128)(2,1)` (each tile a tuple, with `None` for XLA's `*` combined dimension), memory space
    `S(n)`, element size in bits `E(n)`, tail padding alignment `L(n)`, dimension level types
    `D(..)`, and the rest verbatim in `extra`.
    """

    minor_to_major: tuple[int, ...]
    tiles: tuple[tuple[int | None, ...], ...] = ()
    memory_space: int = 0
    element_size_in_bits: int = 0
    tail_padding_alignment: int = 1
    extra: str = ""

    @staticmethod
    def default(rank: int) -> Layout:
        """Row-major: the last dimension is the most minor."""
        return _default_layout(rank)

    @property
    def is_default(self) -> bool:
        """Whether it is row-major, without tiles, memory space or padding."""
        return self == _default_layout(len(self.minor_to_major))

    def __str__(self) -> str:
        tiles = "".join("(" + ",".join("*" if d is None else str(d) for d in t) + ")" for t in self.tiles)
        parts = [f"T{tiles}"] if tiles else []
        if self.tail_padding_alignment != 1:
            parts.append(f"L({self.tail_padding_alignment})")
        if self.element_size_in_bits:
            parts.append(f"E({self.element_size_in_bits})")
        if self.memory_space:
            parts.append(f"S({self.memory_space})")
        tail = "".join(parts) + self.extra
        return "{" + ",".join(map(str, self.minor_to_major)) + (f":{tail}" if tail else "") + "}"


_DEFAULTS: dict[int, Layout] = {}


def _default_layout(rank: int) -> Layout:
    found = _DEFAULTS.get(rank)
    if found is None:
        found = _DEFAULTS[rank] = Layout(tuple(range(rank - 1, -1, -1)))
    return found


class Shape(Displayable):
    """The shape of a value: an `ArrayShape`, a `TupleShape` or a `BufferShape`.

    Tokens and opaques are `ArrayShape`s too.
    """

    __slots__ = ()
    element_type: PrimitiveType

    @property
    def is_array(self) -> bool:
        """Whether this is an array (neither tuple, token, opaque nor buffer)."""
        return self.element_type.is_array

    @property
    def is_tuple(self) -> bool:
        """Whether this is a tuple."""
        return self.element_type is PrimitiveType.TUPLE

    @property
    def is_token(self) -> bool:
        """Whether this is a token."""
        return self.element_type is PrimitiveType.TOKEN

    def as_array(self) -> ArrayShape:
        """This shape, which must be an array.

        Raises:
            ShapeError: it is a tuple, a token or another shape without elements.
        """
        if isinstance(self, ArrayShape) and self.element_type.is_array:
            return self
        raise ShapeError(f"expected an array shape, not {self}")

    def text(self, *, layout: bool = True) -> str:
        """XLA's text form, with or without layouts."""
        raise AssertionError("abstract")

    def leaves(self, index: Index = ()) -> Iterator[tuple[Index, ArrayShape | BufferShape]]:
        """Every subshape that is not a tuple, with its ShapeIndex, in order."""
        raise AssertionError("abstract")

    def without_layout(self) -> Shape:
        """The same shape without layouts."""
        raise AssertionError("abstract")

    def with_default_layout(self) -> Shape:
        """The same shape with row-major layouts where none is set."""
        raise AssertionError("abstract")

    @property
    def byte_size(self) -> int:
        """Bytes of all its arrays, without tuples' pointers; a sub-byte element takes one byte."""
        return sum(s.byte_size for _, s in self.leaves())

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=False, repr=False)
class ArrayShape(Shape):
    """An array: element type, dimensions, which of them are dynamic, and layout.

    The size of a dynamic dimension is its bound, or -1 if it is unbounded. `layout` None means none
    is set.
    """

    element_type: PrimitiveType
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic: tuple[bool, ...] = ()

    def __post_init__(self) -> None:
        layout = self.layout
        if layout is None or layout is _DEFAULTS.get(len(self.dimensions)):
            pass  # by far the most common: no check needed
        elif sorted(layout.minor_to_major) != list(range(len(self.dimensions))):
            raise ShapeError(f"layout {self.layout} does not fit {len(self.dimensions)} dimensions")
        if self.dynamic and not any(self.dynamic):
            object.__setattr__(self, "dynamic", ())

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @cached_property
    def element_count(self) -> int:
        """Number of elements, at the bounds of dynamic dimensions."""
        return math.prod(self.dimensions)

    @cached_property
    def byte_size(self) -> int:
        """Bytes of all elements, packed without padding; a sub-byte element takes one byte."""
        return self.element_count * self.element_type.byte_size

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy dtype of the elements."""
        return self.element_type.dtype

    @property
    def is_scalar(self) -> bool:
        """Whether it is an array without dimensions."""
        return not self.dimensions and self.is_array

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """The layout's order; row-major if none is set."""
        return (self.layout or _default_layout(self.rank)).minor_to_major

    @property
    def is_row_major(self) -> bool:
        """Whether the last dimension is the fastest, the first the slowest."""
        return self.minor_to_major == tuple(reversed(range(self.rank)))

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is dynamic."""
        return bool(self.dynamic)

    def is_dynamic_dimension(self, dimension: int) -> bool:
        """Whether one dimension is dynamic."""
        return bool(self.dynamic) and self.dynamic[dimension]

    def with_type(self, element_type: PrimitiveType) -> ArrayShape:
        """The same dimensions and layout with another element type."""
        return ArrayShape(element_type, self.dimensions, self.layout, self.dynamic)

    def with_dimensions(self, dimensions: Iterable[int], dynamic: Sequence[bool] = ()) -> ArrayShape:
        """The same element type with other dimensions; row-major if a layout was set."""
        dims = tuple(dimensions)
        return ArrayShape(
            self.element_type, dims, None if self.layout is None else _default_layout(len(dims)), tuple(dynamic)
        )

    def with_layout(self, layout: Layout | Sequence[int] | None) -> ArrayShape:
        """The same shape with another layout (a `Layout`, or minor_to_major), or none."""
        if layout is not None and not isinstance(layout, Layout):
            layout = Layout(tuple(layout))
        if layout is self.layout or layout == self.layout:
            return self
        return ArrayShape(self.element_type, self.dimensions, layout, self.dynamic)

    def without_layout(self) -> ArrayShape:
        return self if self.layout is None else self._bare

    @cached_property
    def _bare(self) -> ArrayShape:
        return ArrayShape(self.element_type, self.dimensions, None, self.dynamic)

    def with_default_layout(self) -> ArrayShape:
        return self.with_layout(_default_layout(self.rank)) if self.layout is None and self.is_array else self

    def leaves(self, index: Index = ()) -> Iterator[tuple[Index, ArrayShape | BufferShape]]:
        yield index, self

    def text(self, *, layout: bool = True) -> str:
        return self._text if layout else self._text_without_layout

    def __str__(self) -> str:
        return self._text

    @cached_property
    def _text(self) -> str:
        # XLA prints a scalar's layout only if it has more than the order.
        shown = self.layout is not None and (self.dimensions or not self.layout.is_default)
        return f"{self._text_without_layout}{self.layout if shown else ''}"

    @cached_property
    def _text_without_layout(self) -> str:
        dims = ",".join(_dimension(d, self.is_dynamic_dimension(i)) for i, d in enumerate(self.dimensions))
        return f"{self.element_type}[{dims}]"

    def __eq__(self, other: object) -> bool:
        if self is other:  # true for most comparisons
            return True
        if not isinstance(other, ArrayShape):
            return NotImplemented
        return (
            self.element_type is other.element_type
            and self.dimensions == other.dimensions
            and (self.layout is other.layout or self.layout == other.layout)
            and self.dynamic == other.dynamic
        )

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.element_type, self.dimensions, self.layout, self.dynamic))

    def __repr__(self) -> str:
        return f"Shape({self})"


@dataclass(frozen=True, slots=True, repr=False)
class TupleShape(Shape):
    """A tuple of shapes.

    Raises:
        ShapeError: it has more than MAX_LEAVES arrays or nests deeper than MAX_DEPTH. Tuples of
            tuples may double with each level.
    """

    shapes: tuple[Shape, ...]
    leaf_count: int = field(init=False, compare=False)
    depth: int = field(init=False, compare=False)
    is_dynamic: bool = field(init=False, compare=False)
    element_type = PrimitiveType.TUPLE

    def __post_init__(self) -> None:
        leaves, depth = 0, 0
        for s in self.shapes:
            if isinstance(s, TupleShape):
                leaves += s.leaf_count
                depth = max(depth, s.depth)
            else:
                leaves += 1
        object.__setattr__(self, "leaf_count", leaves)
        object.__setattr__(self, "depth", depth + 1)
        object.__setattr__(self, "is_dynamic", any(has_dynamic(s) for s in self.shapes))
        if leaves > MAX_LEAVES:
            raise ShapeError(f"the tuple has {leaves:,} arrays: at most {MAX_LEAVES:,} are supported")
        if depth >= MAX_DEPTH:
            raise ShapeError(f"the tuple is nested {depth + 1} levels deep: at most {MAX_DEPTH} levels are supported")

    def leaves(self, index: Index = ()) -> Iterator[tuple[Index, ArrayShape | BufferShape]]:
        for i, s in enumerate(self.shapes):
            yield from s.leaves((*index, i))

    def without_layout(self) -> TupleShape:
        return TupleShape(tuple(s.without_layout() for s in self.shapes))

    def with_default_layout(self) -> TupleShape:
        return TupleShape(tuple(s.with_default_layout() for s in self.shapes))

    def text(self, *, layout: bool = True) -> str:
        # XLA numbers every fifth element, so that people can count long tuples.
        parts = [
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + s.text(layout=layout) for i, s in enumerate(self.shapes)
        ]
        return "(" + ", ".join(parts) + ")"

    def __repr__(self) -> str:
        return f"Shape({self})"


@dataclass(frozen=True, slots=True, repr=False)
class BufferShape(Shape):
    """A buffer `b(f32[2]{0})`: an array that may be written in place."""

    array: ArrayShape
    element_type = PrimitiveType.BUFFER

    @property
    def byte_size(self) -> int:
        """Bytes of its array."""
        return self.array.byte_size

    def leaves(self, index: Index = ()) -> Iterator[tuple[Index, ArrayShape | BufferShape]]:
        yield index, self

    def without_layout(self) -> BufferShape:
        return BufferShape(self.array.without_layout())

    def with_default_layout(self) -> BufferShape:
        return BufferShape(self.array.with_default_layout())

    def text(self, *, layout: bool = True) -> str:
        return f"b({self.array.text(layout=layout)})"

    def __repr__(self) -> str:
        return f"Shape({self})"


TOKEN = ArrayShape(PrimitiveType.TOKEN)
OPAQUE = ArrayShape(PrimitiveType.OPAQUE)


def array(element_type: PrimitiveType, dimensions: Iterable[int] = (), *, layout: bool = True) -> ArrayShape:
    """A row-major array shape (`layout=False`: without layout)."""
    dims = tuple(dimensions)
    return ArrayShape(element_type, dims, _default_layout(len(dims)) if layout else None)


def tuple_of(shapes: Iterable[Shape]) -> TupleShape:
    """A tuple shape."""
    return TupleShape(tuple(shapes))


def of_array(value: Any) -> ArrayShape:
    """The row-major shape of a NumPy array or scalar.

    Raises:
        ShapeError: XLA has no element type for its dtype.
    """
    value = np.asarray(value)
    return array(from_dtype(value.dtype), value.shape)


def subshape(shape: Shape, index: Index) -> Shape:
    """The shape at a ShapeIndex.

    Raises:
        ShapeError: there is no such subshape.
    """
    for i in index:
        if not isinstance(shape, TupleShape) or not 0 <= i < len(shape.shapes):
            raise ShapeError(f"no subshape {{{','.join(map(str, index))}}} in {shape}")
        shape = shape.shapes[i]
    return shape


def has_dynamic(shape: Shape) -> bool:
    """Whether any array of a shape has a dynamic dimension."""
    if isinstance(shape, ArrayShape | TupleShape):
        return shape.is_dynamic
    return any(s.is_dynamic for _, s in shape.leaves() if isinstance(s, ArrayShape))


def same(a: Shape, b: Shape) -> bool:
    """Whether shapes are equal except for layouts (XLA's ShapeUtil::Compatible)."""
    return a is b or a == b or a.without_layout() == b.without_layout()


def memory_order(shape: ArrayShape) -> tuple[int, ...]:
    """Dimensions from minor to major, without those of size 1.

    Arrays of equal dimensions and memory order have equal bytes.
    """
    return tuple(d for d in shape.minor_to_major if shape.dimensions[d] != 1)


def long_dimensions(shape: ArrayShape) -> tuple[int, ...]:
    """The dimensions whose size is not 1."""
    return tuple(d for d, n in enumerate(shape.dimensions) if n != 1)


@lru_cache(maxsize=4096)
def common_factors(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, int, int, int], ...]:
    """The finest split of two dimension lists into runs of equal products.

    Each run is (start_a, end_a, start_b, end_b). Source: CommonFactors in XLA's xla/util.h.
    """
    if math.prod(a) == 0 or math.prod(b) == 0:
        return ((0, len(a), 0, len(b)),)
    runs: list[tuple[int, int, int, int]] = []
    i = j = i0 = j0 = 0
    pa = pb = 1
    while i < len(a) or j < len(b):
        if pa == pb and (i > i0 or j > j0):
            runs.append((i0, i, j0, j))
            i0, j0 = i, j
            # Dimensions of size 1 between runs form their own runs, paired if both sides have one.
        if pa == pb and i < len(a) and j < len(b) and a[i] == b[j]:
            runs.append((i, i + 1, j, j + 1))
            i, j = i + 1, j + 1
            i0, j0 = i, j
            pa = pb = 1
        elif j >= len(b) or (i < len(a) and pa * a[i] <= pb * b[j]):
            pa *= a[i]
            i += 1
        else:
            pb *= b[j]
            j += 1
    if i > i0 or j > j0:
        runs.append((i0, i, j0, j))
    return tuple(runs)


def same_layouts(a: Shape, b: Shape) -> bool:
    """Whether the arrays of two compatible shapes have the same memory order.

    Arrays without layout are row-major.
    """
    if a is b:
        return True
    if isinstance(a, TupleShape) and isinstance(b, TupleShape):
        return all(map(same_layouts, a.shapes, b.shapes))
    a, b = (s.array if isinstance(s, BufferShape) else s for s in (a, b))
    if not isinstance(a, ArrayShape) or not isinstance(b, ArrayShape) or a.layout == b.layout:
        return True
    return memory_order(a) == memory_order(b)


def same_dimensions(a: Shape, b: Shape) -> bool:
    """Whether arrays have equal dimensions, whatever their element types and layouts."""
    return isinstance(a, ArrayShape) and isinstance(b, ArrayShape) and a.dimensions == b.dimensions


def _dimension(size: int, dynamic: bool) -> str:
    if not dynamic:
        return str(size)
    return "?" if size < 0 else f"<={size}"

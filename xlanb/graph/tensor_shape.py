"""Static shapes of TensorFlow tensors: any dimension, and the rank itself, may be unknown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, overload

from xlanb.errors import GraphError

Dims = tuple[int | None, ...]


class Dimension:
    """One dimension of a static shape, as in TensorFlow 1: `.value` is its size, None if
    unknown.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        if isinstance(value, Dimension):
            value = value.value
        self.value: int | None = None if value is None else int(value)
        if self.value is not None and self.value < 0:
            raise GraphError(f"a dimension must be non-negative, got {self.value}")

    def __int__(self) -> int:
        if self.value is None:
            raise GraphError("the dimension is unknown")
        return self.value

    def __index__(self) -> int:
        return int(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimension | int | None) and self.value == (
            other.value if isinstance(other, Dimension) else other
        )

    def __hash__(self) -> int:
        return hash(self.value)

    def _with(self, other: Any, operator: Any) -> Dimension:
        right = Dimension(other).value
        return Dimension(None if self.value is None or right is None else operator(self.value, right))

    def __add__(self, other: Any) -> Dimension:
        return self._with(other, int.__add__)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Dimension:
        return self._with(other, int.__sub__)

    def __mul__(self, other: Any) -> Dimension:
        return self._with(other, int.__mul__)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Dimension:
        return self._with(other, int.__floordiv__)

    def __str__(self) -> str:
        return "?" if self.value is None else str(self.value)

    def __repr__(self) -> str:
        return f"Dimension({self.value})"


class TensorShape:
    """A static shape: `TensorShape([None, 3])`; `TensorShape(None)` has unknown rank."""

    __slots__ = ("_dims",)

    def __init__(self, dims: Any = None) -> None:
        if isinstance(dims, TensorShape):
            self._dims: Dims | None = dims._dims
        elif dims is None:
            self._dims = None
        else:
            items: Iterable[Any] = dims if isinstance(dims, Iterable) else (dims,)
            self._dims = tuple(_size(d) for d in items)

    def as_tuple(self) -> Dims | None:
        """Return the sizes, None for unknown ones; None if the rank is unknown."""
        return self._dims

    @property
    def rank(self) -> int | None:
        """Number of dimensions, None where unknown."""
        return None if self._dims is None else len(self._dims)

    @property
    def ndims(self) -> int | None:
        """The rank, by its older name."""
        return self.rank

    @property
    def dims(self) -> list[Dimension] | None:
        """The dimensions, None if the rank is unknown."""
        return None if self._dims is None else [Dimension(d) for d in self._dims]

    def as_list(self) -> list[int | None]:
        """Return the sizes as a list. Raises GraphError if the rank is unknown."""
        if self._dims is None:
            raise GraphError("as_list() is not defined on a TensorShape of unknown rank")
        return list(self._dims)

    def is_fully_defined(self) -> bool:
        """Whether rank and every dimension are known."""
        return self._dims is not None and None not in self._dims

    def num_elements(self) -> int | None:
        """Number of elements, None where unknown."""
        count = 1
        if self._dims is None:
            return None
        for d in self._dims:
            if d is None:
                return None
            count *= d
        return count

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one value can have both shapes."""
        return _merged(self._dims, TensorShape(other)._dims) is not False

    def merge_with(self, other: Any) -> TensorShape:
        """Merge the known sizes of both shapes. Raises GraphError if they contradict each other."""
        merged = _merged(self._dims, TensorShape(other)._dims)
        if merged is False:
            raise GraphError(f"Shapes {self} and {TensorShape(other)} are not compatible")
        return TensorShape(merged)

    def concatenate(self, other: Any) -> TensorShape:
        """This shape followed by the dimensions of `other`."""
        right = TensorShape(other)._dims
        return TensorShape(None if self._dims is None or right is None else self._dims + right)

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape with `rank` dimensions. Raises GraphError if it has another rank."""
        return self.merge_with([None] * rank)

    def __len__(self) -> int:
        return len(self.as_list())

    def __iter__(self) -> Iterator[Dimension]:
        return iter(Dimension(d) for d in self.as_list())

    @overload
    def __getitem__(self, key: int) -> Dimension: ...
    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...
    def __getitem__(self, key: int | slice) -> Dimension | TensorShape:
        if self._dims is None:
            return TensorShape(None) if isinstance(key, slice) else Dimension(None)
        return TensorShape(self._dims[key]) if isinstance(key, slice) else Dimension(self._dims[key])

    def __bool__(self) -> bool:
        return self._dims is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorShape | list | tuple | None):
            return NotImplemented
        return self._dims == TensorShape(other)._dims

    def __hash__(self) -> int:
        return hash(self._dims)

    def __str__(self) -> str:
        if self._dims is None:
            return "<unknown>"
        inner = ", ".join("?" if d is None else str(d) for d in self._dims)
        return f"({inner},)" if len(self._dims) == 1 else f"({inner})"

    def __repr__(self) -> str:
        return f"TensorShape({None if self._dims is None else list(self._dims)})"


def _size(value: Any) -> int | None:
    """One size; -1 is GraphDef's unknown."""
    if isinstance(value, Dimension):
        return value.value
    if value is None:
        return None
    size = int(value)
    if size < -1:
        raise GraphError(f"a dimension must be non-negative or unknown, got {size}")
    return None if size == -1 else size


def _merged(a: Dims | None, b: Dims | None) -> Dims | bool | None:
    if a is None or b is None:
        return b if a is None else a
    if len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True)):
        return False
    return tuple(y if x is None else x for x, y in zip(a, b, strict=True))

"""Literal: a constant of a given shape (xla/literal.h).

An immutable NumPy array or a tuple of literals.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import LiteralError
from xlanb.shape.shape import ArrayShape, Shape, TupleShape, of_array, tuple_of


class Literal:
    """A constant: `shape`, and `array` or `elements` (of a tuple).

    `array` is read-only, in C order, with the dtype of the element type. A literal whose text was
    elided (`{...}`) has `is_elided`; its elements are meaningless zeros.
    """

    __slots__ = ("_array", "_key", "elements", "is_elided", "shape")

    def __init__(
        self, shape: Shape, array: Any = None, elements: tuple[Literal, ...] = (), *, is_elided: bool = False
    ) -> None:
        self.shape = shape
        self.elements = elements
        self.is_elided = is_elided
        self._key: tuple[Any, ...] | None = None
        self._array: np.ndarray[Any, Any] | None = None
        if is_elided and isinstance(array, np.ndarray) and not array.flags.writeable:
            # A broadcast zero: a large elided constant must not take memory.
            self._array = array
        elif isinstance(shape, ArrayShape) and shape.is_array:
            value = np.ascontiguousarray(array, dtype=shape.dtype).reshape(np.shape(array))
            if value.shape != shape.dimensions:
                raise LiteralError(f"a value of shape {list(value.shape)} does not match the literal's shape {shape}")
            if value is array or value.base is not None or value.flags.writeable:
                value = value.copy()
            value.flags.writeable = False
            self._array = value

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements, read-only.

        Raises:
            LiteralError: this is a tuple or a token.
        """
        if self._array is None:
            raise LiteralError(f"a literal of shape {self.shape} has no elements")
        return self._array

    @staticmethod
    def of(value: Any) -> Literal:
        """The row-major literal of a NumPy array or scalar, or of a (nested) tuple of them."""
        if isinstance(value, tuple):
            parts = tuple(Literal.of(v) for v in value)
            return Literal(tuple_of(p.shape for p in parts), elements=parts)
        value = np.asarray(value)
        return Literal(of_array(value), value)

    def numpy(self) -> Any:
        """The value as a NumPy array, or a tuple of them."""
        return tuple(e.numpy() for e in self.elements) if isinstance(self.shape, TupleShape) else self._array

    def _identity(self) -> tuple[Any, ...]:
        """The key for comparison, by bits: NaN equals itself and -0.0 is not 0.0."""
        if self._key is None:
            # Two elided literals are never equal.
            data = id(self) if self.is_elided else self.elements if self._array is None else self._array.tobytes()
            self._key = (self.shape, data, self.is_elided)
        return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Literal) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"Literal({self.shape}, {self.numpy()!r})"

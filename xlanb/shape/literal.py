"""Literal: a constant of a given shape (xla/literal.h).

An immutable NumPy array or a tuple of literals.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from xlanb.errors import LiteralError
from xlanb.shape.shape import ArrayShape, Shape, TupleShape, of_array, tuple_of

ALIGNMENT = 64
_LARGE = 4096
"""Bytes from which on the elements are aligned to a cache line, so that kernels can read them."""
_SHORT = 1024
"""Bytes up to which the elements themselves are a key."""


class Literal:
    """A constant: `shape`, and `array` or `elements` (of a tuple).

    `array` is read-only, in C order, with the dtype of the element type. A literal whose text was
    elided (`{...}`) has `is_elided`; its elements are meaningless zeros.

    The array given is copied unless nobody can change it. With `is_own` the caller gives it away:
    it is made read-only instead.
    """

    __slots__ = ("_array", "_bits", "_key", "elements", "is_elided", "shape")

    def __init__(
        self,
        shape: Shape,
        array: Any = None,
        elements: tuple[Literal, ...] = (),
        *,
        is_elided: bool = False,
        is_own: bool = False,
    ) -> None:
        self.shape = shape
        self.elements = elements
        self.is_elided = is_elided
        self._key: tuple[Any, ...] | None = None
        self._bits: Hashable = None
        self._array: np.ndarray[Any, Any] | None = None
        if is_elided and isinstance(array, np.ndarray) and not array.flags.writeable:
            # A broadcast zero: a large elided constant must not take memory.
            self._array = array
        elif isinstance(shape, ArrayShape) and shape.is_array:
            value = np.ascontiguousarray(array, dtype=shape.dtype)
            if not np.shape(array):  # it has become a vector
                value = value.reshape(())
            if value.shape != shape.dimensions:
                raise LiteralError(f"a value of shape {list(value.shape)} does not match the literal's shape {shape}")
            if is_own:
                _freeze(value)
            if not _is_frozen(value):
                value = _frozen_copy(value)
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

    @property
    def bits(self) -> Hashable:
        """A key of the elements: equal for the same bytes, whatever the shape.

        Raises:
            LiteralError: this is a tuple or a token.
        """
        if self._bits is None:
            array = self.array
            self._bits = array.tobytes() if array.nbytes <= _SHORT else _Bits(array)
        return self._bits

    def _identity(self) -> tuple[Any, ...]:
        """The key for comparison, by bits: NaN equals itself and -0.0 is not 0.0."""
        if self._key is None:
            # Two elided literals are never equal.
            data = id(self) if self.is_elided else self.elements if self._array is None else self.bits
            self._key = (self.shape, data, self.is_elided)
        return self._key

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Literal) and self._identity() == other._identity())

    def __hash__(self) -> int:
        return hash(self._identity())

    def __repr__(self) -> str:
        return f"Literal({self.shape}, {self.numpy()!r})"


class _Bits:
    """The bytes of a large array as a key, without a copy."""

    __slots__ = ("_bytes", "_hash")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._bytes = array.reshape(-1).view(np.uint8)
        self._hash = hash((self._bytes.size, zlib.crc32(self._bytes.data)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, _Bits) and self._hash == other._hash and np.array_equal(self._bytes, other._bytes)


def aligned_zeros(count: int, dtype: Any) -> np.ndarray[Any, Any]:
    """A vector of zeros that begins at a cache line."""
    size = count * np.dtype(dtype).itemsize
    memory = np.zeros(size + ALIGNMENT, np.uint8)
    begin = -memory.__array_interface__["data"][0] % ALIGNMENT
    return memory[begin : begin + size].view(dtype)


def _frozen_copy(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if value.nbytes < _LARGE:
        made = value.copy()
    else:
        made = aligned_zeros(value.size, value.dtype).reshape(value.shape)
        made[...] = value
    _freeze(made)
    return made


def _freeze(value: Any) -> None:
    """Make an array read-only, and the arrays that it is a view of."""
    while isinstance(value, np.ndarray):
        value.flags.writeable = False
        value = value.base


def _is_frozen(value: np.ndarray[Any, Any]) -> bool:
    """Whether an array owns its memory, or most of an array's, and nobody may write to it."""
    owner: Any = value if value.base is None else value.base
    if not isinstance(owner, np.ndarray) or owner.base is not None or owner.nbytes > value.nbytes + ALIGNMENT:
        return False
    return not value.flags.writeable and not owner.flags.writeable

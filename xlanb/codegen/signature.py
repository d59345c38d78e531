"""The signature of a program: named arrays, checked on input and allocated on output."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from xlanb.boundary import array_of
from xlanb.buffers.live_ranges import sizes_bytes
from xlanb.codegen.dynamic import packed, sizes_at, unpacked
from xlanb.codegen.indexing import strides
from xlanb.errors import ArgumentError
from xlanb.hlo.module import HloModule
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import ArrayShape, Shape, TupleShape
from xlanb.wording import counted

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One argument or result array; `order` lists the dimensions from slowest to fastest.

    `order` is None for row-major.
    """

    label: str
    shape: ArrayShape
    dtype: np.dtype[Any]
    dimensions: tuple[int, ...]
    order: tuple[int, ...] | None

    @staticmethod
    def of(label: str, shape: Shape) -> ArraySpec:
        """The spec of an array shape."""
        array = shape.as_array()
        order = tuple(reversed(array.minor_to_major))
        return ArraySpec(
            label, array, array.dtype, array.dimensions, None if order == tuple(range(array.rank)) else order
        )

    def taken(self, value: Any) -> Array:
        """The argument in the form that the program reads: contiguous and aligned.

        It is copied only if needed.

        Raises:
            ArgumentError: dtype or shape do not fit.
        """
        array = value if type(value) is np.ndarray else self._coerced(value)
        if array.dtype is not self.dtype and array.dtype != self.dtype:
            raise ArgumentError(
                f"{self.label}: expected {self._expected()}, got dtype {array.dtype} of shape {array.shape}"
            )
        if self.shape.is_dynamic:
            return self._taken_dynamic(array)
        if array.shape != self.dimensions:
            raise ArgumentError(f"{self.label}: expected {self._expected()}, got shape {array.shape}")
        if self.order is not None:
            array = array.transpose(self.order)
        return array if array.flags.carray or _is_readable(array) else np.array(array, self.dtype, order="C", copy=True)

    def _taken_dynamic(self, array: Array) -> Array:
        """The argument with its sizes appended."""
        fits = len(array.shape) == self.shape.rank and all(
            n <= d if self.shape.is_dynamic_dimension(k) else n == d
            for k, (n, d) in enumerate(zip(array.shape, self.dimensions, strict=True))
        )
        if not fits:
            raise ArgumentError(f"{self.label}: expected {self._expected()}, got shape {array.shape}")
        memory = self.fresh()
        packed(self.shape, array, memory.ctypes.data)
        return memory

    def _coerced(self, value: Any) -> Array:
        """Convert to an array; a Python number gets the expected dtype."""
        if isinstance(value, (bool, int, float, complex)):
            try:
                return np.asarray(value, self.dtype)
            except (OverflowError, TypeError, ValueError) as error:
                raise ArgumentError(f"{self.label}: expected {self._expected()}, got {value!r}: {error}") from None
        return array_of(
            value,
            lambda error: ArgumentError(
                f"{self.label}: expected {self._expected()}, got {type(value).__name__}: {error}"
            ),
        )

    def _expected(self) -> str:
        return f"{self.shape.text(layout=False)} (dtype {self.dtype}, shape {self.dimensions})"

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Byte strides per dimension; None for row-major."""
        return None if self.order is None else tuple(n * self.dtype.itemsize for n in strides(self.shape))

    @property
    def byte_size(self) -> int:
        """Bytes in memory."""
        return self.shape.element_count * self.dtype.itemsize + sizes_bytes(self.shape)

    def fresh(self) -> Array:
        """Allocate a result in the order of its layout.

        A dynamic array is bytes, with its bound as its sizes.
        """
        if self.shape.is_dynamic:
            memory = np.empty(self.byte_size, np.uint8)
            sizes_at(self.shape, memory.ctypes.data)[:] = self.dimensions
            return memory
        dims = self.dimensions if self.order is None else tuple(self.dimensions[d] for d in self.order)
        return np.empty(dims, self.dtype)

    def given(self, array: Array) -> Array:
        """The result as the caller sees it: a transposed view of the memory, without a copy.

        A dynamic array is copied in its actual size.
        """
        if self.shape.is_dynamic:
            return np.array(unpacked(self.shape, array.ctypes.data))
        return array if self.order is None else array.transpose(np.argsort(self.order))


def _is_readable(array: Array) -> bool:
    """Whether it is contiguous, aligned and of native byte order; it may be read-only."""
    return bool(array.flags.c_contiguous and array.flags.aligned and array.dtype.isnative)


@dataclass(frozen=True)
class Signature:
    """The signature of a program: the module's name, its parameters by name, its result."""

    name: str
    parameters: tuple[tuple[str, Shape], ...]
    result: Shape

    @classmethod
    def of(cls, module: HloModule, names: Iterable[str]) -> Signature:
        """The signature of a module, with the parameter names that callers know."""
        entry = module.entry_computation
        named = tuple((n, p.shape) for n, p in zip(names, entry.parameters, strict=True))
        return cls(module.name, named, entry.root.shape)

    def arguments(self) -> list[ArraySpec | None]:
        """The specs of all arguments, by leaf; None for a token."""
        return [
            _spec(f"argument {n} ({name}){''.join(f'[{k}]' for k in leaf)}", shape)
            for n, (name, parameter) in enumerate(self.parameters)
            for leaf, shape in parameter.leaves()
        ]

    def results(self) -> list[ArraySpec | None]:
        """The specs of all results, by leaf; None for a token."""
        return [_spec("result", shape) for _, shape in self.result.leaves()]

    @property
    def text(self) -> str:
        """The shapes, as in `(f32[2], f32[]) -> f32[2]`."""
        parameters = ", ".join(s.text(layout=False) for _, s in self.parameters)
        return f"({parameters}) -> {self.result.text(layout=False)}"

    def flatten(self, arrays: Sequence[Any]) -> list[Any]:
        """The arguments of a call, by leaf.

        Raises:
            ArgumentError: Their number is wrong, or a tuple does not fit.
        """
        if len(arrays) != len(self.parameters):
            expected = ", ".join(s.text(layout=False) for _, s in self.parameters)
            wanted = counted(len(self.parameters), "argument")
            raise ArgumentError(f"{self.name} takes {wanted} ({expected}), not {len(arrays)}")
        flat: list[Any] = []
        for n, ((_, shape), value) in enumerate(zip(self.parameters, arrays, strict=True)):
            _leaves(f"argument {n}", shape, value, flat)
        return flat

    def nested(self, flat: Sequence[Any]) -> Any:
        """The result of a call: one array, or a (nested) tuple of all leaves."""
        return _nest(self.result, iter(flat)) if isinstance(self.result, TupleShape) else flat[0]


def _spec(label: str, shape: Shape) -> ArraySpec | None:
    """The spec of a leaf; None for a token."""
    return None if shape.is_token else ArraySpec.of(label, shape)


def _leaves(label: str, shape: Shape, value: Any, flat: list[Any]) -> None:
    if not isinstance(shape, TupleShape):
        flat.append(value)
        return
    if not isinstance(value, (tuple, list)) or len(value) != len(shape.shapes):
        got = f"{len(value)} elements" if isinstance(value, (tuple, list)) else type(value).__name__
        raise ArgumentError(f"{label}: expected a tuple {shape.text(layout=False)}, got {got}")
    for k, (s, v) in enumerate(zip(shape.shapes, value, strict=True)):
        _leaves(f"{label}[{k}]", s, v, flat)


def _nest(shape: Shape, flat: Iterator[Any]) -> Any:
    return tuple(_nest(s, flat) for s in shape.shapes) if isinstance(shape, TupleShape) else next(flat)

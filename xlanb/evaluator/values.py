"""Values of the interpreter: NumPy arrays, tuples of values, and None for a token.

An array with dynamic dimensions is stored at its actual size, so most rules can ignore dynamic
dimensions. Arrays are never modified once they are a value; rules may return views.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.shape import ArrayShape, BufferShape, PrimitiveType, Shape, TupleShape
from xlanb.shape.primitive_type import from_dtype

Array: TypeAlias = np.ndarray[Any, Any]
# Array | tuple[Value, ...] | None; Any, since each rule knows its own from the opcode
Value: TypeAlias = Any
TOKEN = None


def _wide(t: PrimitiveType) -> np.dtype[Any] | None:
    """The dtype in which NumPy computes a narrow element type; None if in the type itself."""
    if t.scalar is None:
        return None
    if t.is_floating and t.bits < 32:
        return np.dtype(np.float32)
    if t.is_integral and t.bits < 8:
        return np.dtype(np.int8 if t.is_signed else np.uint8)
    return None


# By dtype number: hashing a dtype costs more than adding two scalars.
_WIDE: dict[int, np.dtype[Any]] = {t.dtype.num: w for t in PrimitiveType if (w := _wide(t)) is not None}
_F4 = PrimitiveType.F4E2M1FN.scalar
_E8M0 = PrimitiveType.F8E8M0FNU.scalar
_E8M0_LEAST = 2.0**-127


def widen(x: Array) -> Array:
    """The same values in a dtype in which NumPy computes.

    f32 for narrow floats, bytes for sub-byte integers.
    """
    wide = _WIDE.get(x.dtype.num)
    return x if wide is None else x.astype(wide)


def narrow(x: Array, dtype: np.dtype[Any]) -> Array:
    """Convert back to the element type: floats round to nearest even, integers wrap around.

    f4e2m1fn has no NaN; XLA converts NaN to -0, whatever its sign. It takes what lies between the
    two least numbers of f8e8m0fnu to the larger one.
    """
    if x.dtype == dtype:
        return x
    wide = widen(np.asarray(x))  # NumPy cannot convert between some narrow types
    if dtype.type is _F4 and wide.dtype.kind == "f":
        wide = np.where(np.isnan(wide), wide.dtype.type(-0.0), wide)
    elif dtype.type is _E8M0 and wide.dtype.kind == "f":
        between = (wide > _E8M0_LEAST) & (wide < 2 * _E8M0_LEAST)
        wide = np.where(between, wide.dtype.type(2 * _E8M0_LEAST), wide)
    return wide.astype(dtype)


def primitive_type(x: Array) -> PrimitiveType:
    """The XLA element type of an array."""
    return from_dtype(x.dtype)


def is_floating(x: Array) -> bool:
    """Whether the elements are real floating-point numbers, narrow types included."""
    return x.dtype.kind == "f" or (x.dtype.kind == "V" and primitive_type(x).is_floating)


def is_complex(x: Array) -> bool:
    """Whether the elements are complex."""
    return bool(x.dtype.kind == "c")


def is_integral(x: Array) -> bool:
    """Whether the elements are integers (predicates are not)."""
    return x.dtype.kind in "iu" or (x.dtype.kind == "V" and primitive_type(x).is_integral)


def mismatch(value: Value, shape: Shape, *, lifted: bool = False) -> str | None:
    """Why a value does not have a shape, or None if it does.

    Args:
        value: any value.
        shape: the expected shape; a dynamic dimension is an upper bound.
        lifted: the value holds many scalars: only the element type is checked.
    """
    if isinstance(shape, TupleShape):
        if not isinstance(value, tuple) or len(value) != len(shape.shapes):
            return f"expected a tuple of {len(shape.shapes)}, not {describe(value)}"
        return next(
            (m for v, s in zip(value, shape.shapes, strict=True) if (m := mismatch(v, s, lifted=lifted))),
            None,
        )
    if isinstance(shape, BufferShape):
        shape = shape.array
    if not isinstance(shape, ArrayShape) or not shape.is_array:
        return None if value is TOKEN else f"expected {shape.text(layout=False)}, not {describe(value)}"
    if not isinstance(value, np.ndarray) or value.dtype != shape.dtype:
        return f"expected {shape.text(layout=False)}, not {describe(value)}"
    if lifted or value.shape == shape.dimensions or (shape.is_dynamic and _fits(value.shape, shape)):
        return None
    return f"expected {shape.text(layout=False)}, not {describe(value)}"


def _fits(sizes: tuple[int, ...], shape: ArrayShape) -> bool:
    if len(sizes) != shape.rank:
        return False
    rows = zip(sizes, shape.dimensions, shape.dynamic, strict=True)
    return all((d < 0 or n <= d) if dynamic else n == d for n, d, dynamic in rows)


def describe(value: Value) -> str:
    """A value's shape in XLA's notation, for messages."""
    if isinstance(value, tuple):
        return "(" + ", ".join(map(describe, value)) + ")"
    if value is TOKEN:
        return "token[]"
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return type(value).__name__
    name = next((t.text for t in PrimitiveType if t.scalar is not None and t.dtype == dtype), str(dtype))
    return f"{name}[{','.join(map(str, value.shape))}]"


def scalar_int(x: Array) -> int:
    """The value of an integer (or predicate) scalar.

    Raises:
        EvaluationError: it is not a scalar.
    """
    if x.size != 1:
        raise EvaluationError(f"expected a scalar, not {describe(x)}")
    return int(widen(x).reshape(()))

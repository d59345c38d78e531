"""TensorFlow's element types: types.proto's names and numbers, NumPy dtypes, and reference
types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlanb.errors import GraphError
from xlanb.shape.narrow_types import finfo, iinfo, narrow_type

_REF_OFFSET = 100


class DType:
    """One TensorFlow element type (`tf.float32`); instances are unique, so `is` and `==` agree.

    Attributes:
        name: TensorFlow's name, "float32" or "float32_ref".
        as_datatype_enum: number in types.proto; a reference type is 100 above its base.
        base_dtype: the type of the value behind a reference, itself otherwise.
    """

    __slots__ = ("_scalar", "as_datatype_enum", "base_dtype", "name", "short_name")

    def __init__(self, name: str, number: int, scalar: Any, short_name: str, base: DType | None = None) -> None:
        self.name = name
        self.as_datatype_enum = number
        self._scalar = scalar
        self.short_name = short_name
        self.base_dtype: DType = base if base is not None else self

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar type of the elements; `np.object_` for strings.

        Raises:
            GraphError: the type has no elements that NumPy can hold (resource, variant).
        """
        if self._scalar is None:
            raise GraphError(f"tf.{self.name} has no NumPy dtype")
        return self._scalar

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements; errors as for `as_numpy_dtype`."""
        dtype: np.dtype[Any] = np.dtype(self.as_numpy_dtype)
        return dtype

    @property
    def has_numpy_dtype(self) -> bool:
        """Whether NumPy can hold the elements (not so for resource and variant)."""
        return self._scalar is not None

    @property
    def is_ref_dtype(self) -> bool:
        """Whether this is the type of a reference variable."""
        return self.base_dtype is not self

    @property
    def ref_dtype(self) -> DType:
        """The reference type of this type."""
        return self if self.is_ref_dtype else BY_NUMBER[self.as_datatype_enum + _REF_OFFSET]

    @property
    def is_floating(self) -> bool:
        """Whether the elements are real floating point numbers, any width."""
        return self.short_name.startswith(("f", "bf"))

    @property
    def is_complex(self) -> bool:
        """Whether the elements are complex."""
        return self.short_name.startswith("c")

    @property
    def is_integer(self) -> bool:
        """Whether the elements are integers and not quantised."""
        return self.short_name[0] in "su" and self.short_name[1:].isdigit()

    @property
    def is_quantized(self) -> bool:
        """Whether the elements are quantised integers."""
        return self.short_name.startswith("q")

    @property
    def is_bool(self) -> bool:
        """Whether the elements are truth values."""
        return self.short_name == "pred"

    @property
    def is_numeric(self) -> bool:
        """Whether arithmetic is defined on the elements."""
        return self.is_floating or self.is_complex or self.is_integer

    @property
    def real_dtype(self) -> DType:
        """The type of a complex number's parts, itself otherwise."""
        return {"complex64": float32, "complex128": float64}.get(self.base_dtype.name, self)

    @property
    def size(self) -> int:
        """Bytes of one element; 1 where NumPy has none."""
        return np.dtype(self._scalar).itemsize if self._scalar is not None else 1

    @property
    def min(self) -> Any:
        """Smallest finite value. Raises GraphError for types without order."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """Largest finite value. Raises GraphError for types without order."""
        return self._limit("max")

    def _limit(self, which: str) -> Any:
        if self.is_floating:
            return getattr(finfo(self._scalar), which)
        if self.is_integer:
            return getattr(iinfo(self._scalar), which)
        raise GraphError(f"tf.{self.name} has no {which}imum")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether a value of `other` can be used as this type (references are read)."""
        other = as_dtype(other)
        return self is other or self is other.base_dtype

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType) or other is None:
            return self is other
        try:
            return self is as_dtype(other)
        except (GraphError, TypeError):
            return False

    def __hash__(self) -> int:
        return self.as_datatype_enum

    def __int__(self) -> int:
        return self.as_datatype_enum

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"


# Name, number in types.proto, NumPy scalar type, XLA's short name (or the name itself).
_TABLE: tuple[tuple[str, int, Any, str], ...] = (
    ("float32", 1, np.float32, "f32"),
    ("float64", 2, np.float64, "f64"),
    ("int32", 3, np.int32, "s32"),
    ("uint8", 4, np.uint8, "u8"),
    ("int16", 5, np.int16, "s16"),
    ("int8", 6, np.int8, "s8"),
    ("string", 7, np.object_, "string"),
    ("complex64", 8, np.complex64, "c64"),
    ("int64", 9, np.int64, "s64"),
    ("bool", 10, np.bool_, "pred"),
    ("qint8", 11, np.int8, "qs8"),
    ("quint8", 12, np.uint8, "qu8"),
    ("qint32", 13, np.int32, "qs32"),
    ("bfloat16", 14, narrow_type("bfloat16"), "bf16"),
    ("qint16", 15, np.int16, "qs16"),
    ("quint16", 16, np.uint16, "qu16"),
    ("uint16", 17, np.uint16, "u16"),
    ("complex128", 18, np.complex128, "c128"),
    ("float16", 19, np.float16, "f16"),
    ("resource", 20, None, "resource"),
    ("variant", 21, None, "variant"),
    ("uint32", 22, np.uint32, "u32"),
    ("uint64", 23, np.uint64, "u64"),
    ("float8_e5m2", 24, narrow_type("float8_e5m2"), "f8e5m2"),
    ("float8_e4m3fn", 25, narrow_type("float8_e4m3fn"), "f8e4m3fn"),
    ("float8_e4m3fnuz", 26, narrow_type("float8_e4m3fnuz"), "f8e4m3fnuz"),
    ("float8_e4m3b11fnuz", 27, narrow_type("float8_e4m3b11fnuz"), "f8e4m3b11fnuz"),
    ("float8_e5m2fnuz", 28, narrow_type("float8_e5m2fnuz"), "f8e5m2fnuz"),
    ("int4", 29, narrow_type("int4"), "s4"),
    ("uint4", 30, narrow_type("uint4"), "u4"),
    ("int2", 31, narrow_type("int2"), "s2"),
    ("uint2", 32, narrow_type("uint2"), "u2"),
)

BY_NUMBER: dict[int, DType] = {}
BY_NAME: dict[str, DType] = {}
_BY_NUMPY: dict[np.dtype[Any], DType] = {}


def _make() -> None:
    for name, number, scalar, short_name in _TABLE:
        base = DType(name, number, scalar, short_name)
        ref = DType(f"{name}_ref", number + _REF_OFFSET, scalar, short_name, base)
        for dtype in (base, ref):
            BY_NUMBER[dtype.as_datatype_enum] = BY_NAME[dtype.name] = dtype
        if scalar is not None and not base.is_quantized:
            _BY_NUMPY[np.dtype(scalar)] = base
    BY_NAME["half"], BY_NAME["float"], BY_NAME["double"] = BY_NAME["float16"], BY_NAME["float32"], BY_NAME["float64"]


_make()
float32 = BY_NAME["float32"]
float64 = BY_NAME["float64"]
float16 = BY_NAME["float16"]
bfloat16 = BY_NAME["bfloat16"]
int8, int16, int32, int64 = (BY_NAME[n] for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (BY_NAME[n] for n in ("uint8", "uint16", "uint32", "uint64"))
bool_ = BY_NAME["bool"]
string = BY_NAME["string"]
complex64, complex128 = BY_NAME["complex64"], BY_NAME["complex128"]
resource, variant = BY_NAME["resource"], BY_NAME["variant"]

_PYTHON_TYPES: dict[Any, DType] = {
    float: float32,
    int: int32,
    bool: bool_,
    str: string,
    bytes: string,
    complex: complex128,
}


def as_dtype(value: Any) -> DType:
    """Return the DType of a types.proto number, a name, a NumPy dtype or a Python type.

    Names: "float32", "float32_ref". A DType is returned unchanged.

    Raises:
        GraphError: there is no such type.
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        found = BY_NUMBER.get(value)
    elif isinstance(value, str):
        found = BY_NAME.get(value)
    elif isinstance(value, type) and value in _PYTHON_TYPES:
        found = _PYTHON_TYPES[value]
    else:
        found = _of_numpy(value)
    if found is None:
        raise GraphError(f"no TensorFlow dtype for {value!r}")
    return found


def _of_numpy(value: Any) -> DType | None:
    if value is None or (isinstance(value, type) and not issubclass(value, np.generic)):
        return None  # NumPy takes any class to mean objects
    try:
        dtype = np.dtype(value)
    except TypeError:
        return None
    if dtype.kind in "SUO":
        return string
    return _BY_NUMPY.get(dtype.newbyteorder("="))

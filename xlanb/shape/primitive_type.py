"""Element types of XLA shapes (xla_data.proto's PrimitiveType) and their NumPy dtypes."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from xlanb.errors import MissingLibraryError, ShapeError
from xlanb.shape.narrow_types import MISSING, narrow_type


class PrimitiveType(Enum):
    """One element type.

    The value is (XLA's text name, number in xla_data.proto, bits, NumPy scalar type or None).
    Sub-byte types use ml_dtypes' types of one byte per element. `token`, `opaque`, `tuple` and `b`
    (buffer) have no elements.
    """

    PRED = ("pred", 1, 8, np.bool_)
    S1 = ("s1", 30, 1, narrow_type("int1"))
    S2 = ("s2", 26, 2, narrow_type("int2"))
    S4 = ("s4", 21, 4, narrow_type("int4"))
    S8 = ("s8", 2, 8, np.int8)
    S16 = ("s16", 3, 16, np.int16)
    S32 = ("s32", 4, 32, np.int32)
    S64 = ("s64", 5, 64, np.int64)
    U1 = ("u1", 31, 1, narrow_type("uint1"))
    U2 = ("u2", 27, 2, narrow_type("uint2"))
    U4 = ("u4", 22, 4, narrow_type("uint4"))
    U8 = ("u8", 6, 8, np.uint8)
    U16 = ("u16", 7, 16, np.uint16)
    U32 = ("u32", 8, 32, np.uint32)
    U64 = ("u64", 9, 64, np.uint64)
    F4E2M1FN = ("f4e2m1fn", 32, 4, narrow_type("float4_e2m1fn"))
    F8E3M4 = ("f8e3m4", 29, 8, narrow_type("float8_e3m4"))
    F8E4M3 = ("f8e4m3", 28, 8, narrow_type("float8_e4m3"))
    F8E4M3FN = ("f8e4m3fn", 20, 8, narrow_type("float8_e4m3fn"))
    F8E4M3B11FNUZ = ("f8e4m3b11fnuz", 23, 8, narrow_type("float8_e4m3b11fnuz"))
    F8E4M3FNUZ = ("f8e4m3fnuz", 25, 8, narrow_type("float8_e4m3fnuz"))
    F8E5M2 = ("f8e5m2", 19, 8, narrow_type("float8_e5m2"))
    F8E5M2FNUZ = ("f8e5m2fnuz", 24, 8, narrow_type("float8_e5m2fnuz"))
    F8E8M0FNU = ("f8e8m0fnu", 33, 8, narrow_type("float8_e8m0fnu"))
    BF16 = ("bf16", 16, 16, narrow_type("bfloat16"))
    F16 = ("f16", 10, 16, np.float16)
    F32 = ("f32", 11, 32, np.float32)
    F64 = ("f64", 12, 64, np.float64)
    C64 = ("c64", 15, 64, np.complex64)
    C128 = ("c128", 18, 128, np.complex128)
    TUPLE = ("tuple", 13, 0, None)
    OPAQUE = ("opaque", 14, 0, None)
    TOKEN = ("token", 17, 0, None)
    BUFFER = ("b", 34, 0, None)

    # Members are equal only if identical. Enum's own __hash__ is a Python call, too slow for hot
    # dictionaries.
    __hash__ = object.__hash__

    def __init__(self, text: str, number: int, bits: int, scalar: type | None) -> None:
        self.text = text
        self.number = number
        self.bits = bits
        self.scalar = scalar
        family = text.rstrip("0123456789")
        self.is_signed = family == "s"
        self.is_unsigned = family == "u"
        self.is_integral = family in ("s", "u")
        self.is_complex = family == "c"
        self.is_floating = text[0] == "f" or text == "bf16"
        # no infinities, one zero, and one NaN with the bits of -0
        self.is_fnuz = text.endswith("fnuz")
        self.is_array = number not in (13, 14, 17, 34)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of the elements.

        Raises:
            ShapeError: the type has no elements, or no NumPy dtype exists for it.
            MissingLibraryError: the dtype is one of ml_dtypes, which is not installed.
        """
        if self.scalar is None:
            if self.is_array and narrow_type("bfloat16") is None:
                raise MissingLibraryError(f"an array of {self.text} {MISSING}")
            raise ShapeError(f"{self.text} has no NumPy dtype")
        return np.dtype(self.scalar)

    @property
    def byte_size(self) -> int:
        """Bytes of one element in memory; a sub-byte element takes one byte."""
        return max(1, self.bits // 8) if self.bits else 0


BY_TEXT: dict[str, PrimitiveType] = {t.text: t for t in PrimitiveType}
BY_NUMBER: dict[int, PrimitiveType] = {t.number: t for t in PrimitiveType}
_BY_DTYPE: dict[np.dtype[Any], PrimitiveType] = {np.dtype(t.scalar): t for t in PrimitiveType if t.scalar is not None}


def from_dtype(dtype: Any) -> PrimitiveType:
    """The element type for a NumPy (or ml_dtypes) dtype.

    Raises:
        ShapeError: XLA has no such element type (strings, objects, structured types, float128).
    """
    found = _BY_DTYPE.get(np.dtype(dtype).newbyteorder("="))
    if found is None:
        raise ShapeError(f"no XLA element type for dtype {np.dtype(dtype)}")
    return found

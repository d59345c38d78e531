"""LLVM's first-class types: integers, floats, pointers, and vectors of them.

Each type exists once, so that types are compared by identity. Source: LLVM's Language Reference,
"Type System".
"""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from functools import cache

from xlanb.lazy_dataclass import dataclass


class TypeKind(Enum):
    """The kind of a scalar, or of a vector's elements."""

    INTEGER = "integer"
    FLOAT = "float"
    POINTER = "pointer"
    VOID = "void"


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A scalar type, or a vector of `lanes` elements (0: a scalar).

    `text` is its spelling in LLVM IR, `mangled` that in names of intrinsics, `bits` the width of an
    element.
    """

    kind: TypeKind
    bits: int
    lanes: int
    text: str
    mangled: str
    element: Type | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.text

    @property
    def scalar(self) -> Type:
        """The type of an element; a scalar type itself."""
        return self.element or self

    @property
    def is_float(self) -> bool:
        """Whether its elements are floating-point numbers."""
        return self.kind is TypeKind.FLOAT

    @property
    def is_integer(self) -> bool:
        """Whether its elements are integers."""
        return self.kind is TypeKind.INTEGER

    @property
    def bytes(self) -> int:
        """Bytes of an element in memory, which is also its natural alignment."""
        return max(1, self.bits // 8)

    def times(self, lanes: int) -> Type:
        """The vector of this type's scalar with the given number of lanes; the scalar for 0."""
        return vector(self.scalar, lanes) if lanes else self.scalar

    def of(self, scalar: Type) -> Type:
        """The same number of elements of another scalar type."""
        return scalar.scalar.times(self.lanes)


_FLOATS = {16: ("half", "f16"), 32: ("float", "f32"), 64: ("double", "f64")}


@cache
def integer(bits: int) -> Type:
    """An integer with the given number of bits; LLVM's integers have no sign."""
    return Type(TypeKind.INTEGER, bits, 0, f"i{bits}", f"i{bits}")


@cache
def floating(bits: int) -> Type:
    """IEEE 754's binary16, binary32 or binary64."""
    return Type(TypeKind.FLOAT, bits, 0, *_FLOATS[bits])


@cache
def vector(element: Type, lanes: int) -> Type:
    """A vector of `lanes` elements of a scalar type."""
    return Type(element.kind, element.bits, lanes, f"<{lanes} x {element.text}>", f"v{lanes}{element.mangled}", element)


I1, I8, I16, I32, I64 = (integer(n) for n in (1, 8, 16, 32, 64))
HALF, FLOAT, DOUBLE = (floating(n) for n in (16, 32, 64))
BFLOAT = Type(TypeKind.FLOAT, 16, 0, "bfloat", "bf16")
PTR = Type(TypeKind.POINTER, 64, 0, "ptr", "p0")
VOID = Type(TypeKind.VOID, 0, 0, "void", "isVoid")

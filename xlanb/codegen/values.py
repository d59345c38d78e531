"""Values of an LLVM function; their operators emit instructions.

A scalar operand is broadcast if the other one is a vector, and a Python number becomes a constant
of the other operand's type. Comparisons and shifts by operators are signed, as Python's integers
are; unsigned ones have names. `==` compares the Python objects; `equals` emits the instruction.
"""

from __future__ import annotations

from ctypes import c_float
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np

from xlanb.codegen.types import I1, Type, TypeKind

if TYPE_CHECKING:
    from xlanb.codegen.function import Function

Number = int | float
_DOUBLE_BITS = Struct(">d")


def text_of(type_: Type, number: Number) -> str:
    """A scalar constant in LLVM IR: floats by their bits, rounded to the type."""
    if type_.kind is TypeKind.INTEGER:
        return str(int(number)) if type_ is not I1 else "true" if number else "false"
    if type_.kind is TypeKind.POINTER:
        return "null"
    if type_.bits == 16:
        with np.errstate(all="ignore"):
            return f"0xH{np.float16(number).view(np.uint16):04X}"
    rounded = c_float(number).value if type_.bits == 32 else number
    return f"0x{int.from_bytes(_DOUBLE_BITS.pack(rounded)):016X}"


class Value:
    """A scalar of a function: `text` is its name, or a constant with a known `number`.

    `depth` is the number of regions around its definition; it is known in deeper ones too (see
    Function.once).
    """

    __slots__ = ("depth", "function", "number", "text", "type")

    def __init__(
        self, function: Function, type_: Type, text: str, depth: int = 0, number: Number | None = None
    ) -> None:
        self.function = function
        self.type = type_
        self.text = text
        self.depth = depth
        self.number = number

    def __repr__(self) -> str:
        return f"{self.type.text} {self.text}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Value) and self.text == other.text and self.type is other.type

    def __hash__(self) -> int:
        return hash(self.text)

    # -- arithmetic --------------------------------------------------------------------------------

    def __add__(self, other: Value | Number) -> Value:
        return self.function.binary("fadd" if self.type.is_float else "add", self, other)

    def __radd__(self, other: Number) -> Value:
        return self.function.binary("fadd" if self.type.is_float else "add", other, self)

    def __sub__(self, other: Value | Number) -> Value:
        return self.function.binary("fsub" if self.type.is_float else "sub", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.function.binary("fsub" if self.type.is_float else "sub", other, self)

    def __mul__(self, other: Value | Number) -> Value:
        return self.function.binary("fmul" if self.type.is_float else "mul", self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.function.binary("fmul" if self.type.is_float else "mul", other, self)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.function.binary("fdiv", self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.function.binary("fdiv", other, self)

    def __neg__(self) -> Value:
        return self.function.unary("fneg", self) if self.type.is_float else self.function.binary("sub", 0, self)

    def __and__(self, other: Value | Number) -> Value:
        return self.function.binary("and", self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.function.binary("or", self, other)

    def __xor__(self, other: Value | Number) -> Value:
        return self.function.binary("xor", self, other)

    def __invert__(self) -> Value:
        return self.function.binary("xor", self, 1 if self.type.scalar is I1 else -1)

    def __lshift__(self, other: Value | Number) -> Value:
        return self.function.binary("shl", self, other)

    def __rshift__(self, other: Value | Number) -> Value:
        return self.function.binary("ashr", self, other)

    def lshr(self, other: Value | Number) -> Value:
        """Logical shift right."""
        return self.function.binary("lshr", self, other)

    def sdiv(self, other: Value | Number) -> Value:
        """Quotient of signed integers, towards zero.

        Undefined for division by zero, and for the lowest value divided by -1.
        """
        return self.function.binary("sdiv", self, other)

    def udiv(self, other: Value | Number) -> Value:
        """Quotient of unsigned integers; undefined for division by zero."""
        return self.function.binary("udiv", self, other)

    def srem(self, other: Value | Number) -> Value:
        """Remainder of signed integers, with the dividend's sign; undefined where `sdiv` is."""
        return self.function.binary("srem", self, other)

    def urem(self, other: Value | Number) -> Value:
        """Remainder of unsigned integers; undefined for division by zero."""
        return self.function.binary("urem", self, other)

    # -- comparison --------------------------------------------------------------------------------

    def compare(self, float_: str, integer: str, other: Value | Number) -> Value:
        """An i1, or a vector of them: by LLVM's condition for floats or for integers."""
        f = self.function
        return f.compare("fcmp", float_, self, other) if self.type.is_float else f.compare("icmp", integer, self, other)

    def __lt__(self, other: Value | Number) -> Value:
        return self.compare("olt", "slt", other)

    def __le__(self, other: Value | Number) -> Value:
        return self.compare("ole", "sle", other)

    def __gt__(self, other: Value | Number) -> Value:
        return self.compare("ogt", "sgt", other)

    def __ge__(self, other: Value | Number) -> Value:
        return self.compare("oge", "sge", other)

    def equals(self, other: Value | Number) -> Value:
        """Whether both are equal; false for NaN."""
        return self.compare("oeq", "eq", other)

    def differs(self, other: Value | Number) -> Value:
        """Whether they are not equal; true for NaN."""
        return self.compare("une", "ne", other)

    def ult(self, other: Value | Number) -> Value:
        """Less than, as unsigned integers."""
        return self.compare("ult", "ult", other)

    def ugt(self, other: Value | Number) -> Value:
        """Greater than, as unsigned integers."""
        return self.compare("ugt", "ugt", other)

    def uge(self, other: Value | Number) -> Value:
        """Greater than or equal, as unsigned integers."""
        return self.compare("uge", "uge", other)

    def is_nan(self) -> Value:
        """Whether a float is not a number."""
        return self.function.compare("fcmp", "uno", self, self)

    def select(self, then: Value | Number, otherwise: Value | Number) -> Value:
        """Select one of two values by an i1, or lane by lane by a vector of them."""
        return self.function.select(self, then, otherwise)

    # -- conversion --------------------------------------------------------------------------------

    def cast(self, opcode: str, to: Type) -> Value:
        """LLVM's conversion of that name, of each lane; does nothing if the type is the same."""
        return self.function.cast(opcode, self, to)

    def bits_as(self, to: Type) -> Value:
        """The same bits as another type of equal width."""
        return self.function.cast("bitcast", self, to)

    def trunc(self, to: Type) -> Value:
        """The low bits of an integer."""
        return self.function.cast("trunc", self, to)

    def zext(self, to: Type) -> Value:
        """Zero-extend an integer."""
        return self.function.cast("zext", self, to)

    def sext(self, to: Type) -> Value:
        """Sign-extend an integer."""
        return self.function.cast("sext", self, to)

    # -- functions ---------------------------------------------------------------------------------

    def __abs__(self) -> Value:
        f = self.function
        return f.intrinsic("fabs", self) if self.type.is_float else f.intrinsic("abs", self, immediate=False)

    def sqrt(self) -> Value:
        """The square root, correctly rounded."""
        return self.function.intrinsic("sqrt", self)

    def with_sign_of(self, other: Value | Number) -> Value:
        """Its magnitude with another float's sign."""
        return self.function.intrinsic("copysign", self, other)

    def times_plus(self, factor: Value | Number, summand: Value | Number) -> Value:
        """self * factor + summand, fused if the machine can (`llvm.fmuladd`); integers wrap."""
        if self.type.is_float:
            return self.function.intrinsic("fmuladd", self, factor, summand)
        return self * factor + summand

    def smin(self, other: Value | Number) -> Value:
        """The minimum, as signed integers."""
        return self.function.intrinsic("smin", self, other)

    def smax(self, other: Value | Number) -> Value:
        """The maximum, as signed integers."""
        return self.function.intrinsic("smax", self, other)

    def umin(self, other: Value | Number) -> Value:
        """The minimum, as unsigned integers."""
        return self.function.intrinsic("umin", self, other)

    # -- lanes -------------------------------------------------------------------------------------

    def repeated(self, lanes: int) -> Value:
        """A vector with this scalar in each lane."""
        return self.function.splat(self, lanes)


class Vector(Value):
    """A vector of a function."""

    __slots__ = ()

    @property
    def lanes(self) -> int:
        """The number of elements."""
        return self.type.lanes

    def halves(self) -> tuple[Value, Value]:
        """The lower and the upper half; scalars if there are two elements."""
        f, n = self.function, self.lanes // 2
        if n == 1:
            return f.extract(self, 0), f.extract(self, 1)
        return f.shuffle(self, None, range(n)), f.shuffle(self, None, range(n, 2 * n))

    def in_turns(self, other: Value) -> Value:
        """Interleave the elements of this vector and another."""
        return self.function.shuffle(self, other, [k // 2 + (k % 2) * self.lanes for k in range(2 * self.lanes)])

    def reduce(self, how: str, flags: str = "") -> Value:
        """Reduce all elements by `llvm.vector.reduce.<how>`: add, mul, and, or, xor, smax, ...

        fadd and fmul may be reordered with the flag `reassoc`.
        """
        return self.function.reduce(how, self, flags)


Ix = int | Value
"""An index: a number if known at compile time, else an i64."""


def named(f: Function, type_: Type, text: str, depth: int = 0) -> Value:
    """A value, or a vector, by its name in the function."""
    return (Vector if type_.lanes else Value)(f, type_, text, depth)

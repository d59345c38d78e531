"""XLA's element types in LLVM: in memory, in registers, and conversions between them.

In a register a `pred` is an i1, an integer of n bits an i<n> (s4: i4), f64 a double, every other
float a
`float` rounded to its type, a complex number a pair of values. In memory pred and sub-byte integers
take a byte, as in NumPy and ml_dtypes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from xlanb.codegen.function import Function, Ix
from xlanb.codegen.lanes import varies
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import DOUBLE, FLOAT, HALF, I1, I8, I16, I32, I64, Type, integer
from xlanb.codegen.values import Value, Vector
from xlanb.errors import CompilationError
from xlanb.shape import PrimitiveType
from xlanb.shape.narrow_types import finfo, iinfo

Element = Value | tuple[Value, Value]
"""A value of an element type; for complex types, the real and the imaginary part."""
T = PrimitiveType

_NARROW = frozenset(t for t in T if t.is_floating and t not in (T.F32, T.F64))


def is_narrow(t: PrimitiveType) -> bool:
    """Whether it is a float computed in f32 and rounded after each operation."""
    return t in _NARROW


@cache
def part(t: PrimitiveType) -> PrimitiveType:
    """The type of a complex number's parts; for other types, the type itself."""
    return {T.C64: T.F32, T.C128: T.F64}.get(t, t)


@cache
def register(t: PrimitiveType) -> Type:
    """The LLVM type of a value in a register (of a part, if complex)."""
    t = part(t)
    if t is T.PRED:
        return I1
    if t.is_floating:
        return DOUBLE if t is T.F64 else FLOAT
    return integer(t.bits)


@cache
def memory(t: PrimitiveType) -> Type:
    """The LLVM type of an element in memory (of a part, if complex)."""
    t = part(t)
    if t is T.F16:
        return HALF
    if t is T.BF16:
        return I16
    if t is T.PRED or t.bits < 8 or is_narrow(t):
        return I8
    return register(t)


def parts(v: Element) -> tuple[Value, ...]:
    """The values that make up an element."""
    return (v,) if isinstance(v, Value) else v


def real(v: Element) -> Value:
    """A value known not to be complex."""
    if not isinstance(v, Value):
        raise CompilationError("expected a real value, got a complex one")
    return v


def pair(v: Element) -> tuple[Value, Value]:
    """The parts of a value known to be complex."""
    if isinstance(v, Value):
        raise CompilationError("expected a complex value, got a real one")
    return v


# -- constants -------------------------------------------------------------------------------------


def constant(f: Function, t: PrimitiveType, value: Any) -> Element:
    """A NumPy scalar as a constant."""
    kind = register(t)
    if t.is_complex:
        return f.const(kind, value.real), f.const(kind, value.imag)
    return f.const(kind, float(value) if t.is_floating else int(value))


def zero(f: Function, t: PrimitiveType) -> Element:
    """Zero (false)."""
    return constant(f, t, t.dtype.type(0))


def lowest(f: Function, t: PrimitiveType) -> Value:
    """The lowest value: minus infinity if the type has it."""
    return f.const(register(t), 0 if t is T.PRED else -np.inf if t.is_floating else int(_facts(t).min))


def highest(f: Function, t: PrimitiveType) -> Value:
    """The highest value: infinity if the type has it."""
    return f.const(register(t), 1 if t is T.PRED else np.inf if t.is_floating else int(_facts(t).max))


def _facts(t: PrimitiveType) -> Any:
    """NumPy's or ml_dtypes' limits of a numeric type."""
    facts: Any = iinfo if t.is_integral else finfo
    return facts(t.dtype)


# -- memory ----------------------------------------------------------------------------------------


def array(t: PrimitiveType, base: Value) -> Pointer:
    """A pointer to elements of a type at an address."""
    return Pointer(base, memory(t), 2 if t.is_complex else 1)


def load(t: PrimitiveType, base: Value, offset: Ix) -> Element:
    """Load element `offset` of an array of type t."""
    f, raw = base.function, array(t, base)[offset]
    if not t.is_complex:
        return from_memory(f, t, raw)
    return f.apart(raw)


def store(t: PrimitiveType, base: Value, offset: Ix, value: Element) -> None:
    """Store element `offset` of an array of type t."""
    f = base.function
    if t.is_complex:
        re, im = f.alike(*pair(value))
        if f.width and varies(offset):
            re, im = (v if isinstance(v, Vector) else f.splat(v, f.width) for v in (re, im))
        array(t, base)[offset] = re.in_turns(im) if isinstance(re, Vector) else f.joined(re, im)
    else:
        array(t, base)[offset] = to_memory(f, t, real(value))


def from_memory(f: Function, t: PrimitiveType, raw: Value) -> Value:
    """The register form of a loaded element."""
    if t is T.PRED:
        return raw.differs(0)
    if t is T.F16:
        return raw.cast("fpext", FLOAT)
    if is_narrow(t):
        value = widen(f, t, raw)
        if t.bits >= 8:
            f.remember(("in memory", t, value), raw)
        return value
    return raw.trunc(integer(t.bits)) if t.bits < 8 else raw


def to_memory(f: Function, t: PrimitiveType, value: Value) -> Value:
    """The memory form of a value.

    A narrow float is rounded, which does not change values that already are; a value that was just
    loaded is returned in its original form.
    """
    if t is T.PRED:
        return value.zext(I8)
    if t is T.F16:
        return value.cast("fptrunc", HALF)
    if is_narrow(t):
        known = f.recall(("in memory", t, value))
        if isinstance(known, Value):
            return known
        return value.bits_as(I32).lshr(16).trunc(I16) if is_rounded(f, t, value) else narrow(t, value)
    return value.zext(I8) if t.bits < 8 else value


# -- bits ------------------------------------------------------------------------------------------


def to_bits(f: Function, t: PrimitiveType, value: Value) -> Value:
    """The bits of a value as an i<bits> (pred: i8)."""
    if t.is_integral and t is not T.PRED:
        return value
    raw = to_memory(f, t, value)
    bits = raw.bits_as(integer(raw.type.bits))
    return bits.trunc(integer(t.bits)) if t.bits < 8 and t is not T.PRED else bits


def from_bits(f: Function, t: PrimitiveType, bits: Value) -> Value:
    """The value of bits given as an i<bits> (pred: i8)."""
    if t.is_integral and t is not T.PRED:
        return bits
    raw = bits.zext(I8) if t.bits < 8 and t is not T.PRED else bits
    return from_memory(f, t, raw.bits_as(memory(t)))


# -- narrow floats ---------------------------------------------------------------------------------


def rounded(f: Function, t: PrimitiveType, value: Value) -> Value:
    """A float rounded to a narrow type; f32 and f64 are unchanged."""
    return value if not is_narrow(t) or is_rounded(f, t, value) else from_memory(f, t, to_memory(f, t, value))


def is_rounded(f: Function, t: PrimitiveType, value: Value) -> bool:
    """Whether a float is known to be a bf16: the lower half of its bits is zero."""
    if t is not T.BF16:
        return False
    if value.number is not None:
        return int(np.float32(value.number).view(np.uint32)) & 0xFFFF == 0
    return f.recall(("in memory", t, value)) is not None or f.recall(("rounded", t, value)) is not None


def one_of(f: Function, t: PrimitiveType, value: Value, *operands: Value) -> Value:
    """A value that is one of its operands, perhaps with another sign: rounded if they all are."""
    if t is T.BF16 and all(is_rounded(f, t, o) for o in operands):
        f.remember(("rounded", t, value), value)
    return value


def odd(value: Value) -> Value:
    """A double as a float, rounded to odd, so that a second rounding to a narrow type is exact."""
    near = value.cast("fptrunc", FLOAT)
    back = near.cast("fpext", DOUBLE)
    inexact = back.compare("one", "ne", value)
    far = abs(back) > abs(value)
    made = (near.bits_as(I32) - far.zext(I32)) | inexact.zext(I32)
    return made.bits_as(FLOAT)


def widen(f: Function, t: PrimitiveType, raw: Value) -> Value:
    """The float with the bits of a bf16 or a float of at most 8 bits."""
    if t is T.BF16:
        return (raw.zext(I32) << 16).bits_as(FLOAT)
    return Pointer(_table(f, t), FLOAT)[(raw & (2**t.bits - 1)).zext(I64)]


def _table(f: Function, t: PrimitiveType) -> Value:
    """A table of the values of a type's codes."""
    codes = np.arange(2**t.bits, dtype=np.uint8).view(t.dtype)
    with np.errstate(all="ignore"):
        return f.table(f"xlanb.table.{t.text}", FLOAT, codes.astype(np.float32).tolist())


def narrow(t: PrimitiveType, value: Value) -> Value:
    """The bits of a float rounded to nearest even, to bf16 or a float of at most 8 bits."""
    bits = value.bits_as(I32)
    if t is T.BF16:
        quiet = bits.lshr(16) | 64
        return value.is_nan().select(quiet, _nearest(bits, 16)).trunc(I16)
    if t is T.F8E8M0FNU:
        return _narrow_e8m0(value, bits)
    return _narrow_small(t, value, bits)


def _nearest(bits: Value, drop: int) -> Value:
    """Drop the last `drop` bits, rounding to nearest even; the result is shifted down."""
    return (bits + ((1 << (drop - 1)) - 1) + (bits.lshr(drop) & 1)).lshr(drop)


def _narrow_e8m0(value: Value, bits: Value) -> Value:
    """The nearest power of two, ties to the larger; below 2^-126 the larger of both neighbours.

    Zero, negative numbers, infinity and NaN give NaN (255), as in XLA and ml_dtypes.
    """
    is_least = bits.equals(1 << 22)  # 2^-127 itself is not rounded up
    near = (bits + (1 << 22) - is_least.zext(I32)).lshr(23)
    return (value > 0.0).select(near, 255).trunc(I8)


def _narrow_small(t: PrimitiveType, value: Value, bits: Value) -> Value:
    f, info = value.function, _facts(t)
    mantissa, min_exponent = int(info.nmant), int(info.minexp)
    top = int(np.array(info.max, t.dtype).view(np.uint8))
    with np.errstate(all="ignore"):
        over = int(np.array(np.inf, np.float32).astype(t.dtype).view(np.uint8))
        not_a_number = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32).astype(t.dtype)
    nan, negative_nan = map(int, not_a_number.view(np.uint8))
    if not np.isnan(not_a_number.astype(np.float32)).all():  # a type without NaN maps both to one code
        negative_nan = nan
    sign_bit = 1 << (t.bits - 1)
    magnitude = bits & 0x7FFFFFFF
    # Normal: after rounding, the exponent is rebiased by a subtraction in place.
    normal = _nearest(magnitude, 23 - mantissa) - ((127 + min_exponent - 1) << mantissa)
    # Denormal: the value in units of the smallest one; 2^mantissa of them is the first
    # normal code.
    scaled = magnitude.bits_as(FLOAT) * 2.0 ** (mantissa - min_exponent)
    near = f.intrinsic("roundeven", scaled)
    tiny = near.cast("fptosi", I32)
    small = magnitude.ult((127 + min_exponent) << 23)
    code = small.select(tiny, normal)
    code = code.ugt(top).select(over & (sign_bit - 1), code)
    sign = (bits < 0).select(f.const(I32, sign_bit), 0)
    if t.text.endswith("fnuz"):  # zero has no sign
        sign = code.equals(0).select(0, sign)
        overflow = normal.ugt(top) & ~small
        code = overflow.select(over, code)
        sign = overflow.select(0, sign)
    of_nan = (bits < 0).select(f.const(I32, negative_nan), nan)
    return value.is_nan().select(of_nan, code | sign).trunc(I8)

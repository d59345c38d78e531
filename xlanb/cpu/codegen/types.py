"""How XLA's element types stand in LLVM: in memory, in registers, and on the way between.

In a register a `pred` is an i1, an integer of n bits an i<n> (s4: i4), f64 a double, every other float a `float` that is kept rounded to its type, a complex number a pair
of names. In memory pred and sub-byte integers take a byte, as NumPy and ml_dtypes hold them.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from xlanb.cpu.codegen import vector_memory, vectors
from xlanb.cpu.codegen.ir import Function
from xlanb.errors import CompilationError
from xlanb.shape import PrimitiveType

Value = str | tuple[str, str]
T = PrimitiveType

_NARROW = frozenset(t for t in T if t.is_floating and t not in (T.F32, T.F64))


def is_narrow(t: PrimitiveType) -> bool:
    """Whether it is a float that is computed with as f32 and rounded after each operation."""
    return t in _NARROW


@cache
def part(t: PrimitiveType) -> PrimitiveType:
    """The type of a complex number's parts; of other types the type itself."""
    return {T.C64: T.F32, T.C128: T.F64}.get(t, t)


@cache
def register(t: PrimitiveType) -> str:
    """LLVM's type of a value in a register (of a part, where complex)."""
    t = part(t)
    if t is T.PRED:
        return "i1"
    if t is T.F64:
        return "double"
    return "float" if t.is_floating else f"i{t.bits}"


@cache
def memory(t: PrimitiveType) -> str:
    """LLVM's type of an element in memory (of a part, where complex)."""
    t = part(t)
    if t is T.F16:
        return "half"
    if t is T.BF16:
        return "i16"
    if t is T.PRED or t.bits < 8 or is_narrow(t):
        return "i8"
    return register(t)


def names(v: Value) -> tuple[str, ...]:
    """The names that make up a value."""
    return (v,) if isinstance(v, str) else v


def real(v: Value) -> str:
    """A value that is known not to be complex."""
    if not isinstance(v, str):
        raise CompilationError("a complex value where a real one belongs")
    return v


def pair(v: Value) -> tuple[str, str]:
    """A value that is known to be complex."""
    if isinstance(v, str):
        raise CompilationError("a real value where a complex one belongs")
    return v


# -- constants ----------------------------------------------------------------------------------------------------


def float_text(value: float, type_: str = "float") -> str:
    """An LLVM float or double constant, by its bits."""
    with np.errstate(all="ignore"):
        wide = float(np.float32(value)) if type_ == "float" else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', wide))[0]:016X}"


def constant(t: PrimitiveType, value: Any) -> Value:
    """A NumPy scalar as an LLVM constant."""
    if t.is_complex:
        kind = register(t)
        return float_text(value.real, kind), float_text(value.imag, kind)
    if t is T.PRED:
        return "true" if value else "false"
    if t.is_floating:
        return float_text(float(value), register(t))
    return str(int(value))


def zero(t: PrimitiveType) -> Value:
    """Zero (false)."""
    return constant(t, t.dtype.type(0))


def lowest(t: PrimitiveType) -> Value:
    """The lowest value: minus infinity where the type has it."""
    if t is T.PRED:
        return "false"
    if t.is_floating:
        return float_text(-np.inf, register(t))
    return str(int(_facts(t).min))


def highest(t: PrimitiveType) -> Value:
    """The highest value: infinity where the type has it."""
    if t is T.PRED:
        return "true"
    if t.is_floating:
        return float_text(np.inf, register(t))
    return str(int(_facts(t).max))


def _facts(t: PrimitiveType) -> Any:
    """NumPy's or ml_dtypes' facts on a numeric type."""
    facts: Any = ml_dtypes.iinfo if t.is_integral else ml_dtypes.finfo
    return facts(t.dtype)


# -- memory -------------------------------------------------------------------------------------------------------


def load(f: Function, t: PrimitiveType, pointer: str, offset: str | int) -> Value:
    """Element `offset` of an array of type t at `pointer`."""
    kind = memory(t)
    if isinstance(offset, str) and f.width and vectors.varies(f, offset):
        if t.is_complex:
            return vector_memory.apart(f, kind, vector_memory.load(f, kind, pointer, offset, 2), f.width)
        return from_memory(f, t, vector_memory.load(f, kind, pointer, offset))
    if t.is_complex:
        at = f.let(f"getelementptr inbounds {{ {kind}, {kind} }}, ptr {pointer}, i64 {offset}")
        second = f.let(f"getelementptr inbounds {kind}, ptr {at}, i64 1")
        return f.let(f"load {kind}, ptr {at}"), f.let(f"load {kind}, ptr {second}")
    at = pointer if offset == 0 else f.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}")
    return from_memory(f, t, f.let(f"load {kind}, ptr {at}"))


def store(f: Function, t: PrimitiveType, pointer: str, offset: str | int, value: Value) -> None:
    """Set element `offset` of an array of type t at `pointer`."""
    kind = memory(t)
    if isinstance(offset, str) and f.width and vectors.varies(f, offset):
        if t.is_complex:
            both = vector_memory.together(f, kind, *pair(value), f.width)
            vector_memory.store(f, kind, pointer, offset, both, 2)
        else:
            vector_memory.store(f, kind, pointer, offset, to_memory(f, t, real(value)))
        return
    if t.is_complex:
        at = f.let(f"getelementptr inbounds {{ {kind}, {kind} }}, ptr {pointer}, i64 {offset}")
        second = f.let(f"getelementptr inbounds {kind}, ptr {at}, i64 1")
        f.do(f"store {kind} {value[0]}, ptr {at}")
        f.do(f"store {kind} {value[1]}, ptr {second}")
        return
    raw = to_memory(f, t, real(value))
    at = pointer if offset == 0 else f.let(f"getelementptr inbounds {kind}, ptr {pointer}, i64 {offset}")
    f.do(f"store {kind} {raw}, ptr {at}")


def from_memory(f: Function, t: PrimitiveType, raw: str) -> str:
    """The register form of an element as it was loaded."""
    if t is T.PRED:
        return f.let(f"icmp ne i8 {raw}, 0")
    if t is T.F16:
        return f.let(f"fpext half {raw} to float")
    if is_narrow(t):
        value = widen(f, t, raw)
        if t.bits >= 8 and value.startswith("%"):
            f.remember(("in memory", t, value), raw)
        return value
    return f.let(f"trunc i8 {raw} to i{t.bits}") if t.bits < 8 else raw


def to_memory(f: Function, t: PrimitiveType, value: str) -> str:
    """The memory form of a value; a narrow float's value is rounded already or is rounded here, which is the same, or it is what it was widened from."""
    if t is T.PRED:
        return f.let(f"zext i1 {value} to i8")
    if t is T.F16:
        return f.let(f"fptrunc float {value} to half")
    if is_narrow(t):
        return str(f.recall(("in memory", t, value)) or narrow(f, t, value))
    if t.bits < 8:
        return f.let(f"zext i{t.bits} {value} to i8")
    return value


# -- bits ---------------------------------------------------------------------------------------------------------


def to_bits(f: Function, t: PrimitiveType, value: str) -> str:
    """The bits of a value as an i<bits> (pred: i8)."""
    if t in (T.F32, T.F64):
        return f.let(f"bitcast {register(t)} {value} to i{t.bits}")
    if t is T.F16:
        return f.let(f"bitcast half {to_memory(f, t, value)} to i16")
    if t is T.PRED or is_narrow(t):
        raw = to_memory(f, t, value)
        return f.let(f"trunc i8 {raw} to i{t.bits}") if t.bits < 8 else raw
    return value


def from_bits(f: Function, t: PrimitiveType, bits: str) -> str:
    """The value of bits given as an i<bits> (pred: i8)."""
    if t in (T.F32, T.F64):
        return f.let(f"bitcast i{t.bits} {bits} to {register(t)}")
    if t is T.F16:
        return from_memory(f, t, f.let(f"bitcast i16 {bits} to half"))
    if t is T.PRED or is_narrow(t):
        raw = f.let(f"zext i{t.bits} {bits} to i8") if t.bits < 8 else bits
        return from_memory(f, t, raw)
    return bits


# -- narrow floats ------------------------------------------------------------------------------------------------


def rounded(f: Function, t: PrimitiveType, value: str) -> str:
    """A float rounded to a narrow type; of f32 and f64 the value itself."""
    return from_memory(f, t, to_memory(f, t, value)) if is_narrow(t) else value


def odd(f: Function, value: str) -> str:
    """A double as a float rounded to odd, so that rounding it once more to something narrower rounds the double."""
    near = f.let(f"fptrunc double {value} to float")
    back = f.let(f"fpext float {near} to double")
    inexact = f.let(f"fcmp one double {back}, {value}")
    far = f.let(f"fcmp ogt double {_abs(f, back, 'double')}, {_abs(f, value, 'double')}")
    bits = f.let(f"bitcast float {near} to i32")
    less = f.let(f"sub i32 {bits}, {f.let(f'zext i1 {far} to i32')}")
    made = f.let(f"or i32 {less}, {f.let(f'zext i1 {inexact} to i32')}")
    return f.let(f"bitcast i32 {made} to float")


def _abs(f: Function, value: str, kind: str) -> str:
    suffix = "f32" if kind == "float" else "f64"
    return f.call(kind, f"llvm.fabs.{suffix}", (kind, value))


def widen(f: Function, t: PrimitiveType, raw: str) -> str:
    """The float of a bf16's or an 8-bit (or smaller) float's bits."""
    if t is T.BF16:
        high = f.let(f"shl i32 {f.let(f'zext i16 {raw} to i32')}, 16")
        return f.let(f"bitcast i32 {high} to float")
    table = _table(f, t)
    index = f.let(f"zext i8 {f.let(f'and i8 {raw}, {2**t.bits - 1}')} to i64")
    return f.let(f"load float, ptr {f.let(f'getelementptr inbounds float, ptr {table}, i64 {index}')}")


def _table(f: Function, t: PrimitiveType) -> str:
    name = f"@xlanb.table.{t.text}"
    if name[1:] not in f.module.globals:
        codes = np.arange(2**t.bits, dtype=np.uint8).view(t.dtype)
        with np.errstate(all="ignore"):
            values = ", ".join(f"float {float_text(v)}" for v in codes.astype(np.float32))
        text = f"{name} = private unnamed_addr constant [{2**t.bits} x float] [{values}], align 64"
        f.module.globals[name[1:]] = text
    return name


def narrow(f: Function, t: PrimitiveType, value: str) -> str:
    """The bits of a float rounded, to nearest and ties to even, to bf16 or an 8-bit (or smaller) float."""
    bits = f.let(f"bitcast float {value} to i32")
    if t is T.BF16:
        return _narrow_bf16(f, value, bits)
    if t is T.F8E8M0FNU:
        return _narrow_e8m0(f, value, bits)
    return _narrow_small(f, t, value, bits)


def _nearest(f: Function, bits: str, drop: int) -> str:
    """Bits without the last `drop`, rounded to nearest even; the result is shifted down."""
    lsb = f.let(f"and i32 {f.let(f'lshr i32 {bits}, {drop}')}, 1")
    biased = f.let(f"add i32 {f.let(f'add i32 {bits}, {2 ** (drop - 1) - 1}')}, {lsb}")
    return f.let(f"lshr i32 {biased}, {drop}")


def _narrow_bf16(f: Function, value: str, bits: str) -> str:
    near = _nearest(f, bits, 16)
    quiet = f.let(f"or i32 {f.let(f'lshr i32 {bits}, 16')}, 64")
    is_nan = f.let(f"fcmp uno float {value}, {value}")
    chosen = f.let(f"select i1 {is_nan}, i32 {quiet}, i32 {near}")
    return f.let(f"trunc i32 {chosen} to i16")


def _narrow_e8m0(f: Function, value: str, bits: str) -> str:
    """The nearest power of two, ties to the larger; below 2^-126 the larger of two neighbours.

    Zero, negative numbers, infinity and NaN give NaN (255), as in XLA and ml_dtypes.
    """
    is_least = f.let(f"icmp eq i32 {bits}, {1 << 22}")  # 2^-127 itself is not rounded up
    half = f.let(f"sub i32 {1 << 22}, {f.let(f'zext i1 {is_least} to i32')}")
    near = f.let(f"lshr i32 {f.let(f'add i32 {bits}, {half}')}, 23")
    good = f.let(f"fcmp ogt float {value}, 0.0")
    chosen = f.let(f"select i1 {good}, i32 {near}, i32 255")
    return f.let(f"trunc i32 {chosen} to i8")


def _narrow_small(f: Function, t: PrimitiveType, value: str, bits: str) -> str:
    info = _facts(t)
    mantissa, min_exponent = int(info.nmant), int(info.minexp)
    top = int(np.array(info.max, t.dtype).view(np.uint8))
    with np.errstate(all="ignore"):
        over = int(np.array(np.inf, np.float32).astype(t.dtype).view(np.uint8))
        not_a_number = int(np.array(np.nan, np.float32).astype(t.dtype).view(np.uint8))
    unsigned_zero = t.text.endswith("fnuz")
    sign_bit = 1 << (t.bits - 1)
    magnitude = f.let(f"and i32 {bits}, 2147483647")
    # Normal: the exponent is rebiased by a subtraction in the code's own place, after rounding.
    bias = (127 + min_exponent - 1) << mantissa
    normal = f.let(f"sub i32 {_nearest(f, magnitude, 23 - mantissa)}, {bias}")
    # Denormal: the value counted in units of the smallest one; 2^mantissa of them is the first normal code.
    unit = float_text(2.0 ** (mantissa - min_exponent))
    scaled = f.let(f"fmul float {f.let(f'bitcast i32 {magnitude} to float')}, {unit}")
    near = f.call("float", "llvm.roundeven.f32", ("float", scaled))
    tiny = f.call("i32", "llvm.fptosi.sat.i32.f32", ("float", near))
    small = f.let(f"icmp ult i32 {magnitude}, {(127 + min_exponent) << 23}")
    code = f.let(f"select i1 {small}, i32 {tiny}, i32 {normal}")
    code = f.let(f"select i1 {f.let(f'icmp ugt i32 {code}, {top}')}, i32 {over & (sign_bit - 1)}, i32 {code}")
    sign = f.let(f"select i1 {f.let(f'icmp slt i32 {bits}, 0')}, i32 {sign_bit}, i32 0")
    if unsigned_zero:
        sign = f.let(f"select i1 {f.let(f'icmp eq i32 {code}, 0')}, i32 0, i32 {sign}")
        overflow = f.let(f"icmp ugt i32 {normal}, {top}")
        overflow = f.let(f"and i1 {overflow}, {f.let(f'xor i1 {small}, true')}")
        code = f.let(f"select i1 {overflow}, i32 {over}, i32 {code}")
        sign = f.let(f"select i1 {overflow}, i32 0, i32 {sign}")
    made = f.let(f"or i32 {code}, {sign}")
    is_nan = f.let(f"fcmp uno float {value}, {value}")
    made = f.let(f"select i1 {is_nan}, i32 {not_a_number}, i32 {made}")
    return f.let(f"trunc i32 {made} to i8")

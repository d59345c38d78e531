"""Conversions between element types, and operations on the bits of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator.registry import rule
from xlanb.evaluator.values import Array, is_complex, is_floating, is_integral, narrow, primitive_type, widen
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType
from xlanb.shape.primitive_type import from_dtype

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

DType = np.dtype[Any]


def convert(x: Array, dtype: DType) -> Array:
    """The values in another element type, by XLA's rules.

    Floats are rounded to nearest even, in one step except from f64 to bf16, which XLA rounds to f32
    first. NaN becomes -0 in f4e2m1fn. Conversions to integers round toward zero and saturate; NaN
    becomes 0. Integers wrap around. A complex number gives its real part. A predicate is whether
    the value is not zero.
    """
    if x.dtype == dtype:
        return x
    if is_complex(x) and dtype.kind != "c" and dtype != np.bool_:
        x = np.real(x)
    wide = widen(x)
    if dtype == np.bool_:
        return np.not_equal(wide, 0)
    target = from_dtype(dtype)
    if target.is_integral and is_floating(x):
        return _saturate(wide, target)
    if target.is_floating and target.bits < 32 and target is not PrimitiveType.F16:
        return _to_narrow_float(wide, target)
    if target.bits < 8:
        return wide.astype(np.int8 if target.is_signed else np.uint8).astype(dtype)
    return wide.astype(dtype)


def _to_narrow_float(x: Array, target: PrimitiveType) -> Array:
    """Numbers in a float type that NumPy lacks; ml_dtypes rounds f64 twice, through f32."""
    rounds_once = x.dtype == np.float64 and target is not PrimitiveType.BF16
    return narrow(_rounded_to_odd(x) if rounds_once else x.astype(np.float32), target.dtype)


def _rounded_to_odd(x: Array) -> Array:
    """f64 as f32, with the last bit set if it is inexact.

    Rounding the result once more gives the same as rounding x directly.
    """
    near = x.astype(np.float32)
    back = near.astype(np.float64)
    bits = near.view(np.uint32) - (np.abs(back) > np.abs(x)).astype(np.uint32)
    inexact = (back != x) & ~np.isnan(x)
    return np.asarray(bits | inexact.astype(np.uint32)).view(np.float32)


def _saturate(x: Array, target: PrimitiveType) -> Array:
    low = -(2 ** (target.bits - 1)) if target.is_signed else 0
    high = 2 ** (target.bits - target.is_signed) - 1
    whole = np.trunc(np.where(np.isnan(x), 0, x).astype(np.float64))
    # float(high) rounds up for 64 bits: values not below it saturate anyway.
    inside = np.where((whole >= low) & (whole < float(high)), whole, 0)
    holder = np.dtype(f"{'i' if target.is_signed else 'u'}{max(1, target.bits // 8)}")
    result = np.where(
        whole >= float(high),
        holder.type(high),
        np.where(whole <= low, holder.type(low), inside.astype(holder)),
    )
    return narrow(result, target.dtype)


@rule("convert", lifted=True)
def _convert(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return convert(x, i.array_shape.dtype)


# -- shifts and counts -----------------------------------------------------------------------------


def _unsigned(x: Array, bits: int) -> Array:
    """The bits of integers as unsigned numbers, with a sub-byte number in a byte of its own.

    Raises:
        EvaluationError: they are not integers; HLO's rules allow a shift of any type.
    """
    if not is_integral(x):
        raise EvaluationError(f"expected integers, not {primitive_type(x)}")
    wide = widen(x)
    raw = wide.view(np.dtype(f"u{wide.dtype.itemsize}"))
    return raw & raw.dtype.type((1 << bits) - 1) if bits < 8 else raw


def _signed(raw: Array, x: Array) -> Array:
    """Unsigned bits as numbers of x's element type; upper bits of sub-byte types are dropped."""
    return narrow(raw.view(widen(x).dtype), x.dtype)


@rule("shift-left", lifted=True)
def _shift_left(ev: Evaluator, i: HloInstruction, x: Array, y: Array) -> Array:
    bits = primitive_type(x).bits
    raw, amount = _unsigned(np.asarray(x), bits), _unsigned(np.asarray(y), bits)
    return _signed(np.where(amount < bits, raw << np.minimum(amount, bits - 1), 0).astype(raw.dtype), x)


@rule("shift-right-logical", lifted=True)
def _shift_right_logical(ev: Evaluator, i: HloInstruction, x: Array, y: Array) -> Array:
    bits = primitive_type(x).bits
    raw, amount = _unsigned(np.asarray(x), bits), _unsigned(np.asarray(y), bits)
    return _signed(np.where(amount < bits, raw >> np.minimum(amount, bits - 1), 0).astype(raw.dtype), x)


@rule("shift-right-arithmetic", lifted=True)
def _shift_right_arithmetic(ev: Evaluator, i: HloInstruction, x: Array, y: Array) -> Array:
    # An unsigned operand is shifted as if signed: the operation is on bits.
    bits = primitive_type(x).bits
    raw, amount = _unsigned(np.asarray(x), bits), _unsigned(np.asarray(y), bits)
    signed = raw.view(np.dtype(f"i{raw.dtype.itemsize}"))
    if bits < 8:
        signed = (signed << (8 - bits)) >> (8 - bits)
    shifted = signed >> np.minimum(amount, bits - 1).astype(signed.dtype)
    return _signed(shifted.view(raw.dtype), x)


@rule("popcnt", lifted=True)
def _popcnt(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    raw = _unsigned(np.asarray(x), primitive_type(x).bits)
    return narrow(np.bitwise_count(raw), x.dtype)


@rule("count-leading-zeros", lifted=True)
def _count_leading_zeros(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    bits = primitive_type(x).bits
    smeared = _unsigned(np.asarray(x), bits)
    shift = 1
    while shift < bits:
        smeared = smeared | (smeared >> smeared.dtype.type(shift))
        shift *= 2
    return narrow(bits - np.bitwise_count(smeared).astype(np.int8), x.dtype)


@rule("mulhi", lifted=True)
def _mulhi(ev: Evaluator, i: HloInstruction, x: Array, y: Array) -> Array:
    bits = primitive_type(x).bits
    if bits <= 32:
        wide = np.int64 if widen(x).dtype.kind == "i" else np.uint64
        return narrow(((x.astype(wide) * y.astype(wide)) >> wide(bits)), x.dtype)
    return _mulhi_64(np.asarray(x), np.asarray(y))


def _mulhi_64(x: Array, y: Array) -> Array:
    """Upper half of a 128-bit product, from products of 32-bit halves."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a, b = x.view(np.uint64), y.view(np.uint64)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = (a_low * b_high + (middle & mask)) >> half
    high = a_high * b_high + (middle >> half) + carry
    if x.dtype.kind == "i":
        high = high - np.where(x < 0, b, np.uint64(0)) - np.where(y < 0, a, np.uint64(0))
    return np.asarray(high).view(x.dtype)


# -- precision -------------------------------------------------------------------------------------

_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_LIKE_HALVES = (PrimitiveType.F8E5M2, PrimitiveType.F8E5M2FNUZ)
"""Types with as many exponent bits as f16.

Their subnormal numbers are kept if the exponent is not reduced, as in XLA:CPU.
"""


def reduce_precision(x: Array, exponent_bits: int, mantissa_bits: int) -> Array:
    """Round floats to a format with fewer bits.

    Overflow gives infinity, values below the normal range zero; NaN stays NaN.
    """
    t = primitive_type(x)
    if is_complex(x):
        out = np.empty_like(x)
        out.real = reduce_precision(np.ascontiguousarray(x.real), exponent_bits, mantissa_bits)
        out.imag = reduce_precision(np.ascontiguousarray(x.imag), exponent_bits, mantissa_bits)
        return out
    if t.text not in _MANTISSA:
        wide = x.astype(np.float16) if t in _LIKE_HALVES else widen(x)
        return narrow(reduce_precision(wide, exponent_bits, mantissa_bits), x.dtype)
    mantissa = _MANTISSA[t.text]
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    u = unsigned.type
    raw = np.asarray(x).view(unsigned)
    sign_mask = u(1 << (t.bits - 1))
    if mantissa_bits < mantissa:
        drop = mantissa - mantissa_bits
        odd = (raw >> u(drop)) & u(1)
        raw = (raw + (u((1 << (drop - 1)) - 1) + odd)) & u(~((1 << drop) - 1) & ((1 << t.bits) - 1))
    exponent_mask = ((1 << (t.bits - 1)) - 1) ^ ((1 << mantissa) - 1)
    if exponent_bits < t.bits - 1 - mantissa:
        bias = (1 << (t.bits - 2 - mantissa)) - 1
        reduced_bias = (1 << (exponent_bits - 1)) - 1
        exponent = raw & u(exponent_mask)
        sign = raw & sign_mask
        raw = np.where(exponent > u((bias + reduced_bias) << mantissa), sign | u(exponent_mask), raw)
        raw = np.where(exponent <= u((bias - reduced_bias) << mantissa), sign, raw)
    return np.where(np.isnan(widen(x)), x, raw.astype(unsigned).view(x.dtype))


@rule("reduce-precision", lifted=True)
def _reduce_precision(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return reduce_precision(np.asarray(x), i.attributes["exponent_bits"], i.attributes["mantissa_bits"])


@rule("stochastic-convert", lifted=True)
def _stochastic_convert(ev: Evaluator, i: HloInstruction, x: Array, random: Array) -> Array:
    """Round toward zero, then away if the random number is below the fraction that was cut.

    The fraction is scaled to the random number's bits.
    """
    target = i.array_shape.element_type
    if not target.is_integral or not is_floating(x):
        raise EvaluationError(f"stochastic-convert to {target} is defined from floats to integers only")
    wide = widen(x).astype(np.float64)
    magnitude = np.abs(wide)
    whole = np.floor(magnitude)
    threshold = np.floor(np.ldexp(magnitude - whole, primitive_type(random).bits))
    rounded = whole + (np.asarray(random).astype(np.float64) < threshold)
    return _saturate(np.copysign(rounded, wide), target)


# -- the same bits ---------------------------------------------------------------------------------


def bitcast_convert(x: Array, dtype: DType, dimensions: tuple[int, ...]) -> Array:
    """The same bits in another element type.

    If the widths differ, a last dimension is added or removed, least significant part first.
    """
    source, target = primitive_type(x).bits, from_dtype(dtype).bits
    x = np.ascontiguousarray(x)
    if source == target:
        return x.view(dtype).reshape(dimensions)
    if source >= 8 and target >= 8:
        return x.reshape(-1).view(np.uint8).view(dtype).reshape(dimensions)
    raw: Array = np.unpackbits(x.reshape(-1).view(np.uint8), bitorder="little")
    if source < 8:
        raw = raw.reshape(-1, 8)[:, :source].reshape(-1)
    if target < 8:
        raw = raw.reshape(-1, target)
    return np.packbits(raw, axis=-1, bitorder="little").reshape(-1).view(dtype).reshape(dimensions)


@rule("bitcast-convert")
def _bitcast_convert(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    shape = i.array_shape
    return bitcast_convert(x, shape.dtype, shape.dimensions)

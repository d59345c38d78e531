"""Shared by the math functions: polynomials, powers of two, bounds, calls of the C library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from xlanb.codegen.lanes import varies
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import I64, Type
from xlanb.codegen.values import Number, Value
from xlanb.late_registry import LateRegistry

LIBRARY = "memory(none) nounwind willreturn"
"""LLVM attributes of the C library's functions."""
INFINITY, NAN = float("inf"), float("nan")
SHIFT = 6755399441055744.0
"""1.5 * 2^52: adding it to a small f64 rounds the number into the lowest bits."""
SHIFT_BITS = 0x4338000000000000


def horner(x: Value, coefficients: Sequence[float]) -> Value:
    """Evaluate a polynomial, highest power first."""
    total: Value = x.function.const(x.type, coefficients[0])
    for c in coefficients[1:]:
        total = total.times_plus(x, c)
    return total


def clamp(x: Value, low: Number, high: Number) -> Value:
    """Clamp x to bounds; NaN stays NaN."""
    x = (x < low).select(low, x)
    return (x > high).select(high, x)


PORTABLE: dict[str, Callable[..., Value]] = LateRegistry(lambda _: import_module("xlanb.codegen.math.portable"))
"""Functions for vectors and for targets without a C library, by the C names of the double versions.

See portable.py, which registers them.
"""


def library(symbol: str, *arguments: Value) -> Value:
    """Call a function of the C library for each lane, or its replacement if there is no library."""
    f, result = arguments[0].function, arguments[0].type.scalar
    if not f.target.has_c_library:
        return PORTABLE[symbol.removesuffix("f") if result.bits == 32 and symbol != "erf" else symbol](*arguments)
    if not f.width or not any(varies(a) for a in arguments):
        return f.call(result, symbol, *arguments, attributes=LIBRARY)
    given = f.alike(*arguments)
    lanes, places = given[0].type.lanes, []
    for a in given:
        places.append(Pointer(f.alloca(result, lanes), result))
        places[-1].store(0, a)
    out = Pointer(f.alloca(result, lanes), result)
    with f.loop(lanes) as k:
        one = [f.load(result, p.address(k)) for p in places]
        f.store(f.call(result, symbol, *one, attributes=LIBRARY), out.address(k))
    return out.load(0, lanes)


def power_of_two(biased: Value, scalar: Type) -> Value:
    """2^(n - bias) for a biased exponent n in 1..254 (f32) or 1..2046 (f64)."""
    return (biased << (23 if scalar.bits == 32 else 52)).bits_as(biased.type.of(scalar))


def as_i64(x: Value) -> Value:
    """The bits of an f64."""
    return x.bits_as(x.type.of(I64))


def log_limits(x: Value, made: Value) -> Value:
    """The logarithm of infinity, zero and negative numbers; otherwise `made`."""
    made = x.equals(INFINITY).select(x, made)
    made = x.equals(0.0).select(-INFINITY, made)
    return x.compare("ult", "ult", 0.0).select(NAN, made)


def log1p(x: Value, log: Callable[[Value], Value]) -> Value:
    """log(1 + x): the logarithm of the rounded sum, corrected for the rounding (W. Kahan)."""
    u = x + 1.0
    made = log(u) * (x / (u - 1.0))
    made = x.equals(INFINITY).select(x, made)
    return u.equals(1.0).select(x, made)

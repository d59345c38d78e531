"""Branch-free functions of f64 vectors; the C library would be called per element.

The exponential is 1 + r + r^2 q(r) after reduction by multiples of ln 2 in two parts, q fitted at
Chebyshev nodes with an error below 2e-17. The logarithm is that of Sun's fdlibm, log((1 + s) / (1 -
s)).
"""

from __future__ import annotations

from xlanb.codegen.math.common import SHIFT, SHIFT_BITS, as_i64, clamp, horner, log_limits, power_of_two
from xlanb.codegen.types import DOUBLE
from xlanb.codegen.values import Value

_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_EXP = (
    2.5100411082014903e-08,
    2.7620121717381933e-07,
    2.7557268406190795e-06,
    2.4801521225986432e-05,
    0.00019841269863088255,
    0.0013888888917258759,
    0.008333333333330055,
    0.04166666666662404,
    0.16666666666666669,
    0.5000000000000001,
)
_LOG = (
    1.479819860511658591e-01,
    1.531383769920937332e-01,
    1.818357216161805012e-01,
    2.222219843214978396e-01,
    2.857142874366239149e-01,
    3.999999999940941908e-01,
    6.666666666666735130e-01,
)


def _reduced(x: Value) -> tuple[Value, Value]:
    """(n as an i64, e^r - 1) with x = n ln 2 + r and |r| <= ln 2 / 2."""
    shifted = x.times_plus(1.4426950408889634, SHIFT)
    whole = shifted - SHIFT
    r = whole.times_plus(-_LN2_HIGH, x)
    r = whole.times_plus(-_LN2_LOW, r)
    return as_i64(shifted) - SHIFT_BITS, (r * r).times_plus(horner(r, _EXP), r)


def exp(x: Value) -> Value:
    """e^x. The power of two is applied in two halves, so that denormal results are correct.

    A result of 0 is 0 * 1 because an underflow takes a hundred cycles on some processors.
    """
    is_zero = x < -746.0
    n, p = _reduced(is_zero.select(0.0, (x > 710.0).select(710.0, x)))
    biased = n + 2046
    half = biased.lshr(1)
    return is_zero.select(0.0, p + 1.0) * power_of_two(half, DOUBLE) * power_of_two(biased - half, DOUBLE)


def expm1(x: Value) -> Value:
    """e^x - 1 as 2^n (e^r - 1) + (2^n - 1), using 2^(n - 1) so that n = 1024 does not overflow."""
    n, p = _reduced(clamp(x, -40.0, 710.0))
    scale = power_of_two(n + 1022, DOUBLE)
    return x.equals(0.0).select(x, scale.times_plus(p, scale - 0.5) * 2.0)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent as -e / (2 + e) with e = e^(-2 |x|) - 1."""
    doubled = abs(x) * -2.0
    n, p = _reduced((doubled < -40.0).select(-40.0, doubled))
    scale = power_of_two(n + 1023, DOUBLE)
    e = scale.times_plus(p, scale - 1.0)
    return (e / (e + 2.0)).with_sign_of(x)


def log(x: Value) -> Value:
    """The natural logarithm; minus infinity for zero, NaN for negative numbers."""
    f = x.function
    tiny = x < 2.0**-1022
    bits = as_i64(tiny.select(x * 2.0**54, x))
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    r = (bits - (k << 52)).bits_as(x.type) - 1.0
    power = (k + SHIFT_BITS).bits_as(x.type) - tiny.select(f.const(DOUBLE, SHIFT + 54), SHIFT)
    s = r / (r + 2.0)
    z = s * s
    half = r * r * 0.5
    low = s.times_plus(half + z * horner(z, _LOG), power * _LN2_LOW)
    return log_limits(x, power.times_plus(_LN2_HIGH, r - (half - low)))

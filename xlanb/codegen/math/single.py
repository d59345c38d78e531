"""Branch-free functions of f32 in f32 arithmetic.

The exponential and logarithm are Cephes' (S. L. Moshier: argument reduction by multiples of ln 2 in
two parts; minimax polynomials of degree 5 and 8). tanh and erf are the rational minimax
approximations that Eigen and XLA use.
"""

from __future__ import annotations

from xlanb.codegen.lanes import varies
from xlanb.codegen.math.common import clamp, horner, log_limits, power_of_two
from xlanb.codegen.types import FLOAT, I32
from xlanb.codegen.values import Value

_SHIFT, _SHIFT_BITS = 12582912.0, 0x4B400000
"""1.5 * 2^23 and its bits."""
_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_LOG = (
    7.0376836292e-2,
    -1.1514610310e-1,
    1.1676998740e-1,
    -1.2420140846e-1,
    1.4249322787e-1,
    -1.6668057665e-1,
    2.0000714765e-1,
    -2.4999993993e-1,
    3.3333331174e-1,
)
_TANH_ODD = (
    -2.76076847742355e-16,
    2.00018790482477e-13,
    -8.60467152213735e-11,
    5.12229709037114e-08,
    1.48572235717979e-05,
    6.37261928875436e-04,
    4.89352455891786e-03,
)
_TANH_EVEN = (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03)
_TANH_LARGEST = 7.90531110763549805
_ERF_ODD = (
    2.2905065861350646e-4,
    3.4082910107109506e-3,
    5.0955695062380861e-2,
    1.8520832239976145e-1,
    1.128379143519084,
)
_ERF_EVEN = (
    -1.1791602954361697e-7,
    2.3547966471313185e-5,
    1.0179625278914885e-3,
    1.4070470171167667e-2,
    1.1098505178285362e-1,
    4.9746925110067538e-1,
    1.0,
)
_ERF_LARGEST = 3.832506856900711
_LN2_HIGH, _LN2_LOW = 0.693359375, -2.12194440e-4


def _reduced(x: Value) -> tuple[Value, Value]:
    """(n as an i32, r) with x = n ln 2 + r and |r| <= ln 2 / 2.

    Adding `_SHIFT` leaves n in the low bits, without a conversion that NaN could break.
    """
    shifted = x.times_plus(1.44269504088896341, _SHIFT)
    whole = shifted - _SHIFT
    r = whole.times_plus(-_LN2_HIGH, x)
    return shifted.bits_as(x.type.of(I32)) - _SHIFT_BITS, whole.times_plus(-_LN2_LOW, r)


def _exp_less_1(r: Value) -> Value:
    """e^r - 1 for a small r."""
    return (r * r).times_plus(horner(r, _EXP), r)


def exp(x: Value) -> Value:
    """e^x. The power of two is applied in two halves, so that denormal results are correct.

    A result of 0 is 0 * 1 because an underflow takes a hundred cycles on some processors.
    """
    f = x.function
    is_zero = x < -104.0
    n, r = _reduced(is_zero.select(0.0, (x > 89.0).select(89.0, x)))
    p = is_zero.select(0.0, _exp_less_1(r) + 1.0)
    if f.target.vector_bits == 512 and varies(x):
        return f.call_as(p.type, f"llvm.ldexp.{p.type.mangled}.{n.type.mangled}", p, n)  # one instruction
    half = n >> 1
    return p * power_of_two(half + 127, FLOAT) * power_of_two(n - half + 127, FLOAT)


def expm1(x: Value) -> Value:
    """e^x - 1 as 2^n (e^r - 1) + (2^n - 1), using 2^(n-1) so that n = 128 does not overflow."""
    n, r = _reduced(clamp(x, -18.0, 89.0))
    scale = power_of_two(n + 126, FLOAT)
    made = scale.times_plus(_exp_less_1(r), scale - 0.5) * 2.0
    return x.equals(0.0).select(x, made)


def log(x: Value) -> Value:
    """The natural logarithm; minus infinity for zero, NaN for negative numbers."""
    tiny = x < 2.0**-126
    bits = tiny.select(x * 2.0**23, x).bits_as(x.type.of(I32))
    exponent = (bits - 0x3F3504F3) >> 23
    r = (bits - (exponent << 23)).bits_as(x.type) - 1.0
    e = (exponent - tiny.select(x.function.const(I32, 23), 0)).cast("sitofp", FLOAT)
    z = r * r
    y = e.times_plus(_LN2_LOW, horner(r, _LOG) * r * z)
    y = e.times_plus(_LN2_HIGH, r + z.times_plus(-0.5, y))
    return log_limits(x, y)


def tanh(x: Value) -> Value:
    """The hyperbolic tangent; 1 beyond 9, x itself below 4e-4."""
    bounded = clamp(x, -_TANH_LARGEST, _TANH_LARGEST)
    z = bounded * bounded
    made = bounded * horner(z, _TANH_ODD) / horner(z, _TANH_EVEN)
    made = (abs(x) < 4e-4).select(x, made)
    one = x.function.const(x.type, 1.0).with_sign_of(x)
    return (abs(x) > 9.0).select(one, made)


def erf(x: Value) -> Value:
    """The error function; 1 beyond 3.83."""
    bounded = clamp(x, -_ERF_LARGEST, _ERF_LARGEST)
    z = bounded * bounded
    return clamp(bounded * horner(z, _ERF_ODD) / horner(z, _ERF_EVEN), -1.0, 1.0)

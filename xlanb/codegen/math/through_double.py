"""Branch-free functions of f32 vectors by polynomials in f64.

The C library would be called per element. The polynomials are least-squares fits at Chebyshev
nodes, with relative errors below 5e-12: the remaining error is the rounding to f32. Arguments of
sin, cos and tan beyond a million use the C library, whose reduction modulo pi is exact.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.codegen.control import rarely
from xlanb.codegen.math.common import INFINITY, NAN, SHIFT, SHIFT_BITS, as_i64, clamp, horner, library
from xlanb.codegen.types import DOUBLE, FLOAT, I1
from xlanb.codegen.values import Value

_SIN = (2.717311369064698e-06, -0.0001983919856390187, 0.008333328770650688, -0.1666666663147333, 0.9999999999956561)
_COS = (
    -2.717305994348266e-07,
    2.479892368042961e-05,
    -0.001388888036980155,
    0.04166666654345903,
    -0.49999999999348227,
    0.9999999999999445,
)
_LOG2 = (
    0.24344080100497098,
    0.26140187211359267,
    0.3206176610389892,
    0.41219838458322167,
    0.5770780173535521,
    0.9617966939240984,
    2.8853900817779286,
)
_EXP2 = (
    1.3259681453457046e-06,
    1.5310081204107523e-05,
    0.0001540343359008064,
    0.0013333450560473633,
    0.009618129194149644,
    0.055504109412151253,
    0.24022650695639644,
    0.6931471805459302,
    1.000000000000014,
)
_ATAN = (
    -0.000273627923457673,
    0.002208746467120004,
    -0.008374908791658671,
    0.020161748947971347,
    -0.035511864036175816,
    0.05063507979159403,
    -0.063751590089898,
    0.07617387608803353,
    -0.09077527221803812,
    0.11109537067102677,
    -0.14285602069164344,
    0.19999995788981417,
    -0.3333333327068092,
    0.9999999999984466,
)
_LARGEST_ANGLE = 1e6


def _wide(x: Value) -> Value:
    return x.cast("fpext", DOUBLE)


def _narrow(x: Value) -> Value:
    return x.cast("fptrunc", FLOAT)


# -- sine, cosine, tangent -------------------------------------------------------------------------


def _sine_and_cosine(x: Value) -> tuple[Value, Value, Value]:
    """(quadrant as an i64, sin r, cos r) with x = quadrant * pi / 2 + r."""
    n = x.function.intrinsic("roundeven", x * 0.6366197723675814)
    # pi / 2 in two parts, the first of 33 bits: its product with n is exact.
    r = n.times_plus(-1.5707963267341256, x)
    r = n.times_plus(-6.077100506506192e-11, r)
    z = r * r
    return as_i64(n + SHIFT), r * horner(z, _SIN), horner(z, _COS)


def _in_quadrant(quadrant: Value, sine: Value, cosine: Value) -> Value:
    """The sine of an angle in a quadrant."""
    value = quadrant.trunc(I1).select(cosine, sine)
    return quadrant.lshr(1).trunc(I1).select(-value, value)


def _angle(x: Value, symbol: str, made: Value) -> Value:
    """`made`, or the C library's result for large angles."""
    return rarely(x.function, abs(x) >= _LARGEST_ANGLE, made, lambda: library(symbol, x))


def sin(x: Value) -> Value:
    """The sine."""
    made = _narrow(_in_quadrant(*_sine_and_cosine(_wide(x))))
    return _angle(x, "sinf", x.equals(0.0).select(x, made))


def cos(x: Value) -> Value:
    """The cosine."""
    quadrant, sine, cosine = _sine_and_cosine(_wide(x))
    return _angle(x, "cosf", _narrow(_in_quadrant(quadrant + 1, sine, cosine)))


def tan(x: Value) -> Value:
    """The tangent."""
    quadrant, sine, cosine = _sine_and_cosine(_wide(x))
    odd = quadrant.trunc(I1)
    made = _narrow(odd.select(cosine, sine) / odd.select(-sine, cosine))
    return _angle(x, "tanf", x.equals(0.0).select(x, made))


# -- powers ----------------------------------------------------------------------------------------


def _log2(x: Value) -> Value:
    """The base-2 logarithm of a nonnegative float's value.

    x = 2^k m with m near 1; uses artanh((m - 1) / (m + 1)).
    """
    bits = as_i64(x)
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    m = (bits - (k << 52)).bits_as(x.type)
    t = (m - 1.0) / (m + 1.0)
    whole = (k + SHIFT_BITS).bits_as(x.type) - SHIFT  # k, cheaper than a conversion
    made = t.times_plus(horner(t * t, _LOG2), whole)
    made = x.equals(0.0).select(-INFINITY, made)
    return x.compare("ult", "ult", INFINITY).select(made, x)


def _exp2(x: Value) -> Value:
    """2^x for results rounded to float: infinite or zero beyond the range of floats."""
    x = clamp(x, -200.0, 200.0)
    shifted = x + SHIFT
    made = horner(x - (shifted - SHIFT), _EXP2)
    scaled = (as_i64(made) + (as_i64(shifted) << 52)).bits_as(x.type)
    return x.is_nan().select(x, scaled)


def pow(x: Value, y: Value) -> Value:  # noqa: A001 - the field's name
    """x to the power y; special values as in C99 (annex F.9.4.4)."""
    f = x.function
    a, b = f.alike(_wide(x), _wide(y))
    magnitude = abs(a)
    one = b.equals(0.0) | magnitude.equals(1.0)
    made = _exp2(one.select(0.0, b * _log2(magnitude)))
    half = b * 0.5
    whole = f.intrinsic("trunc", b).equals(b)
    odd = whole & f.intrinsic("trunc", half).differs(half)
    made = (odd & (as_i64(a) < 0)).select(-made, made)
    lost = (a < 0.0) & (a > -INFINITY) & ~whole
    made = lost.select(NAN, made)
    made = (a.is_nan() & b.differs(0.0)).select(a, made)
    return _narrow((b.is_nan() & a.differs(1.0)).select(b, made))


def cbrt(x: Value) -> Value:
    """The cube root."""
    a = _wide(x)
    made = _exp2(_log2(abs(a)) * (1 / 3)).with_sign_of(a)
    plain = a.compare("one", "ne", 0.0) & (abs(a) < INFINITY)
    return _narrow(plain.select(made, a))


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in -pi..pi."""
    a, b = y.function.alike(_wide(y), _wide(x))
    above, right = abs(a), abs(b)
    steep = above > right
    low, high = steep.select(right, above), steep.select(above, right)
    q = low.equals(high).select(1.0, low / high)  # for two infinities too
    q = high.equals(0.0).select(0.0, q)
    angle = q * horner(q * q, _ATAN)
    angle = steep.select(1.5707963267948966 - angle, angle)
    angle = (as_i64(b) < 0).select(3.141592653589793 - angle, angle).with_sign_of(a)
    return _narrow(a.compare("uno", "ne", b).select(a + b, angle))


def fmod(x: Value, y: Value) -> Value:
    """The remainder of x by y, with the sign of x.

    Exact in f64 if the quotient is below 2^26; otherwise the C library's.
    """
    f = x.function
    a, b = f.alike(_wide(x), _wide(y))
    quotient = a / b
    rest = (-f.intrinsic("trunc", quotient)).times_plus(b, a)
    plain = (abs(quotient) < 2.0**26) & (abs(b) < INFINITY)
    return rarely(f, ~plain, _narrow(rest).with_sign_of(x), lambda: library("fmodf", x, y))


FUNCTIONS: dict[str, Callable[..., Value]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "pow": pow,
    "cbrt": cbrt,
    "atan2": atan2,
    "fmod": fmod,
}
"""The functions of this file by their C names."""

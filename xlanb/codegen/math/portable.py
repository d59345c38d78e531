"""Functions of f64: of vectors, and of scalars for targets without a C library, such as GPUs.

Sine, cosine, tangent: Cody and Waite's reduction in three parts of pi / 2 up to a million, beyond
that Payne and Hanek's with the bits of 2 / pi, then the kernels of Sun's fdlibm, as are the arcus
functions.
Powers: the logarithm in twice the precision. erf: polynomials around the middles of intervals.

Largest errors in units of the last place over numbers of every magnitude: sin, cos 0.8   tan 2.0
pow 1.6   cbrt 0.7   atan 0.9   atan2 1.5   asin, acos 1.0   sinh, cosh 2.8   asinh, acosh, atanh
3.0
erf 1.1; fmod is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from xlanb.codegen.control import rarely
from xlanb.codegen.lanes import varies
from xlanb.codegen.math import double
from xlanb.codegen.math.common import INFINITY, NAN, PORTABLE, SHIFT, SHIFT_BITS, as_i64, horner, library, log1p
from xlanb.codegen.memory import Pointer
from xlanb.codegen.types import DOUBLE, FLOAT, I1, I64, integer
from xlanb.codegen.values import Value

_PI_2 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
"""pi / 2 as the sum of three numbers."""
_LARGEST_REDUCED = 1e6
_TWO_OVER_PI = (
    0x0000000000000000, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484, 0xE99C7026B45F7E41, 0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F, 0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
)  # fmt: skip
"""The bits of 2 / pi, after 64 zeros."""
_SIN = (
    1.58969099521155010221e-10, -2.50507602534068634195e-08, 2.75573137070700676789e-06, -1.98412698298579493134e-04,
    8.33333333332248946124e-03,
)  # fmt: skip
_SIN_FIRST = -1.66666666666666324348e-01
_COS = (
    -1.13596475577881948265e-11, 2.08757232129817482790e-09, -2.75573143513906633035e-07, 2.48015872894767294178e-05,
    -1.38888888888741095749e-03, 4.16666666666666019037e-02,
)  # fmt: skip
_ATAN_ODD = (
    1.62858201153657823623e-02, 4.97687799461593236017e-02, 6.66107313738753120669e-02, 9.09088713343650656196e-02,
    1.42857142725034663711e-01, 3.33333333333329318027e-01,
)  # fmt: skip
_ATAN_EVEN = (
    -3.65315727442169155270e-02, -5.83357013379057348645e-02, -7.69187620504482999495e-02, -1.11111104054623557880e-01,
    -1.99999999998764832476e-01,
)  # fmt: skip
_ATAN_AT = (
    (0.5, 4.63647609000806093515e-01, 2.26987774529616870924e-17),
    (1.0, 7.85398163397448278999e-01, 3.06161699786838301793e-17),
    (1.5, 9.82793723247329054082e-01, 1.39033110312309984516e-17),
)
"""Points with their angles in two parts."""
_ASIN_OVER = (
    3.47933107596021167570e-05, 7.91534994289814532176e-04, -4.00555345006794114027e-02, 2.01212532134862925881e-01,
    -3.25565818622400915405e-01, 1.66666666666666657415e-01,
)  # fmt: skip
_ASIN_UNDER = (
    7.70381505559019352791e-02,
    -6.88283971605453293030e-01,
    2.02094576023350569471e00,
    -2.40339491173441421878e00,
    1.0,
)
_LOG = (
    1.1887420615744945e-08, 4.502223907514836e-08, 2.008283964344275e-07, 8.975711988242475e-07, 4.069010657707837e-06,
    1.8780048069293185e-05, 8.877840909104767e-05, 0.0004340277777777765, 0.002232142857142857, 0.0125,
)  # fmt: skip
"""log((1 + s) / (1 - s)) = u + u^3 (1 / 12 + u^2 p(u^2)) with u = 2 s."""
_TWELFTH = (0.08333333333333333, 4.625929269271485e-18)
_LN2 = (0.693147180559663, 2.8235290563031577e-13)
"""ln 2 in two parts; the first has 41 bits."""
_ERF_SMALL = (
    7.272605667746851e-11, -1.1958368091524506e-09, 1.4776618764400006e-08, -1.636401288305236e-07,
    1.6462039947573494e-06,
    -1.4925648277963885e-05, 0.00012055332941926721, -0.0008548327022938597, 0.00522397762543796, -0.026866170645131044,
    0.11283791670955125, -0.37612638903183754, 1.1283791670955126,
)  # fmt: skip
_ERF_STEP, _ERF_DEGREE = 0.75, 17
_ERF = (
    8.273614950594822e-07, -2.1780751869947492e-07, -7.718631662456375e-06, 1.0732825056698353e-05,
    4.9453958354391866e-05, -0.0001415603695958054, -0.0001769549441225521, 0.001153267516911745,
    -0.0003601919967881083, -0.0060312608909698015, 0.009606894226020844, 0.015536835449977327,
    -0.061323683605668415, 0.027973297133853745, 0.1624523329847677, -0.35805820331336546, 0.3182739585007693,
    0.8883882317017078,
    -1.2170179261646375e-07, -5.94139428833921e-07, 2.3727979060592455e-06, 8.005666894553026e-07,
    -2.0803956117471065e-05, 3.6076280361528e-05, 7.372994857334642e-05, -0.0003901577518854269,
    0.0003622564452338478, 0.0014305016958075219, -0.004928393908224966, 0.00410518713298203, 0.011462583364875984,
    -0.04225988151097217, 0.0674410925611844, -0.06289842829540515, 0.03354582842421607, 0.9919900576701199,
    -1.8625393878104408e-08, 1.6283435528873673e-07, -2.785900272381951e-07, -6.750829720561896e-07,
    4.15720636849344e-06, -6.688005612981932e-06, -1.0326292093085974e-05, 7.395619009295855e-05,
    -0.00015260043050296124, 3.4644705257922994e-05, 0.0006808680974098835, -0.0022468338446982477,
    0.004217880601717703, -0.005414293806654048, 0.004890426317562646, -0.00301317220544202, 0.001147875125882675,
    0.9997946242638588,
    4.627079234290445e-09, -1.8038905967044833e-08, 2.0382283979712255e-08, 8.173215052020648e-08,
    -4.6108906353574505e-07, 1.0658652065100894e-06, -6.548547779302657e-07, -4.603538684071087e-06,
    2.1265165465834675e-05, -5.4846271665503884e-05, 0.00010218619668637194, -0.00014640888161473407,
    0.00016377394446102721, -0.00014188802214113117, 9.258295143162787e-05, -4.30371251992072e-05,
    1.2751740799765088e-05, 0.9999981847185726,
    -3.331569840560261e-10, 1.2174268171957914e-09, -2.138415974730335e-09, -8.460897217539202e-10,
    2.0981723645134214e-08, -8.737815322343458e-08, 2.444286424993518e-07, -5.323951520933873e-07,
    9.464133574604401e-07, -1.3972270399225443e-06, 1.719658800889884e-06, -1.7554651148228523e-06,
    1.4669853540585174e-06, -9.811490515319782e-07, 5.063686032385664e-07, -1.8970857793990457e-07,
    4.598995828846052e-08, 0.9999999945765992,
    8.203533587613094e-12, -4.4758614047029015e-11, 1.5376143679616172e-10, -4.182079814125634e-10,
    9.547320815144755e-10, -1.8710631864799258e-09, 3.180607161172892e-09, -4.706952755478768e-09,
    6.058959170002533e-09, -6.752997468231802e-09, 6.463481249907585e-09, -5.247061323461069e-09,
    3.5486874995492996e-09, -1.9483344895657562e-09, 8.352158502851824e-10, -2.6251243648988763e-10,
    5.384870492099443e-11, 0.9999999999945866,
    2.883277642943666e-13, -6.768214549799597e-13, 1.2388056221568188e-12, -2.2580129615665627e-12,
    3.734393602954288e-12, -5.494844610193254e-12, 7.228294941148758e-12, -8.476213459609691e-12,
    8.804327846163663e-12, -8.034978472275473e-12, 6.373983352467004e-12, -4.33274829905693e-12,
    2.475322466748494e-12, -1.1568039024438943e-12, 4.249543542004283e-13, -1.1514066795329427e-13,
    2.0469452084243763e-14, 0.9999999999999982,
)  # fmt: skip
"""Coefficients of erf around the middle of each interval from the second on.

Intervals have that length; the highest power comes first.
"""

_Pair = tuple[Value, Value]
"""A number as the sum of two; the second is at most half a unit in the first's last place."""


def _fma(a: Value, b: Value | float, c: Value | float) -> Value:
    return a.function.intrinsic("fma", a, b, c)


def _product(a: Value, b: Value | float) -> _Pair:
    high = a * b
    return high, _fma(a, b, -high)


def _sum(a: Value, b: Value) -> _Pair:
    """The exact sum a + b as a pair, for numbers of any size."""
    high = a + b
    back = high - a
    return high, (a - (high - back)) + (b - back)


def _times(a: _Pair, b: _Pair) -> _Pair:
    high, low = _product(a[0], b[0])
    low = _fma(a[0], b[1], _fma(a[1], b[0], low))
    whole = high + low
    return whole, (high - whole) + low


def _plus(a: _Pair, b: _Pair) -> _Pair:
    high, low = _sum(a[0], b[0])
    low = low + (a[1] + b[1])
    whole = high + low
    return whole, (high - whole) + low


# -- sine, cosine, tangent -------------------------------------------------------------------------


def _reduce_argument(x: Value, name: str, of: Callable[[Value, Value, Value], Value]) -> Value:
    """`of(n, r, low)` with x = n * pi / 2 + r + low, n an i64 and low the rounding error of r.

    `name` is the function of the C library that computes the same; vectors use it for large angles.
    """
    f = x.function
    large = (abs(x) >= _LARGEST_REDUCED) & (abs(x) < INFINITY)
    if varies(x) and f.target.has_c_library:
        return rarely(f, large, of(*_reduced_small(x)), lambda: library(name, x))
    return of(*f.choose(large, lambda: _reduced_large(x), lambda: _reduced_small(x)))


def _reduced_small(x: Value) -> list[Value]:
    f = x.function
    x = (abs(x) < _LARGEST_REDUCED).select(x, x - x)  # infinities become NaN
    n = f.intrinsic("roundeven", x * 0.6366197723675814)
    first = _fma(n, -_PI_2[0], x)
    high, low = _product(n, _PI_2[1])
    r, rest = _sum(first, -high)
    rest = rest - low
    rest = _fma(n, -_PI_2[2], rest)
    whole = r + rest
    return [as_i64(n + SHIFT), whole, (r - whole) + rest]


def _reduced_large(x: Value) -> list[Value]:
    """Multiply the significant bits of 2 / pi by the 53 bits of x.

    The two bits before the binary point are the quadrant.
    """
    f, wide = x.function, integer(128)
    bits = as_i64(x) & (2**63 - 1)
    exponent = bits.lshr(52) - 1075
    mantissa = (bits & (2**52 - 1)) | 2**52
    at = exponent - 2 + 64  # the first bit's offset in the table
    word, shift = at.lshr(6), at & 63
    table = Pointer(f.table("xlanb.table.two_over_pi", I64, _TWO_OVER_PI), I64).by(word)
    words = [table[k] for k in range(4)]
    window = [f.call_as(I64, "llvm.fshl.i64", words[k], words[k + 1], shift) for k in range(3)]
    m = mantissa.zext(wide)
    product = (window[0].zext(wide) * m << 64) + window[1].zext(wide) * m + (window[2].zext(wide) * m).lshr(64)
    quadrant = product.lshr(126).trunc(I64)
    fraction = product << 2
    below = fraction < 0  # more than one half: the next quadrant, with a negative rest
    magnitude = below.select(-fraction, fraction)
    high, low = magnitude.lshr(64).trunc(I64), magnitude.trunc(I64)
    zeros = f.intrinsic("ctlz", high, immediate=False)
    none = high.equals(0)
    zeros = none.select(64, zeros)
    left = none.select(low, f.call_as(I64, "llvm.fshl.i64", high, low, zeros))
    rest = none.select(0, low << none.select(0, zeros))
    top = left.lshr(11).cast("uitofp", DOUBLE)
    lower = ((left << 42) & (2**53 - 1) | rest.lshr(22)).cast("uitofp", DOUBLE) * 2.0**-53
    scale = ((1023 - 53 - zeros) << 52).bits_as(DOUBLE)
    a, b = _times((top, lower), (f.const(DOUBLE, _PI_2[0]), f.const(DOUBLE, _PI_2[1])))
    negative = below ^ (as_i64(x) < 0)
    a, b = a * scale, b * scale
    count = quadrant + below.zext(I64)
    return [(as_i64(x) < 0).select(-count, count), negative.select(-a, a), negative.select(-b, b)]


def _sine(r: Value, low: Value) -> Value:
    z = r * r
    v = z * r
    return r - ((z * (low * 0.5 - v * horner(z, _SIN)) - low) - v * _SIN_FIRST)


def _cosine(r: Value, low: Value) -> Value:
    z = r * r
    half = z * 0.5
    w = 1.0 - half
    return w + (((1.0 - w) - half) + (z * (z * horner(z, _COS)) - r * low))


def sin(x: Value) -> Value:
    """The sine."""

    def of(n: Value, r: Value, low: Value) -> Value:
        made = n.trunc(I1).select(_cosine(r, low), _sine(r, low))
        return n.lshr(1).trunc(I1).select(-made, made)

    return x.equals(0.0).select(x, _reduce_argument(x, "sin", of))


def cos(x: Value) -> Value:
    """The cosine."""

    def of(n: Value, r: Value, low: Value) -> Value:
        made = n.trunc(I1).select(_sine(r, low), _cosine(r, low))
        return (n + 1).lshr(1).trunc(I1).select(-made, made)

    return _reduce_argument(x, "cos", of)


def tan(x: Value) -> Value:
    """The tangent."""

    def of(n: Value, r: Value, low: Value) -> Value:
        sine, cosine, odd = _sine(r, low), _cosine(r, low), n.trunc(I1)
        return odd.select(cosine, sine) / odd.select(-sine, cosine)

    return x.equals(0.0).select(x, _reduce_argument(x, "tan", of))


# -- powers ----------------------------------------------------------------------------------------


def _log(x: Value) -> _Pair:
    """The natural logarithm of a positive number in twice the precision."""
    f = x.function
    tiny = x < 2.0**-1022
    bits = as_i64(tiny.select(x * 2.0**54, x))
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    r = (bits - (k << 52)).bits_as(x.type) - 1.0
    power = (k + SHIFT_BITS).bits_as(x.type) - tiny.select(f.const(DOUBLE, SHIFT + 54), SHIFT)
    bottom, lost = _sum(f.const(DOUBLE, 2.0), r)
    u = 2.0 * r / bottom
    error = _fma(-u, bottom, 2.0 * r) - u * lost
    u_low = error / bottom
    v = u * u
    inner = _plus(
        (f.const(DOUBLE, _TWELFTH[0]), f.const(DOUBLE, _TWELFTH[1])), (v * horner(v, _LOG), f.const(DOUBLE, 0.0))
    )
    whole: _Pair = (u, u_low)
    cubed = _times(_times(whole, whole), whole)
    made = _plus(whole, _times(cubed, inner))
    return _plus((power * _LN2[0], power * _LN2[1]), made)


def pow(x: Value, y: Value) -> Value:  # noqa: A001 - the field's name
    """x to the power y; special values as in C99 (annex F.9.4.4)."""
    f = x.function
    magnitude = abs(x)
    one = y.equals(0.0) | magnitude.equals(1.0)
    plain = magnitude.compare("ogt", "sgt", 0.0) & (magnitude < INFINITY)
    high, low = _log(plain.select(magnitude, 1.0))
    exponent, rest = _product(high, y)
    rest = _fma(low, y, rest)
    within = abs(exponent) < 800.0
    e = double.exp(within.select(exponent, f.const(DOUBLE, 800.0).with_sign_of(exponent)))
    made = within.select(_fma(e, rest, e), e)
    made = e.equals(INFINITY).select(e, made)
    edge = magnitude.equals(0.0).select(f.const(DOUBLE, 0.0), INFINITY)
    other = magnitude.equals(0.0).select(f.const(DOUBLE, INFINITY), 0.0)
    made = plain.select(made, (y < 0.0).select(other, edge))
    made = one.select(1.0, made)
    endless = abs(y).equals(INFINITY) & ~one
    grows = (magnitude > 1.0).equals(y > 0.0)
    made = endless.select(grows.select(f.const(DOUBLE, INFINITY), 0.0), made)
    half = y * 0.5
    whole = f.intrinsic("trunc", y).equals(y)
    odd = whole & f.intrinsic("trunc", half).differs(half)
    made = (odd & (as_i64(x) < 0)).select(-made, made)
    lost = (x < 0.0) & (x > -INFINITY) & ~whole
    made = lost.select(NAN, made)
    made = (x.is_nan() & y.differs(0.0)).select(x, made)
    return (y.is_nan() & x.differs(1.0)).select(y, made)


def cbrt(x: Value) -> Value:
    """The cube root: by the logarithm and a Newton step."""
    a = abs(x)
    plain = a.compare("one", "ne", 0.0) & (a < INFINITY)
    f, low, high = x.function, a < 2.0**-600, a > 2.0**600
    a = a * low.select(f.const(DOUBLE, 2.0**600), high.select(f.const(DOUBLE, 2.0**-600), 1.0))
    given = plain.select(a, 1.0)
    t = double.exp(double.log(given) * (1 / 3))
    square, lost = _product(t, t)
    cube, more = _product(square, t)
    error = (given - cube) - _fma(lost, t, more)
    t = t + error / (square * 3.0)
    t = t * low.select(f.const(DOUBLE, 2.0**-200), high.select(f.const(DOUBLE, 2.0**200), 1.0))
    return plain.select(t.with_sign_of(x), x)


# -- inverse functions -----------------------------------------------------------------------------


def atan(x: Value) -> Value:
    """The angle with this tangent, in -pi / 2..pi / 2."""
    f, a = x.function, abs(x)
    point, high, low = (f.const(DOUBLE, 0.0) for _ in range(3))
    for bound, (at, angle, rest) in zip((0.4375, 0.6875, 1.1875), _ATAN_AT, strict=True):
        beyond = a >= bound
        point, high, low = beyond.select(at, point), beyond.select(angle, high), beyond.select(rest, low)
    far = a >= 2.4375
    high, low = far.select(_PI_2[0], high), far.select(_PI_2[1], low)
    top, bottom = far.select(-1.0, a - point), far.select(a, a * point + 1.0)
    near = a < 0.4375
    t = near.select(a, top / bottom)
    z = t * t
    w = z * z
    bent = t * (z * horner(w, _ATAN_ODD) + w * horner(w, _ATAN_EVEN))
    made = near.select(t - bent, high - ((bent - low) - t))
    return x.is_nan().select(x, made.with_sign_of(x))


def atan2(y: Value, x: Value) -> Value:
    """The angle of the point (x, y), in -pi..pi."""
    f = x.function
    y, x = f.alike(y, x)
    a, b = abs(y), abs(x)
    both = a.equals(INFINITY) & b.equals(INFINITY)
    q = both.select(1.0, a / b)
    q = a.equals(0.0).select(0.0, q)
    angle = atan(q)
    angle = (as_i64(x) < 0).select(3.141592653589793 - (angle - 1.2246467991473532e-16), angle).with_sign_of(y)
    return x.compare("uno", "ne", y).select(x + y, angle)


def _arc(z: Value) -> Value:
    """(asin(s) - s) / s for z = s^2 of at most 1/4."""
    return z * horner(z, _ASIN_OVER) / horner(z, _ASIN_UNDER)


def _half_angle(a: Value) -> tuple[Value, Value, Value]:
    """(s, the rounding error of s, the arc of s) for s = sqrt((1 - a) / 2)."""
    z = (1.0 - a) * 0.5
    s = z.sqrt()
    lost = _fma(-s, s, z)
    return s, s.equals(0.0).select(0.0, lost / (s * 2.0)), _arc(z)


def asin(x: Value) -> Value:
    """The angle with this sine, in -pi / 2..pi / 2; NaN outside -1..1."""
    a = abs(x)
    s, rest, arc = _half_angle(a)
    quarter = _PI_2[0] / 2
    p = 2.0 * (s * arc + rest) - _PI_2[1]
    far = quarter - (p - (quarter - 2.0 * s))
    near = a * _arc(a * a) + a
    return (a < 0.5).select(near, far).with_sign_of(x)


def acos(x: Value) -> Value:
    """The angle with this cosine, in 0..pi; NaN outside -1..1."""
    a = abs(x)
    s, rest, arc = _half_angle(a)
    far = 2.0 * (s + (s * arc + rest))
    far = (x < 0.0).select(2.0 * _PI_2[0] - (far - 2.0 * _PI_2[1]), far)
    near = _PI_2[0] - (x - (_PI_2[1] - x * _arc(x * x)))
    return (a < 0.5).select(near, far)


def asinh(x: Value) -> Value:
    """The inverse of sinh."""
    a = abs(x)
    square = a * a
    near = log1p(a + square / ((square + 1.0).sqrt() + 1.0), double.log)
    far = double.log(a) + 0.6931471805599453
    made = (a < 2.0**28).select(near, far)
    return a.compare("ult", "ult", 2.0**-30).select(x, made.with_sign_of(x))


def acosh(x: Value) -> Value:
    """The inverse of cosh; NaN below 1."""
    t = x - 1.0
    near = log1p(t + (t * 2.0 + t * t).sqrt(), double.log)
    far = double.log(x) + 0.6931471805599453
    made = (x < 2.0**28).select(near, far)
    return x.compare("ult", "ult", 1.0).select(NAN, made)


def atanh(x: Value) -> Value:
    """The inverse of tanh; infinite at -1 and 1, NaN outside."""
    a = abs(x)
    made = 0.5 * log1p(2.0 * a / (1.0 - a), double.log)
    return a.compare("ult", "ult", 2.0**-30).select(x, made.with_sign_of(x))


# -- others ----------------------------------------------------------------------------------------


def sinh(x: Value) -> Value:
    """The hyperbolic sine."""
    a = abs(x)
    grown = double.expm1(a)
    root = double.exp(a * 0.5)
    near = (grown + grown / (grown + 1.0)) * 0.5
    return (a > 40.0).select(root * 0.5 * root, near).with_sign_of(x)


def cosh(x: Value) -> Value:
    """The hyperbolic cosine."""
    a = abs(x)
    grown = double.expm1(a)
    root = double.exp(a * 0.5)
    return (a > 40.0).select(root * 0.5 * root, grown * grown / (grown * 2.0 + 2.0) + 1.0)


def erf(x: Value) -> Value:
    """The error function."""
    f, a = x.function, abs(x)
    count = len(_ERF) // (_ERF_DEGREE + 1)
    inside = a < _ERF_STEP * (count + 1)
    whole = f.intrinsic("trunc", inside.select(a, _ERF_STEP) * (1 / _ERF_STEP))
    whole = (whole < 1.0).select(1.0, whole)
    first = (as_i64(whole + SHIFT) - (SHIFT_BITS + 1)) * (_ERF_DEGREE + 1)
    table = Pointer(f.table("xlanb.table.erf", DOUBLE, _ERF), DOUBLE)
    t = inside.select(a, 0.0) - (whole + 0.5) * _ERF_STEP
    total = table[first]
    for k in range(1, _ERF_DEGREE + 1):
        total = _fma(total, t, table[first + k])
    small = x * horner(a * a, _ERF_SMALL)
    made = (a < _ERF_STEP).select(small, inside.select(total, 1.0).with_sign_of(x))
    return x.is_nan().select(x, made)


def fmod(x: Value, y: Value) -> Value:
    """The remainder of x by y with the sign of x, exact: 26 bits of the quotient at a time."""
    f = x.function
    x, y = f.alike(x, y)
    a, b = abs(x), abs(y)
    plain = (a < INFINITY) & b.compare("ogt", "sgt", 0.0)
    first = plain.select(a, 0.0)
    bits = _exponent(b)
    with f.rounds([first]) as loop:
        left = loop.values[0]
        most = (_exponent(left) - bits - 26).smax(0)
        scaled = _scaled(_scaled(b, most.lshr(1)), most - most.lshr(1))
        q = f.intrinsic("trunc", left / scaled)
        rest = _fma(-q, scaled, left)
        rest = (rest < 0.0).select(rest + scaled, rest)
        rest = (rest >= scaled).select(rest - scaled, rest)
        done = (left >= b).select(rest, left)
        loop.next, loop.again = [done], done >= b
    made = loop.values[0].with_sign_of(x)
    return plain.select(made, x.compare("uno", "ne", y).select(x + y, NAN))


def _exponent(a: Value) -> Value:
    """The binary exponent of a positive number; for a denormal one, that of its leading bit."""
    bits = as_i64(a)
    zeros = a.function.intrinsic("ctlz", bits, immediate=False)
    return bits.lshr(52).equals(0).select(-1011 - zeros, bits.lshr(52) - 1023)


def _scaled(a: Value, power: Value) -> Value:
    return a * ((power + 1023) << 52).bits_as(DOUBLE)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "sin": sin, "cos": cos, "tan": tan, "pow": pow, "cbrt": cbrt, "atan": atan, "atan2": atan2, "asin": asin,
    "acos": acos,
    "asinh": asinh, "acosh": acosh, "atanh": atanh, "sinh": sinh, "cosh": cosh, "erf": erf, "fmod": fmod,
    "exp": double.exp, "expm1": double.expm1, "tanh": double.tanh, "log": double.log,
}  # fmt: skip


def _function(name: str, *arguments: Value) -> Value:
    """A function of floats or doubles by its C name; floats are computed in doubles and rounded."""
    if name == "log1p":
        return log1p(arguments[0], double.log)
    if arguments[0].type.scalar.bits == 64:
        return _FUNCTIONS[name](*arguments)
    return _FUNCTIONS[name](*(a.cast("fpext", DOUBLE) for a in arguments)).cast("fptrunc", FLOAT)


PORTABLE.update({name: partial(_function, name) for name in (*_FUNCTIONS, "log1p")})

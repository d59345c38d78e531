"""Functions of f64 without branches, for vectors, where the C library would be called once for each element.

Largest errors in units of the last place, over numbers of every magnitude (tests/cpu/test_functions.py holds the bounds):

    exp 1.0   expm1 2.0   log 1.0   log1p 2.5   tanh 3.0

The exponential is 1 + r + r^2 q(r) after reduction by multiples of ln 2 in two parts, q fitted at Chebyshev nodes with an error below 2e-17; the logarithm is that of Sun's fdlibm, log((1 + s) / (1 - s)).
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.vector_math import Double

_SHIFT = 6755399441055744.0
"""1.5 * 2^52: added to a small number it leaves the number, rounded, in the lowest bits."""
_SHIFT_BITS = 0x4338000000000000
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


def _reduced(d: Double, x: str) -> tuple[str, str]:
    """(n as an i64, e^r - 1) with x = n ln 2 + r and |r| <= ln 2 / 2."""
    shifted = d.fma(x, d.c(1.4426950408889634), d.c(_SHIFT))
    n = d.f.let(f"sub i64 {d.bits(shifted)}, {_SHIFT_BITS}")
    whole = d.op("sub", shifted, d.c(_SHIFT))
    r = d.fma(whole, d.c(-_LN2_HIGH), x)
    r = d.fma(whole, d.c(-_LN2_LOW), r)
    return n, d.fma(d.op("mul", r, r), d.horner(r, _EXP), r)


def _power_of_two(d: Double, biased: str) -> str:
    """2^(n - 1023) for an i64 n in 1..2046."""
    return d.f.let(f"bitcast i64 {d.f.let(f'shl i64 {biased}, 52')} to double")


def _clamp(d: Double, x: str, low: float, high: float) -> str:
    """x within bounds; NaN stays NaN."""
    x = d.pick(d.test("olt", x, d.c(low)), d.c(low), x)
    return d.pick(d.test("ogt", x, d.c(high)), d.c(high), x)


def exp(f: Function, x: str) -> str:
    """e^x. The power of two is applied in two halves, so that denormal results come out right."""
    d = Double(f)
    n, p = _reduced(d, _clamp(d, x, -746.0, 710.0))
    biased = f.let(f"add i64 {n}, 2046")
    half = f.let(f"lshr i64 {biased}, 1")
    rest = f.let(f"sub i64 {biased}, {half}")
    once = d.op("mul", d.op("add", p, d.c(1.0)), _power_of_two(d, half))
    return d.op("mul", once, _power_of_two(d, rest))


def expm1(f: Function, x: str) -> str:
    """e^x - 1 as 2^n (e^r - 1) + (2^n - 1), with 2^(n - 1) so that n = 1024 fits."""
    d = Double(f)
    n, p = _reduced(d, _clamp(d, x, -40.0, 710.0))
    scale = _power_of_two(d, f.let(f"add i64 {n}, 1022"))
    made = d.op("mul", d.fma(scale, p, d.op("add", scale, d.c(-0.5))), d.c(2.0))
    return d.pick(d.test("oeq", x, d.c(0.0)), x, made)


def tanh(f: Function, x: str) -> str:
    """The hyperbolic tangent as -e / (2 + e) with e = e^(-2 |x|) - 1."""
    d = Double(f)
    doubled = d.op("mul", d.call("fabs", x), d.c(-2.0))
    n, p = _reduced(d, d.pick(d.test("olt", doubled, d.c(-40.0)), d.c(-40.0), doubled))
    scale = _power_of_two(d, f.let(f"add i64 {n}, 1023"))
    e = d.fma(scale, p, d.op("add", scale, d.c(-1.0)))
    return d.call("copysign", d.op("div", e, d.op("add", e, d.c(2.0))), x)


def log(f: Function, x: str) -> str:
    """The natural logarithm; of zero minus infinity, of negative numbers NaN."""
    d = Double(f)
    tiny = d.test("olt", x, d.c(2.0**-1022))
    bits = d.bits(d.pick(tiny, d.op("mul", x, d.c(2.0**54)), x))
    k = f.let(f"ashr i64 {f.let(f'sub i64 {bits}, {0x3FE6A09E667F3BCD}')}, 52")
    m = f.let(f"bitcast i64 {f.let(f'sub i64 {bits}, ' + f.let(f'shl i64 {k}, 52'))} to double")
    high = f.let(f"bitcast i64 {f.let(f'add i64 {k}, {_SHIFT_BITS}')} to double")
    power = d.op("sub", high, d.pick(tiny, d.c(_SHIFT + 54), d.c(_SHIFT)))
    r = d.op("add", m, d.c(-1.0))
    s = d.op("div", r, d.op("add", r, d.c(2.0)))
    z = d.op("mul", s, s)
    half = d.op("mul", d.op("mul", r, r), d.c(0.5))
    low = d.fma(s, d.op("add", half, d.op("mul", z, d.horner(z, _LOG))), d.op("mul", power, d.c(_LN2_LOW)))
    made = d.fma(power, d.c(_LN2_HIGH), d.op("sub", r, d.op("sub", half, low)))
    made = d.pick(d.test("oeq", x, d.c(float("inf"))), x, made)
    made = d.pick(d.test("oeq", x, d.c(0.0)), d.c(float("-inf")), made)
    return d.pick(d.test("ult", x, d.c(0.0)), d.c(float("nan")), made)


def log1p(f: Function, x: str) -> str:
    """log(1 + x): the logarithm of the rounded sum, times what the rounding lost (W. Kahan)."""
    d = Double(f)
    u = d.op("add", x, d.c(1.0))
    made = d.op("mul", log(f, u), d.op("div", x, d.op("sub", u, d.c(1.0))))
    made = d.pick(d.test("oeq", x, d.c(float("inf"))), x, made)
    return d.pick(d.test("oeq", u, d.c(1.0)), x, made)


FUNCTIONS: dict[str, Callable[..., str]] = {"exp": exp, "expm1": expm1, "tanh": tanh, "log": log, "log1p": log1p}
"""By the name of the C library's function."""

"""Transcendental functions: branch-free polynomials for f32, of vectors too; the C library's for the rest.

Largest errors in units of the last place of the f32 ones against correctly rounded results, over numbers of every magnitude (tests/cpu/test_functions.py holds the bounds):

    exp 1.0   expm1 1.5   log 0.8   log1p 2.3   tanh 4.7   logistic 2.4   erf 3.4   rsqrt 1.5   sqrt 0.5
    of vectors (vector_math)   sin, cos 0.6   tan 1.0   pow, cbrt, atan2 0.5

Single elements of the second row, and f64, are libm's (below 1 ulp), of f64 vectors those of vector_math64 or element by element. bf16, f16 and the 8-bit floats are computed as f32 and rounded.

The exponential and logarithm are Cephes' (S. L. Moshier: argument reduction by multiples of ln 2 in two parts; minimax polynomials of degree 5 and 8);
tanh and erf are the rational minimax approximations that Eigen and XLA use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.cpu.codegen import math_calls, vector_math, vector_math64, vectors
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.types import float_text, register
from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType


def library(f: Function, name: str, t: PrimitiveType, *arguments: str) -> str:
    """A function of the C library for the register type (float or double); of vectors that of vector_math or vector_math64, where there is one."""
    kind = register(t)
    own: Callable[..., str] | None = (vector_math if kind == "float" else vector_math64).FUNCTIONS.get(name)
    if own is not None and f.width and any(vectors.varies(f, a) for a in arguments):
        op = _BINARY.get(name)
        if op is not None and math_calls.is_called(f, op, arguments):
            return math_calls.call(f, op, kind, arguments, lambda g, given: own(g, *given))
        return own(f, *arguments)
    symbol = name + ("f" if kind == "float" else "")
    return f.call(kind, symbol, *((kind, a) for a in arguments), attributes=vector_math.LIBRARY)


def unary(f: Function, op: Op, t: PrimitiveType, a: str) -> str:
    """A transcendental function of a float in its register type, not yet rounded to a narrow one."""
    if op is Op.RSQRT:
        return _rsqrt(f, t, a)
    is_own = vectors.varies(f, a) or op is Op.LOGISTIC or (register(t) == "float" and op in _FLOAT)
    if is_own and math_calls.is_called(f, op, (a,)):
        return math_calls.call(f, op, register(t), (a,), lambda g, given: _unary(g, op, t, given[0]))
    return _unary(f, op, t, a)


def _unary(f: Function, op: Op, t: PrimitiveType, a: str) -> str:
    """It, written in place."""
    kind = register(t)
    if kind == "float" and op in _FLOAT:
        return _FLOAT[op](f, a)
    if op is Op.LOGISTIC:
        one = float_text(1.0, kind)
        magnitude = f.call(kind, "llvm.fabs.f64", (kind, a))
        e = library(f, "exp", t, f.let(f"fneg {kind} {magnitude}"))
        above = f.let(f"select i1 {f.let(f'fcmp olt {kind} {a}, 0.0')}, {kind} {e}, {kind} {one}")
        return f.let(f"fdiv {kind} {above}, {f.let(f'fadd {kind} {one}, {e}')}")
    if op in _LIBRARY:
        return library(f, _LIBRARY[op], t, a)
    raise UnimplementedError(f"{op} of {t}")


_BINARY = {"pow": Op.POWER, "atan2": Op.ATAN2, "fmod": Op.REMAINDER}
_LIBRARY = {
    Op.EXPONENTIAL: "exp",
    Op.EXPONENTIAL_MINUS_ONE: "expm1",
    Op.LOG: "log",
    Op.LOG_PLUS_ONE: "log1p",
    Op.TANH: "tanh",
    Op.ERF: "erf",
    Op.SINE: "sin",
    Op.COSINE: "cos",
    Op.TAN: "tan",
    Op.CBRT: "cbrt",
    Op.ASIN: "asin",
    Op.ACOS: "acos",
    Op.ATAN: "atan",
    Op.SINH: "sinh",
    Op.COSH: "cosh",
    Op.ASINH: "asinh",
    Op.ACOSH: "acosh",
    Op.ATANH: "atanh",
}


def _rsqrt(f: Function, t: PrimitiveType, a: str) -> str:
    kind = register(t)
    root = f.call(kind, f"llvm.sqrt.{'f32' if kind == 'float' else 'f64'}", (kind, a))
    return f.let(f"fdiv {kind} {float_text(1.0, kind)}, {root}")


# -- f32 ----------------------------------------------------------------------------------------------------------


def _c(value: float) -> str:
    return float_text(value)


def _fma(f: Function, a: str, b: str, c: str) -> str:
    return f.call("float", "llvm.fmuladd.f32", ("float", a), ("float", b), ("float", c))


def _horner(f: Function, x: str, coefficients: Sequence[float]) -> str:
    """A polynomial, highest power first."""
    total = _c(coefficients[0])
    for k in coefficients[1:]:
        total = _fma(f, total, x, _c(k))
    return total


def _pick(f: Function, condition: str, a: str, b: str) -> str:
    return f.let(f"select i1 {condition}, float {a}, float {b}")


def _power_of_two(f: Function, n: str) -> str:
    """2^n for an i32 n in -126..127."""
    biased = f.let(f"add i32 {n}, 127")
    return f.let(f"bitcast i32 {f.let(f'shl i32 {biased}, 23')} to float")


def _clamp(f: Function, x: str, low: float, high: float) -> str:
    """x within bounds; NaN stays NaN."""
    x = _pick(f, f.let(f"fcmp olt float {x}, {_c(low)}"), _c(low), x)
    return _pick(f, f.let(f"fcmp ogt float {x}, {_c(high)}"), _c(high), x)


def _reduced(f: Function, x: str) -> tuple[str, str]:
    """(n as i32, r) with x = n ln 2 + r and |r| <= ln 2 / 2. Adding 1.5 * 2^23 leaves n in the low bits: no conversion that NaN could spoil."""
    shifted = _fma(f, x, _c(1.44269504088896341), _c(12582912.0))
    n = f.let(f"sub i32 {f.let(f'bitcast float {shifted} to i32')}, {0x4B400000}")
    whole = f.let(f"fsub float {shifted}, {_c(12582912.0)}")
    r = _fma(f, whole, _c(-0.693359375), x)
    return n, _fma(f, whole, _c(2.12194440e-4), r)


_EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)


def exp(f: Function, x: str) -> str:
    """e^x of a float. The power of two is applied in two halves, so that denormal results come out right."""
    x = _clamp(f, x, -104.0, 89.0)
    n, r = _reduced(f, x)
    p = f.let(f"fadd float {_fma(f, f.let(f'fmul float {r}, {r}'), _horner(f, r, _EXP), r)}, {_c(1.0)}")
    if f.target.vector_bits == 512 and vectors.varies(f, x):
        return f.call("float", "llvm.ldexp.f32.i32", ("float", p), ("i32", n))  # one instruction
    half = f.let(f"ashr i32 {n}, 1")
    rest = f.let(f"sub i32 {n}, {half}")
    return f.let(f"fmul float {f.let(f'fmul float {p}, {_power_of_two(f, half)}')}, {_power_of_two(f, rest)}")


def expm1(f: Function, x: str) -> str:
    """e^x - 1 of a float: 2^n (e^r - 1) + (2^n - 1), with 2^(n-1) so that n = 128 fits."""
    bounded = _clamp(f, x, -18.0, 89.0)
    n, r = _reduced(f, bounded)
    p = _fma(f, f.let(f"fmul float {r}, {r}"), _horner(f, r, _EXP), r)
    scale = _power_of_two(f, f.let(f"sub i32 {n}, 1"))
    made = _fma(f, scale, p, f.let(f"fadd float {scale}, {_c(-0.5)}"))
    made = f.let(f"fmul float {made}, {_c(2.0)}")
    zero = f.let(f"fcmp oeq float {x}, 0.0")
    return _pick(f, zero, x, made)


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


def log(f: Function, x: str) -> str:
    """Natural logarithm of a float; of zero minus infinity, of negative numbers NaN."""
    tiny = f.let(f"fcmp olt float {x}, {_c(2.0**-126)}")
    scaled = _pick(f, tiny, f.let(f"fmul float {x}, {_c(2.0**23)}"), x)
    bits = f.let(f"bitcast float {scaled} to i32")
    exponent = f.let(f"ashr i32 {f.let(f'sub i32 {bits}, {0x3F3504F3}')}, 23")
    shifted = f.let(f"shl i32 {exponent}, 23")
    mantissa = f.let(f"bitcast i32 {f.let(f'sub i32 {bits}, {shifted}')} to float")
    exponent = f.let(f"sub i32 {exponent}, {f.let(f'select i1 {tiny}, i32 23, i32 0')}")
    e = f.let(f"sitofp i32 {exponent} to float")
    r = f.let(f"fsub float {mantissa}, {_c(1.0)}")
    z = f.let(f"fmul float {r}, {r}")
    y = f.let(f"fmul float {f.let(f'fmul float {_horner(f, r, _LOG)}, {r}')}, {z}")
    y = _fma(f, e, _c(-2.12194440e-4), y)
    y = _fma(f, z, _c(-0.5), y)
    y = _fma(f, e, _c(0.693359375), f.let(f"fadd float {r}, {y}"))
    infinite = f.let(f"fcmp oeq float {x}, {_c(float('inf'))}")
    y = _pick(f, infinite, x, y)
    y = _pick(f, f.let(f"fcmp oeq float {x}, 0.0"), _c(float("-inf")), y)
    return _pick(f, f.let(f"fcmp ult float {x}, 0.0"), _c(float("nan")), y)


def log1p(f: Function, x: str) -> str:
    """log(1 + x) of a float: the logarithm of the rounded sum, times what the rounding lost (W. Kahan)."""
    u = f.let(f"fadd float {x}, {_c(1.0)}")
    grown = f.let(f"fsub float {u}, {_c(1.0)}")
    ratio = f.let(f"fdiv float {x}, {grown}")
    whole = log(f, u)
    corrected = f.let(f"fmul float {whole}, {ratio}")
    infinite = f.let(f"fcmp oeq float {x}, {_c(float('inf'))}")
    made = _pick(f, infinite, x, corrected)
    return _pick(f, f.let(f"fcmp oeq float {u}, {_c(1.0)}"), x, made)


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


def tanh(f: Function, x: str) -> str:
    """Hyperbolic tangent of a float; 1 beyond 9, x itself below 4e-4."""
    bounded = _clamp(f, x, -7.90531110763549805, 7.90531110763549805)
    z = f.let(f"fmul float {bounded}, {bounded}")
    odd = f.let(f"fmul float {bounded}, {_horner(f, z, _TANH_ODD)}")
    made = f.let(f"fdiv float {odd}, {_horner(f, z, _TANH_EVEN)}")
    magnitude = f.call("float", "llvm.fabs.f32", ("float", x))
    made = _pick(f, f.let(f"fcmp olt float {magnitude}, {_c(4e-4)}"), x, made)
    one = f.call("float", "llvm.copysign.f32", ("float", _c(1.0)), ("float", x))
    return _pick(f, f.let(f"fcmp ogt float {magnitude}, {_c(9.0)}"), one, made)


def logistic(f: Function, x: str) -> str:
    """1 / (1 + e^-x) of a float; for negative x as e^x / (1 + e^x), which does not overflow."""
    magnitude = f.call("float", "llvm.fabs.f32", ("float", x))
    e = exp(f, f.let(f"fneg float {magnitude}"))
    above = _pick(f, f.let(f"fcmp olt float {x}, 0.0"), e, _c(1.0))
    return f.let(f"fdiv float {above}, {f.let(f'fadd float {_c(1.0)}, {e}')}")


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


def erf(f: Function, x: str) -> str:
    """Error function of a float; 1 beyond 3.83."""
    bounded = _clamp(f, x, -3.832506856900711, 3.832506856900711)
    z = f.let(f"fmul float {bounded}, {bounded}")
    odd = f.let(f"fmul float {bounded}, {_horner(f, z, _ERF_ODD)}")
    made = f.let(f"fdiv float {odd}, {_horner(f, z, _ERF_EVEN)}")
    return _clamp(f, made, -1.0, 1.0)


_FLOAT: dict[Op, Callable[[Function, str], str]] = {
    Op.EXPONENTIAL: exp,
    Op.EXPONENTIAL_MINUS_ONE: expm1,
    Op.LOG: log,
    Op.LOG_PLUS_ONE: log1p,
    Op.TANH: tanh,
    Op.LOGISTIC: logistic,
    Op.ERF: erf,
}

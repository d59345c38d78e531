"""Elementwise arithmetic: floating-point, complex and integer numbers, predicates.

Every rule here is lifted: it works by broadcasting and never uses the instruction's dimensions.
Narrow floats are computed in f32 and rounded once; integers wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from xlanb.errors import EvaluationError
from xlanb.evaluator import complex_math
from xlanb.evaluator.complex_math import of_parts
from xlanb.evaluator.registry import rule
from xlanb.evaluator.special_functions import erf
from xlanb.evaluator.values import (
    Array,
    is_complex,
    is_floating,
    is_integral,
    narrow,
    primitive_type,
    widen,
)
from xlanb.hlo.instruction import HloInstruction
from xlanb.shape import PrimitiveType

if TYPE_CHECKING:
    from xlanb.evaluator.interpreter import Evaluator

Function = Callable[..., Array]


def _simple(opcode: str, function: Function) -> None:
    """Register a NumPy function whose operands and result have one element type."""

    def apply(ev: Evaluator, i: HloInstruction, /, *operands: Any) -> Array:
        return narrow(function(*map(widen, operands)), operands[0].dtype)

    rule(opcode, lifted=True)(apply)


def divide(x: Array, y: Array) -> Array:
    """The quotient.

    Integers round toward zero; x/0 is -1 (all ones), and lowest/-1 is lowest.
    """
    if is_complex(x):
        return complex_math.divide(x, y)
    if not is_integral(x):
        return np.divide(x, y)
    safe = np.where(y == 0, y.dtype.type(1), y)
    quotient = np.floor_divide(x, safe)
    if x.dtype.kind == "i":
        rest = x - quotient * safe
        quotient = quotient + ((rest != 0) & ((x < 0) != (safe < 0)))
    return np.where(y == 0, x.dtype.type(0) - x.dtype.type(1), quotient).astype(x.dtype)


def remainder(x: Array, y: Array) -> Array:
    """Remainder with the dividend's sign; integer x % 0 is x."""
    _need_real(x)
    if not is_integral(x):
        return np.fmod(x, y)
    return np.where(y == 0, x, np.fmod(x, np.where(y == 0, y.dtype.type(1), y)))


def power(x: Array, y: Array) -> Array:
    """x to the y; a negative power of an integer is 0, except powers of 1 and -1."""
    if is_complex(x):
        return complex_math.power(x, y)
    if not is_integral(x):
        return np.power(x, y)
    positive: Array = np.power(x, np.maximum(y, y.dtype.type(0)))
    if x.dtype.kind == "u":
        return positive
    sign = np.where(y & 1, x, x.dtype.type(1))
    return np.where(y >= 0, positive, np.where(np.abs(x) == 1, sign, x.dtype.type(0)))


def maximum(x: Array, y: Array) -> Array:
    """The larger, NaN if either is; 0 is larger than -0."""
    check_order(x)
    larger = np.maximum(x, y)
    return np.where((x == 0) & (y == 0), x + y, larger) if is_floating(x) else larger


def minimum(x: Array, y: Array) -> Array:
    """The smaller, NaN if either is; -0 is smaller than 0."""
    check_order(x)
    return np.negative(maximum(np.negative(x), np.negative(y))) if is_floating(x) else np.minimum(x, y)


def check_order(x: Array) -> None:
    """Raise for complex numbers.

    Raises:
        EvaluationError: the elements have no order.
    """
    if is_complex(x):
        raise EvaluationError(f"{primitive_type(x)} values are not ordered: compare their parts")


def _sign(x: Array) -> Array:
    if is_complex(x):
        size = np.abs(x)
        zero = size.dtype.type(0)
        return of_parts(np.where(size == 0, zero, x.real / size), np.where(size == 0, zero, x.imag / size))
    return np.where(x == 0, x, np.sign(x))


def _negate(x: Array) -> Array:
    return np.logical_not(x) if x.dtype == np.bool_ else np.negative(x)


def _round_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole)


def _exp(x: Array) -> Array:
    if not is_complex(x):
        return np.exp(x)
    size, is_real = np.exp(x.real), x.imag == 0
    return of_parts(np.where(is_real, size, size * np.cos(x.imag)), np.where(is_real, x.imag, size * np.sin(x.imag)))


def _log1p(x: Array) -> Array:
    if not is_complex(x):
        return np.log1p(x)
    size = np.maximum(np.abs(x.real), np.abs(x.imag))
    # |1 + x| may overflow. For small x, compute the logarithm from |1 + x|^2 - 1, since 1 + x loses
    # precision.
    near = of_parts(np.log1p(x.real * (2 + x.real) + x.imag * x.imag) / 2, np.arctan2(x.imag, 1 + x.real))
    return np.select([size > 1e16, size < 0.5], [np.log(x), near], np.log1p(x))


def _sine(x: Array) -> Array:
    if not is_complex(x):
        return np.sin(x)
    return of_parts(np.sin(x.real) * np.cosh(x.imag), np.cos(x.real) * np.sinh(x.imag))


def _cosine(x: Array) -> Array:
    if not is_complex(x):
        return np.cos(x)
    return of_parts(np.cos(x.real) * np.cosh(x.imag), -(np.sin(x.real) * np.sinh(x.imag)))


def _logistic(x: Array) -> Array:
    one, inverse = x.dtype.type(1), _exp(-x)
    result = divide(np.asarray(one), one + inverse)
    return result if is_complex(x) else np.where(np.isinf(inverse), np.exp(x), result)  # a subnormal


def _rsqrt(x: Array) -> Array:
    return divide(np.asarray(x.dtype.type(1)), np.sqrt(x))


def _tanh(x: Array) -> Array:
    return complex_math.tanh(x) if is_complex(x) else np.tanh(x)


def _tan(x: Array) -> Array:
    return complex_math.tan(x) if is_complex(x) else np.tan(x.astype(np.float64)).astype(x.dtype)


def _multiply(x: Array, y: Array) -> Array:
    return complex_math.multiply(x, y) if is_complex(x) else np.multiply(x, y)


def _atan2(y: Array, x: Array) -> Array:
    if is_floating(y):
        return np.arctan2(y, x)
    if not is_complex(y):
        raise EvaluationError(f"atan2 takes floating-point or complex operands, not {primitive_type(y)}")
    return complex_math.atan2(y, x)


def _need_real(x: Array) -> None:
    if is_complex(x):
        problem = f"expected a floating type, not {primitive_type(x)}: XLA:CPU has no such function of complex numbers"
        raise EvaluationError(f"{problem}; write it with exponential, log and sqrt")


def _erf(x: Array) -> Array:
    _need_real(x)
    return erf(x)


def _real_only(function: Callable[[Array], Array]) -> Function:
    """A function of real numbers in f64: NumPy's f32 functions are less accurate than XLA's."""

    def apply(x: Array) -> Array:
        _need_real(x)
        return function(x.astype(np.float64)).astype(x.dtype)

    return apply


def _subtract(x: Array, y: Array) -> Array:
    return np.logical_xor(x, y) if x.dtype == np.bool_ else np.subtract(x, y)


_FUNCTIONS: dict[str, Function] = {
    "acos": _real_only(np.arccos),
    "acosh": _real_only(np.arccosh),
    "add": np.add,
    "and": np.bitwise_and,
    "asin": _real_only(np.arcsin),
    "asinh": _real_only(np.arcsinh),
    "atan": _real_only(np.arctan),
    "atan2": _atan2,
    "atanh": _real_only(np.arctanh),
    "cbrt": _real_only(np.cbrt),
    "ceil": np.ceil,
    "cosh": _real_only(np.cosh),
    "cosine": _cosine,
    "divide": divide,
    "erf": _erf,
    "exponential": _exp,
    "exponential-minus-one": np.expm1,
    "floor": np.floor,
    "log": np.log,
    "log-plus-one": _log1p,
    "logistic": _logistic,
    "maximum": maximum,
    "minimum": minimum,
    "multiply": _multiply,
    "negate": _negate,
    "not": np.invert,
    "or": np.bitwise_or,
    "power": power,
    "remainder": remainder,
    "round-nearest-afz": _round_away,
    "round-nearest-even": np.rint,
    "rsqrt": _rsqrt,
    "sign": _sign,
    "sine": _sine,
    "sinh": _real_only(np.sinh),
    "sqrt": np.sqrt,
    "subtract": _subtract,
    "tan": _tan,
    "tanh": _tanh,
    "xor": np.bitwise_xor,
}
for _opcode, _function in _FUNCTIONS.items():
    _simple(_opcode, _function)


@rule("abs", lifted=True)
def _abs(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.abs(x) if is_complex(x) else narrow(np.abs(widen(x)), x.dtype)


@rule("is-finite", lifted=True)
def _is_finite(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.isfinite(widen(x))


@rule("real", lifted=True)
def _real(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.real(x)


@rule("imag", lifted=True)
def _imag(ev: Evaluator, i: HloInstruction, x: Array) -> Array:
    return np.imag(x) if is_complex(x) else narrow(np.zeros(x.shape, np.float32), x.dtype)


@rule("complex", lifted=True)
def _complex(ev: Evaluator, i: HloInstruction, re: Array, im: Array) -> Array:
    return of_parts(*np.broadcast_arrays(re, im))


@rule("select", lifted=True)
def _select(ev: Evaluator, i: HloInstruction, condition: Array, x: Any, y: Any) -> Any:
    if isinstance(x, tuple):
        return x if bool(condition) else y
    return np.where(condition, x, y)


@rule("clamp", lifted=True)
def _clamp(ev: Evaluator, i: HloInstruction, low: Array, x: Array, high: Array) -> Array:
    check_order(x)
    return narrow(minimum(maximum(widen(low), widen(x)), widen(high)), x.dtype)


_COMPARISONS: dict[str, Function] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "GE": np.greater_equal,
    "GT": np.greater,
    "LE": np.less_equal,
    "LT": np.less,
}


def total_order(x: Array) -> Array:
    """Integers in the order of IEEE 754's total order of floats.

    -NaN < -inf < ... < -0 < +0 < ... < NaN. The only NaN of the fnuz types comes first, as in XLA.
    """
    if primitive_type(x) is PrimitiveType.F8E8M0FNU:
        return x.view(np.uint8)  # this type has no sign
    bits = x.view(np.dtype(f"i{x.dtype.itemsize}"))
    if primitive_type(x).bits < 8:
        bits = (bits << 4).astype(np.int8)  # move a four-bit number's sign to where a byte has it
    if primitive_type(x).is_fnuz:
        return np.where(bits < 0, -bits | np.int8(-128), bits)  # NaN has the bits of -0
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


@rule("compare", lifted=True)
def _compare(ev: Evaluator, i: HloInstruction, x: Array, y: Array) -> Array:
    compare = _COMPARISONS[i.attributes["direction"]]
    if i.get("type") == "TOTALORDER" and is_floating(x):
        return compare(total_order(np.asarray(x)), total_order(np.asarray(y)))
    if i.attributes["direction"] not in ("EQ", "NE"):
        check_order(x)
    return compare(widen(x), widen(y))

"""Special functions of CHLO, by the formulas of hlo/special_functions.py.

They are computed in single precision at least, those of two operands in double.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xlanb.frontends.stablehlo.ir import StablehloOperation
from xlanb.frontends.stablehlo.scope import RegionScope, rule
from xlanb.hlo import special_functions
from xlanb.hlo.builder import HloBuilder
from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.special_functions import filled
from xlanb.shape import PrimitiveType

_F64 = PrimitiveType.F64
_TERMS = 12
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _erf_inv(b: HloBuilder, x: HloInstruction) -> HloInstruction:
    """Return the inverse error function, infinite at -1 and 1, unlike the f32 polynomials."""
    is_end = b.compare(b.abs(x), filled(b, x, 1), "EQ")
    return b.select(is_end, b.multiply(x, filled(b, x, math.inf)), special_functions.erf_inv(b, x))


_UNARY: dict[str, Callable[[HloBuilder, HloInstruction], HloInstruction]] = {
    "chlo.bessel_i1e": special_functions.bessel_i1e,
    "chlo.digamma": special_functions.digamma,
    "chlo.erf_inv": _erf_inv,
    "chlo.erfc": special_functions.erfc,
    "chlo.lgamma": special_functions.lgamma,
}


@rule(*_UNARY)
def _unary(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    (x,) = s.operands(op, 1)
    element = x.array_shape.element_type
    if not element.is_floating:
        s.fail(op, f"expected floats, not {x.shape.text(layout=False)}")
    wide = s.b.convert(x, element if element.bits >= PrimitiveType.F32.bits else PrimitiveType.F32)
    return s.b.convert(_UNARY[op.name](s.b, wide), element)


@rule("chlo.zeta", "chlo.polygamma")
def _binary(s: RegionScope, op: StablehloOperation) -> HloInstruction:
    x, y = s.operands(op, 2)
    element = x.array_shape.element_type
    function = _zeta if op.name == "chlo.zeta" else _polygamma
    return s.b.convert(function(s.b, s.b.convert(x, _F64), s.b.convert(y, _F64)), element)


def _zeta(b: HloBuilder, s: HloInstruction, q: HloInstruction) -> HloInstruction:
    """The sum over n >= 0 of (q + n)^-s: a fixed number of terms, the rest by Euler-Maclaurin;
    infinite at the poles, NaN for s < 1.
    """
    power = b.negate(s)
    total, at = b.power(q, power), q
    for _ in range(_TERMS - 1):
        at = b.add(at, filled(b, q, 1))
        total = b.add(total, b.power(at, power))
    at = b.add(at, filled(b, q, 1))
    last = b.power(at, power)
    tail = b.add(b.divide(b.multiply(last, at), b.subtract(s, filled(b, s, 1))), b.multiply(last, filled(b, s, 0.5)))
    factor = b.divide(b.multiply(b.multiply(s, last), filled(b, s, 0.5)), at)
    for k, number in enumerate(_BERNOULLI, 1):
        tail = b.add(tail, b.multiply(factor, filled(b, s, number)))
        rise = b.multiply(b.add(s, filled(b, s, 2 * k - 1)), b.add(s, filled(b, s, 2 * k)))
        below = b.multiply(b.multiply(at, at), filled(b, s, (2 * k + 1) * (2 * k + 2)))
        factor = b.divide(b.multiply(factor, rise), below)
    return _at_poles(b, s, q, b.add(total, tail))


def _at_poles(b: HloBuilder, s: HloInstruction, q: HloInstruction, value: HloInstruction) -> HloInstruction:
    zero, one = filled(b, s, 0), filled(b, s, 1)
    low = b.compare(q, zero, "LE")
    pole = b.and_(low, b.compare(q, b.floor(q), "EQ"))
    wrong = b.or_(b.compare(s, one, "LT"), b.and_(low, b.compare(s, b.floor(s), "NE")))
    far = b.compare(q, filled(b, q, math.inf), "EQ")
    value = b.select(far, zero, value)
    value = b.select(wrong, filled(b, s, math.nan), b.select(pole, filled(b, s, math.inf), value))
    return b.select(b.compare(s, one, "EQ"), filled(b, s, math.inf), value)


def _polygamma(b: HloBuilder, n: HloInstruction, x: HloInstruction) -> HloInstruction:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x); NaN where n is not a natural
    number.
    """
    order = b.add(n, filled(b, n, 1))
    size = b.multiply(b.exp(special_functions.lgamma(b, order)), _zeta(b, order, x))
    is_odd = b.compare(b.remainder(n, filled(b, n, 2)), filled(b, n, 1), "EQ")
    value = b.select(is_odd, size, b.negate(size))
    wrong = b.or_(b.compare(n, filled(b, n, 0), "LT"), b.compare(n, b.floor(n), "NE"))
    is_first = b.compare(n, filled(b, n, 0), "EQ")
    found = b.select(is_first, special_functions.digamma(b, x), value)
    return b.select(wrong, filled(b, n, math.nan), found)

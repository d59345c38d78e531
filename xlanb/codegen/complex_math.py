"""Complex numbers as pairs of values: XLA's semantics by numerically stable formulas."""

from __future__ import annotations

import math as python_math
from collections.abc import Callable

from xlanb.codegen import math
from xlanb.codegen.lanes import varies
from xlanb.codegen.math import INFINITY, NAN
from xlanb.codegen.values import Number, Value
from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.lazy_dataclass import dataclass
from xlanb.shape import PrimitiveType

_EXPONENTS = {32: (62, -66, -40, 100), 64: (510, -600, -400, 700)}
"""Scaling exponents by a part's bits: (overflow bound, its scale, underflow bound, its scale).

Numbers are scaled by these powers of two before they are squared.
"""


def _call(name: str, *arguments: Value) -> Value:
    """Call a function of the C library; sinh and cosh of vectors use `_hyperbolic`."""
    if name in ("sinh", "cosh") and varies(arguments[0]):
        return _hyperbolic(arguments[0], odd=name == "sinh")
    return math.call(name, *arguments)


def _hyperbolic(x: Value, *, odd: bool) -> Value:
    """sinh or cosh by e^|x| - 1, or by the square of e^(|x| / 2) where e^|x| could overflow."""
    size = abs(x)
    grown = math.call("expm1", size)
    whole = grown + 1.0
    near = grown + grown / whole if odd else whole + 1.0 / whole
    root = math.call("exp", size * 0.5)
    made = (size > 40.0).select(root * 0.5 * root, near * 0.5)
    return made.with_sign_of(x) if odd else made


@dataclass(frozen=True, slots=True)
class Complex:
    """A complex number in a function, or a vector of them."""

    re: Value
    im: Value

    def _number(self, re: Number, im: Number = 0.0) -> Complex:
        f = self.re.function
        return Complex(f.const(self.re.type, re), f.const(self.im.type, im))

    def __add__(self, other: Complex) -> Complex:
        return Complex(self.re + other.re, self.im + other.im)

    def __sub__(self, other: Complex) -> Complex:
        return Complex(self.re - other.re, self.im - other.im)

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __mul__(self, other: Complex) -> Complex:
        return Complex(self.re * other.re - self.im * other.im, self.re * other.im + self.im * other.re)

    def __truediv__(self, other: Complex) -> Complex:
        """R. L. Smith's algorithm: divide by the larger part of the divisor first.

        NaN results are recovered as in C99 (annex G.5.1).
        """
        swapped = abs(other.re) < abs(other.im)
        big, small = swapped.select(other.im, other.re), swapped.select(other.re, other.im)
        ratio = small / big
        scale = big + small * ratio
        # (ar + i ai) / (br + i bi), with the parts exchanged if |bi| is larger.
        p, q = swapped.select(self.im, self.re), swapped.select(self.re, self.im)
        part = p * ratio
        im = (swapped.select(part, q) - swapped.select(q, part)) / scale
        return self._recovered(other, Complex((p + q * ratio) / scale, im))

    def _recovered(self, other: Complex, quotient: Complex) -> Complex:
        """The quotient; if both parts are NaN, the limit.

        That is the limit of division by zero, of an infinite number, or by an infinite number.
        """
        lost = quotient.re.is_nan() & quotient.im.is_nan()
        known = self.re.compare("ord", "eq", self.re) | self.im.compare("ord", "eq", self.im)
        endless = other.re.function.const(other.re.type, INFINITY).with_sign_of(other.re)
        by_zero = Complex(endless * self.re, endless * self.im)
        of_infinite = self.infinite_ones().times_conjugate(INFINITY, other)
        by_infinite = self.times_conjugate(0.0, other.infinite_ones())
        made = by_infinite.where(other.is_infinite() & self.is_finite(), quotient)
        made = of_infinite.where(self.is_infinite() & other.is_finite(), made)
        made = by_zero.where(other.is_zero() & known, made)
        return made.where(lost, quotient)

    def infinite_ones(self) -> Complex:
        """For infinite parts, one with their sign; for finite parts, zero with their sign."""
        ones = [
            abs(v).equals(INFINITY).select(v.function.const(v.type, 1.0), 0.0).with_sign_of(v)
            for v in (self.re, self.im)
        ]
        return Complex(*ones)

    def times_conjugate(self, factor: float, other: Complex) -> Complex:
        """factor * self * conjugate(other)."""
        re = self.re * other.re + self.im * other.im
        return Complex(factor * re, factor * (self.im * other.re - self.re * other.im))

    def times(self, other: Complex) -> Complex:
        """self * other, with fused multiply-adds where the machine has them."""
        re = self.re.times_plus(other.re, -(self.im * other.im))
        return Complex(re, self.re.times_plus(other.im, self.im * other.re))

    def plus_scaled(self, other: Complex, by: Value | Number) -> Complex:
        """self + other * by, for a real `by`; fused if the machine can."""
        return Complex(other.re.times_plus(by, self.re), other.im.times_plus(by, self.im))

    def plus_i(self, other: Complex) -> Complex:
        """self + i * other."""
        return Complex(self.re - other.im, self.im + other.re)

    def minus_i(self, other: Complex) -> Complex:
        """self - i * other."""
        return Complex(self.re + other.im, self.im - other.re)

    def scaled(self, by: Value | Number) -> Complex:
        """self * by, for a real `by`."""
        return Complex(self.re * by, self.im * by)

    # -- properties --------------------------------------------------------------------------------

    def where(self, condition: Value, otherwise: Complex) -> Complex:
        """This number if an i1 is true, else another."""
        return Complex(condition.select(self.re, otherwise.re), condition.select(self.im, otherwise.im))

    def is_zero(self) -> Value:
        """Whether both parts are zero."""
        return self.re.equals(0.0) & self.im.equals(0.0)

    def is_infinite(self) -> Value:
        """Whether a part is infinite."""
        return abs(self.re).equals(INFINITY) | abs(self.im).equals(INFINITY)

    def is_finite(self) -> Value:
        """Whether both parts are finite."""
        return (abs(self.re) < INFINITY) & (abs(self.im) < INFINITY)

    # -- functions ---------------------------------------------------------------------------------

    def __abs__(self) -> Value:
        """sqrt(x^2 + y^2); infinity if a part is infinite.

        Both parts are scaled by a power of two if the squares would overflow or underflow.
        """
        most, down, least, up = _EXPONENTS[self.re.type.bits]
        f, x, y = self.re.function, abs(self.re), abs(self.im)
        larger = (x > y).select(x, y)
        over, under = larger > 2.0**most, larger < 2.0**least
        one = f.const(larger.type, 1.0)
        scale = over.select(2.0**down, under.select(2.0**up, one))
        back = over.select(2.0**-down, under.select(2.0**-up, one))
        x, y = x * scale, y * scale
        size = f.intrinsic("fma", x, x, y * y).sqrt() * back
        return (x.equals(INFINITY) | y.equals(INFINITY)).select(INFINITY, size)

    def sign(self) -> Complex:
        """The number divided by its magnitude; zero for zero."""
        size = abs(self)
        return self._number(0.0).where(size.equals(0.0), Complex(self.re / size, self.im / size))

    def exp(self) -> Complex:
        """e^z; real if the imaginary part is zero."""
        size, flat = _call("exp", self.re), self.im.equals(0.0)
        re, im = size * _call("cos", self.im), size * _call("sin", self.im)
        return Complex(flat.select(size, re), flat.select(self.im, im))

    def expm1(self) -> Complex:
        """e^z - 1."""
        half = _call("sin", self.im * 0.5)
        re = _call("expm1", self.re) * _call("cos", self.im) - 2.0 * (half * half)
        return Complex(re, _call("exp", self.re) * _call("sin", self.im))

    def log(self) -> Complex:
        """The natural logarithm; log|z| as log|z/4| + log 4 if |z| could overflow."""
        is_large, quarter = self._prescaled()
        real = _call("log", abs(quarter))
        return Complex(is_large.select(real + python_math.log(4.0), real), _call("atan2", self.im, self.re))

    def _prescaled(self) -> tuple[Value, Complex]:
        """Whether |x| + |y| could overflow, and the number, divided by four if it could."""
        limit = 2.0 ** (2 * _EXPONENTS[self.re.type.bits][0])
        is_large = (abs(self.re) > limit) | (abs(self.im) > limit)
        scale = is_large.select(self.re.function.const(self.re.type, 0.25), 1.0)
        return is_large, Complex(self.re * scale, self.im * scale)

    def log1p(self) -> Complex:
        """log(1 + z); for small z, log|1 + z| as half of log1p of |1 + z|^2 - 1."""
        plain = Complex(self.re + 1.0, self.im).log()
        near = 0.5 * _call("log1p", self.re * (self.re + 2.0) + self.im * self.im)
        return Complex((abs(self) < 0.5).select(near, plain.re), plain.im)

    def tanh(self) -> Complex:
        """(e^2x - e^-2x + 4i sin y cos y) / (e^2x + e^-2x - 2 + 4 cos^2 y).

        Uses expm1, which is accurate near zero.
        """
        x, y = self.re, self.im
        double = x + x
        grown, shrunk = _call("expm1", double), _call("expm1", -double)
        cos, sin = _call("cos", y), _call("sin", y)
        above, total = 4.0 * (cos * sin), grown + shrunk
        below = total + cos * cos * 4.0
        limit = x.function.const(x.type, 1.0).with_sign_of(x)
        re = total.equals(INFINITY).select(limit, (grown - shrunk) / below)
        # For infinite x, y does not matter; for finite x, an infinite y or NaN gives NaN.
        lost = above.is_nan()
        re = (lost & abs(x).compare("one", "ne", INFINITY)).select(NAN, re)
        flat = y.equals(0.0) | (abs(x).equals(INFINITY) & lost)
        return Complex(re, flat.select(0.0, above / below))

    def tan(self) -> Complex:
        """The tangent: -i tanh(i z)."""
        rotated = Complex(-self.im, self.re).tanh()
        return Complex(rotated.im, -rotated.re)

    def sin(self) -> Complex:
        """The sine."""
        re = _call("sin", self.re) * _call("cosh", self.im)
        return Complex(re, _call("cos", self.re) * _call("sinh", self.im))

    def cos(self) -> Complex:
        """The cosine."""
        re = _call("cos", self.re) * _call("cosh", self.im)
        return Complex(re, -(_call("sin", self.re) * _call("sinh", self.im)))

    def sqrt(self) -> Complex:
        """The square root: the root of (|z| + |x|) / 2, and |y| / 2 over it.

        Computed for z / 4 if |z| + |x| could overflow.
        """
        is_large, z = self._prescaled()
        size = abs(z)
        t = ((size + abs(z.re)) * 0.5).sqrt()
        other, right = abs(z.im) / (t * 2.0), z.re >= 0.0
        back = is_large.select(self.re.function.const(self.re.type, 2.0), 1.0)
        made = Complex(right.select(t, other) * back, right.select(other, t).with_sign_of(z.im) * back)
        made = Complex(size.equals(0.0).select(0.0, made.re), size.equals(0.0).select(self.im, made.im))
        wide = abs(self.im).equals(INFINITY)
        return Complex(wide.select(INFINITY, made.re), wide.select(self.im, made.im))

    def rsqrt(self) -> Complex:
        """One over the square root."""
        return self._number(1.0) / self.sqrt()

    def logistic(self) -> Complex:
        """1 / (1 + e^-z)."""
        return self._number(1.0) / (self._number(1.0) + (-self).exp())

    def cbrt(self) -> Complex:
        """The principal cube root."""
        return self.power(self._number(1 / 3))

    def power(self, other: Complex) -> Complex:
        """self^other as |a|^c e^(-d t) (cos q + i sin q).

        other = c + i d, t is the angle of self, q = c t + d log|a|; see `_power_limits`.
        """
        size, angle = abs(self), _call("atan2", self.im, self.re)
        factor = _call("pow", size, other.re) * _call("exp", -other.im * angle)
        q = other.re * angle + other.im * _call("log", size)
        return self._power_limits(other, size, Complex(factor * _call("cos", q), factor * _call("sin", q)))

    def _power_limits(self, other: Complex, size: Value, made: Complex) -> Complex:
        """XLA's special cases of powers.

        x^0 and 1^y are one. A real power of zero is zero if positive; of infinity, infinity or
        zero.
        """
        one, zero, infinite = (self._number(x) for x in (1.0, 0.0, INFINITY))
        is_real, flat = other.im.equals(0.0), self.im.equals(0.0)
        grows, falls = is_real & (other.re > 0.0), is_real & (other.re < 0.0)
        is_infinite, is_one = self.re.equals(INFINITY) & flat, self.re.equals(1.0) & flat
        made = zero.where(size.equals(0.0) & grows, made)
        made = one.where(other.is_zero() | is_one, made)
        made = infinite.where(is_infinite & grows, made)
        return zero.where(is_infinite & falls, made)

    def atan2(self, other: Complex) -> Complex:
        """-i log((x + i y) / sqrt(x^2 + y^2)) for y = self, x = other."""
        root = (self * self + other * other).sqrt()
        rotated = other + self._number(0.0, 1.0) * self
        return self._number(0.0, -1.0) * (rotated / root).log()


_BINARY: dict[Op, Callable[[Complex, Complex], Complex]] = {
    Op.ADD: Complex.__add__,
    Op.SUBTRACT: Complex.__sub__,
    Op.MULTIPLY: Complex.__mul__,
    Op.DIVIDE: Complex.__truediv__,
    Op.POWER: Complex.power,
    Op.ATAN2: Complex.atan2,
}
_UNARY: dict[Op, Callable[[Complex], Complex]] = {
    Op.NEGATE: Complex.__neg__,
    Op.SIGN: Complex.sign,
    Op.EXPONENTIAL: Complex.exp,
    Op.EXPONENTIAL_MINUS_ONE: Complex.expm1,
    Op.LOG: Complex.log,
    Op.LOG_PLUS_ONE: Complex.log1p,
    Op.TANH: Complex.tanh,
    Op.TAN: Complex.tan,
    Op.SINE: Complex.sin,
    Op.COSINE: Complex.cos,
    Op.SQRT: Complex.sqrt,
    Op.RSQRT: Complex.rsqrt,
    Op.LOGISTIC: Complex.logistic,
    Op.CBRT: Complex.cbrt,
}


def unordered(what: str, t: PrimitiveType) -> UnimplementedError:
    """The error of an instruction that needs an order of complex numbers."""
    return UnimplementedError(f"{what} of {t}, which is not ordered (compare real and imaginary parts),")


def binary(op: Op, t: PrimitiveType, a: Complex, b: Complex) -> Complex:
    """a op b of complex numbers."""
    if op in (Op.MAXIMUM, Op.MINIMUM):
        raise unordered(str(op), t)
    if op not in _BINARY:
        raise UnimplementedError(f"{op} of {t}")
    return _BINARY[op](a, b)


def unary(op: Op, t: PrimitiveType, a: Complex) -> Complex:
    """op a of a complex number, with a complex result."""
    if op not in _UNARY:
        raise UnimplementedError(f"{op} of {t}")
    return _UNARY[op](a)

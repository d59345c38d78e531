"""Complex arithmetic on pairs of floats or doubles: XLA's operation semantics by the formulas that are stable in each part."""

from __future__ import annotations

import math
from collections.abc import Callable

from xlanb.cpu.codegen import functions, vectors
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.types import float_text, part, register
from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

Pair = tuple[str, str]


_OF_VECTORS = {
    "exp": Op.EXPONENTIAL,
    "expm1": Op.EXPONENTIAL_MINUS_ONE,
    "log": Op.LOG,
    "log1p": Op.LOG_PLUS_ONE,
}
_SINGLE, _DOUBLE = (62, -66, -40, 100), (510, -600, -400, 700)
"""Exponents: beyond the first a number is scaled by the second before it is squared, below the third by the fourth."""


class Complex:
    """The operations for one complex type, on pairs of registers of its parts' type."""

    def __init__(self, f: Function, t: PrimitiveType) -> None:
        self.f = f
        self.part = part(t)
        self.kind = register(t)

    # -- arithmetic of the parts --------------------------------------------------------------------------------

    def c(self, value: float) -> str:
        return float_text(value, self.kind)

    def op(self, name: str, a: str, b: str) -> str:
        return self.f.let(f"{name} {self.kind} {a}, {b}")

    def neg(self, a: str) -> str:
        return self.f.let(f"fneg {self.kind} {a}")

    def lib(self, name: str, *arguments: str) -> str:
        """A function of the C library; of vectors what there is for them."""
        if self.f.width and any(vectors.varies(self.f, a) for a in arguments):
            if name in _OF_VECTORS:
                return functions.unary(self.f, _OF_VECTORS[name], self.part, *arguments)
            if name in ("sinh", "cosh"):
                return self._hyperbolic(arguments[0], odd=name == "sinh")
        return functions.library(self.f, name, self.part, *arguments)

    def _hyperbolic(self, x: str, *, odd: bool) -> str:
        """sinh or cosh by e^|x| - 1, and by the square of e^(|x| / 2) where that would overflow before its half does."""
        size, half, one = self.intrinsic("fabs", x), self.c(0.5), self.c(1.0)
        grown = self.lib("expm1", size)
        whole = self.op("fadd", grown, one)
        if odd:
            near = self.op("fadd", grown, self.op("fdiv", grown, whole))
        else:
            near = self.op("fadd", whole, self.op("fdiv", one, whole))
        root = self.lib("exp", self.op("fmul", size, half))
        far = self.op("fmul", self.op("fmul", root, half), root)
        large = self.test("ogt", size, self.c(40.0))
        made = self.pick(large, far, self.op("fmul", near, half))
        return self.intrinsic("copysign", made, x) if odd else made

    def intrinsic(self, name: str, *arguments: str) -> str:
        suffix = "f32" if self.kind == "float" else "f64"
        return self.f.call(self.kind, f"llvm.{name}.{suffix}", *((self.kind, a) for a in arguments))

    def test(self, how: str, a: str, b: str) -> str:
        return self.f.let(f"fcmp {how} {self.kind} {a}, {b}")

    def pick(self, condition: str, a: str, b: str) -> str:
        return self.f.let(f"select i1 {condition}, {self.kind} {a}, {self.kind} {b}")

    def pick2(self, condition: str, a: Pair, b: Pair) -> Pair:
        return self.pick(condition, a[0], b[0]), self.pick(condition, a[1], b[1])

    # -- binary -------------------------------------------------------------------------------------------------

    def add(self, a: Pair, b: Pair) -> Pair:
        return self.op("fadd", a[0], b[0]), self.op("fadd", a[1], b[1])

    def subtract(self, a: Pair, b: Pair) -> Pair:
        return self.op("fsub", a[0], b[0]), self.op("fsub", a[1], b[1])

    def multiply(self, a: Pair, b: Pair) -> Pair:
        re = self.op("fsub", self.op("fmul", a[0], b[0]), self.op("fmul", a[1], b[1]))
        im = self.op("fadd", self.op("fmul", a[0], b[1]), self.op("fmul", a[1], b[0]))
        return re, im

    def divide(self, a: Pair, b: Pair) -> Pair:
        """R. L. Smith's way: the larger part of the divisor is divided out first; what comes out as NaN is recovered as C99 (annex G.5.1) does."""
        swapped = self.test("olt", self.intrinsic("fabs", b[0]), self.intrinsic("fabs", b[1]))
        big, small = self.pick2(swapped, (b[1], b[0]), b)
        ratio = self.op("fdiv", small, big)
        scale = self.op("fadd", big, self.op("fmul", small, ratio))
        # (ar + i ai) / (br + i bi): with the roles of the parts exchanged where |bi| is larger.
        p, q = self.pick2(swapped, (a[1], a[0]), a)
        re = self.op("fdiv", self.op("fadd", p, self.op("fmul", q, ratio)), scale)
        part = self.op("fmul", p, ratio)
        im = self.op("fdiv", self.op("fsub", *self.pick2(swapped, (part, q), (q, part))), scale)
        return self._recovered(a, b, (re, im))

    def _recovered(self, a: Pair, b: Pair, quotient: Pair) -> Pair:
        """The quotient; where both parts are NaN, what limits give: division by zero, of the infinite, by the infinite."""
        infinity, none = self.c(float("inf")), self.c(0.0)
        lost = self._all(self.test("uno", *[quotient[0]] * 2), self.test("uno", *[quotient[1]] * 2))
        a_size, b_size = ([self.intrinsic("fabs", v) for v in x] for x in (a, b))
        a_infinite, b_infinite = (self._any(*(self.test("oeq", v, infinity) for v in x)) for x in (a_size, b_size))
        a_finite, b_finite = (self._all(*(self.test("olt", v, infinity) for v in x)) for x in (a_size, b_size))
        known = self._any(*(self.test("ord", v, v) for v in a))
        endless = self.intrinsic("copysign", infinity, b[0])
        # Of an infinite number only where it is infinite counts, as a one with its sign.
        boxed = []
        for x, sizes in ((a, a_size), (b, b_size)):
            ones = [self.pick(self.test("oeq", s, infinity), self.c(1.0), none) for s in sizes]
            boxed.append(tuple(self.intrinsic("copysign", one, v) for one, v in zip(ones, x, strict=True)))
        (ar, ai), (br, bi) = boxed
        by_zero = self.op("fmul", endless, a[0]), self.op("fmul", endless, a[1])
        of_infinite = self._scaled(infinity, (ar, ai), b)
        by_infinite = self._scaled(none, a, (br, bi))
        made = self.pick2(self._all(b_infinite, a_finite), by_infinite, quotient)
        made = self.pick2(self._all(a_infinite, b_finite), of_infinite, made)
        made = self.pick2(self._all(self.is_zero(b), known), by_zero, made)
        return self.pick2(lost, made, quotient)

    def _scaled(self, factor: str, a: Pair, b: Pair) -> Pair:
        """factor * a * conjugate(b)."""
        re = self.op("fadd", self.op("fmul", a[0], b[0]), self.op("fmul", a[1], b[1]))
        im = self.op("fsub", self.op("fmul", a[1], b[0]), self.op("fmul", a[0], b[1]))
        return self.op("fmul", factor, re), self.op("fmul", factor, im)

    def _all(self, a: str, b: str) -> str:
        return self.f.let(f"and i1 {a}, {b}")

    def _any(self, a: str, b: str) -> str:
        return self.f.let(f"or i1 {a}, {b}")

    def power(self, a: Pair, b: Pair) -> Pair:
        """|a|^c e^(-d t) (cos q + i sin q) with b = c + i d, t the angle of a, q = c t + d log|a|; see `_power_limits`."""
        size, angle = self.abs(a), self.lib("atan2", a[1], a[0])
        turned = self.lib("exp", self.op("fmul", self.neg(b[1]), angle))
        factor = self.op("fmul", self.lib("pow", size, b[0]), turned)
        q = self.op("fadd", self.op("fmul", b[0], angle), self.op("fmul", b[1], self.lib("log", size)))
        made = self.op("fmul", factor, self.lib("cos", q)), self.op("fmul", factor, self.lib("sin", q))
        return self._power_limits(a, b, size, made)

    def _power_limits(self, a: Pair, b: Pair, size: str, made: Pair) -> Pair:
        """XLA's: x^0 and 1^y are one, a real power of zero zero if it is positive, of infinity infinity or zero."""
        none, endless = self.c(0.0), self.c(float("inf"))
        one, zero, infinite = (self.c(1.0), none), (none, none), (endless, none)
        is_real = self.test("oeq", b[1], none)
        grows, falls = (self._all(is_real, self.test(how, b[0], none)) for how in ("ogt", "olt"))
        flat = self.test("oeq", a[1], none)
        is_infinite = self._all(self.test("oeq", a[0], endless), flat)
        is_one = self._all(self.test("oeq", a[0], self.c(1.0)), flat)
        made = self.pick2(self._all(self.test("oeq", size, none), grows), zero, made)
        made = self.pick2(self._any(self.is_zero(b), is_one), one, made)
        made = self.pick2(self._all(is_infinite, grows), infinite, made)
        return self.pick2(self._all(is_infinite, falls), zero, made)

    def is_zero(self, a: Pair) -> str:
        return self.f.let(f"and i1 {self.test('oeq', a[0], self.c(0.0))}, {self.test('oeq', a[1], self.c(0.0))}")

    # -- unary --------------------------------------------------------------------------------------------------

    def negate(self, a: Pair) -> Pair:
        return self.neg(a[0]), self.neg(a[1])

    def abs(self, a: Pair) -> str:
        """sqrt(x^2 + y^2), both scaled by a power of two where the squares would overflow or vanish; of anything infinite infinity."""
        bounds = _SINGLE if self.kind == "float" else _DOUBLE
        x, y = (self.intrinsic("fabs", v) for v in a)
        larger = self.pick(self.test("ogt", x, y), x, y)
        over, under = (self.test(how, larger, self.c(2.0**k)) for how, k in (("ogt", bounds[0]), ("olt", bounds[2])))
        down, up = self.c(2.0 ** bounds[1]), self.c(2.0 ** bounds[3])
        scale = self.pick(over, down, self.pick(under, up, self.c(1.0)))
        back = self.pick(over, self.c(2.0 ** -bounds[1]), self.pick(under, self.c(2.0 ** -bounds[3]), self.c(1.0)))
        x, y = self.op("fmul", x, scale), self.op("fmul", y, scale)
        square = self.intrinsic("fma", x, x, self.op("fmul", y, y))
        size = self.op("fmul", self.intrinsic("sqrt", square), back)
        infinity = self.c(float("inf"))
        return self.pick(self._any(*(self.test("oeq", v, infinity) for v in (x, y))), infinity, size)

    def sign(self, a: Pair) -> Pair:
        size = self.abs(a)
        made = self.op("fdiv", a[0], size), self.op("fdiv", a[1], size)
        return self.pick2(self.test("oeq", size, self.c(0.0)), (self.c(0.0), self.c(0.0)), made)

    def exp(self, a: Pair) -> Pair:
        size = self.lib("exp", a[0])
        flat = self.test("oeq", a[1], self.c(0.0))
        re = self.op("fmul", size, self.lib("cos", a[1]))
        im = self.op("fmul", size, self.lib("sin", a[1]))
        return self.pick(flat, size, re), self.pick(flat, a[1], im)

    def expm1(self, a: Pair) -> Pair:
        half = self.lib("sin", self.op("fmul", a[1], self.c(0.5)))
        cut = self.op("fmul", self.c(2.0), self.op("fmul", half, half))
        re = self.op("fsub", self.op("fmul", self.lib("expm1", a[0]), self.lib("cos", a[1])), cut)
        return re, self.op("fmul", self.lib("exp", a[0]), self.lib("sin", a[1]))

    def log(self, a: Pair) -> Pair:
        """log|z| as log|z/4| + log 4 where |z| could overflow."""
        is_large, quarter = self._quartered(a)
        real = self.lib("log", self.abs(quarter))
        more = self.op("fadd", real, self.c(math.log(4.0)))
        return self.pick(is_large, more, real), self.lib("atan2", a[1], a[0])

    def _quartered(self, a: Pair) -> tuple[str, Pair]:
        """Whether a sum of the parts' sizes could overflow, and the number, divided by four where it could."""
        x, y = (self.intrinsic("fabs", v) for v in a)
        bounds = _SINGLE if self.kind == "float" else _DOUBLE
        limit = self.c(2.0 ** (2 * bounds[0]))
        is_large = self._any(self.test("ogt", x, limit), self.test("ogt", y, limit))
        scale = self.pick(is_large, self.c(0.25), self.c(1.0))
        return is_large, (self.op("fmul", a[0], scale), self.op("fmul", a[1], scale))

    def log1p(self, a: Pair) -> Pair:
        """log|1 + z| as half of log1p of |1 + z|^2 - 1 where z is small."""
        one_more = self.op("fadd", a[0], self.c(1.0))
        plain = self.log((one_more, a[1]))
        square = self.op("fadd", self.op("fmul", a[0], self.op("fadd", a[0], self.c(2.0))), self.op("fmul", a[1], a[1]))
        near = self.op("fmul", self.c(0.5), self.lib("log1p", square))
        small = self.test("olt", self.abs(a), self.c(0.5))
        return self.pick(small, near, plain[0]), plain[1]

    def tanh(self, a: Pair) -> Pair:
        """(e^2x - e^-2x + 4i sin y cos y) / (e^2x + e^-2x - 2 + 4 cos^2 y), by expm1, which is exact near zero."""
        x, y = a
        double = self.op("fadd", x, x)
        grown, shrunk = self.lib("expm1", double), self.lib("expm1", self.neg(double))
        cos, sin = self.lib("cos", y), self.lib("sin", y)
        above = self.op("fmul", self.c(4.0), self.op("fmul", cos, sin))
        total = self.op("fadd", grown, shrunk)
        below = self.op("fadd", total, self.op("fmul", self.op("fmul", cos, cos), self.c(4.0)))
        infinity, none = self.c(float("inf")), self.c(0.0)
        limit = self.intrinsic("copysign", self.c(1.0), x)
        re = self.op("fdiv", self.op("fsub", grown, shrunk), below)
        re = self.pick(self.test("oeq", total, infinity), limit, re)
        im = self.op("fdiv", above, below)
        # An infinite x decides whatever y is; with a finite one an infinite y or NaN gives NaN.
        endless, lost = self.test("oeq", self.intrinsic("fabs", x), infinity), self.test("uno", above, above)
        re = self.pick(self._all(lost, self.test("one", self.intrinsic("fabs", x), infinity)), self.c(float("nan")), re)
        flat = self._any(self.test("oeq", y, none), self._all(endless, lost))
        return re, self.pick(flat, none, im)

    def tan(self, a: Pair) -> Pair:
        turned = self.tanh((self.neg(a[1]), a[0]))
        return turned[1], self.neg(turned[0])

    def sin(self, a: Pair) -> Pair:
        re = self.op("fmul", self.lib("sin", a[0]), self.lib("cosh", a[1]))
        return re, self.op("fmul", self.lib("cos", a[0]), self.lib("sinh", a[1]))

    def cos(self, a: Pair) -> Pair:
        re = self.op("fmul", self.lib("cos", a[0]), self.lib("cosh", a[1]))
        return re, self.neg(self.op("fmul", self.lib("sin", a[0]), self.lib("sinh", a[1])))

    def sqrt(self, a: Pair) -> Pair:
        """The root of (|z| + |x|) / 2, and |y| / 2 over it, of z / 4 where |z| + |x| could overflow."""
        is_large, (x, y) = self._quartered(a)
        size = self.abs((x, y))
        grown = self.op("fadd", size, self.intrinsic("fabs", x))
        t = self.intrinsic("sqrt", self.op("fmul", grown, self.c(0.5)))
        other = self.op("fdiv", self.intrinsic("fabs", y), self.op("fmul", t, self.c(2.0)))
        right = self.test("oge", x, self.c(0.0))
        made = self.pick(right, t, other), self.intrinsic("copysign", self.pick(right, other, t), y)
        back = self.pick(is_large, self.c(2.0), self.c(1.0))
        made = self.op("fmul", made[0], back), self.op("fmul", made[1], back)
        made = self.pick2(self.test("oeq", size, self.c(0.0)), (self.c(0.0), a[1]), made)
        wide = self.test("oeq", self.intrinsic("fabs", a[1]), self.c(float("inf")))
        return self.pick2(wide, (self.c(float("inf")), a[1]), made)

    def rsqrt(self, a: Pair) -> Pair:
        return self.divide((self.c(1.0), self.c(0.0)), self.sqrt(a))

    def logistic(self, a: Pair) -> Pair:
        grown = self.add((self.c(1.0), self.c(0.0)), self.exp(self.negate(a)))
        return self.divide((self.c(1.0), self.c(0.0)), grown)

    def cbrt(self, a: Pair) -> Pair:
        return self.power(a, (self.c(1 / 3), self.c(0.0)))

    def atan2(self, a: Pair, b: Pair) -> Pair:
        """-i log((b + i a) / sqrt(a^2 + b^2))."""
        root = self.sqrt(self.add(self.multiply(a, a), self.multiply(b, b)))
        turned = self.add(b, self.multiply((self.c(0.0), self.c(1.0)), a))
        logarithm = self.log(self.divide(turned, root))
        return self.multiply((self.c(0.0), self.c(-1.0)), logarithm)


_BINARY: dict[Op, Callable[[Complex, Pair, Pair], Pair]] = {
    Op.ADD: Complex.add,
    Op.SUBTRACT: Complex.subtract,
    Op.MULTIPLY: Complex.multiply,
    Op.DIVIDE: Complex.divide,
    Op.POWER: Complex.power,
    Op.ATAN2: Complex.atan2,
}
_UNARY: dict[Op, Callable[[Complex, Pair], Pair]] = {
    Op.NEGATE: Complex.negate,
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


def binary(f: Function, op: Op, t: PrimitiveType, a: Pair, b: Pair) -> Pair:
    """a op b of complex numbers."""
    if op not in _BINARY:
        raise UnimplementedError(f"{op} of {t}")
    return _BINARY[op](Complex(f, t), a, b)


def unary(f: Function, op: Op, t: PrimitiveType, a: Pair) -> Pair:
    """op a of a complex number that gives one."""
    if op not in _UNARY:
        raise UnimplementedError(f"{op} of {t}")
    return _UNARY[op](Complex(f, t), a)

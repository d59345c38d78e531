"""Functions of f32 without branches, by polynomials in f64: for vectors, where the C library would be called once for each element.

The polynomials are least-squares fits at Chebyshev nodes, with relative errors below 5e-12: what remains is the rounding to f32. Arguments beyond a million of
sin, cos and tan go to the C library, as its reduction modulo pi is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlanb.cpu.codegen import vectors
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.types import float_text

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
    1.3259681453357046e-06,
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


class Double:
    """Arithmetic on f64 values, of which an f32's are a part: each method writes an instruction and gives the name of its value."""

    def __init__(self, f: Function) -> None:
        self.f = f

    def c(self, value: float) -> str:
        """A constant."""
        return float_text(value, "double")

    def wide(self, x: str) -> str:
        """An f32 as f64."""
        return self.f.let(f"fpext float {x} to double")

    def narrow(self, x: str) -> str:
        """An f64 rounded to f32."""
        return self.f.let(f"fptrunc double {x} to float")

    def op(self, name: str, a: str, b: str) -> str:
        """add, sub, mul or div."""
        return self.f.let(f"f{name} double {a}, {b}")

    def call(self, name: str, *arguments: str) -> str:
        """An intrinsic of f64, by its name without llvm."""
        return self.f.call("double", f"llvm.{name}.f64", *(("double", a) for a in arguments))

    def fma(self, a: str, b: str, c: str) -> str:
        """a * b + c."""
        return self.call("fmuladd", a, b, c)

    def horner(self, x: str, coefficients: Sequence[float]) -> str:
        """A polynomial, highest power first."""
        total = self.c(coefficients[0])
        for k in coefficients[1:]:
            total = self.fma(total, x, self.c(k))
        return total

    def test(self, how: str, a: str, b: str) -> str:
        """A comparison, as fcmp has it."""
        return self.f.let(f"fcmp {how} double {a}, {b}")

    def pick(self, condition: str, a: str, b: str) -> str:
        """a where the condition holds, else b."""
        return self.f.let(f"select i1 {condition}, double {a}, double {b}")

    def bits(self, x: str) -> str:
        """The bits of an f64 as an i64."""
        return self.f.let(f"bitcast double {x} to i64")

    def both(self, a: str, b: str) -> str:
        """Whether both hold."""
        return self.f.let(f"and i1 {a}, {b}")


# -- sine, cosine, tangent ----------------------------------------------------------------------------------------


def _sine_and_cosine(d: Double, x: str) -> tuple[str, str, str]:
    """(quadrant as an i64, sin r, cos r) with x = quadrant * pi / 2 + r."""
    f = d.f
    n = d.call("roundeven", d.op("mul", x, d.c(0.6366197723675814)))
    # pi / 2 in two parts, the first of 33 bits: its product with n is exact.
    r = d.fma(n, d.c(-1.5707963267341256), x)
    r = d.fma(n, d.c(-6.077100506506192e-11), r)
    shifted = d.op("add", n, d.c(6755399441055744.0))  # 1.5 * 2^52: n in the lowest bits
    z = d.op("mul", r, r)
    return f.let(f"bitcast double {shifted} to i64"), d.op("mul", r, d.horner(z, _SIN)), d.horner(z, _COS)


def _turned(d: Double, quadrant: str, sine: str, cosine: str) -> str:
    """The sine of an angle in a quadrant."""
    f = d.f
    odd = f.let(f"trunc i64 {quadrant} to i1")
    half = f.let(f"lshr i64 {quadrant}, 1")
    value = d.pick(odd, cosine, sine)
    return d.pick(f.let(f"trunc i64 {half} to i1"), f.let(f"fneg double {value}"), value)


def _angle(f: Function, x: str, name: str, made: str) -> str:
    """`made`, or what the C library gives where an angle is large."""
    magnitude = f.call("float", "llvm.fabs.f32", ("float", x))
    large = f.let(f"fcmp oge float {magnitude}, {float_text(_LARGEST_ANGLE)}")
    return vectors.rarely(f, large, made, lambda: f.call("float", name, ("float", x), attributes=LIBRARY))


LIBRARY = "memory(none) nounwind willreturn"
"""What LLVM may know of the C library's functions."""


def sin(f: Function, x: str) -> str:
    """The sine of a float."""
    d = Double(f)
    made = d.narrow(_turned(d, *_sine_and_cosine(d, d.wide(x))))
    zero = f.let(f"fcmp oeq float {x}, 0.0")
    return _angle(f, x, "sinf", f.let(f"select i1 {zero}, float {x}, float {made}"))


def cos(f: Function, x: str) -> str:
    """The cosine of a float."""
    d = Double(f)
    quadrant, sine, cosine = _sine_and_cosine(d, d.wide(x))
    return _angle(f, x, "cosf", d.narrow(_turned(d, f.let(f"add i64 {quadrant}, 1"), sine, cosine)))


def tan(f: Function, x: str) -> str:
    """The tangent of a float."""
    d = Double(f)
    quadrant, sine, cosine = _sine_and_cosine(d, d.wide(x))
    odd = f.let(f"trunc i64 {quadrant} to i1")
    above = d.pick(odd, cosine, sine)
    below = d.pick(odd, f.let(f"fneg double {sine}"), cosine)
    made = d.narrow(d.op("div", above, below))
    zero = f.let(f"fcmp oeq float {x}, 0.0")
    return _angle(f, x, "tanf", f.let(f"select i1 {zero}, float {x}, float {made}"))


# -- powers -------------------------------------------------------------------------------------------------------


def _log2(d: Double, x: str) -> str:
    """The logarithm to base 2 of a float's value that is not negative: 2^k m with m near 1, and artanh((m - 1) / (m + 1))."""
    f = d.f
    bits = f.let(f"bitcast double {x} to i64")
    k = f.let(f"ashr i64 {f.let(f'sub i64 {bits}, {0x3FE6A09E667F3BCD}')}, 52")
    m = f.let(f"bitcast i64 {f.let(f'sub i64 {bits}, ' + f.let(f'shl i64 {k}, 52'))} to double")
    t = d.op("div", d.op("add", m, d.c(-1.0)), d.op("add", m, d.c(1.0)))
    # k + 1.5 * 2^52 by its bits, which is cheaper than a conversion.
    high = f.let(f"bitcast i64 {f.let(f'add i64 {k}, {0x4338000000000000}')} to double")
    whole = d.op("sub", high, d.c(6755399441055744.0))
    made = d.fma(t, d.horner(d.op("mul", t, t), _LOG2), whole)
    made = d.pick(d.test("oeq", x, d.c(0.0)), d.c(float("-inf")), made)
    return d.pick(d.test("ult", x, d.c(float("inf"))), made, x)


def _exp2(d: Double, x: str) -> str:
    """2^x as a float's value may need it: beyond the range of floats infinite or zero once it is rounded."""
    f = d.f
    x = d.pick(d.test("olt", x, d.c(-200.0)), d.c(-200.0), x)
    x = d.pick(d.test("ogt", x, d.c(200.0)), d.c(200.0), x)
    shifted = d.op("add", x, d.c(6755399441055744.0))
    part = d.op("sub", x, d.op("sub", shifted, d.c(6755399441055744.0)))
    power = f.let(f"shl i64 {f.let(f'bitcast double {shifted} to i64')}, 52")
    made = d.horner(part, _EXP2)
    scaled = f.let(f"add i64 {f.let(f'bitcast double {made} to i64')}, {power}")
    return d.pick(d.test("uno", x, x), x, f.let(f"bitcast i64 {scaled} to double"))


def pow(f: Function, x: str, y: str) -> str:  # noqa: A001 - the field's name
    """x to the power y of floats, special values as C99 (annex F.9.4.4) has them."""
    d = Double(f)
    a, b = d.wide(x), d.wide(y)
    magnitude = d.call("fabs", a)
    logarithm = _log2(d, magnitude)
    one = f.let(f"or i1 {d.test('oeq', b, d.c(0.0))}, {d.test('oeq', magnitude, d.c(1.0))}")
    made = _exp2(d, d.pick(one, d.c(0.0), d.op("mul", b, logarithm)))
    half = d.op("mul", b, d.c(0.5))
    whole = d.test("oeq", d.call("trunc", b), b)
    odd = d.both(whole, d.test("une", d.call("trunc", half), half))
    signed = d.both(odd, f.let(f"icmp slt i64 {f.let(f'bitcast double {a} to i64')}, 0"))
    made = d.pick(signed, f.let(f"fneg double {made}"), made)
    below = d.both(d.test("olt", a, d.c(0.0)), d.test("ogt", a, d.c(float("-inf"))))
    lost = d.both(below, f.let(f"xor i1 {whole}, true"))
    made = d.pick(lost, d.c(float("nan")), made)
    made = d.pick(d.both(d.test("uno", a, a), d.test("une", b, d.c(0.0))), a, made)
    made = d.pick(d.both(d.test("uno", b, b), d.test("une", a, d.c(1.0))), b, made)
    return d.narrow(made)


def cbrt(f: Function, x: str) -> str:
    """The cube root of a float."""
    d = Double(f)
    a = d.wide(x)
    root = _exp2(d, d.op("mul", _log2(d, d.call("fabs", a)), d.c(1 / 3)))
    made = d.call("copysign", root, a)
    plain = d.test("one", a, d.c(0.0))
    finite = d.test("olt", d.call("fabs", a), d.c(float("inf")))
    return d.narrow(d.pick(d.both(plain, finite), made, a))


def atan2(f: Function, y: str, x: str) -> str:
    """The angle of the point (x, y) of floats, in -pi..pi."""
    d = Double(f)
    a, b = d.wide(y), d.wide(x)
    above, right = d.call("fabs", a), d.call("fabs", b)
    steep = d.test("ogt", above, right)
    low, high = d.pick(steep, right, above), d.pick(steep, above, right)
    q = d.op("div", low, high)
    q = d.pick(d.test("oeq", low, high), d.c(1.0), q)  # of two infinities too
    q = d.pick(d.test("oeq", high, d.c(0.0)), d.c(0.0), q)
    angle = d.op("mul", q, d.horner(d.op("mul", q, q), _ATAN))
    angle = d.pick(steep, d.op("sub", d.c(1.5707963267948966), angle), angle)
    left = f.let(f"icmp slt i64 {f.let(f'bitcast double {b} to i64')}, 0")
    angle = d.pick(left, d.op("sub", d.c(3.141592653589793), angle), angle)
    made = d.call("copysign", angle, a)
    return d.narrow(d.pick(d.test("uno", a, b), d.op("add", a, b), made))


def fmod(f: Function, x: str, y: str) -> str:
    """The remainder of x by y of floats, with the sign of x: exact in f64 as long as the quotient is below 2^26, else the C library's."""
    d = Double(f)
    a, b = d.wide(x), d.wide(y)
    quotient = d.op("div", a, b)
    rest = d.fma(f.let(f"fneg double {d.call('trunc', quotient)}"), b, a)
    made = f.call("float", "llvm.copysign.f32", ("float", d.narrow(rest)), ("float", x))
    plain = d.both(
        d.test("olt", d.call("fabs", quotient), d.c(2.0**26)), d.test("olt", d.call("fabs", b), d.c(float("inf")))
    )
    large = f.let(f"xor i1 {plain}, true")
    return vectors.rarely(
        f, large, made, lambda: f.call("float", "fmodf", ("float", x), ("float", y), attributes=LIBRARY)
    )


FUNCTIONS: dict[str, Callable[..., str]] = {
    "sin": sin,
    "cos": cos,
    "tan": tan,
    "pow": pow,
    "cbrt": cbrt,
    "atan2": atan2,
    "fmod": fmod,
}
"""By the name of the C library's function, without its f."""

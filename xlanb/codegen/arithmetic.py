"""Elementwise opcodes on integers, predicates and floats: XLA's operation semantics.

Functions take register values (see elements.py); a narrow float's result is rounded to its type.
`flags` are fast-math flags for reductions that may be reordered.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

from xlanb.codegen import extremes, math
from xlanb.codegen.complex_math import unordered
from xlanb.codegen.elements import Element, from_bits, odd, one_of, pair, part, real, register, rounded, to_bits
from xlanb.codegen.function import Function
from xlanb.codegen.types import DOUBLE, FLOAT, I1, I8, I32, integer
from xlanb.codegen.values import Value
from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType

# -- binary ----------------------------------------------------------------------------------------


def binary(f: Function, op: Op, t: PrimitiveType, a: Value, b: Value, flags: str = "") -> Value:
    """a op b of one element type, not complex."""
    table = _PRED if t is T.PRED else _INTEGER if t.is_integral else _FLOAT
    rule = table.get(op)
    if rule is None:
        raise UnimplementedError(f"{op} of {t}")
    return rule(f, t, a, b, flags)


Rule = Callable[[Function, PrimitiveType, Value, Value, str], Value]


def _plain(opcode: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    return rounded(f, t, f.binary(opcode, a, b, flags))


def _extreme(name: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    return one_of(f, t, extremes.extreme(f, name, a, b) or f.intrinsic(name, a, b, flags=flags), a, b)


def _min_max(name: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    return f.intrinsic(f"{'s' if t.is_signed else 'u'}{name}", a, b)


def _library(name: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    return rounded(f, t, math.call(name, *f.alike(a, b)))


def _division(opcode: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    """The quotient (`div`) or remainder (`rem`) of integers, with XLA's special cases.

    A quotient by zero is all ones; the lowest value divided by -1 is itself. A remainder by zero is
    the dividend.
    """
    if b.number and (b.number > 0 or not t.is_signed):
        return f.binary(f"{'s' if t.is_signed else 'u'}{opcode}", a, b)
    by_zero = b.equals(0)
    minus = b.equals(-1) if t.is_signed else None
    made = _divided(opcode, f, t, a, (by_zero if minus is None else by_zero | minus).select(1, b))
    if opcode == "rem":
        return by_zero.select(a, made)
    return by_zero.select(-1, made if minus is None else minus.select(-a, made))


def _divided(opcode: str, f: Function, t: PrimitiveType, a: Value, b: Value) -> Value:
    """The quotient or remainder where it is defined; vectors of up to 32 bits divide floats.

    Processors have no vector division of integers. A rounded quotient does not reach the next
    integer: it is at least 1 / a of itself below, more than half a unit in the float's last place.
    """
    sign = "s" if t.is_signed else "u"
    a, b = f.alike(a, b)
    if not a.type.lanes or t.bits > 32:
        return f.binary(f"{sign}{opcode}", a, b)
    wide = (DOUBLE if t.bits > 16 else FLOAT).times(a.type.lanes)
    ratio = f.binary("fdiv", a.cast(f"{sign}itofp", wide), b.cast(f"{sign}itofp", wide))
    quotient = ratio.cast(f"fpto{sign}i", a.type)
    return quotient if opcode == "div" else a - quotient * b


def _shift(opcode: str, f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    if b.number is not None and 0 <= b.number < t.bits:
        return f.binary(opcode, a, b)
    amount = b if t.bits >= 8 else b.zext(I8)  # 4 does not fit an s4's sign
    fits = amount.ult(t.bits)
    shifted = f.binary(opcode, a, fits.select(b, 0))
    return fits.select(shifted, a >> (t.bits - 1) if opcode == "ashr" else 0)


def _mulhi(f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    wide, extend = integer(2 * t.bits), "sext" if t.is_signed else "zext"
    product = a.cast(extend, wide) * b.cast(extend, wide)
    return product.lshr(t.bits).trunc(register(t))


def _integer_power(f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    """Power by squaring; a negative exponent gives 0, except for the bases 1 and -1."""
    kind = register(t)
    a, b = f.alike(a, b)
    with f.carried(t.bits, [f.const(kind, 1), a, b]) as loop:
        value, base, left = loop.values
        value = left.trunc(I1).select(value * base, value)
        loop.next = [value, base * base, left.lshr(1 if t.bits > 1 else 0)]
    result = loop.values[0]
    if not t.is_signed:
        return result
    minus = b.trunc(I1).select(f.const(kind, -1), 1)
    below = a.equals(1).select(1, a.equals(-1).select(minus, 0))
    return (b < 0).select(below, result)


def _float_remainder(f: Function, t: PrimitiveType, a: Value, b: Value, flags: str) -> Value:
    a, b = f.alike(a, b)
    is_called = not f.target.has_c_library or (a.type.lanes and a.type.bits == 32)
    return rounded(f, t, math.call("fmod", a, b) if is_called else f.binary("frem", a, b))


_PRED: dict[Op, Rule] = {
    Op.ADD: partial(_plain, "or"),
    Op.MAXIMUM: partial(_plain, "or"),
    Op.OR: partial(_plain, "or"),
    Op.MULTIPLY: partial(_plain, "and"),
    Op.MINIMUM: partial(_plain, "and"),
    Op.AND: partial(_plain, "and"),
    Op.XOR: partial(_plain, "xor"),
}
_INTEGER: dict[Op, Rule] = {
    Op.ADD: partial(_plain, "add"),
    Op.SUBTRACT: partial(_plain, "sub"),
    Op.MULTIPLY: partial(_plain, "mul"),
    Op.AND: partial(_plain, "and"),
    Op.OR: partial(_plain, "or"),
    Op.XOR: partial(_plain, "xor"),
    Op.MAXIMUM: partial(_min_max, "max"),
    Op.MINIMUM: partial(_min_max, "min"),
    Op.DIVIDE: partial(_division, "div"),
    Op.REMAINDER: partial(_division, "rem"),
    Op.SHIFT_LEFT: partial(_shift, "shl"),
    Op.SHIFT_RIGHT_LOGICAL: partial(_shift, "lshr"),
    Op.SHIFT_RIGHT_ARITHMETIC: partial(_shift, "ashr"),
    Op.MULHI: _mulhi,
    Op.POWER: _integer_power,
}
_FLOAT: dict[Op, Rule] = {
    Op.ADD: partial(_plain, "fadd"),
    Op.SUBTRACT: partial(_plain, "fsub"),
    Op.MULTIPLY: partial(_plain, "fmul"),
    Op.DIVIDE: partial(_plain, "fdiv"),
    Op.MAXIMUM: partial(_extreme, "maximum"),
    Op.MINIMUM: partial(_extreme, "minimum"),
    Op.REMAINDER: _float_remainder,
    Op.POWER: partial(_library, "pow"),
    Op.ATAN2: partial(_library, "atan2"),
}

# -- unary -----------------------------------------------------------------------------------------


def unary(f: Function, op: Op, t: PrimitiveType, a: Value) -> Value:
    """op a of one element type, not complex; is-finite returns a pred."""
    integers = _UNARY_SIGNED if t.is_signed else _UNARY_UNSIGNED
    rule = (_UNARY_PRED if t is T.PRED else integers if t.is_integral else _UNARY_FLOAT).get(op)
    if rule is None:
        raise UnimplementedError(f"{op} of {t}")
    if t.is_integral or op in _EXACT:
        return rule(a)
    made = rule(a)
    return rounded(f, t, one_of(f, t, made, a) if op in _SIGNS else made)


UnaryRule = Callable[[Value], Value]


def _itself(a: Value) -> Value:
    return a


def _intrinsic(name: str) -> UnaryRule:
    return lambda a: a.function.intrinsic(name, a)


def _float_sign(a: Value) -> Value:
    one = a.function.intrinsic("copysign", 1.0, a)
    return a.compare("one", "ne", 0.0).select(one, a)


def _is_some(a: Value) -> Value:
    return a.differs(0).zext(a.type) if a.type.bits > 1 else a


def _integer_sign(a: Value) -> Value:
    return (a >> (a.type.bits - 1)) | _is_some(a) if a.type.bits > 1 else a


def _leading_zeros(a: Value) -> Value:
    return a.function.intrinsic("ctlz", a, immediate=False)


_FUNCTIONS: dict[Op, str] = {
    Op.EXPONENTIAL: "exp",
    Op.EXPONENTIAL_MINUS_ONE: "expm1",
    Op.LOG: "log",
    Op.LOG_PLUS_ONE: "log1p",
    Op.SINE: "sin",
    Op.COSINE: "cos",
} | {
    op: op.text
    for op in (
        Op.TANH, Op.LOGISTIC, Op.ERF, Op.TAN, Op.CBRT, Op.ASIN, Op.ACOS, Op.ATAN, Op.SINH, Op.COSH, Op.ASINH,
        Op.ACOSH, Op.ATANH,
    )
}  # fmt: skip


def function_name(op: Op) -> str | None:
    """The C name of an opcode's float function (or `logistic`); None for other opcodes."""
    return "pow" if op is Op.POWER else _FUNCTIONS.get(op)


_UNARY_PRED: dict[Op, UnaryRule] = {
    Op.NOT: operator.invert,
    Op.ABS: _itself,
    Op.SIGN: _itself,
    Op.POPCNT: _itself,
}
_UNARY_UNSIGNED: dict[Op, UnaryRule] = {
    Op.NOT: operator.invert,
    Op.NEGATE: operator.neg,
    Op.ABS: _itself,
    Op.SIGN: _is_some,
    Op.POPCNT: _intrinsic("ctpop"),
    Op.COUNT_LEADING_ZEROS: _leading_zeros,
}
_UNARY_SIGNED: dict[Op, UnaryRule] = {**_UNARY_UNSIGNED, Op.ABS: abs, Op.SIGN: _integer_sign}
_UNARY_FLOAT: dict[Op, UnaryRule] = {
    Op.IS_FINITE: lambda a: abs(a) < math.INFINITY,
    Op.NEGATE: operator.neg,
    Op.SIGN: _float_sign,
    Op.ABS: abs,
    Op.CEIL: _intrinsic("ceil"),
    Op.FLOOR: _intrinsic("floor"),
    Op.ROUND_NEAREST_AFZ: _intrinsic("round"),
    Op.ROUND_NEAREST_EVEN: _intrinsic("roundeven"),
    Op.SQRT: Value.sqrt,
    Op.RSQRT: lambda a: 1.0 / a.sqrt(),
    **{op: partial(math.call, name) for op, name in _FUNCTIONS.items()},
}
_EXACT = frozenset({Op.IS_FINITE, Op.SIGN})
"""Functions of floats whose results need no rounding to a narrow type."""

_SIGNS = frozenset({Op.ABS, Op.NEGATE})
"""Functions of floats that change no more than the sign."""

BINARY = frozenset((*_PRED, *_INTEGER, *_FLOAT))
"""The elementwise opcodes of two operands of one type."""
UNARY = frozenset((*_UNARY_PRED, *_UNARY_SIGNED, *_UNARY_FLOAT))
"""The elementwise opcodes of one operand."""

# -- comparison, selection -------------------------------------------------------------------------

_ORDERED = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}


def compare(
    f: Function, t: PrimitiveType, direction: str, a: Element, b: Element, *, total_order: bool = False
) -> Value:
    """i1: a direction b.

    Complex numbers are equal if both parts are. NaN is unequal to everything except under total
    order.
    """
    if t.is_complex:
        (ar, ai), (br, bi) = pair(a), pair(b)
        if direction not in ("EQ", "NE"):
            raise unordered(f"compare {direction}", t)
        return ar.equals(br) & ai.equals(bi) if direction == "EQ" else ar.differs(br) | ai.differs(bi)
    x, y = real(a), real(b)
    if t.is_floating and not total_order:
        return f.compare("fcmp", _ORDERED[direction], x, y)
    signed = t.is_signed
    if t.is_floating:
        x, y, signed = order_bits(f, t, x), order_bits(f, t, y), t is not T.F8E8M0FNU
    how = direction.lower()
    return f.compare("icmp", how if how in ("eq", "ne") else ("s" if signed else "u") + how, x, y)


def order_bits(f: Function, t: PrimitiveType, value: Value) -> Value:
    """An integer with the total order: the bits; negative numbers have all but the sign flipped.

    f8e8m0fnu has no sign. The NaN of fnuz types is -0's bits and comes first; the magnitude of
    their negative numbers is negated.
    """
    return ordered_bits(t, to_bits(f, t, value))


def ordered_bits(t: PrimitiveType, bits: Value) -> Value:
    """The same for a number's bits."""
    if t is T.F8E8M0FNU:
        return bits
    if t.is_fnuz:
        return (bits < 0).select(-bits | -128, bits)
    return bits ^ (bits >> (t.bits - 1)).lshr(1)


def select(condition: Value, a: Element, b: Element) -> Element:
    """a if the i1 is true, else b."""
    if isinstance(a, Value) and isinstance(b, Value):
        return condition.select(a, b)
    (ar, ai), (br, bi) = pair(a), pair(b)
    return condition.select(ar, br), condition.select(ai, bi)


def one_where(f: Function, t: PrimitiveType, condition: Value, a: Element, b: Element) -> Element:
    """`select` of elements of type t: rounded if both are."""
    made = select(condition, a, b)
    return made if t.is_complex else one_of(f, t, real(made), real(a), real(b))


# -- conversion ------------------------------------------------------------------------------------


def convert(f: Function, source: PrimitiveType, to: PrimitiveType, value: Element) -> Element:
    """Convert a value to another element type.

    Floats saturate in integer types, NaN gives 0; complex numbers give their real part.
    """
    if source is to:
        return value
    if to.is_complex:
        re, im = pair(value) if source.is_complex else (real(value), f.const(register(to), 0.0))
        inner, kind = part(source), part(to)
        return real(convert(f, inner, kind, re)), real(convert(f, inner, kind, im)) if source.is_complex else im
    if source.is_complex:
        re, im = pair(value)
        if to is T.PRED:
            return re.differs(0.0) | im.differs(0.0)
        return convert(f, part(source), to, re)
    x = real(value)
    if to is T.PRED:
        return x.differs(0)
    if source.is_floating:
        return _from_float(f, source, to, x)
    if to.is_floating:
        return _to_float(f, source, to, x)
    if register(source) is register(to):
        return x
    if to.bits < source.bits and source is not T.PRED:
        return x.trunc(register(to))
    return x.cast("sext" if source.is_signed else "zext", register(to))


def _from_float(f: Function, source: PrimitiveType, to: PrimitiveType, x: Value) -> Value:
    goal = register(to)
    if to.is_integral:
        return _saturated(x, to)
    if x.type.scalar is goal:
        return rounded(f, to, x)
    if goal.bits == 64:
        return x.cast("fpext", goal)
    if to in (T.F32, T.BF16):  # XLA rounds to bf16 through f32
        return rounded(f, to, x.cast("fptrunc", FLOAT))
    return rounded(f, to, odd(x))


def _saturated(x: Value, to: PrimitiveType) -> Value:
    """Convert to an integer: truncate, saturate, NaN gives zero.

    LLVM's own intrinsics handle vectors lane by lane.
    """
    goal, digits = register(to), 53 if x.type.bits == 64 else 24
    low, high = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.is_signed else (0, (1 << to.bits) - 1)
    most = high if high < 1 << digits else high + 1 - (1 << (to.bits - to.is_signed - digits))
    inside = x.compare("ord", "eq", x).select(x, 0.0)
    inside = (inside > float(low)).select(inside, float(low))
    inside = (inside < float(most)).select(inside, float(most))
    if to.bits < 32:
        return inside.cast("fptosi", I32).trunc(goal)
    whole = inside.cast("fptosi" if to.is_signed else "fptoui", goal)
    return whole if most == high else (x >= float(high + 1)).select(high, whole)


def _to_float(f: Function, source: PrimitiveType, to: PrimitiveType, x: Value) -> Value:
    made = x.cast("sitofp" if source.is_signed else "uitofp", register(to))
    return rounded(f, to, made)


_HALF = (T.F16, 10, 5)
_FORMATS = {T.F64: (T.F64, 52, 11), T.F16: _HALF, T.F8E5M2: _HALF, T.F8E5M2FNUZ: _HALF}
"""Types whose precision is not reduced as f32: (working type, mantissa bits, exponent bits)."""


def reduce_precision(f: Function, t: PrimitiveType, exponent: int, mantissa: int, value: Value) -> Value:
    """Round a value to a format with the given number of bits, to nearest even.

    Overflow gives infinity, underflow zero.
    """
    # Other narrow floats are f32 here; subnormals with five exponent bits need f16.
    held, own_mantissa, own_exponent = _FORMATS.get(t, (T.F32, 23, 8))
    width, bias = held.bits, 2 ** (own_exponent - 1) - 1
    bits = to_bits(f, held, value)
    if mantissa < own_mantissa:
        drop = own_mantissa - mantissa
        half = (bits.lshr(drop) & 1) + (2 ** (drop - 1) - 1)
        # Only a NaN's mantissa can round up into the sign: NaN is restored below.
        bits = (bits + half) & -(2**drop)
    if exponent < own_exponent:
        reduced_bias = 2 ** (exponent - 1) - 1
        magnitude, sign = bits & (2 ** (width - 1) - 1), bits & -(2 ** (width - 1))
        too_big = magnitude.uge((bias + reduced_bias + 1) << own_mantissa)
        too_small = magnitude.ult((bias - reduced_bias + 1) << own_mantissa)
        bits = too_big.select(sign | ((2 * bias + 1) << own_mantissa), bits)
        bits = too_small.select(sign, bits)
    return rounded(f, t, value.is_nan().select(value, from_bits(f, held, bits)))

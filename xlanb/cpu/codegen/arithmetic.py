"""The scalar meaning of elementwise opcodes on integers, predicates and floats: XLA's operation semantics in LLVM IR.

Functions take register values (see types.py); a narrow float's result is rounded to its type. `flags` are fast-math flags for a reduction whose order is free.
"""

from __future__ import annotations

from collections.abc import Callable

from xlanb.cpu.codegen import extremes, functions
from xlanb.cpu.codegen.ir import Function
from xlanb.cpu.codegen.types import (
    Value,
    constant,
    float_text,
    from_bits,
    odd,
    pair,
    real,
    register,
    rounded,
    to_bits,
)
from xlanb.errors import UnimplementedError
from xlanb.hlo.opcode import HloOpcode as Op
from xlanb.shape import PrimitiveType

T = PrimitiveType


def suffix(t: PrimitiveType) -> str:
    """The suffix of an intrinsic's name for a register type."""
    return {"float": "f32", "double": "f64"}.get(register(t), register(t))


# -- binary -------------------------------------------------------------------------------------------------------


def binary(f: Function, op: Op, t: PrimitiveType, a: str, b: str, flags: str = "") -> str:
    """a op b of one element type, not complex."""
    table = _PRED if t is T.PRED else _INTEGER if t.is_integral else _FLOAT
    rule = table.get(op)
    if rule is None:
        raise UnimplementedError(f"{op} of {t}")
    return rule(f, t, a, b, flags)


Rule = Callable[[Function, PrimitiveType, str, str, str], str]


def _plain(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        return f.let(f"{name} {register(t)} {a}, {b}")

    return rule


def _fplain(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        return rounded(f, t, f.let(f"{name}{' ' + flags if flags else ''} {register(t)} {a}, {b}"))

    return rule


def _extreme(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        kind = register(t)
        made = extremes.extreme(f, name, kind, a, b)
        return made or f.call(kind, f"llvm.{name}.{suffix(t)}", (kind, a), (kind, b), flags=flags)

    return rule


def _min_max(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        kind = register(t)
        return f.call(kind, f"llvm.{'s' if t.is_signed else 'u'}{name}.{kind}", (kind, a), (kind, b))

    return rule


def _library(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        return rounded(f, t, functions.library(f, name, t, a, b))

    return rule


def _divide(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
    """By zero all ones; the lowest by -1 itself."""
    kind = register(t)
    if b.isdigit() and b != "0":
        return f.let(f"{'sdiv' if t.is_signed else 'udiv'} {kind} {a}, {b}")
    by_zero = f.let(f"icmp eq {kind} {b}, 0")
    if not t.is_signed:
        safe = f.let(f"select i1 {by_zero}, {kind} 1, {kind} {b}")
        return f.let(f"select i1 {by_zero}, {kind} -1, {kind} {f.let(f'udiv {kind} {a}, {safe}')}")
    minus = f.let(f"icmp eq {kind} {b}, -1")
    special = f.let(f"or i1 {by_zero}, {minus}")
    safe = f.let(f"select i1 {special}, {kind} 1, {kind} {b}")
    quotient = f.let(f"sdiv {kind} {a}, {safe}")
    quotient = f.let(f"select i1 {minus}, {kind} {f.let(f'sub {kind} 0, {a}')}, {kind} {quotient}")
    return f.let(f"select i1 {by_zero}, {kind} -1, {kind} {quotient}")


def _remainder(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
    """By zero the dividend; by -1 zero."""
    kind = register(t)
    if b.isdigit() and b != "0":
        return f.let(f"{'srem' if t.is_signed else 'urem'} {kind} {a}, {b}")
    by_zero = f.let(f"icmp eq {kind} {b}, 0")
    if not t.is_signed:
        safe = f.let(f"select i1 {by_zero}, {kind} 1, {kind} {b}")
        return f.let(f"select i1 {by_zero}, {kind} {a}, {kind} {f.let(f'urem {kind} {a}, {safe}')}")
    special = f.let(f"or i1 {by_zero}, {f.let(f'icmp eq {kind} {b}, -1')}")
    safe = f.let(f"select i1 {special}, {kind} 1, {kind} {b}")
    left = f.let(f"srem {kind} {a}, {safe}")
    return f.let(f"select i1 {by_zero}, {kind} {a}, {kind} {left}")


def _shift(name: str) -> Rule:
    def rule(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
        kind = register(t)
        if b.isdigit() and int(b) < t.bits:
            return f.let(f"{name} {kind} {a}, {b}")
        amount, wide = (
            (b, kind) if t.bits >= 8 else (f.let(f"zext {kind} {b} to i8"), "i8")
        )  # 4 does not fit an s4's sign
        fits = f.let(f"icmp ult {wide} {amount}, {t.bits}")
        safe = f.let(f"select i1 {fits}, {kind} {b}, {kind} 0")
        shifted = f.let(f"{name} {kind} {a}, {safe}")
        beyond = f.let(f"ashr {kind} {a}, {t.bits - 1}") if name == "ashr" else "0"
        return f.let(f"select i1 {fits}, {kind} {shifted}, {kind} {beyond}")

    return rule


def _mulhi(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
    kind, wide = register(t), f"i{2 * t.bits}"
    extend = "sext" if t.is_signed else "zext"
    product = f.let(f"mul {wide} {f.let(f'{extend} {kind} {a} to {wide}')}, {f.let(f'{extend} {kind} {b} to {wide}')}")
    return f.let(f"trunc {wide} {f.let(f'lshr {wide} {product}, {t.bits}')} to {kind}")


def _integer_power(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
    """By squaring; a negative exponent gives 0, but for the bases 1 and -1."""
    kind = register(t)
    value, base, left = "1", a, b
    with f.carried(t.bits, [(kind, "1"), (kind, a), (kind, b)]) as loop:
        value, base, left = loop.values
        is_odd = f.let(f"trunc {kind} {left} to i1") if kind != "i1" else left
        grown = f.let(f"mul {kind} {value}, {base}")
        value = f.let(f"select i1 {is_odd}, {kind} {grown}, {kind} {value}")
        loop.next = [value, f.let(f"mul {kind} {base}, {base}"), f.let(f"lshr {kind} {left}, {1 if t.bits > 1 else 0}")]
    result = loop.values[0]
    if not t.is_signed:
        return result
    negative = f.let(f"icmp slt {kind} {b}, 0")
    is_odd = f.let(f"trunc {kind} {b} to i1") if kind != "i1" else b
    minus = f.let(f"select i1 {is_odd}, {kind} -1, {kind} 1")
    below = f.let(f"select i1 {f.let(f'icmp eq {kind} {a}, -1')}, {kind} {minus}, {kind} 0")
    below = f.let(f"select i1 {f.let(f'icmp eq {kind} {a}, 1')}, {kind} 1, {kind} {below}")
    return f.let(f"select i1 {negative}, {kind} {below}, {kind} {result}")


def _float_remainder(f: Function, t: PrimitiveType, a: str, b: str, flags: str) -> str:
    if register(t) == "float" and f.width:
        return rounded(f, t, functions.library(f, "fmod", t, a, b))
    return rounded(f, t, f.let(f"frem {register(t)} {a}, {b}"))


_PRED: dict[Op, Rule] = {
    Op.ADD: _plain("or"),
    Op.MAXIMUM: _plain("or"),
    Op.OR: _plain("or"),
    Op.MULTIPLY: _plain("and"),
    Op.MINIMUM: _plain("and"),
    Op.AND: _plain("and"),
    Op.XOR: _plain("xor"),
}
_INTEGER: dict[Op, Rule] = {
    Op.ADD: _plain("add"),
    Op.SUBTRACT: _plain("sub"),
    Op.MULTIPLY: _plain("mul"),
    Op.AND: _plain("and"),
    Op.OR: _plain("or"),
    Op.XOR: _plain("xor"),
    Op.MAXIMUM: _min_max("max"),
    Op.MINIMUM: _min_max("min"),
    Op.DIVIDE: _divide,
    Op.REMAINDER: _remainder,
    Op.SHIFT_LEFT: _shift("shl"),
    Op.SHIFT_RIGHT_LOGICAL: _shift("lshr"),
    Op.SHIFT_RIGHT_ARITHMETIC: _shift("ashr"),
    Op.MULHI: _mulhi,
    Op.POWER: _integer_power,
}
_FLOAT: dict[Op, Rule] = {
    Op.ADD: _fplain("fadd"),
    Op.SUBTRACT: _fplain("fsub"),
    Op.MULTIPLY: _fplain("fmul"),
    Op.DIVIDE: _fplain("fdiv"),
    Op.MAXIMUM: _extreme("maximum"),
    Op.MINIMUM: _extreme("minimum"),
    Op.REMAINDER: _float_remainder,
    Op.POWER: _library("pow"),
    Op.ATAN2: _library("atan2"),
}


# -- unary --------------------------------------------------------------------------------------------------------


def unary(f: Function, op: Op, t: PrimitiveType, a: str) -> str:
    """op a of one element type, not complex; is-finite gives a pred."""
    if op is Op.NOT:
        return f.let(f"xor {register(t)} {a}, {'true' if t is T.PRED else -1}")
    if t is T.PRED:
        if op in (Op.ABS, Op.SIGN, Op.POPCNT):
            return a
        raise UnimplementedError(f"{op} of pred")
    if t.is_integral:
        return _integer_unary(f, op, t, a)
    kind = register(t)
    if op is Op.IS_FINITE:
        magnitude = f.call(kind, f"llvm.fabs.{suffix(t)}", (kind, a))
        return f.let(f"fcmp olt {kind} {magnitude}, {float_text(float('inf'), kind)}")
    if op is Op.NEGATE:
        return rounded(f, t, f.let(f"fneg {kind} {a}"))
    if op is Op.SIGN:
        one = f.call(kind, f"llvm.copysign.{suffix(t)}", (kind, float_text(1.0, kind)), (kind, a))
        plain = f.let(f"fcmp one {kind} {a}, 0.0")
        return f.let(f"select i1 {plain}, {kind} {one}, {kind} {a}")
    name = _ROUNDINGS.get(op)
    if name is not None:
        return rounded(f, t, f.call(kind, f"llvm.{name}.{suffix(t)}", (kind, a)))
    return rounded(f, t, functions.unary(f, op, t, a))


_ROUNDINGS = {
    Op.ABS: "fabs",
    Op.CEIL: "ceil",
    Op.FLOOR: "floor",
    Op.ROUND_NEAREST_AFZ: "round",
    Op.ROUND_NEAREST_EVEN: "roundeven",
    Op.SQRT: "sqrt",
}


def _integer_unary(f: Function, op: Op, t: PrimitiveType, a: str) -> str:
    kind = register(t)
    if op is Op.NEGATE:
        return f.let(f"sub {kind} 0, {a}")
    if op is Op.ABS:
        return f.call(kind, f"llvm.abs.{kind}", (kind, a), ("i1", "false")) if t.is_signed else a
    if op is Op.SIGN:
        some = f.let(f"zext i1 {f.let(f'icmp ne {kind} {a}, 0')} to {kind}") if t.bits > 1 else a
        if not t.is_signed or t.bits == 1:
            return some
        return f.let(f"or {kind} {f.let(f'ashr {kind} {a}, {t.bits - 1}')}, {some}")
    if op is Op.POPCNT:
        return f.call(kind, f"llvm.ctpop.{kind}", (kind, a))
    if op is Op.COUNT_LEADING_ZEROS:
        return f.call(kind, f"llvm.ctlz.{kind}", (kind, a), ("i1", "false"))
    raise UnimplementedError(f"{op} of {t}")


# -- comparison, selection ----------------------------------------------------------------------------------------

_ORDERED = {"EQ": "oeq", "NE": "une", "GE": "oge", "GT": "ogt", "LE": "ole", "LT": "olt"}


def compare(f: Function, t: PrimitiveType, direction: str, a: Value, b: Value, *, total_order: bool = False) -> str:
    """i1: a direction b. Complex numbers compare equal by parts; NaN is unequal to all but under total order."""
    if t.is_complex:
        kind = register(t)
        (ar, ai), (br, bi) = pair(a), pair(b)
        how, join = ("oeq", "and") if direction == "EQ" else ("une", "or")
        if direction not in ("EQ", "NE"):
            raise UnimplementedError(f"compare {direction} of {t}")
        return f.let(f"{join} i1 {f.let(f'fcmp {how} {kind} {ar}, {br}')}, {f.let(f'fcmp {how} {kind} {ai}, {bi}')}")
    x, y = real(a), real(b)
    if t.is_floating and not total_order:
        return f.let(f"fcmp {_ORDERED[direction]} {register(t)} {x}, {y}")
    signed = t.is_signed
    kind = register(t)
    if t.is_floating:
        x, y, kind, signed = *(order_bits(f, t, v) for v in (x, y)), f"i{t.bits}", t is not T.F8E8M0FNU
    how = direction.lower()
    how = how if how in ("eq", "ne") else ("s" if signed else "u") + how
    return f.let(f"icmp {how} {kind} {x}, {y}")


def order_bits(f: Function, t: PrimitiveType, value: str) -> str:
    """An integer for the total order: the bits, of a negative number all but the sign flipped; f8e8m0fnu has no sign.

    Of the fnuz types, whose NaN is -0's bits and comes first, a negative number's magnitude is negated.
    """
    bits = to_bits(f, t, value)
    if t is T.F8E8M0FNU:
        return bits
    kind = f"i{t.bits}"
    if t.is_fnuz:
        negative = f.let(f"or {kind} {f.let(f'sub {kind} 0, {bits}')}, -128")
        return f.let(f"select i1 {f.let(f'icmp slt {kind} {bits}, 0')}, {kind} {negative}, {kind} {bits}")
    flip = f.let(f"lshr {kind} {f.let(f'ashr {kind} {bits}, {t.bits - 1}')}, 1")
    return f.let(f"xor {kind} {bits}, {flip}")


def select(f: Function, t: PrimitiveType, condition: str, a: Value, b: Value) -> Value:
    """a where the i1 holds, else b."""
    if condition in ("true", "false"):
        return a if condition == "true" else b
    kind = register(t)
    if t.is_complex:
        (ar, ai), (br, bi) = pair(a), pair(b)
        return f.let(f"select i1 {condition}, {kind} {ar}, {kind} {br}"), f.let(
            f"select i1 {condition}, {kind} {ai}, {kind} {bi}"
        )
    return f.let(f"select i1 {condition}, {kind} {a}, {kind} {b}")


# -- conversion ---------------------------------------------------------------------------------------------------


def convert(f: Function, source: PrimitiveType, to: PrimitiveType, value: Value) -> Value:
    """The value in another element type: floats to integers saturate, NaN gives 0; of a complex number the real part."""
    if source is to:
        return value
    if to.is_complex:
        kind = T.F32 if to is T.C64 else T.F64
        if source.is_complex:
            inner = T.F32 if source is T.C64 else T.F64
            re, im = pair(value)
            return real(convert(f, inner, kind, re)), real(convert(f, inner, kind, im))
        return real(convert(f, source, kind, value)), real(constant(kind, 0.0))
    if source.is_complex:
        inner = T.F32 if source is T.C64 else T.F64
        if to is T.PRED:
            re, im = pair(value)
            some = [f.let(f"fcmp une {register(inner)} {p}, 0.0") for p in (re, im)]
            return f.let(f"or i1 {some[0]}, {some[1]}")
        return convert(f, inner, to, pair(value)[0])
    x = real(value)
    if to is T.PRED:
        return (
            f.let(f"fcmp une {register(source)} {x}, 0.0")
            if source.is_floating
            else f.let(f"icmp ne {register(source)} {x}, 0")
        )
    if source.is_floating:
        return _from_float(f, source, to, x)
    if to.is_floating:
        return _to_float(f, source, to, x)
    if register(source) == register(to):
        return x
    if to.bits < source.bits and source is not T.PRED:
        return f.let(f"trunc {register(source)} {x} to {register(to)}")
    return f.let(f"{'sext' if source.is_signed else 'zext'} {register(source)} {x} to {register(to)}")


def _from_float(f: Function, source: PrimitiveType, to: PrimitiveType, x: str) -> str:
    kind, goal = register(source), register(to)
    if to.is_integral:
        return _saturated(f, kind, to, x)
    if kind == goal:
        return rounded(f, to, x)
    if goal == "double":
        return f.let(f"fpext float {x} to double")
    if to in (T.F32, T.BF16):  # XLA rounds to bf16 by way of f32
        return rounded(f, to, f.let(f"fptrunc double {x} to float"))
    return rounded(f, to, odd(f, x))


def _saturated(f: Function, kind: str, to: PrimitiveType, x: str) -> str:
    """The integer towards zero; beyond the range its end, zero for NaN. LLVM's own intrinsics go through vectors lane by lane."""
    goal, digits = register(to), 53 if kind == "double" else 24
    low, high = (-(1 << (to.bits - 1)), (1 << (to.bits - 1)) - 1) if to.is_signed else (0, (1 << to.bits) - 1)
    most = high if high < 1 << digits else high + 1 - (1 << (to.bits - to.is_signed - digits))
    least, below = float_text(float(low), kind), float_text(float(most), kind)
    inside = f.let(f"select i1 {f.let(f'fcmp ord {kind} {x}, {x}')}, {kind} {x}, {kind} 0.0")
    inside = f.let(f"select i1 {f.let(f'fcmp ogt {kind} {inside}, {least}')}, {kind} {inside}, {kind} {least}")
    inside = f.let(f"select i1 {f.let(f'fcmp olt {kind} {inside}, {below}')}, {kind} {inside}, {kind} {below}")
    if to.bits < 32:
        return f.let(f"trunc i32 {f.let(f'fptosi {kind} {inside} to i32')} to {goal}")
    whole = f.let(f"{'fptosi' if to.is_signed else 'fptoui'} {kind} {inside} to {goal}")
    if most == high:
        return whole
    beyond = f.let(f"fcmp oge {kind} {x}, {float_text(float(high + 1), kind)}")
    return f.let(f"select i1 {beyond}, {goal} {high}, {goal} {whole}")


def _to_float(f: Function, source: PrimitiveType, to: PrimitiveType, x: str) -> str:
    how = "sitofp" if source.is_signed else "uitofp"
    if to in (T.F32, T.F64):
        return f.let(f"{how} {register(source)} {x} to {register(to)}")
    return rounded(f, to, f.let(f"{how} {register(source)} {x} to float"))


_FORMATS = {T.F64: (T.F64, 52, 11), T.F16: (T.F16, 10, 5)}
"""The types whose precision is reduced on their own bits: the type, its bits of mantissa and of exponent."""


def reduce_precision(f: Function, t: PrimitiveType, exponent: int, mantissa: int, value: str) -> str:
    """The value as if it had been stored with so many bits: rounded to nearest even, beyond the range infinite, below it zero."""
    # Narrower floats than f16 are numbers of f32 here; f16's subnormal numbers need its own bits.
    held, own_mantissa, own_exponent = _FORMATS.get(t, (T.F32, 23, 8))
    width, bias = held.bits, 2 ** (own_exponent - 1) - 1
    kind, whole = register(t), f"i{width}"
    bits = to_bits(f, held, value)
    sign_mask = -(2 ** (width - 1))
    if mantissa < own_mantissa:
        drop = own_mantissa - mantissa
        lsb = f.let(f"and {whole} {f.let(f'lshr {whole} {bits}, {drop}')}, 1")
        half = f.let(f"add {whole} {lsb}, {2 ** (drop - 1) - 1}")
        # A mantissa that rounds up into the sign is a NaN's: those are put back below.
        bits = f.let(f"and {whole} {f.let(f'add {whole} {bits}, {half}')}, {-(2**drop)}")
    if exponent < own_exponent:
        reduced_bias = 2 ** (exponent - 1) - 1
        magnitude = f.let(f"and {whole} {bits}, {2 ** (width - 1) - 1}")
        sign = f.let(f"and {whole} {bits}, {sign_mask}")
        too_big = f.let(f"icmp uge {whole} {magnitude}, {(bias + reduced_bias + 1) << own_mantissa}")
        too_small = f.let(f"icmp ult {whole} {magnitude}, {(bias - reduced_bias + 1) << own_mantissa}")
        infinite = f.let(f"or {whole} {sign}, {(2 * bias + 1) << own_mantissa}")
        bits = f.let(f"select i1 {too_big}, {whole} {infinite}, {whole} {bits}")
        bits = f.let(f"select i1 {too_small}, {whole} {sign}, {whole} {bits}")
    made = from_bits(f, held, bits)
    is_nan = f.let(f"fcmp uno {kind} {value}, {value}")
    return rounded(f, t, f.let(f"select i1 {is_nan}, {kind} {value}, {kind} {made}"))

"""Sums, differences, products, negation, minimum and maximum."""

from __future__ import annotations

import math

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import ArrayShape
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    is_constant,
    is_inexact,
    is_integral,
    is_predicate,
    is_real,
    only_user,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, EXACT_REALS, INTEGERS, REAL, Loss, exact_except

ARITHMETIC = RuleSet("arithmetic")
rule = ARITHMETIC.rule


def _scalar(i: HloInstruction) -> HloInstruction | None:
    """The scalar constant behind a constant of one element or a broadcast."""
    behind = m.constant_behind(i)
    return behind if behind is not None and behind.array_shape.element_count == 1 else None


def _folded(b: Builder, opcode: O, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    """opcode(c1, c2) of constants; computed on scalars if both are broadcast scalars."""
    s1, s2 = _scalar(c1), _scalar(c2)
    shape = c1.array_shape
    if s1 is None or s2 is None:
        return b.binary(opcode, c1, c2)
    return b.broadcast(b.binary(opcode, b.reshape(s1, ()), b.reshape(s2, ())), (), shape)


def _exact_factor(c: HloInstruction) -> bool:
    """Whether multiplying by a constant only shifts the exponent, so that distributing is exact."""
    value = m.scalar_value(c)
    return isinstance(value, float) and value != 0 and math.isfinite(value) and math.frexp(value)[0] in (0.5, -0.5)


def _is_positive(a: HloInstruction) -> bool:
    return is_real(a) and (
        a.opcode in (O.ABS, O.EXPONENTIAL) or (a.opcode is O.MULTIPLY and a.operands[0] is a.operands[1])
    )


def _extreme(root: HloInstruction, c: HloInstruction, *, neutral: bool) -> bool:
    """Whether a constant is the neutral (or else the absorbing) value of a minimum or maximum."""
    value = m.scalar_value(c)
    if value is None or isinstance(value, complex):
        return False
    low, high = _limits(c.array_shape)
    return value == (low if (root.opcode is O.MAXIMUM) is neutral else high)


def _limits(shape: ArrayShape) -> tuple[float, float]:
    t = shape.element_type
    if t.is_floating:
        return -math.inf, math.inf
    if not t.is_integral:
        return 0, 1
    return (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)


def _reduce_starts_beyond(root: HloInstruction, r: HloInstruction, c: HloInstruction) -> bool:
    """Whether `r` reduces with root's opcode from an initial value at least as extreme as `c`."""
    if (
        len(r.operands) != 2
        or r.to_apply.root.opcode is not root.opcode
        or any(o.opcode is not O.PARAMETER for o in r.to_apply.root.operands)
    ):
        return False
    start, limit = m.scalar_value(r.operands[1]), m.scalar_value(c)
    if start is None or limit is None or isinstance(start, complex) or isinstance(limit, complex):
        return False
    return start >= limit if root.opcode is O.MAXIMUM else start <= limit


def _at_most(c1: HloInstruction, c2: HloInstruction) -> bool:
    low, high = m.scalar_value(c1), m.scalar_value(c2)
    return (
        low is not None
        and high is not None
        and not isinstance(low, complex)
        and not isinstance(high, complex)
        and low <= high
    )


_UNSIGNED_FLOATS = exact_except(Loss.NAN, note="not f8e8m0fnu, which has no negative numbers")
_not_constant = guard("A is not constant", lambda a: not is_constant(a))
_integers = guard("integers", is_integral, "root")
_reassociable = guard(
    "integers, or floats may be reassociated",
    lambda options, root: options.reassociates_floats or not is_inexact(root),
)


# -- sums ------------------------------------------------------------------------------------------


@rule("A + 0 => A", m.op(O.ADD, "a", m.all_equal(0)), keeps=exact_except(Loss.ZERO_SIGN))
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "C + A => A + C",
    m.op(O.ADD, m.any("a"), m.any("c")),
    guard(
        "the constant is the first operand",
        lambda root: root.operands[0].opcode is O.CONSTANT and root.operands[1].opcode is not O.CONSTANT,
    ),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.add(O.ADD, root.operands[::-1], root.shape)


@rule(
    "(A + C1) + C2 => A + (C1 + C2)",
    m.op(O.ADD, m.op(O.ADD, "a", m.constant("c1")), m.constant("c2")),
    _not_constant,
    _reassociable,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    return b.binary(O.ADD, a, _folded(b, O.ADD, c1, c2))


@rule(
    "(C1 - A) + C2 => (C1 + C2) - A",
    m.op(O.ADD, m.op(O.SUBTRACT, m.constant("c1"), "a"), m.constant("c2")),
    guard("A is not a constant", lambda a: a.opcode is not O.CONSTANT),
    _reassociable,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    return b.binary(O.SUBTRACT, _folded(b, O.ADD, c1, c2), a)


_one_use_each = guard("both products have one use", lambda p, q: only_user(p) and only_user(q))


@rule(
    "A*C + B*C => (A + B) * C",
    m.op(O.ADD, m.op(O.MULTIPLY, "a", "c", name="p"), m.op(O.MULTIPLY, "b2", "c", name="q")),
    _integers,
    _one_use_each,
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, b.binary(O.ADD, a, b2), c)


@rule(
    "A*C + B*C => (A + B) * C for powers of two",
    m.op(O.ADD, m.op(O.MULTIPLY, "a", m.constant("c"), name="p"), m.op(O.MULTIPLY, "b2", m.constant("c"), name="q")),
    guard("C is a power of two", lambda c: is_real(c) and _exact_factor(c)),
    _one_use_each,
    keeps=exact_except(Loss.ZERO_SIGN | Loss.RANGE),
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, b.binary(O.ADD, a, b2), c)


# -- differences -----------------------------------------------------------------------------------


@rule("A - 0 => A", m.op(O.SUBTRACT, "a", m.all_equal(0)), keeps=exact_except(Loss.ZERO_SIGN))
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A - A => 0", m.op(O.SUBTRACT, "a", "a"), _integers, keeps=INTEGERS)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)


@rule("A - C => A + (-C)", m.op(O.SUBTRACT, "a", m.constant("c")), _not_constant, keeps=_UNSIGNED_FLOATS)
def _(b: Builder, root: HloInstruction, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    scalar = _scalar(c)
    if scalar is None:
        return b.binary(O.ADD, a, b.unary(O.NEGATE, c))
    negated = b.unary(O.NEGATE, b.reshape(scalar, ()))
    return b.binary(O.ADD, a, b.broadcast(negated, (), root.array_shape))


@rule("-(-A) => A", m.op(O.NEGATE, m.op(O.NEGATE, "a")), keeps=_UNSIGNED_FLOATS)
def _(a: HloInstruction) -> HloInstruction:
    return a


# -- products --------------------------------------------------------------------------------------


@rule("A * 1 => A", m.op(O.MULTIPLY, "a", m.all_equal(1)), keeps=EXACT_REALS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A * 0 => 0", m.op(O.MULTIPLY, m.any("a"), m.all_equal(0, "zero")), _integers, keeps=INTEGERS)
def _(zero: HloInstruction) -> HloInstruction:
    return zero


@rule("(-A) * (-B) => A * B", m.op(O.MULTIPLY, m.op(O.NEGATE, "a"), m.op(O.NEGATE, "b2")), keeps=_UNSIGNED_FLOATS)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b2)


@rule(
    "|A| * |A| => A * A",
    m.op(O.MULTIPLY, m.op(O.ABS, "a"), m.op(O.ABS, "a")),
    guard("A is real", lambda a: not a.shape.element_type.is_complex),
    keeps=EXACT,
)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, a)


@rule(
    "(A * C1) * C2 => A * (C1 * C2)",
    m.op(O.MULTIPLY, m.op(O.MULTIPLY, "a", m.constant("c1")), m.constant("c2")),
    _not_constant,
    _reassociable,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, _folded(b, O.MULTIPLY, c1, c2))


@rule(
    "(A * C1) * (B * C2) => (A * B) * (C1 * C2)",
    m.op(
        O.MULTIPLY,
        m.op(O.MULTIPLY, "a", m.constant("c1")),
        m.op(O.MULTIPLY, "b2", m.constant("c2")),
    ),
    guard("neither A nor B is constant", lambda a, b2: not is_constant(a) and not is_constant(b2)),
    guard("C1 and C2 are not broadcasts", lambda c1, c2: c1.opcode is O.CONSTANT and c2.opcode is O.CONSTANT),
    _reassociable,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, b.binary(O.MULTIPLY, a, b2), _folded(b, O.MULTIPLY, c1, c2))


@rule(
    "(A * C) * broadcast(B) => A * broadcast(B * C)",
    m.op(O.MULTIPLY, m.op(O.MULTIPLY, "a", m.constant("c")), m.op(O.BROADCAST, "b2", name="p")),
    guard("A is not a constant", lambda a: a.opcode is not O.CONSTANT),
    guard("B is not a constant", lambda b2: b2.opcode is not O.CONSTANT),
    guard("C is a scalar", lambda c: (behind := m.constant_behind(c)) is not None and behind.array_shape.is_scalar),
    _reassociable,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction, p: HloInstruction) -> HloInstruction:
    scalar = c if c.opcode is O.CONSTANT else c.operands[0]
    product = b.binary(O.MULTIPLY, b2, b.broadcast(scalar, (), b2.array_shape))
    return b.binary(O.MULTIPLY, a, b.add(O.BROADCAST, (product,), p.shape, dimensions=p.dimensions))


@rule(
    "convert(P) * A => select(P, A, 0)",
    m.op(O.MULTIPLY, m.op(O.CONVERT, "p"), "a"),
    guard("P is a predicate", is_predicate, "p"),
    guard("real or integral", lambda root: is_real(root) or is_integral(root)),
    keeps=exact_except(Loss.NAN | Loss.ZERO_SIGN),
)
def _(b: Builder, p: HloInstruction, a: HloInstruction) -> HloInstruction:
    return b.select(p, a, b.full(0, a.array_shape))


@rule(
    "exp(A) * exp(B) => exp(A + B)",
    m.op(O.MULTIPLY, m.op(O.EXPONENTIAL, "a", name="p"), m.op(O.EXPONENTIAL, "b2", name="q")),
    _one_use_each,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.unary(O.EXPONENTIAL, b.binary(O.ADD, a, b2))


@rule(
    "rsqrt(A) * rsqrt(A) => 1 / A",
    m.op(O.MULTIPLY, m.op(O.RSQRT, "a"), m.op(O.RSQRT, "a")),
    guard("A is abs, exp or a square", _is_positive, "a"),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, b.full(1, a.array_shape), a)


# -- minimum and maximum ---------------------------------------------------------------------------


@rule("min(A, A) => A, max(A, A) => A", m.op((O.MINIMUM, O.MAXIMUM), "a", "a"), keeps=EXACT)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "max(A, lowest) => A, min(A, highest) => A",
    m.op((O.MINIMUM, O.MAXIMUM), "a", m.constant("c")),
    guard("C is the identity element", lambda root, c: _extreme(root, c, neutral=True)),
    keeps=EXACT,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "max(A, highest) => highest, min(A, lowest) => lowest",
    m.op((O.MINIMUM, O.MAXIMUM), "a", m.constant("c")),
    guard("NaN need not be kept", lambda root: not is_inexact(root)),
    guard("C is the absorbing element", lambda root, c: _extreme(root, c, neutral=False)),
    keeps=INTEGERS,
)
def _(c: HloInstruction) -> HloInstruction:
    return c


@rule(
    "max(reduce_max(A, C1), C2) => reduce_max(A, C1) if C1 >= C2",
    m.op((O.MINIMUM, O.MAXIMUM), m.op(O.REDUCE, name="r"), m.constant("c")),
    guard("the initial value is already beyond C2", _reduce_starts_beyond),
    keeps=EXACT,
)
def _(r: HloInstruction) -> HloInstruction:
    return r


@rule(
    "min(max(A, C1), C2) => clamp(C1, A, C2)",
    m.op(O.MINIMUM, m.op(O.MAXIMUM, "a", m.constant("c1")), m.constant("c2")),
    guard("C1 and C2 are scalars", lambda c1, c2: m.scalar_value(c1) is not None and m.scalar_value(c2) is not None),
    guard("C1 <= C2", _at_most, "c1", "c2"),
    guard("real or integral", lambda root: is_real(root) or is_integral(root)),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction, a: HloInstruction, c1: HloInstruction, c2: HloInstruction) -> HloInstruction:
    return b.add(O.CLAMP, (c1, a, c2), root.shape)


@rule(
    "max(max(A, B), B) => max(A, B), min(min(A, B), B) => min(A, B)",
    m.op((O.MINIMUM, O.MAXIMUM), m.op((O.MINIMUM, O.MAXIMUM), "a", "b2", name="p"), "b2"),
    guard("the same opcode", lambda root, p: root.opcode is p.opcode),
    keeps=EXACT,
)
def _(p: HloInstruction) -> HloInstruction:
    return p


# -- absolute value --------------------------------------------------------------------------------


@rule("||A|| => |A|", m.op(O.ABS, m.op(O.ABS, "a", name="inner")), keeps=EXACT)
def _(inner: HloInstruction) -> HloInstruction:
    return inner


@rule(
    "|A| => A for unsigned A",
    m.op(O.ABS, "a"),
    guard("A is unsigned", lambda a: a.shape.element_type.is_unsigned),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "|A| => A for A = exp(B) or B * B", m.op(O.ABS, "a"), guard("A is exp(B) or B * B", _is_positive, "a"), keeps=EXACT
)
def _(a: HloInstruction) -> HloInstruction:
    return a

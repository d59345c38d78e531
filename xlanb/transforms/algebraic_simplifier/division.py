"""Quotients and remainders."""

from __future__ import annotations

import numpy as np

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.shape import Literal
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    evaluated,
    is_inexact,
    is_integral,
    is_non_negative,
    is_real,
    only_user,
    power_of_two,
    spread,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT_REALS, INTEGERS, REAL

DIVISION = RuleSet("division")
rule = DIVISION.rule


def _shift(b: Builder, c: HloInstruction) -> HloInstruction:
    return b.full(power_of_two(c) or 0, c.array_shape)


def _at_least(c: HloInstruction, size: int) -> bool:
    value = m.scalar_value(c)
    return isinstance(value, int) and value >= size


def _reciprocal_is_finite(c: HloInstruction) -> bool:
    behind = m.constant_behind(c)
    if behind is None:
        return False
    value = behind.literal.array
    wide = value.astype(np.complex128 if np.iscomplexobj(value) else np.float64)
    with np.errstate(all="ignore"):
        inverse = (1 / wide).astype(value.dtype).astype(wide.dtype)
    # Keep dividing by zeros, infinities, NaN and values whose inverse overflows or underflows.
    return bool(np.all(np.isfinite(inverse)) and np.all(inverse != 0))


_inexact = guard("floating-point or complex", is_inexact, "root")
_wide_enough = guard("at least 32 bits", lambda root: root.shape.element_type.bits >= 32)
"""Rounding twice to a narrow type is noticeable.

XLA:CPU has no narrow types here: its float-normalization passes have widened them.
"""


@rule("A / 1 => A", m.op(O.DIVIDE, "a", m.all_equal(1)), keeps=EXACT_REALS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "A / -1 => -A",
    m.op(O.DIVIDE, "a", m.all_equal(-1)),
    guard("signed or inexact", is_inexact, "root"),
    keeps=EXACT_REALS,
)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.unary(O.NEGATE, a)


# -- integers --------------------------------------------------------------------------------------


_power = guard("C is a power of two", lambda c: power_of_two(c) is not None)


@rule(
    "A / 2^k => A >> k for A >= 0",
    m.op(O.DIVIDE, "a", m.constant("c")),
    _power,
    guard("A >= 0", is_non_negative, "a"),
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.SHIFT_RIGHT_LOGICAL, a, _shift(b, c))


@rule(
    "A / 2^k => select(A < 0, -(|A| >> k), A >> k)",
    m.op(O.DIVIDE, "a", m.constant("c")),
    _power,
    guard("signed", lambda root: root.shape.element_type.is_signed),
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    zero = b.full(0, a.array_shape)
    negative = b.compare(a, "LT", zero)
    magnitude = b.select(negative, b.unary(O.NEGATE, a), a)
    quotient = b.binary(O.SHIFT_RIGHT_LOGICAL, magnitude, _shift(b, c))
    return b.select(negative, b.unary(O.NEGATE, quotient), quotient)


@rule(
    "A % 2^k => A & (2^k - 1) for A >= 0",
    m.op(O.REMAINDER, "a", m.constant("c")),
    _power,
    guard("A >= 0", is_non_negative, "a"),
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.AND, a, b.full((1 << (power_of_two(c) or 0)) - 1, a.array_shape))


@rule(
    "A % 2^k => select(A < 0, -(|A| & (2^k - 1)), |A| & (2^k - 1))",
    m.op(O.REMAINDER, "a", m.constant("c")),
    _power,
    guard("signed", lambda root: root.shape.element_type.is_signed),
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    mask = b.full((1 << (power_of_two(c) or 0)) - 1, a.array_shape)
    negative = b.compare(a, "LT", b.full(0, a.array_shape))
    rest = b.binary(O.AND, b.select(negative, b.unary(O.NEGATE, a), a), mask)
    return b.select(negative, b.unary(O.NEGATE, rest), rest)


@rule(
    "(A % C) % C => A % C",
    m.op(O.REMAINDER, m.op(O.REMAINDER, "a", "c", name="inner"), "c"),
    guard("integers", is_integral, "root"),
    keeps=INTEGERS,
)
def _(inner: HloInstruction) -> HloInstruction:
    return inner


@rule(
    "iota % C => iota for C >= its size",
    m.op(O.REMAINDER, m.op(O.IOTA, name="i"), m.constant("c")),
    guard("integers", is_integral, "root"),
    guard(
        "C is at least the dimension's size",
        lambda i, c: _at_least(c, i.array_shape.dimensions[i.get("iota_dimension")]),
    ),
    keeps=INTEGERS,
)
def _(i: HloInstruction) -> HloInstruction:
    return i


# -- exponentials and roots ------------------------------------------------------------------------


@rule("exp(A) / exp(B) => exp(A - B)", m.op(O.DIVIDE, m.op(O.EXPONENTIAL, "a"), m.op(O.EXPONENTIAL, "b2")), keeps=REAL)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.unary(O.EXPONENTIAL, b.binary(O.SUBTRACT, a, b2))


@rule("A / exp(B) => A * exp(-B)", m.op(O.DIVIDE, "a", m.op(O.EXPONENTIAL, "b2")), keeps=REAL)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b.unary(O.EXPONENTIAL, b.unary(O.NEGATE, b2)))


@rule(
    "A / pow(B, C) => A * pow(B, -C)",
    m.op(O.DIVIDE, "a", m.op(O.POWER, "b2", "c")),
    guard("floating-point", is_real, "root"),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b.binary(O.POWER, b2, b.unary(O.NEGATE, c)))


@rule(
    "A / sqrt(B) => A * rsqrt(B)",
    m.op(O.DIVIDE, "a", m.op(O.SQRT, "b2", name="s")),
    guard("sqrt has one use", only_user, "s"),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b.unary(O.RSQRT, b2))


@rule(
    "A / rsqrt(B) => A * sqrt(B)",
    m.op(O.DIVIDE, "a", m.op(O.RSQRT, "b2", name="s")),
    guard("rsqrt has one use", only_user, "s"),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b.unary(O.SQRT, b2))


# -- reciprocals -----------------------------------------------------------------------------------


@rule(
    "A / C => A * (1 / C)",
    m.op(O.DIVIDE, "a", m.constant("c")),
    _inexact,
    guard(
        "at least 32 bits, or reassociation is allowed",
        lambda root, options: root.shape.element_type.bits >= 32 or options.inverts_narrow_constants,
    ),
    guard("A is not a constant", lambda a: a.opcode is not O.CONSTANT),
    guard("1 / C is finite and not 0", _reciprocal_is_finite, "c"),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, c: HloInstruction) -> HloInstruction | None:
    behind = m.constant_behind(c)
    if behind is None:
        return None
    one = b.literal(Literal(behind.shape, np.ones(behind.array_shape.dimensions, behind.array_shape.dtype)))
    inverse = evaluated(b, O.DIVIDE, one, behind)
    b.computation.remove_dead(one)
    return b.binary(O.MULTIPLY, a, spread(b, inverse, c))


@rule(
    "A / broadcast(B) => A * broadcast(1 / B)",
    m.op(O.DIVIDE, "a", m.op(O.BROADCAST, "b2", name="spread_b")),
    guard("multiplication is cheaper than division", lambda options: options.inverts_divisors),
    _inexact,
    _wide_enough,
    guard(
        "B is smaller, and not a scalar with other uses",
        lambda b2, root: (
            b2.array_shape.element_count < root.array_shape.element_count
            and (not b2.array_shape.is_scalar or (only_user(b2) and is_real(root)))
        ),
    ),
    guard("neither A nor B is constant", lambda a, b2: m.constant_behind(a) is None and b2.opcode is not O.CONSTANT),
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, spread_b: HloInstruction) -> HloInstruction:
    inverse = b.binary(O.DIVIDE, b.full(1, b2.array_shape), b2)
    return b.binary(O.MULTIPLY, a, b.broadcast(inverse, spread_b.dimensions, spread_b.array_shape))


@rule(
    "(A / B) / (C / D) => (A * D) / (B * C)",
    m.op(O.DIVIDE, m.op(O.DIVIDE, "a", "b2"), m.op(O.DIVIDE, "c", "d")),
    _inexact,
    keeps=REAL,
)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction, d: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, b.binary(O.MULTIPLY, a, d), b.binary(O.MULTIPLY, b2, c))


@rule("(A / B) / C => A / (B * C)", m.op(O.DIVIDE, m.op(O.DIVIDE, "a", "b2"), "c"), _inexact, keeps=REAL)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, a, b.binary(O.MULTIPLY, b2, c))


@rule("A / (B / C) => (A * C) / B", m.op(O.DIVIDE, "a", m.op(O.DIVIDE, "b2", "c")), _inexact, keeps=REAL)
def _(b: Builder, a: HloInstruction, b2: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, b.binary(O.MULTIPLY, a, c), b2)

"""Powers, roots, logarithms and exponentials."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_inexact, is_real
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, MOVES, NOTHING, REAL, Loss, exact_except

POWER = RuleSet("power")
rule = POWER.rule

_inexact = guard("floating-point or complex", is_inexact, "root")
_real = guard("floating-point", is_real, "root")


@rule("pow(A, 0) => 1", m.op(O.POWER, m.any("a"), m.all_equal(0)), keeps=EXACT)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(1, root.array_shape)


@rule("pow(A, 1) => A", m.op(O.POWER, "a", m.all_equal(1)), keeps=exact_except(NOTHING, of_complex=Loss.ROUNDING))
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("pow(exp(A), B) => exp(A * B)", m.op(O.POWER, m.op(O.EXPONENTIAL, "a"), "b2"), _real, keeps=REAL)
def _(b: Builder, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.unary(O.EXPONENTIAL, b.binary(O.MULTIPLY, a, b2))


@rule("pow(A, 2) => A * A", m.op(O.POWER, "a", m.all_equal(2)), keeps=REAL)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, a)


@rule("pow(A, 3) => A * A * A", m.op(O.POWER, "a", m.all_equal(3)), keeps=REAL)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.MULTIPLY, a, b.binary(O.MULTIPLY, a, a))


@rule("pow(A, -1) => 1 / A", m.op(O.POWER, "a", m.all_equal(-1)), _inexact, keeps=REAL)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, b.full(1, a.array_shape), a)


@rule("log(exp(A)) => A", m.op(O.LOG, m.op(O.EXPONENTIAL, "a")), _real, keeps=REAL)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("sqrt(A * A) => |A|", m.op(O.SQRT, m.op(O.MULTIPLY, "a", "a")), _real, keeps=exact_except(Loss.RANGE))
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.unary(O.ABS, a)


@rule("rsqrt(A * A) => 1 / |A|", m.op(O.RSQRT, m.op(O.MULTIPLY, "a", "a")), _real, keeps=REAL)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.binary(O.DIVIDE, b.full(1, a.array_shape), b.unary(O.ABS, a))


@rule("real(complex(A, B)) => A", m.op(O.REAL, m.op(O.COMPLEX, "a", "b2")), keeps=MOVES)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("imag(complex(A, B)) => B", m.op(O.IMAG, m.op(O.COMPLEX, "a", "b2")), keeps=MOVES)
def _(b2: HloInstruction) -> HloInstruction:
    return b2


@rule(
    "complex(real(A), imag(A)) => A",
    m.op(O.COMPLEX, m.op(O.REAL, "a"), m.op(O.IMAG, "a")),
    guard("A is complex", lambda a: a.shape.element_type.is_complex),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "round(round(A)) => round(A), floor(floor(A)) => floor(A), ...",
    m.op(
        (O.FLOOR, O.CEIL, O.ROUND_NEAREST_AFZ, O.ROUND_NEAREST_EVEN, O.SIGN),
        m.op((O.FLOOR, O.CEIL, O.ROUND_NEAREST_AFZ, O.ROUND_NEAREST_EVEN, O.SIGN), name="inner"),
    ),
    guard(
        "rounds the same way",
        lambda root, inner: root.opcode is inner.opcode and not root.shape.element_type.is_complex,
    ),
    keeps=EXACT,
)
def _(inner: HloInstruction) -> HloInstruction:
    return inner


@rule(
    "copy(A) => A",
    m.op(O.COPY, "a"),
    guard(
        "the same layout",
        lambda root, a: root.shape == a.shape,
    ),
    keeps=MOVES,
)
def _(a: HloInstruction) -> HloInstruction:
    return a

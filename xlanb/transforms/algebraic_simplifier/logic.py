"""And, or, xor, not, shifts."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import is_integral, is_predicate
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import INTEGERS

LOGIC = RuleSet("logic")
rule = LOGIC.rule


def _is_ones(c: HloInstruction) -> bool:
    """Whether every bit of every element is one."""
    t = c.shape.element_type
    return m.is_all(c, 1 if is_predicate(c) else -1 if t.is_signed else (1 << t.bits) - 1)


_predicates = guard("predicates", is_predicate, "root")


_ones = guard("all bits of C are one", _is_ones, "c")


@rule("A & A => A, A | A => A", m.op((O.AND, O.OR), "a", "a"), guard("a predicate", is_predicate, "a"), keeps=INTEGERS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A & ones => A", m.op(O.AND, "a", m.constant("c")), _ones, keeps=INTEGERS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A & 0 => 0", m.op(O.AND, m.any("a"), m.all_equal(0, "zero")), keeps=INTEGERS)
def _(zero: HloInstruction) -> HloInstruction:
    return zero


@rule("A | 0 => A", m.op(O.OR, "a", m.all_equal(0)), keeps=INTEGERS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A | ones => ones", m.op(O.OR, m.any("a"), m.constant("c")), _ones, keeps=INTEGERS)
def _(c: HloInstruction) -> HloInstruction:
    return c


@rule("A ^ 0 => A", m.op(O.XOR, "a", m.all_equal(0)), keeps=INTEGERS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("A ^ A => 0", m.op(O.XOR, "a", "a"), keeps=INTEGERS)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(0, root.array_shape)


@rule("A ^ true => !A", m.op(O.XOR, "a", m.all_equal(1)), _predicates, keeps=INTEGERS)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.unary(O.NOT, a)


@rule("!!A => A", m.op(O.NOT, m.op(O.NOT, "a")), keeps=INTEGERS)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "A << 0 => A, A >> 0 => A",
    m.op((O.SHIFT_LEFT, O.SHIFT_RIGHT_ARITHMETIC, O.SHIFT_RIGHT_LOGICAL), "a", m.all_equal(0)),
    guard("integers", is_integral, "root"),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a

"""Comparisons, selections and clamps."""

from __future__ import annotations

from xlanb.hlo.instruction import HloInstruction
from xlanb.hlo.opcode import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.facts import (
    is_inexact,
    is_integral,
    is_non_negative,
    is_predicate,
)
from xlanb.transforms.builder import Builder
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT, INTEGERS

COMPARE_SELECT = RuleSet("compare_select")
rule = COMPARE_SELECT.rule


def _spans(low: HloInstruction, high: HloInstruction) -> bool:
    t = low.shape.element_type
    bounds = (-(1 << (t.bits - 1)), (1 << (t.bits - 1)) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    return m.is_all(low, bounds[0]) and m.is_all(high, bounds[1])


_of_predicates = guard("of predicates", is_predicate, "a")


@rule(
    "compare(A, A) => true for EQ, LE, GE, false for NE, LT, GT",
    m.op(O.COMPARE, "a", "a"),
    guard("no NaN", lambda a: not is_inexact(a)),
    keeps=INTEGERS,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(root.get("direction") in ("EQ", "LE", "GE"), root.array_shape)


@rule(
    "compare(P, false), NE => P; compare(P, true), EQ => P",
    m.op(O.COMPARE, "a", m.constant("c")),
    _of_predicates,
    guard(
        "it equals P",
        lambda root, c: m.is_all(c, root.get("direction") == "EQ") and root.get("direction") in ("EQ", "NE"),
    ),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "compare(false, P), NE => P; compare(true, P), EQ => P",
    m.op(O.COMPARE, m.constant("c"), "a"),
    _of_predicates,
    guard(
        "it equals P",
        lambda root, c: m.is_all(c, root.get("direction") == "EQ") and root.get("direction") in ("EQ", "NE"),
    ),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "compare(P, false), EQ => !P; compare(P, true), NE => !P",
    m.op(O.COMPARE, "a", m.constant("c")),
    _of_predicates,
    guard(
        "it equals not P",
        lambda root, c: m.is_all(c, root.get("direction") == "NE") and root.get("direction") in ("EQ", "NE"),
    ),
    keeps=INTEGERS,
)
def _(b: Builder, a: HloInstruction) -> HloInstruction:
    return b.unary(O.NOT, a)


@rule(
    "A < 0 => false for A >= 0",
    m.op(O.COMPARE, "a", m.all_equal(0)),
    guard("direction LT", lambda root: root.get("direction") == "LT"),
    guard("A >= 0", is_non_negative, "a"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(False, root.array_shape)


@rule(
    "A >= 0 => true for A >= 0",
    m.op(O.COMPARE, "a", m.all_equal(0)),
    guard("direction GE", lambda root: root.get("direction") == "GE"),
    guard("A >= 0, no NaN", lambda a: not is_inexact(a) and is_non_negative(a)),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(True, root.array_shape)


@rule(
    "0 > A => false for A >= 0",
    m.op(O.COMPARE, m.all_equal(0), "a"),
    guard("direction GT", lambda root: root.get("direction") == "GT"),
    guard("A >= 0", is_non_negative, "a"),
    keeps=EXACT,
)
def _(b: Builder, root: HloInstruction) -> HloInstruction:
    return b.full(False, root.array_shape)


@rule("select(P, A, A) => A", m.op(O.SELECT, "p", "a", "a"), keeps=EXACT)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("select(true, A, B) => A", m.op(O.SELECT, m.all_equal(1), "a", "b2"), keeps=EXACT)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule("select(false, A, B) => B", m.op(O.SELECT, m.all_equal(0), "a", "b2"), keeps=EXACT)
def _(b2: HloInstruction) -> HloInstruction:
    return b2


@rule("select(!P, A, B) => select(P, B, A)", m.op(O.SELECT, m.op(O.NOT, "p"), "a", "b2"), keeps=EXACT)
def _(b: Builder, p: HloInstruction, a: HloInstruction, b2: HloInstruction) -> HloInstruction:
    return b.select(p, b2, a)


@rule(
    "select(P, true, false) => P",
    m.op(O.SELECT, "p", m.all_equal(1), m.all_equal(0)),
    guard("predicates of one shape", lambda root, p: is_predicate(root) and p.shape == root.shape),
    keeps=EXACT,
)
def _(p: HloInstruction) -> HloInstruction:
    return p


@rule(
    "select(P, false, true) => !P",
    m.op(O.SELECT, "p", m.all_equal(0), m.all_equal(1)),
    guard("predicates of one shape", lambda root, p: is_predicate(root) and p.shape == root.shape),
    keeps=EXACT,
)
def _(b: Builder, p: HloInstruction) -> HloInstruction:
    return b.unary(O.NOT, p)


@rule(
    "select(P, select(P, A, B), C) => select(P, A, C)",
    m.op(O.SELECT, "p", m.op(O.SELECT, "p", "a", "b2"), "c"),
    keeps=EXACT,
)
def _(b: Builder, p: HloInstruction, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.add(O.SELECT, (p, a, c), c.shape)


@rule(
    "select(P, A, select(P, B, C)) => select(P, A, C)",
    m.op(O.SELECT, "p", "a", m.op(O.SELECT, "p", "b2", "c")),
    keeps=EXACT,
)
def _(b: Builder, p: HloInstruction, a: HloInstruction, c: HloInstruction) -> HloInstruction:
    return b.add(O.SELECT, (p, a, c), a.shape)


@rule(
    "clamp(C1, clamp(C1, A, C2), C2) => clamp(C1, A, C2)",
    m.op(O.CLAMP, "c1", m.op(O.CLAMP, "c1", "a", "c2", name="inner"), "c2"),
    keeps=EXACT,
)
def _(inner: HloInstruction) -> HloInstruction:
    return inner


def _below_count(a: HloInstruction, high: HloInstruction) -> bool:
    """Whether a partition-id or replica-id is at most `high` on every device.

    False if the module's count is 1, since the number of devices may not be known yet.
    """
    header = "num_partitions" if a.opcode is O.PARTITION_ID else "replica_count"
    count = int(a.parent.module.header.get(header) or 1)
    return 1 < count <= int(high.literal.array) + 1


@rule(
    "clamp(0, partition-id, C) => partition-id, replica-id likewise",
    m.op(O.CLAMP, m.constant("low"), m.op((O.PARTITION_ID, O.REPLICA_ID), name="a"), m.constant("high")),
    guard("from 0", lambda low: m.is_all(low, 0), "low"),
    guard("C is at least the number of devices minus 1", _below_count, "a", "high"),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a


@rule(
    "clamp(lowest, A, highest) => A",
    m.op(O.CLAMP, m.constant("low"), "a", m.constant("high")),
    guard("integers", is_integral, "root"),
    guard("no value is out of range", _spans, "low", "high"),
    keeps=INTEGERS,
)
def _(a: HloInstruction) -> HloInstruction:
    return a

"""Each rule preserves what its verdict says, on a few random modules of some types.

`python -m benchmarks verdicts` tries all types, and all values of the small ones.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.transforms.verdicts.counterexamples import MENDED, PATH, arrays_of, rewritten
from tests.transforms.verdicts.establish import Checker, losses
from tests.transforms.verdicts.prove import algebra_of, are_equal
from xlanb.evaluator import evaluate
from xlanb.hlo import HloModule, parse
from xlanb.hlo import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES, AlgebraicSimplifier
from xlanb.transforms.rules import Rule, RuleSet
from xlanb.transforms.verdict import EXACT, INTEGERS, MOVES, REAL, Loss, Verdict, exact_except

OF_DEVICES = {"clamp(0, partition-id, C) => partition-id, replica-id likewise"}
"""Rules that fire only in programs of several devices; test_algebraic_simplifier tries them."""
TYPES = ("pred", "u4", "s8", "f8e5m2", "f32", "c64")
QUICK = 0.05
CASES = json.loads(PATH.read_text(encoding="utf-8"))["entries"]
OF_THE_MACHINE = re.compile("exponential|power|log|sqrt|c64")
"""Operations whose NumPy results differ slightly between machines."""


@pytest.mark.parametrize("rule", [r for r in RULES.rules if r.label not in OF_DEVICES], ids=lambda r: r.label)
def test_a_rule_keeps_what_its_verdict_says(rule: Rule):
    found = Checker(rule, effort=QUICK).run(TYPES)
    if not found.fired:
        found = Checker(rule, effort=4 * QUICK).run(("s32", "u32"))  # for a rule about indices
    assert found.fired, "nothing that was drawn made it fire"
    assert not found.contradictions, f"{rule.keeps}: {found.contradictions[0]}\n{found.contradictions[0].module}"


def rule(keeps: Verdict, formula, *, opcode=O.ADD, value=0) -> Rule:
    rules = RuleSet("test")
    rules.rule("test", m.op(opcode, "a", m.all_equal(value)), keeps=keeps)(formula)
    return rules.rules[0]


def test_a_verdict_that_claims_too_much_is_contradicted():
    found = Checker(rule(EXACT, lambda a: a), effort=QUICK).run(("f32",))
    assert {c.lost for c in found.contradictions} == {Loss.ZERO_SIGN}
    (given,) = found.contradictions[0].inputs
    assert given == 0


@pytest.mark.parametrize("keeps", [EXACT, REAL, MOVES, INTEGERS, exact_except(Loss.NAN), exact_except(Loss.RANGE)])
def test_a_wrong_rule_is_contradicted_whatever_its_verdict(keeps: Verdict):
    found = Checker(rule(keeps, lambda b, a: b.binary(O.ADD, a, a)), effort=QUICK).run(TYPES)
    assert found.contradictions


def test_a_rule_that_is_wrong_for_one_value_of_one_small_type_is_contradicted():
    def formula(b, a):
        if a.shape.element_type.text != "s8":
            return a
        return b.select(b.compare(a, "EQ", b.full(-77, a.array_shape)), b.full(3, a.array_shape), a)

    found = Checker(rule(INTEGERS, formula), effort=QUICK).run(("s8",))
    assert any(c.inputs == (-77,) for c in found.contradictions)


def test_what_moves_elements_is_compared_by_bytes():
    found = Checker(rule(MOVES, lambda a: a, opcode=O.MULTIPLY, value=1), effort=QUICK).run(("f32",))
    # only NaNs may differ in their bits
    assert not found.contradictions or found.contradictions[0].lost
    found = Checker(rule(MOVES, lambda a: a), effort=QUICK).run(("f32",))
    assert found.contradictions


def test_verdicts_read_as_words():
    assert [str(v) for v in (EXACT, MOVES, INTEGERS, REAL)] == [
        "exact",
        "exact, moves elements",
        "exact, integers only",
        "real numbers only",
    ]
    assert str(exact_except(Loss.NAN | Loss.ZERO_SIGN)) == "exact except for NaN, the sign of zeros"
    assert (
        str(exact_except(Loss.NAN, of_complex=Loss.ROUNDING))
        == "exact except for NaN; complex numbers: real numbers only"
    )


def test_every_rule_has_a_verdict_and_some_are_lossy():
    assert all(isinstance(r.keeps, Verdict) for r in RULES.rules)
    assert 20 < sum(not r.keeps.is_exact for r in RULES.rules) < 60


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['rule']}: {c['loss']} at {c['inputs'][:40]}")
def test_a_counterexample_of_the_docs_is_one(case: dict[str, str]):
    before, after = rewritten(case)
    if not OF_THE_MACHINE.search(case["hlo"]):
        assert case["loss"] in {lost.name for _, lost in losses(before, after)}


@pytest.mark.parametrize("hlo", MENDED.values(), ids=MENDED)
def test_what_xla_gets_wrong_stays_right(hlo: str):
    module = parse(hlo)
    AlgebraicSimplifier().run(module)
    arrays = arrays_of(hlo)
    assert (evaluate(module, *arrays) == evaluate(parse(hlo), *arrays)).all()


def elementwise(root: str, kind: str) -> HloModule:
    """A module of one expression over p, q and r, such as add(p, multiply(q, r))."""
    lines: list[str] = []
    while found := re.search(r"([\w-]+)\(([\w, .]+)\)", root):
        name = f"v{len(lines)}"
        lines.append(f"{name} = {kind}[] {found[1]}({found[2]})")
        root = root.replace(found[0], name)
    parameters = [f"{n} = {kind}[] parameter({k})" for k, n in enumerate("pqr")]
    return parse("HloModule m\nENTRY e {\n" + "\n".join([*parameters, *lines[:-1], f"ROOT {lines[-1]}"]) + "\n}\n")


@pytest.mark.parametrize(
    ("algebra", "kind", "left", "right", "equal"),
    [
        ("free", "f32", "subtract(p, q)", "add(negate(q), p)", True),
        ("free", "f32", "multiply(p, add(q, r))", "multiply(add(r, q), p)", True),
        ("free", "f32", "add(add(p, q), r)", "add(p, add(q, r))", False),
        ("free", "f32", "subtract(p, q)", "subtract(q, p)", False),
        ("reals", "f64", "add(add(p, q), r)", "add(p, add(q, r))", True),
        ("reals", "f64", "divide(divide(p, q), r)", "divide(p, multiply(q, r))", True),
        ("reals", "f64", "log(exponential(p))", "negate(negate(p))", True),
        ("reals", "f64", "sqrt(multiply(p, p))", "negate(negate(p))", False),
        ("reals", "f64", "divide(p, divide(q, r))", "divide(p, multiply(q, r))", False),
        ("bits", "s32", "add(multiply(p, q), p)", "add(p, multiply(q, p))", True),
        ("bits", "s32", "subtract(p, q)", "add(p, add(not(q), divide(negate(r), negate(r))))", False),
        ("bits", "s32", "abs(negate(p))", "abs(p)", True),
        ("bits", "u32", "divide(p, q)", "shift-right-logical(p, q)", False),
        ("bits", "u32", "remainder(and(p, q), r)", "remainder(and(q, p), r)", True),
        ("bits", "f32", "add(p, q)", "add(q, p)", None),
    ],
)
def test_an_algebra_knows_what_is_equal(algebra: str, kind: str, left: str, right: str, equal: bool | None):
    if algebra != "free":
        pytest.importorskip({"reals": "sympy", "bits": "z3"}[algebra])
    known = algebra_of(algebra)
    assert known is not None
    assert are_equal(elementwise(left, kind), elementwise(right, kind), known) is equal


@pytest.mark.parametrize("label", ["A*C + B*C => (A + B) * C", "A / 2^k => select(A < 0, -(|A| >> k), A >> k)"])
def test_integers_are_proved(label: str):
    pytest.importorskip("z3")
    found = Checker(next(r for r in RULES.rules if r.label == label), effort=QUICK).run(("s8", "s32"))
    assert "s32" in found.proved


def test_a_wrong_rule_is_not_proved():
    pytest.importorskip("z3")
    found = Checker(rule(INTEGERS, lambda b, a: b.binary(O.ADD, a, a)), effort=QUICK).run(("s8", "s32"))
    assert "s32" in found.sampled
    assert not found.proved

"""Each rule keeps what its verdict says, on a few random modules of some types; `python -m benchmarks verdicts` tries all types, and all values of the small ones."""

from __future__ import annotations

import pytest

from tests.transforms.verdicts.establish import Checker
from xlanb.hlo import HloOpcode as O
from xlanb.transforms import match as m
from xlanb.transforms.algebraic_simplifier.algebraic_simplifier import RULES
from xlanb.transforms.rules import Rule, RuleSet
from xlanb.transforms.verdict import EXACT, INTEGERS, MOVES, REAL, Loss, Verdict, exact_except

TYPES = ("pred", "u4", "s8", "f8e5m2", "f32", "c64")
QUICK = 0.05


@pytest.mark.parametrize("rule", RULES.rules, ids=lambda r: r.label)
def test_a_rule_keeps_what_its_verdict_says(rule: Rule):
    found = Checker(rule, effort=QUICK).run(TYPES)
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
    assert not found.contradictions or found.contradictions[0].lost  # NaNs alone may differ in their bits
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

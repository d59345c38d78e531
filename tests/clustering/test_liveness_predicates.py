"""Liveness formulas: simplification preserves the meaning, and equal formulas are one object."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from xlanb.clustering.liveness_predicates import AND, NOT, OR, Liveness, LivenessFactory

NAMES = ("p", "q", "r")
FORMULAS = st.recursive(
    st.sampled_from(NAMES),
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner), st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, max_size=3))
    ),
    max_leaves=12,
)


def make(factory: LivenessFactory, formula: object) -> Liveness:
    if isinstance(formula, str):
        return factory.symbol(formula, must_be_true=True)
    assert isinstance(formula, tuple)
    kind, inner = formula
    if kind == "not":
        return factory.negation(make(factory, inner))
    parts = [make(factory, f) for f in inner]
    return factory.all_of(parts) if kind == "and" else factory.any_of(parts)


def meant(formula: object, truth: dict[str, bool]) -> bool:
    if isinstance(formula, str):
        return truth[formula]
    assert isinstance(formula, tuple)
    kind, inner = formula
    if kind == "not":
        return not meant(inner, truth)
    parts = [meant(f, truth) for f in inner]
    return all(parts) if kind == "and" else any(parts)


def value(made: Liveness, truth: dict[str, bool]) -> bool:
    if made.kind == NOT:
        return not value(made.operands[0], truth)
    if made.kind in (AND, OR):
        parts = [value(o, truth) for o in made.operands]
        return all(parts) if made.kind == AND else any(parts)
    return truth[made.text.lstrip("*")]


@given(FORMULAS)
def test_simplified_formulas_mean_what_was_asked_for(formula: object) -> None:
    made = make(LivenessFactory(), formula)
    for values in product((False, True), repeat=len(NAMES)):
        truth = dict(zip(NAMES, values, strict=True))
        assert value(made, truth) == meant(formula, truth)


def test_equal_formulas_are_one_object_whatever_the_order() -> None:
    make_ = LivenessFactory()
    p, q, r = (make_.symbol(n, must_be_true=True) for n in NAMES)
    assert make_.all_of([p, make_.all_of([q, r])]) is make_.all_of([r, q, p, q])
    assert make_.negation(make_.all_of([p, q])) is make_.any_of([make_.negation(q), make_.negation(p)])
    assert make_.any_of([make_.all_of([p, q]), make_.all_of([p, r])]) is make_.all_of([p, make_.any_of([q, r])])


def test_contradictions_and_tautologies_are_found() -> None:
    make_ = LivenessFactory()
    p = make_.symbol("p:0", must_be_true=True)
    assert make_.all_of([p, make_.negation(p)]) is make_.false()
    assert make_.any_of([p, make_.negation(p)]) is make_.true()
    assert [str(make_.true()), str(make_.false())] == ["#true", "#false"]


def test_texts_are_those_of_tensorflow() -> None:
    make_ = LivenessFactory()
    p, x = make_.symbol("p:0", must_be_true=True), make_.symbol("x:0")
    both = make_.any_of([make_.all_of([p, x]), make_.negation(p)])
    assert str(both) == "(~*p:0 | (*p:0 & x:0))"
    assert str(make_.symbol("b:0", value=2)) == "b:0=2"
    assert str(make_.recurrence(x, p, ["inner", "outer"])) == "{x:0,&,*p:0}<inner;outer>"


def test_what_leaves_a_loop_is_alive_when_what_entered_was() -> None:
    make_ = LivenessFactory()
    start, step = make_.symbol("s:0"), make_.symbol("c:0", must_be_true=True)
    inside = make_.recurrence(start, step, ["loop"])
    leaving = make_.all_of([inside, make_.negation(step)])
    assert str(leaving) == "(s:0)"
    assert make_.all_of([leaving]) is start

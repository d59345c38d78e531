from __future__ import annotations

import pickle

import pytest

from xlanb.explorer.recorder import Recorder as TraceRecorder
from xlanb.hlo import HloOpcode as O
from xlanb.hlo import parse
from xlanb.stage import Stage
from xlanb.tracing import Decision, StageFinished, observing
from xlanb.transforms import match as m
from xlanb.transforms.rules import RuleSet, guard
from xlanb.transforms.verdict import EXACT

TEXT = """HloModule m

ENTRY main {
  x = f32[4] parameter(0)
  n = f32[4] negate(x)
  ROOT r = f32[4] negate(n)
}
"""


class Recorder:
    def __init__(self):
        self.events = []

    def on_event(self, event):
        self.events.append(event)


def double_negation(*guards) -> RuleSet:
    rules = RuleSet("test")

    @rules.rule("-(-A) => A", m.op(O.NEGATE, m.op(O.NEGATE, "a")), *guards, keeps=EXACT)
    def _(a):
        return a

    return rules


def test_a_rule_fires_and_says_so():
    module, recorder = parse(TEXT), Recorder()
    with observing(recorder):
        double_negation(guard("real", lambda a: a.shape.element_type.is_floating)).run(module.entry_computation)
    assert module.entry_computation.root.name == "x"
    (decision,) = [e for e in recorder.events if isinstance(e, Decision)]
    assert (decision.action, decision.subject, decision.taken) == ("-(-A) => A", ("r",), True)
    assert decision.cause.where.startswith("tests/transforms/test_rules.py:")
    assert decision.cause.keeps == "exact"


def test_a_guard_that_fails_is_told():
    module, recorder = parse(TEXT), Recorder()
    with observing(recorder):
        double_negation(
            guard("first", lambda: True),
            guard("wide", lambda a: a.array_shape.rank > 1),
            guard("never asked", lambda: 1 / 0),
        ).run(module.entry_computation)
    assert module.entry_computation.root.name == "r"
    (decision,) = recorder.events
    assert not decision.taken
    assert [(p.name, p.holds) for p in decision.predicates] == [("first", True), ("wide", False)]


def test_a_formula_may_decline():
    rules = RuleSet("test")

    @rules.rule("no", m.op(O.NEGATE, "a"), keeps=EXACT)
    def _(a):
        return None

    module = parse(TEXT)
    before = module.record()
    rules.run(module.entry_computation)
    assert module.record() is before


def test_a_replacement_of_another_shape_is_dropped():
    rules = RuleSet("test")

    @rules.rule("wrong", m.op(O.NEGATE, "a"), keeps=EXACT)
    def _(b, a):
        return b.reshape(a, (2, 2))

    module = parse(TEXT)
    before = module.record()
    rules.run(module.entry_computation)
    assert module.record() is before


def test_asking_for_what_is_not_captured_is_refused():
    rules = RuleSet("test")
    with pytest.raises(TypeError, match="does not capture 'zzz'"):

        @rules.rule("bad", m.op(O.NEGATE, "a"), keeps=EXACT)
        def _(zzz):
            return zzz


def test_rules_print_with_pattern_and_guards():
    (rule,) = double_negation(guard("real", lambda: True)).rules
    assert str(rule).splitlines()[1:] == ["    negate(negate(a))", "    if real", "    keeps: exact"]


def test_each_instruction_is_visited_once():
    rules = RuleSet("test")

    @rules.rule("A => -(-A)", m.op(O.NEGATE, "a", name="self"), keeps=EXACT)
    def _(b, a):
        return b.unary(O.NEGATE, b.unary(O.NEGATE, b.unary(O.NEGATE, a)))

    module = parse(TEXT)
    rules.run(module.entry_computation)
    assert sum(i.opcode is O.NEGATE for i in module.entry_computation) == 6


def test_what_orders_others_stays():
    module = parse(
        TEXT.replace(
            "ROOT r = f32[4] negate(n)",
            "r = f32[4] negate(n)\n  ROOT s = f32[4] exponential(r), control-predecessors={r}",
        )
    )
    before = module.record()
    double_negation().run(module.entry_computation)
    assert module.record() is before


def test_a_guard_says_what_it_saw():
    module, recorder = parse(TEXT), Recorder()
    with observing(recorder):
        double_negation(guard("wide", lambda a: a.array_shape.rank > 1)).run(module.entry_computation)
    (decision,) = recorder.events
    assert decision.predicates[0].value == "a is x f32[4]{0} parameter"
    assert decision.cause.where.startswith("tests/transforms/test_rules.py:")
    assert decision.cause.rule == decision.action


def test_values_are_those_of_the_time_of_the_question():
    module, recorder = parse(TEXT), Recorder()
    with observing(recorder):
        double_negation(guard("wide", lambda root: root.array_shape.rank > 1)).run(module.entry_computation)
    module.entry_computation.rename(module.entry_computation.root, "other")
    assert "root is r f32[4]{0} negate (the root) with no users" in recorder.events[0].predicates[0].value


def test_a_failure_is_told_once_to_each_who_listens():
    module, rules = parse(TEXT), double_negation(guard("never", lambda: False))
    for _ in range(2):
        recorder = Recorder()
        with observing(recorder):
            rules.run(module.entry_computation)
            rules.run(module.entry_computation)
        assert len(recorder.events) == 1


def test_conditions_that_were_told_can_be_kept():
    module, recorder = parse(TEXT), Recorder()
    with observing(recorder):
        double_negation(guard("never", lambda: False)).run(module.entry_computation)
    told = recorder.events[0].predicates
    assert pickle.loads(pickle.dumps(told)) == tuple(told)  # noqa: S301 - its own bytes
    assert hash(told) == hash(tuple(told))
    assert told[:1] == tuple(told)


def test_guards_over_open_operands_are_told_as_those_of_deeper_patterns():
    """Failures of one visit are captured together, and made into decisions when they are read."""

    def rules(pattern: m.OpPattern) -> RuleSet:
        found = RuleSet("test")

        @found.rule("first", pattern, guard("never", lambda a: a is None), keeps=EXACT)
        def _(a):
            return a

        @found.rule(
            "second",
            pattern,
            guard("always", lambda options: options is None),
            guard("real", lambda root: root is None),
            keeps=EXACT,
        )
        def _(root):
            return root

        return found

    def told(pattern: m.OpPattern, observer) -> list[Decision]:
        module = parse(TEXT)
        with observing(observer):
            rules(pattern).run(module.entry_computation)
        if isinstance(observer, Recorder):
            return [e for e in observer.events if isinstance(e, Decision)]
        observer.on_event(StageFinished(1, Stage("hlo_pass", "test", None, None)))
        return list(observer.traces[0].stages[0].decisions)

    def words(decisions: list[Decision]) -> list[tuple]:
        return [(d.action, d.subject, d.taken, tuple(d.predicates)) for d in decisions]

    flat = m.op(O.NEGATE, "a")
    deep = m.op(O.NEGATE, "a", where=[m.InstructionPredicate("any", lambda _: True)])
    assert rules(flat).rules[0].flat is not None
    assert rules(deep).rules[0].flat is None
    expected = words(told(deep, Recorder()))
    assert [e[:2] for e in expected] == [("first", ("n",)), ("second", ("n",)), ("first", ("r",)), ("second", ("r",))]
    assert expected[0][3][0].value == "a is x f32[4]{0} parameter"
    assert words(told(flat, Recorder())) == expected
    assert words(told(flat, TraceRecorder())) == expected

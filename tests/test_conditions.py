"""Conditions: a pass stops at the first that fails; an explanation evaluates all of them."""

from __future__ import annotations

from xlanb.conditions import Condition, asked, asking, first_failing, objecting
from xlanb.hlo import parse
from xlanb.tracing import Decision, observing
from xlanb.transforms import PASSES

BIG = Condition("is big", lambda n: n > 10, lambda n: f"{n} and 10", lambda n: f"add {11 - n} to `n`")
EVEN = Condition("is even", lambda n: n % 2 == 0, str)
RELIES = Condition("its inverse is small", lambda n: 1 / n < 1)


def test_the_first_that_fails_ends_it_unless_all_are_asked_for():
    assert first_failing([BIG, EVEN], 12) is None
    assert first_failing([EVEN, BIG], 4) == 1
    assert asked([BIG, EVEN], 4) == (("is big", False, "4 and 10", "add 7 to `n`"),)
    assert [p.holds for p in asked([BIG, EVEN], 4, to_the_end=True)] == [False, True]


def test_what_cannot_be_asked_after_a_failure_is_left_out():
    assert [p.name for p in asked([BIG, RELIES, EVEN], 0, to_the_end=True)] == ["is big", "is even"]


def test_captures_are_taken_apart():
    both = Condition("they differ", lambda a, b: a != b, wants=("a", "b"))
    assert first_failing([both], {"a": 1, "b": 2, "c": 3}) is None
    assert first_failing([both], {"a": 1, "b": 1}) == 0


def test_an_objection_is_the_value_of_a_failure():
    condition = objecting("small", lambda n: "too large" if n > 10 else "", str)
    assert asked([condition], 3) == (("small", True, "3", ""),)
    assert asked([condition], 30) == (("small", False, "too large", ""),)


class Decisions(list[Decision]):
    def on_event(self, event: object) -> None:
        if isinstance(event, Decision):
            self.append(event)


def decisions(name: str, body: str, *names: str) -> dict[tuple[str, ...], Decision]:
    found = Decisions()
    with observing(found), asking(frozenset(names)):
        PASSES[name]().run(parse(f"HloModule m\nENTRY e {{\n{body}\n}}\n"))
    return {d.subject: d for d in found}


SLICES = """
a = f32[64] parameter(0)
s = f32[32] slice(a), slice={[0:32]}
t = f32[32] slice(a), slice={[32:64]}
n = f32[64] negate(a)
ROOT r = (f32[32], f32[32], f32[64]) tuple(s, t, n)
"""


def test_a_near_miss_of_cse_is_told_from_the_keys_that_decide():
    near = decisions("cse", SLICES)
    assert near.keys() == {("s", "t")}
    assert near["s", "t"].predicates == (
        ("same shape", True, "f32[32]{0} and f32[32]{0}", ""),
        ("same attributes", False, "slice", "give `t` the attributes of `s`"),
    )


def test_who_asks_about_two_hears_every_condition_of_cse():
    apart = decisions("cse", SLICES, "s", "n")["s", "n"]
    failing = [(p.name, p.value) for p in apart.predicates if not p.holds]
    assert failing == [
        ("same opcode", "slice and negate"),
        ("same shape", "f32[32]{0} and f32[64]{0}"),
        ("same attributes", "slice"),
    ]
    assert [p.name for p in apart.predicates][:2] == ["s is not an instruction that must stay unique", "s has operands"]


TWICE = """
x = f32[64] parameter(0)
d = f32[64] sqrt(x)
e = f32[64] exponential(d)
n = f32[64] negate(e)
s = f32[32] slice(e), slice={[0:32]}
ROOT r = (f32[64], f32[32]) tuple(n, s)
"""


def test_who_asks_about_two_hears_every_condition_of_fusion():
    told = decisions("fusion", TWICE)["e", "n"]
    whole = decisions("fusion", TWICE, "e", "n")["e", "n"]
    assert not told.taken
    assert [p.holds for p in told.predicates][-1:] == [False]
    assert told.predicates[-1].remedy == "let `e` have one user: `s` uses it too"
    assert len(whole.predicates) > len(told.predicates)
    assert {p for p in told.predicates if not p.holds} <= set(whole.predicates)
    assert whole.predicates[-1].name.startswith("consumer is loop-fusible")
    assert whole.predicates[-1].holds


def test_who_asks_hears_of_what_is_in_a_fusion_by_then():
    body = """
x = f32[64] parameter(0)
e = f32[64] exponential(x)
m = f32[64] multiply(x, x)
a = f32[64] add(m, e)
ROOT r = (f32[64], f32[64]) tuple(a, e)
"""
    found = decisions("fusion", body, "e", "a")
    (grown,) = (d for s, d in found.items() if s[0] == "e" and s[1].endswith("_fusion"))
    assert grown.predicates[0].name == f"a is already in {grown.subject[1]}"
    assert not grown.taken


def test_who_asks_hears_every_guard_of_a_rule():
    body = "x = f32[4,4] parameter(0)\nt = f32[4,4] transpose(x), dimensions={1,0}\nROOT r = f32[16] reshape(t)"
    quiet, asked_for = (decisions("algsimp", body, *names) for names in ((), ("r", "t")))
    assert quiet.keys() == asked_for.keys()
    assert all(len(asked_for[s].predicates) >= len(d.predicates) for s, d in quiet.items())

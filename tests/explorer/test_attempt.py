"""A refused fusion done anyway: its estimated cost, its branch, and the measurements."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.programs import REFUSED_FUSION
from xlanb.errors import XlanbError
from xlanb.explorer.attempt import Attempt, RefusedFusion, refused_fusion
from xlanb.tracing import Predicate
from xlanb.transforms.fusion.cpu_instruction_fusion import CONDITIONS, required_conditions


@pytest.fixture
def compilation() -> xlanb.Compilation:
    made = xlanb.Compilation(REFUSED_FUSION)
    made.finish()
    return made


def test_a_refusal_is_found_whichever_way_round_and_weighed(compilation: xlanb.Compilation) -> None:
    found = refused_fusion(compilation.trace, "a", "t")
    assert (found.producer, found.consumer) == ("t", "a")
    assert compilation.trace[found.stage].name == "fusion"
    assert found.condition.name == "no expensive producer is duplicated"
    assert found.users == 3
    assert found.saved_bytes == 0, "the consumer reads x in place of t"
    assert found.copy_seconds is not None
    assert 0 < found.copy_seconds < 1
    assert str(found).startswith("t has 3 users: duplicating it recomputes about ")
    assert str(found).endswith(", saves no traffic")


@pytest.mark.parametrize(
    ("users", "saved", "words"),
    [(1, 4096, "one user: fusing duplicates nothing, saves 4.0 KiB of traffic"), (2, -2048, "reads 2.0 KiB more")],
)
def test_the_words_say_what_it_costs_and_saves(users: int, saved: int, words: str) -> None:
    condition = Predicate("c", False, "v")
    assert words in str(RefusedFusion("p", "c", 1, condition, users=users, copy_seconds=1e-6, saved_bytes=saved))


def test_the_attempt_fuses_exactly_the_pair_and_computes_the_same(compilation: xlanb.Compilation) -> None:
    made = compilation.attempt("t", "a")
    assert isinstance(made, Attempt)
    asked = [d for d in made.branch["fusion"].decisions if d.subject == ("t", "a")]
    assert [d.taken for d in asked] == [True]
    assert asked[0].predicates[0].name == "requested manually"
    others = [d for d in made.branch["fusion"].decisions if d.subject == ("t", "b")]
    assert [d.taken for d in others] == [False]
    assert made.difference < 1e-5
    assert made.seconds[0] > 0 < made.seconds[1]
    assert list(made.branch.runs)[-1] == made.seconds[1]
    assert compilation.branches[-1].trace is made.branch
    rng = np.random.default_rng(0)
    arguments = [rng.standard_normal((64, 64), np.float32) for _ in range(2)]
    assert made.branch.program is not None
    for got, wanted in zip(made.branch.program(*arguments), xlanb.evaluate(REFUSED_FUSION, *arguments), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-4)


def test_the_verdict_is_honest() -> None:
    refused = RefusedFusion("p", "c", 1, Predicate("c", False))
    trace = xlanb.explorer.trace.Trace("t")

    def told(before: float, after: float, difference: float = 0.0) -> str:
        return str(Attempt(refused, trace, (before, after), (0, 4096), difference))

    assert "p fused into c: 100% faster, 1 us per run instead of 2 us" in told(2e-6, 1e-6)
    assert "100% slower" in told(1e-6, 2e-6)
    assert "as fast as before" in told(1e-6, 1.01e-6)
    assert "temporaries 0 bytes -> 4.0 KiB" in told(1e-6, 1e-6)
    assert "results differ by 0.5" in told(1e-6, 1e-6, 0.5)


def test_what_cannot_be_fused_says_the_condition_that_forbids_it(compilation: xlanb.Compilation) -> None:
    assert "dot" in refused_fusion(compilation.trace, "b", "d").impossible
    with pytest.raises(XlanbError, match=r"b cannot be fused into d: consumer is loop-fusible.*: dot"):
        compilation.attempt("b", "d")
    with pytest.raises(XlanbError, match=r"a cannot be fused into r: consumer is loop-fusible.*: tuple"):
        compilation.attempt("a", "r")


def test_a_pair_that_no_pass_decided_on_is_refused_with_near_names(compilation: xlanb.Compilation) -> None:
    with pytest.raises(XlanbError, match="no pass decided against fusing 't' and 'aa'; did you mean 'a'"):
        compilation.attempt("t", "aa")
    with pytest.raises(XlanbError, match="'nothing' takes part in no decision"):
        compilation.attempt("nothing", "t")


def test_conditions_that_cannot_be_lifted_are_known() -> None:
    required = required_conditions()
    assert "producer is loop-fusible" in required
    assert "no expensive producer is duplicated" not in required
    assert required <= {c.name for c in CONDITIONS} | {"matrix-vector product whose only use is an addition"}

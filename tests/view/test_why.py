"""The data of the Why pane: what is cut off is counted, and both outcomes are shown."""

import pytest

import xlanb
from xlanb.tracing import Cause, Decision, Predicate
from xlanb.view.parts.why import why_data
from xlanb.view.payload import build_payload

CAUSE = Cause("fusion")


def decided(taken, count):
    return [
        Decision(CAUSE, "fuse", (f"{taken}{n}", "user"), taken, (Predicate("fits", taken, "12"),)) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("refused", "taken", "shown"),
    [(50, 7, (5, 5)), (3, 50, (3, 7)), (50, 3, (7, 3)), (50, 50, (5, 5)), (50, 0, (10, 0)), (2, 3, (2, 3))],
)
def test_both_outcomes_are_shown_and_all_are_counted(refused, taken, shown):
    data = why_data([], [*decided(False, refused), *decided(True, taken)], limit=10)
    outcomes = [d["taken"] for d in data["decisions"]]
    assert (outcomes.count(0), outcomes.count(1)) == shown
    assert len(outcomes) + data.get("more_decisions", 0) == refused + taken
    assert data.get("taken", taken) == taken


def test_decisions_keep_their_order():
    mixed = [d for pair in zip(decided(False, 20), decided(True, 20), strict=True) for d in pair]
    names = [d["subject"][0] for d in why_data([], mixed, limit=6)["decisions"]]
    assert names == ["False0", "True0", "False1", "True1", "False2", "True2"]


def test_the_conditions_that_fail_most_often_come_first():
    other = [d._replace(predicates=(Predicate("is small", False, "9"),)) for d in decided(False, 4)]
    data = why_data([], [*other, *decided(False, 30), *decided(True, 5)], limit=10)
    assert data["failing"] == [["fits", 30], ["is small", 4]]
    assert "failing" not in why_data([], decided(False, 3))


def test_replayed_decisions_are_counted_with_the_others():
    data = why_data([], decided(True, 4), limit=2, replayed=decided(True, 3))
    assert [d.get("basis") for d in data["decisions"]] == [None, None, "replay", "replay"]
    assert (data["more_decisions"], data["taken"]) == (3, 7)


CALLS = """HloModule m
unused {
  a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT c = f32[4] add(a, b)
}
ENTRY e {
  x = f32[4] parameter(0)
  waste = f32[4] call(x, x), to_apply=unused
  ROOT y = f32[4] tanh(x)
}
"""


def test_what_goes_with_an_unused_computation_is_counted():
    trace = xlanb.trace(CALLS)
    stages = build_payload([trace])["traces"][0]["stages"]
    found = 0
    for stage, data in zip(trace, stages, strict=True):
        if stage.name == "dce" and stage.changed:
            removed = [e for r in data["why"]["rewrites"] for e in r["edits"] if e["kind"] == "remove"]
            assert len(removed) + data["why"].get("unused", [0, 0])[1] == stage.changes.counts[1]
            found += data["why"].get("unused", [0])[0]
    assert found == 1

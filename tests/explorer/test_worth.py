"""The effect of each pass, measured and reported one by one."""

from __future__ import annotations

import pytest

import xlanb
from xlanb.errors import XlanbError
from xlanb.explorer.trace import Trace
from xlanb.explorer.worth import Worth, measured_worth

TEXT = """
HloModule m

ENTRY e {
  x = f32[32,32] parameter(0)
  zero = f32[] constant(0)
  zeros = f32[32,32] broadcast(zero), dimensions={}
  a = f32[32,32] add(x, zeros)
  b = f32[32,32] multiply(a, a)
  ROOT c = f32[32,32] negate(b)
}
"""


def test_every_pass_that_changed_something_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xlanb.explorer.worth._ROUNDS", 3)
    trace = xlanb.trace(TEXT)
    names = {s.name for s in trace if s.kind == "hlo_pass" and s.changed}
    seen = [(w.done, w.total, w.name) for w in measured_worth(trace)]
    assert [done for done, _, _ in seen] == list(range(1, len(seen) + 1))
    assert seen[-1][0] == seen[-1][1] == 4 * (len(names) + 1)
    *_, worth = measured_worth(trace)
    assert set(worth.data) == names
    assert all(row["run"] > 0 for row in worth.data.values())
    assert worth.data["fusion"]["temp"] >= 0


def test_what_is_known_is_told_before_the_end() -> None:
    worth = next(iter(measured_worth(xlanb.trace(TEXT))))
    assert worth.data == {}
    assert worth.total > worth.done == 1


def test_ratios_are_to_the_whole_pipeline_and_failures_have_none() -> None:
    worth = Worth(1, seconds={"": 2.0, "cse": 4.0, "dce": 1.0}, temp_bytes={"": 10, "cse": 30, "dce": 10})
    worth.failures["layout"] = "no layout"
    assert worth.data == {
        "cse": {"run": 2.0, "temp": 20},
        "dce": {"run": 0.5, "temp": 0},
        "layout": {"failure": "no layout"},
    }


def test_without_a_program_there_is_nothing_to_measure() -> None:
    with pytest.raises(XlanbError, match="holds no HLO before its passes"):
        next(iter(measured_worth(Trace("empty"))))

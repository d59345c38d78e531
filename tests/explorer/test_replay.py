"""Explaining the real XLA: facts from its dump, and xlanb's conditions on its modules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import xlanb
from xlanb.cli import main
from xlanb.errors import XlanbError
from xlanb.explorer.replay import edges_of
from xlanb.explorer.trace import Trace
from xlanb.view.payload import build_payload
from xlanb.why import FACT, REPLAY

BEFORE = """HloModule jit_f, entry_computation_layout={(f32[64]{0}, f32[64]{0})->(f32[64]{0}, f32[64]{0})}

ENTRY %main.1 (x.1: f32[64], y.1: f32[64]) -> (f32[64], f32[64]) {
  %x.1 = f32[64]{0} parameter(0)
  %y.1 = f32[64]{0} parameter(1)
  %exp.1 = f32[64]{0} exponential(%x.1)
  %mul.1 = f32[64]{0} multiply(%exp.1, %y.1)
  %add.1 = f32[64]{0} add(%mul.1, %exp.1)
  ROOT %out = (f32[64]{0}, f32[64]{0}) tuple(%add.1, %exp.1)
}
"""
AFTER = """HloModule jit_f, entry_computation_layout={(f32[64]{0}, f32[64]{0})->(f32[64]{0}, f32[64]{0})}

%fused_computation (param_0: f32[64], param_1.1: f32[64]) -> f32[64] {
  %param_0 = f32[64]{0} parameter(0)
  %param_1.1 = f32[64]{0} parameter(1)
  %mul.0 = f32[64]{0} multiply(%param_0, %param_1.1)
  ROOT %add.0 = f32[64]{0} add(%mul.0, %param_0)
}

ENTRY %main.1 (x.1: f32[64], y.1: f32[64]) -> (f32[64], f32[64]) {
  %x.1 = f32[64]{0} parameter(0)
  %y.1 = f32[64]{0} parameter(1)
  %exp.1 = f32[64]{0} exponential(%x.1)
  %multiply_add_fusion = f32[64]{0} fusion(%exp.1, %y.1), kind=kLoop, calls=%fused_computation
  ROOT %out = (f32[64]{0}, f32[64]{0}) tuple(%multiply_add_fusion, %exp.1)
}
"""
PLACE = "HLO_passes_after_layout_assignment"


def _dump(folder: Path, after: str) -> Path:
    names = ("before_optimizations", f"0001.{PLACE}.after_pipeline-start.before_reshape-decomposer")
    last = (f"0002.{PLACE}.after_fusion.before_fusion-wrapper", "cpu_after_optimizations")
    for name, text in ((names[0], BEFORE), (names[1], BEFORE), *((n, after) for n in last)):
        (folder / f"module_0000.jit_f.{name}.txt").write_text(text)
    return folder


def _trace(folder: Path, after: str = AFTER) -> Trace:
    return xlanb.read_dump(_dump(folder, after))["jit_f"]


def test_a_fact_and_a_replay_stand_beside_each_other(tmp_path: Path) -> None:
    why = _trace(tmp_path).why("mul.1", "add.1")
    assert why.bases == (REPLAY, FACT, FACT)
    replayed, fact, end = why
    assert replayed.taken
    assert fact.taken
    assert fact.predicates[0].value == "multiply_add_fusion"
    assert end.action == "same kernel"
    assert why.answer == "in one kernel, multiply_add_fusion"
    assert "[replay: xlanb's conditions on the dump's module]" in str(why)
    assert "[fact: in the dump]" in str(why)


def test_a_refusal_names_every_condition_and_what_would_change_it(tmp_path: Path) -> None:
    why = _trace(tmp_path).why("exp.1", "mul.1")
    replayed = next(d for d, basis in zip(why, why.bases, strict=True) if basis == REPLAY)
    assert [p.name for p in replayed.predicates if not p.holds] == ["no expensive producer is duplicated"]
    assert [r.partition(":")[0] for r in why.remedies] == ["let `exp.1` have one user"]
    assert "`out`" in why.remedies[0]
    assert {"exp.1", "out"} <= why.links.keys()
    assert not any(d.action == "agree" for d in why)


def test_where_the_two_differ_it_is_said(tmp_path: Path) -> None:
    trace = _trace(tmp_path, BEFORE.replace("jit_f,", "jit_f, is_scheduled=true,"))
    why = trace.why("mul.1", "add.1")
    (differs,) = (d for d in why if d.action == "agree")
    assert "by xlanb's conditions" in differs.predicates[0].value
    found = trace.replay()
    assert found.differences == (("mul.1", "add.1", False, True),)
    assert found.agreement == pytest.approx(2 / 3)
    assert "would fuse mul.1 -> add.1" in str(found)


def test_every_edge_is_compared(tmp_path: Path) -> None:
    found = _trace(tmp_path).replay("fusion")
    assert found.agreement == 1
    table = found.to_dataframe()
    assert list(table["producer"] + " " + table["consumer"]) == ["exp.1 mul.1", "mul.1 add.1", "exp.1 add.1"]
    assert list(table["real"]) == list(table["replay"]) == [False, True, False]


def test_a_page_shows_each_edge_with_fact_and_replay(tmp_path: Path) -> None:
    trace = _trace(tmp_path)
    stage = trace["fusion"]
    found = {d.subject: d for d in edges_of(trace, stage)}
    assert {s: d.taken for s, d in found.items()} == {
        ("exp.1", "mul.1"): False,
        ("mul.1", "add.1"): True,
        ("exp.1", "add.1"): False,
    }
    assert found["mul.1", "add.1"].predicates[0].value == "in one fusion after it: multiply_add_fusion"
    assert "no expensive producer is duplicated" in [p.name for p in found["exp.1", "mul.1"].predicates]
    why = next(s["why"] for s in build_payload([trace])["traces"][0]["stages"] if s["name"] == "fusion")
    refused = next(d for d in why["decisions"] if d["subject"] == ["exp.1", "mul.1"])
    assert (refused["basis"], refused["taken"]) == (REPLAY, 0)
    assert refused["predicates"][1][3].startswith("let `exp.1` have one user: ")


def test_nothing_is_replayed_of_our_own_passes() -> None:
    trace = xlanb.trace(BEFORE)
    assert not any(edges_of(trace, s) for s in trace if s.name == "fusion")
    assert set(trace.why("exp.1").bases) == {"decided"}


def test_what_cannot_be_replayed_says_which_can(tmp_path: Path) -> None:
    with pytest.raises(XlanbError, match=r"no pass 'dce'.*those that can: fusion \(stage"):
        _trace(tmp_path).replay("dce")


def test_the_shell_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(_dump(tmp_path, AFTER))
    assert main(["why", folder, "exp.1", "mul.1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["subject"], told["answer"]) == (["exp.1", "mul.1"], "in different kernels")
    assert {d["basis"] for d in told["decisions"]} == {"fact", "replay"}
    assert main(["why", folder]) == 0
    assert "agree with the real XLA on 3 of 3 edges" in capsys.readouterr().out


def test_an_answer_is_json() -> None:
    trace = xlanb.trace(BEFORE)
    told = json.loads(json.dumps(trace.why("exp.1", "mul.1").to_json()))
    assert told["decisions"][0]["basis"] == "decided"
    assert any(c["remedy"] for d in told["decisions"] for c in d["conditions"])

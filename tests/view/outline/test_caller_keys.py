"""Loops, calls and fusions keep their boxes when passes re-create them under other names."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import xlanb
from xlanb.explorer.stage import Stage
from xlanb.explorer.trace import Trace
from xlanb.hlo import HloOpcode
from xlanb.view import assets
from xlanb.view.payload import build_payload

FRONT = Path(__file__).parents[1] / "front"
MODULES = Path(assets.__file__).parent / "step"
NODE = shutil.which("node")

LOOP = """HloModule m

body {
  p = (s32[], f32[8,8], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  x = f32[8,8] get-tuple-element(p), index=1
  w = f32[8,8] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(k, one)
  bent = f32[8,8] tanh(w)
  again = f32[8,8] tanh(w)
  both = f32[8,8] multiply(bent, again)
  grown = f32[8,8] dot(x, both), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,8], f32[8,8]) tuple(next, grown, w)
}

condition {
  p = (s32[], f32[8,8], f32[8,8]) parameter(0)
  k = s32[] get-tuple-element(p), index=0
  ten = s32[] constant(10)
  ROOT less = pred[] compare(k, ten), direction=LT
}

ENTRY main {
  zero = s32[] constant(0)
  x = f32[8,8] parameter(0)
  w = f32[8,8] parameter(1)
  t = (s32[], f32[8,8], f32[8,8]) tuple(zero, x, w)
  loop = (s32[], f32[8,8], f32[8,8]) while(t), condition=condition, body=body
  ROOT r = f32[8,8] get-tuple-element(loop), index=1
}
"""
PASSES = ("cse", "while-loop-invariant-code-motion", "simplify-while-loops", "dce")


@pytest.fixture(scope="module")
def trace() -> Trace:
    module = xlanb.hlo.parse(LOOP)
    before = module.record()
    stages = []
    for number, name in enumerate(PASSES):
        xlanb.transforms.PASSES[name]().run(module)
        after = module.record()
        stages.append(Stage("hlo_pass", name, before, after, index=number))
        before = after
    return Trace("m", stages)


def loop_of(module):
    (loop,) = (i.name for c in module.computations for i in c.instructions if i.opcode is HloOpcode.WHILE)
    return loop


def test_a_loop_that_is_made_anew_keeps_its_key(trace):
    names = [loop_of(s.after) for s in trace]
    assert len(set(names)) > 1, "a pass gives the loop another name"
    payload = build_payload([trace])
    for stage, name in zip(payload["traces"][0]["stages"], names, strict=True):
        artifact = payload["artifacts"][stage["a"]]
        assert artifact.get("keys", {}).get(name, name) == "loop"
        assert "loop" in artifact["o"], "it is open in each of them"


@pytest.mark.skipif(NODE is None, reason="Node.js is not installed")
def test_what_a_pass_removed_in_a_loop_is_counted_there(trace, tmp_path):
    (tmp_path / "package.json").write_text('{"type": "module"}', encoding="utf-8")
    for path in (*MODULES.glob("*.js"), FRONT / "loops.mjs"):
        shutil.copy(path, tmp_path)
    (tmp_path / "payload.json").write_text(json.dumps(build_payload([trace])), encoding="utf-8")
    command = [NODE, tmp_path / "loops.mjs", tmp_path / "payload.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    assert [f["stage"] for f in found] == [s.name for s in trace if s.changed]
    for f in found:
        assert f["closed"] == f["open"], f
        assert f["groups"][:3] == ["loop", "loop/body", "loop/condition"]
    by_name = {f["stage"]: f["closed"] for f in found}
    assert by_name["cse"]["removed"] == 1
    assert by_name["while-loop-invariant-code-motion"]["removed"] >= 2

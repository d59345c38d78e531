"""Why two instructions are fused or not: decisions under all names, and the outcome."""

from __future__ import annotations

import numpy as np

import xlanb
from tests.explorer.test_live import TEXT
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.explorer.recorder import Recorder
from xlanb.explorer.why import Why
from xlanb.tracing import observing

APART = """HloModule m
ENTRY e {
  a = f32[64,64] parameter(0)
  b = f32[64,64] parameter(1)
  c = f32[64,64] add(a, b)
  k = f32[64,64] add(a, b)
  t = f32[64,64] tanh(c)
  d = f32[64,64] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e1 = f32[64,64] exponential(d)
  dead = f32[64,64] negate(a)
  ROOT r = f32[64,64] multiply(e1, k)
}"""


def test_two_that_were_fused_are_in_one_kernel_at_the_end() -> None:
    why = xlanb.trace(TEXT).why("p", "q")
    assert any(d.action == "fuse" and d.taken for d in why)
    assert why[-1].action == "same kernel"
    assert why[-1].taken
    assert "fusion" in str(why)


def test_two_that_never_met_say_in_which_kernels_they_are() -> None:
    last = xlanb.trace(APART).why("t", "e1")[-1]
    assert last.action == "same kernel"
    assert not last.taken
    assert last.predicates[0].name == "in one kernel"
    assert not last.predicates[0].holds


def test_common_subexpressions_are_told_as_such() -> None:
    why = xlanb.trace(APART).why("c", "k")
    assert [d.action for d in why if d.taken][:1] == ["cse"]


def test_of_what_is_gone_the_pass_is_named() -> None:
    last = xlanb.trace(APART).why("dead", "r")[-1]
    assert not last.taken
    assert "removed it" in last.predicates[0].value


def test_names_that_came_later_are_followed() -> None:
    compilation = xlanb.Compilation(TEXT)
    text = compilation.run_to("cse").after.text
    renamed = text.replace("%q", "%quick").replace("%p", "%product")
    branch = compilation.fork(text=renamed)
    branch.finish()
    assert set(branch.trace.lineage("quick").sources) == {"q"}
    assert any(d.action == "fuse" for d in branch.trace.why("p", "q"))


def test_nodes_in_and_outside_of_clusters() -> None:
    program = line_fit()
    recorder = Recorder()
    with observing(recorder), flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        session.run(program.train, program.feeds)
    (trace,) = recorder.traces
    apart = [d for d in trace.why("mul", "weights/read") if d.action == "same cluster"]
    assert [d.taken for d in apart] == [False]
    assert "Identity with unsafe cast." in str(trace.why("mul", "weights/read"))
    names = [n.name for n in trace["mark_for_compilation"].after.nodes if n.cluster]
    assert next(d for d in trace.why(names[0], names[1]) if d.action == "same cluster").taken


def test_what_nobody_decided_is_said() -> None:
    assert "no pass made a decision about it" in str(xlanb.trace(TEXT).why("x"))


def test_what_was_decided_alike_in_several_stages_stands_once() -> None:
    told = xlanb.trace(APART).why("d")
    assert len([d for d in told if d == told[0]]) == 1  # of an instruction that stays as it is a failure is told once
    assert told.stages[0] >= 0
    shown = str(Why(("d",), [told[0], told[0]], [2, 5]))
    assert shown.count(told[0].action) == 1
    assert ", stages 2, 5" in shown


def test_a_rule_says_what_it_keeps_in_why_and_in_a_bisection() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4] parameter(0)
  k = f32[] constant(3)
  c = f32[4] broadcast(k), dimensions={}
  ROOT d = f32[4] divide(x, c)
}"""
    trace = xlanb.trace(text)
    why = trace.why("d")
    assert str(why).count("keeps  real numbers only") == 1, "of the rule that fired alone"
    assert "real numbers only" in {d["keeps"] for d in why.to_json()["decisions"]}
    found = trace.bisect(np.linspace(0.1, 2, 4, dtype=np.float32), tolerance=0)
    assert "the rule keeps: real numbers only" in str(found)


def test_of_what_a_pass_made_the_pass_and_the_source_are_named() -> None:
    text = """HloModule m
ENTRY e {
  a = f32[8] parameter(0)
  two = f32[] constant(2)
  twos = f32[8] broadcast(two), dimensions={}
  half = f32[8] divide(a, twos)
  ROOT r = f32[8] sqrt(half)
}"""
    trace = xlanb.trace(text)
    made = next(e.new.name for s in trace for e in s.edits if e.old and e.old.name == "half" and e.new)
    first = trace.why(made).answer
    assert first.startswith("algsimp made it from half by A / C => A * (1 / C) (stage ")
    assert "made it" not in trace.why("a").answer

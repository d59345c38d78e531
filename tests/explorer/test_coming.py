"""The remaining stages: each stage that runs was listed, in order, and can be run to."""

from __future__ import annotations

import pytest

import xlanb
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import XlanbError
from xlanb.explorer.coming import ComingStage

TEXT = """
HloModule m

ENTRY main {
  x = f32[16,32] parameter(0)
  y = f32[16,32] parameter(1)
  zero = f32[] constant(0)
  zeros = f32[16,32] broadcast(zero), dimensions={}
  p = f32[16,32] add(x, zeros)
  q = f32[16,32] multiply(p, y)
  t = f32[16,32] tanh(q)
  u = f32[16,32] tanh(q)
  ROOT r = f32[16,32] add(t, u)
}
"""


def announced(compilation: xlanb.Compilation) -> list[str]:
    return [c.name for c in compilation.coming]


def follow(compilation: xlanb.Compilation) -> None:
    """Step to the end; only passes of a loop that reached its fixed point may be skipped."""
    while coming := compilation.coming:
        stage = compilation.step()
        assert stage is not None, announced(compilation)
        at = next(k for k, c in enumerate(coming) if c.is_stage(stage))
        assert all(c.rounds for c in coming[:at]), (stage.name, [c.name for c in coming[:at]])
    assert compilation.step() is None


def test_every_stage_of_a_module_was_announced() -> None:
    compilation = xlanb.Compilation(TEXT)
    assert announced(compilation)[0] == "hlo"
    assert announced(compilation)[-2:] == ["llvm_ir_optimized", "assembly"]
    follow(compilation)


def test_a_loop_lists_its_passes_with_the_rounds_that_it_may_run() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    loops = [c for c in compilation.coming if c.rounds]
    assert {c.pipeline[-1] for c in loops} >= {"simplification"}
    assert all(c.rounds > 1 for c in loops)
    position = announced(compilation).index("algsimp")
    list(compilation.steps_to(position))
    again = [c for c in compilation.coming if c.name == "algsimp" and c.rounds]
    assert again[0].rounds == loops[0].rounds - 1


def test_a_graph_announces_its_kinds_of_stages_and_the_run() -> None:
    case = line_fit()
    with flags(tf_xla_auto_jit=2, tf_xla_cpu_global_jit=True, tf_xla_min_cluster_size=1):
        session = tf.Session(graph=case.graph)
        session.run(case.init)
        compilation = xlanb.Compilation([case.loss], case.feeds, session=session)
    names = announced(compilation)
    assert names[:4] == ["tf_graph", "optimize", "mark_for_compilation", "encapsulate_subgraphs"]
    assert names.index("tf2xla") < names.index("fusion") < names.index("assembly")
    assert names[-1] == "execution"
    compilation.run_to("tf2xla")
    assert announced(compilation)[0] == "async-collective-replacer"
    list(compilation.steps_to(len(compilation.coming) - 1))
    assert compilation.trace[-1].kind == "execution"


def test_running_to_a_stage_stops_there() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    position = announced(compilation).index("fusion")
    before = compilation.coming[position + 1]
    ran = list(compilation.steps_to(position))
    assert ran[-1].name == "fusion"
    assert [s.index for s in ran] == list(range(1, len(ran) + 1))
    assert compilation.coming[0] == before


def test_running_to_another_run_of_a_pass_does_not_stop_at_the_first() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    places = [k for k, c in enumerate(compilation.coming) if c.name == "dce" and not c.rounds]
    wanted = compilation.coming[places[-1]]
    behind = compilation.coming[places[-1] + 1]
    ran = list(compilation.steps_to(places[-1]))
    assert wanted.is_stage(ran[-1])
    assert compilation.coming[0] == behind


def test_a_round_that_never_comes_ends_behind_its_loop() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    list(compilation.steps_to(announced(compilation).index("algsimp")))
    last = max(k for k, c in enumerate(compilation.coming) if c.rounds > 20 and c.pipeline[-1] == "simplification")
    ran = list(compilation.steps_to(last))
    assert ran
    assert "simplification" not in {c.pipeline[-1] for c in compilation.coming[:1] if c.pipeline}


def test_a_position_that_is_not_there_says_how_many_there_are() -> None:
    compilation = xlanb.Compilation(TEXT)
    with pytest.raises(XlanbError, match=r"no upcoming stage 500: \d+ are left"):
        list(compilation.steps_to(500))


def test_nothing_is_to_come_when_it_is_done() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.finish()
    assert compilation.coming == ()


def test_a_branch_announces_its_own_passes() -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    branch = compilation.fork(without=["fusion"])
    assert "fusion" not in announced(branch)
    assert isinstance(branch.coming[0], ComingStage)
    follow(branch)

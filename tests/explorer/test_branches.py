"""Branches: remaining passes after any stage, edited modules, omitted and moved passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlanb
from tests.explorer.test_live import TEXT
from tests.programs import line_fit
from xlanb import tf
from xlanb.debug_options import flags
from xlanb.errors import PassError, XlanbError
from xlanb.explorer.branches import HloEditError, remaining
from xlanb.explorer.lineage import HAND_EDIT
from xlanb.explorer.workbench import Workbench
from xlanb.hlo import HloModule, HloOpcode
from xlanb.hlo.records import ModuleRecord
from xlanb.transforms.base import HloPass
from xlanb.transforms.pipeline import HloPassPipeline

LOOPED = """
HloModule looped

ENTRY e {
  x = f32[8] parameter(0)
  one = f32[] constant(1)
  ones = f32[8] broadcast(one), dimensions={}
  a = f32[8] multiply(x, ones)
  b = f32[8] add(a, a)
  t = (f32[8], f32[8]) tuple(a, b)
  g = f32[8] get-tuple-element(t), index=1
  ROOT r = f32[8] subtract(g, a)
}
"""


@pytest.fixture
def whole() -> xlanb.Compilation:
    made = xlanb.Compilation(LOOPED)
    made.finish()
    return made


def last_text(compilation: xlanb.Compilation) -> str:
    return next(s.after.text for s in reversed(compilation.trace.stages) if s.kind == "hlo_pass")


def test_a_branch_from_every_stage_ends_where_the_whole_ended(whole: xlanb.Compilation) -> None:
    for stage in whole.trace:
        made = whole.fork(stage.index)
        made.finish()
        assert last_text(made) == last_text(whole), f"from stage {stage.index}, {stage.name}"
        shared = made.trace.forked_at + 1
        assert all(a is b for a, b in zip(made.trace.stages[:shared], whole.trace.stages[:shared], strict=True))


def test_after_a_pass_that_changed_something_the_same_stages_follow(whole: xlanb.Compilation) -> None:
    changed = [s for s in whole.trace.changed if s.kind in ("hlo", "hlo_pass")]
    assert any("simplification" in s.pipeline for s in changed), "the loop is left in the middle"
    for stage in changed:
        made = whole.fork(stage.index)
        made.finish()
        assert [s.name for s in made.trace] == [s.name for s in whole.trace]


def test_the_first_module_of_a_branch_is_the_very_one_it_left(whole: xlanb.Compilation) -> None:
    made = whole.fork("algsimp")
    stage = made.step()
    assert stage is not None
    assert stage.before is whole.trace["algsimp"].after


def test_a_pass_that_is_switched_off_does_not_run_any_more(whole: xlanb.Compilation) -> None:
    made = whole.fork("constant_folding", without=["fusion"])
    made.finish()
    assert "fusion" in {s.name for s in whole.trace}
    assert "fusion" not in {s.name for s in made.trace}
    assert "without fusion" in made.trace.name


def test_a_pass_can_be_moved(whole: xlanb.Compilation) -> None:
    made = whole.fork("call-inliner", move={"cse": "fusion"})
    made.finish()
    names = [s.name for s in made.trace.stages[made.trace.forked_at :]]
    assert names.count("cse") == 1
    assert names[names.index("fusion") + 1] == "cse"
    with pytest.raises(PassError, match="no pass 'call-inliner' is left"):
        whole.fork("fusion", move={"call-inliner": "dce"})


def test_an_edited_module_is_compiled_on_from_there() -> None:
    compilation = xlanb.Compilation(TEXT)
    text = compilation.run_to("cse").after.text
    made = compilation.fork(text=text.replace("tanh(", "negate("))
    assert made.step().name == HAND_EDIT
    made.finish()
    x, y = np.ones((2, 16, 32), np.float32)
    np.testing.assert_allclose(made.result(x, y), -np.full(16, 32.0))
    np.testing.assert_allclose(compilation.finish()(x, y), np.full(16, 32 * np.tanh(1.0)), rtol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "line", "column"),
    [
        ("tanh(", "tanhh(", 14, 18),
        ("q = f32[16,32] tanh", "q = f32[16,31] tanh", 14, 3),
        ("tanh(p)", "tanh(nothing)", 14, 23),
    ],
)
def test_what_is_wrong_with_an_edit_has_a_place(old: str, new: str, line: int, column: int) -> None:
    compilation = xlanb.Compilation(TEXT)
    compilation.step()
    with pytest.raises(HloEditError) as caught:
        compilation.fork(text=TEXT.replace(old, new).lstrip("\n"))
    assert (caught.value.line, caught.value.column) == (line, column)
    assert compilation.branches == []


def test_constants_that_the_text_leaves_out_keep_their_values() -> None:
    values = ", ".join(str(k) for k in range(64))
    compilation = xlanb.Compilation(
        f"HloModule m\nENTRY e {{\n  c = f32[64] constant({{{values}}})\n  x = f32[64] parameter(0)\n  ROOT r = f32[64] add(c, x)\n}}"
    )
    compilation.step()
    text = compilation.trace[0].after.text
    assert "{...}" in text
    made = compilation.fork(text=text.replace("add(", "subtract("))
    np.testing.assert_array_equal(made.finish()(np.zeros(64, np.float32)), np.arange(64))
    with pytest.raises(HloEditError, match="values of constant other are unknown"):
        compilation.fork(text=text.replace("c = ", "other = ").replace("%c,", "%other,").replace("%c =", "%other ="))


def test_branches_of_branches_share_the_past_of_both(whole: xlanb.Compilation) -> None:
    first = whole.fork("reshape-mover", without=["fusion"])
    first.finish()
    early, late = first.fork(5), first.fork("cse")
    assert early.trace.parent is whole.trace
    assert late.trace.parent is first.trace
    late.finish()
    assert "fusion" not in {s.name for s in late.trace}
    early.finish()
    assert "fusion" in {s.name for s in early.trace}
    assert [t.name for t in whole.traces] == ["looped", *(t.name for t in (first.trace, early.trace, late.trace))]


def test_where_there_is_no_hlo_yet_it_says_where_there_is() -> None:
    program = line_fit()
    with flags(tf_xla_auto_jit=2), tf.Session(program.graph) as session:
        session.load_variables({"weights": np.float32(0.5), "bias": np.float32(0)})
        compilation = xlanb.Compilation(program.train, program.feeds, session=session)
        compilation.finish()
        with pytest.raises(
            XlanbError, match=r"holds no HLO to continue from; the first HLO is at stage \d+ \(tf2xla\)"
        ):
            compilation.fork("mark_for_compilation")
        made = compilation.fork("tf2xla", without=["fusion"])
        made.finish()
    assert len(compilation.trace.inputs) == len(made.trace.inputs) > 0, (
        "a cluster's branch runs on what the cluster ran on"
    )
    table = compilation.compare(made).table
    fused, unfused = table["kernels"]
    assert unfused > fused
    assert table["difference"].max() < 1e-5


def test_a_comparison_tells_results_apart(whole: xlanb.Compilation) -> None:
    text = whole.trace["cse"].after.text
    other = whole.fork("cse", text=text.replace("subtract(", "add("))
    table = whole.compare(other, inputs=[np.ones(8, np.float32)]).table
    assert list(table["difference"]) == [0.0, 2.0]
    assert (table["run_us"] > 0).all()
    assert (table["instructions"] > 0).all()


def test_what_is_left_of_a_pipeline_can_be_changed_and_given_back(whole: xlanb.Compilation) -> None:
    rest = whole.remaining("layout-assignment")
    assert "layout-assignment" not in rest.names
    assert "fusion" in rest.names
    made = whole.fork("layout-assignment", pipeline=rest.only("dce"))
    made.finish()
    after = [s.name for s in made.trace.stages[made.trace.forked_at + 1 :] if s.kind == "hlo_pass"]
    assert set(after) == {"dce"}


def test_a_dump_of_another_compiler_goes_on_with_our_passes() -> None:
    from xlanb.explorer.stage import Stage
    from xlanb.explorer.trace import Trace

    record = xlanb.hlo.parse(LOOPED).record()
    foreign = Trace("theirs", [Stage("hlo_pass", "some-gpu-pass", record, record)])
    assert remaining(foreign).names == xlanb.cpu.pipeline().names
    known = Trace("theirs", [Stage("hlo_pass", "layout-assignment", record, record)])
    assert "layout-assignment" not in remaining(known).names


def test_a_run_becomes_a_stage_with_the_time_of_each_kernel(whole: xlanb.Compilation) -> None:
    x: Any = np.arange(8, dtype=np.float32)
    np.testing.assert_array_equal(whole.run(x), x)
    stage = whole.trace.stages[-1]
    assert stage.kind == "execution"
    assert {k.name for k in stage.after.kernels} == set(whole.result.program.kernels)
    assert "given inputs" in stage.summary
    whole.run()
    assert "the last inputs" in whole.trace.stages[-1].summary


class Breaks(HloPass):
    """Does not transpose where it should."""

    def apply(self, module: HloModule) -> None:
        for i in module.instructions():
            if i.opcode is HloOpcode.TRANSPOSE:
                i.parent.update(i, attributes={"dimensions": (0, 1)})


def test_what_breaks_in_a_branch_is_found_at_its_pass_and_the_branch_can_be_left_again() -> None:
    compilation = xlanb.Compilation(
        "HloModule m\nENTRY e {\n  x = f32[4,8] parameter(0)\n  ROOT t = f32[8,4] transpose(x), dimensions={1,0}\n}\n"
    )
    compilation.finish()
    passes = compilation.remaining(0).insert(Breaks(), after="cse")
    branch = compilation.fork(0, pipeline=passes)
    with pytest.raises(PassError, match="expected the shape"):
        branch.finish()
    failed = branch.trace.stages[-1]
    assert failed.failed
    assert failed.name == Breaks().name
    assert not failed.changed
    assert isinstance(failed.after, ModuleRecord)
    assert branch.trace.stages[-2].name == "cse"
    again = branch.fork(without=[Breaks().name])
    again.finish()
    assert again.trace.program is not None
    with pytest.raises(XlanbError, match="it cannot run"):
        Workbench(lambda: [branch.trace, again.trace]).run(branch.trace)


class Stumbles(HloPass):
    """Raises an error that no pass should."""

    def apply(self, module: HloModule) -> None:
        raise KeyError("lost")


def test_a_pass_that_falls_over_is_a_failed_stage_too() -> None:
    compilation = xlanb.Compilation("HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  ROOT t = f32[4] tanh(x)\n}\n")
    compilation.finish()
    branch_ = compilation.fork(0, pipeline=HloPassPipeline("mine", [Stumbles()]))
    with pytest.raises(KeyError):
        branch_.finish()
    assert branch_.trace.stages[-1].failed
    assert "KeyError" in str(branch_.trace.stages[-1].error)

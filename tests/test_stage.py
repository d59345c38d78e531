"""The record of a stage, and the one generator that plain and stepped compilations drive."""

from dataclasses import replace
from itertools import pairwise

import pytest

import xlanb
from xlanb.cpu import compile_module, compile_steps, compiler
from xlanb.explorer.recorder import Recorder
from xlanb.graph.records import GraphRecord, NodeRecord
from xlanb.hlo import HloOpcode, parse
from xlanb.hlo.records import ComputationRecord, InstructionRecord, ModuleRecord
from xlanb.shape import ArrayShape, PrimitiveType
from xlanb.stage import (
    HEAVY_BYTES,
    Changes,
    Deferred,
    Stage,
    changes_between,
    exhaust,
    named_parts,
    size_text,
)
from xlanb.tracing import StageFinished, emit, observing

TEXT = "HloModule m\nENTRY e {\n  x = f32[3] parameter(0)\n  one = f32[] constant(1)\n  ones = f32[3] broadcast(one)\n  ROOT y = f32[3] multiply(x, ones)\n}\n"


@pytest.fixture
def made(monkeypatch):
    """The stages that the compiler makes."""
    found = []

    def counted(*args, **named):
        found.append(Stage(*args, **named))
        return found[-1]

    monkeypatch.setattr(compiler, "Stage", counted)
    return found


def test_a_plain_compilation_makes_no_stage(made):
    compile_module(parse(TEXT))
    assert not made


def test_a_stepped_compilation_ends_in_the_program_of_a_plain_one(made):
    module = parse(TEXT)
    exe = exhaust(compile_steps(module))
    assert str(exe.hlo_module) == str(compile_module(module).hlo_module)
    assert [s.kind for s in made if s.kind != "hlo_pass"] == [
        "schedule", "buffer_assignment", "llvm_ir", "llvm_ir_optimized", "assembly",
    ]  # fmt: skip
    assert all(a.after is b.before for a, b in pairwise(made) if b.kind == "hlo_pass")


def test_a_trace_holds_the_stages_of_the_compiler_with_their_edits(made):
    trace = xlanb.trace(parse(TEXT))
    own = [s for s in trace.stages if s.kind != "hlo"]
    assert [(s.kind, s.name, s.before, s.after, s.pipeline) for s in own] == [
        (s.kind, s.name, s.before, s.after, s.pipeline) for s in made
    ]
    assert [s.index for s in trace.stages] == list(range(len(trace.stages)))
    assert any(s.edits for s in trace.stages)
    assert all(bool(s.edits) or not s.changed for s in own if s.kind == "hlo_pass")


def test_a_stage_lists_its_edits_with_their_rules():
    stage = xlanb.trace(parse(TEXT))["algsimp"]
    table = stage.to_dataframe()
    assert list(table.columns) == ["kind", "rule", "where", "computation", "before", "after"]
    assert len(table) == len(stage.edits)
    replaced = table[table.kind == "replace"].iloc[0]
    assert "multiply(%x, %ones)" in replaced.before
    assert "parameter(0)" in replaced.after
    assert "algebraic_simplifier" in replaced["where"]
    assert set(table[table.kind == "remove"].after) == {""}
    assert Stage("hlo_pass", "p", None, None).to_dataframe().empty


def test_a_recorder_numbers_stages_by_their_trace():
    recorder = Recorder()
    with observing(recorder):
        for _ in range(2):
            emit(StageFinished(7, Stage("hlo", "start", None, None)))
    assert [s.index for s in recorder.traces[0].stages] == [0, 1]


def test_what_a_stage_changed_is_told_by_the_parts_of_its_records():
    before = parse(TEXT).record()
    after = parse(TEXT.replace("constant(1)", "constant(2)").replace("ones", "twos")).record()
    stage = Stage("hlo_pass", "p", before, after)
    assert (stage.added, stage.removed, stage.modified) == ({"twos"}, {"ones"}, {"one", "y"})
    assert str(stage) == "p: 1 removed, 1 added, 2 changed"
    assert str(Stage("hlo", "start", None, before)) == "start: 4 HLO instructions"


def test_a_new_instruction_that_takes_over_a_name_is_the_changed_one():
    """A replacement gets another uid and may get the old name, by which readers identify it."""
    i = InstructionRecord("y", HloOpcode.ABS, ArrayShape(PrimitiveType.F32, (2,)), uid=1)
    before, after = (_module(main=[r]) for r in (i, replace(i, opcode=HloOpcode.NEGATE, uid=2)))
    assert changes_between(before, after) == Changes(modified=frozenset({"y"}))
    assert changes_between(before, _module(main=[replace(i, uid=2)])) == Changes()


def test_an_instruction_under_another_name_is_changed_once():
    i = InstructionRecord("y", HloOpcode.ABS, ArrayShape(PrimitiveType.F32, (2,)), uid=1)
    found = changes_between(_module(main=[i]), _module(main=[replace(i, name="z")]))
    assert found == Changes(modified=frozenset({"z"}), renamed={"y": "z"})
    assert str(found) == "1 changed"


def test_what_moves_to_another_computation_is_changed():
    i, j = (InstructionRecord(name, HloOpcode.ABS, ArrayShape(PrimitiveType.F32, (2,))) for name in "ij")
    found = changes_between(_module(main=[i, j], body=[]), _module(main=[j], body=[i]))
    assert found == Changes(modified=frozenset({"i"}))


def test_nodes_of_functions_count_too():
    """A function has its own names: encapsulation copies nodes under the names that they had."""
    a, b = NodeRecord("a", "Abs"), NodeRecord("b", "Neg")
    found = changes_between(GraphRecord("g", (a, b)), GraphRecord("g", (b,), (GraphRecord("cluster_0", (a,)),)))
    assert found == Changes(added=frozenset({"cluster_0:a"}), removed=frozenset({"a"}))


def _module(**computations):
    records = (ComputationRecord(name, tuple(found), "") for name, found in computations.items())
    return ModuleRecord("m", tuple(records), "main")


def test_artifacts_of_other_kinds_have_no_parts_and_no_size():
    assert not named_parts("text")
    assert not size_text(None)


def test_a_deferred_artifact_is_read_once():
    loads = []
    given = Deferred(lambda: loads.append(1) or "text")
    stage = Stage("hlo", "start", given, given)
    assert not stage.changed
    assert not loads
    assert stage.before == stage.after == "text"
    assert loads == [1]


def test_a_heavy_artifact_is_not_read_for_a_summary():
    """What was not there before is not said to have changed."""
    given = Deferred(lambda: pytest.fail("it was read"), size=HEAVY_BYTES + 1)
    earlier = Deferred(lambda: pytest.fail("it was read"), size=1)
    assert Stage("llo", "fusion.4", None, given).describe() == "fusion.4: not read yet"
    assert Stage("hlo_pass", "cse", earlier, given).describe() == "cse: changed"


def test_the_reason_why_a_node_stays_out_is_no_change_of_the_node() -> None:
    before = GraphRecord("g", (NodeRecord("a", "Add"), NodeRecord("b", "Add")))
    after = GraphRecord("g", (NodeRecord("a", "Add", reason="too small"), NodeRecord("b", "Add", cluster="cluster_0")))
    assert changes_between(before, after).modified == {"b"}

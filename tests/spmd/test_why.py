"""Why a collective is needed: openxla/xla#15207 explained and remedied; unexplained programs."""

from __future__ import annotations

import numpy as np
import pytest

import xlanb
from tests.spmd.rematerialized import SIDE, TEXT
from xlanb.cpu.executable import Executable
from xlanb.errors import XlanbError
from xlanb.spmd.annotations import AnnotationKind, annotation_of, dims_text
from xlanb.spmd.explanation import UNRECORDED
from xlanb.spmd.plan import PartitionedProgram
from xlanb.spmd.remedies import stepping_stones
from xlanb.spmd.sdy import parse_sharding

GATHERED = """HloModule jit_g, frontend_attributes={xla.sdy.meshes={mesh = #sdy.mesh<["x"=8]>}}

ENTRY main {
  v = f32[64] parameter(0), sharding={devices=[8]<=[8]}, frontend_attributes={xla.sdy.sharding="#sdy.sharding<@mesh, [{\\"x\\"}]>"}
  double = f32[64] add(v, v), metadata={op_name="jit(g)/add" source_file="g.py" source_line=3}
  ROOT result = f32[64] custom-call(double), custom_call_target="xla.sdy.FuncResultSharding", custom_call_has_side_effect=true, frontend_attributes={xla.sdy.sharding="#sdy.sharding_per_value<[<@mesh, [{}]>]>"}
}
"""
DUMPED = """HloModule jit_h, num_partitions=8

add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }

ENTRY main_spmd {
  p = f32[256] parameter(0)
  ROOT all-reduce.7 = f32[256] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true, to_apply=add, metadata={op_name="jit(h)/psum" source_file="h.py" source_line=5}
}
"""


@pytest.fixture(scope="module")
def rematerialized() -> Executable:
    exe: Executable = xlanb.compile(xlanb.hlo.parse(TEXT))
    return exe


@pytest.fixture(scope="module")
def gathered() -> Executable:
    exe: Executable = xlanb.compile(xlanb.hlo.parse(GATHERED))
    return exe


def test_a_gather_names_instruction_shardings_and_annotation(gathered: Executable) -> None:
    (collective,) = xlanb.spmd.collectives(gathered).collectives
    text = str(xlanb.spmd.why(gathered, collective.name))
    assert "add double" in text
    assert "jit(g)/add, g.py:3" in text
    assert '[{"x"}], that is {devices=[8]<=[8]}' in text
    assert "[{}], that is {replicated}" in text
    assert 'parameter v is annotated [{"x"}]' in text
    assert 'along {"x"}' in text
    assert "each of 8 devices sends 224 bytes" in text


def test_what_a_remedy_says_before_and_after_it_is_tried(gathered: Executable) -> None:
    (collective,) = xlanb.spmd.collectives(gathered).collectives
    card = xlanb.spmd.why(gathered, collective.name)
    assert "not tried" in str(card)
    kept = next(r for r in card.remedies if r.title.startswith("annotate result"))
    attempt = kept.attempt()
    assert attempt.is_better
    assert not attempt.after.collectives
    assert list(attempt.to_dataframe()["count after"]) == [0]
    v = np.arange(64, dtype=np.float32)
    assert (xlanb.compile(attempt.module)(v) == 2 * v).all()


def test_a_remedy_by_which_every_device_computes_all_is_not_called_better(gathered: Executable) -> None:
    (collective,) = xlanb.spmd.collectives(gathered).collectives
    attempts = xlanb.spmd.why(gathered, collective.name).attempts()
    whole = next(a for a in attempts if a.remedy.title.startswith("annotate parameter v [{}]"))
    assert not whole.after.collectives
    assert not whole.is_better
    assert "8.0 times as much" in whole.verdict
    assert attempts[0].is_better


def test_issue_15207_is_a_finding_with_its_reason(rematerialized: Executable) -> None:
    (card,) = xlanb.spmd.findings(rematerialized)
    text = str(card)
    assert "all-gather: for the same reason" in text
    assert 'parameter a is annotated [{"y"}, {}, {"x"}]' in text
    assert "full-rematerialization" in text
    assert "model.py:7" in text
    assert '[{"y"}, {}, {"x"}]' in text
    assert '[{}, {"x", "y"}, {}]' in text


def test_issue_15207_is_cured_by_a_stepping_stone_or_by_other_arguments(rematerialized: Executable) -> None:
    card = next(iter(xlanb.spmd.findings(rematerialized)))
    step, arguments = (card.remedies[n].attempt() for n in (0, 1))
    assert '[{"y"}, {"x"}, {}] on the way' in step.remedy.title
    assert step.is_better
    assert dict(step.after.kinds) == {"all-to-all": 2}
    assert step.after.bytes * 5 < step.before.bytes
    assert not arguments.after.collectives
    a, b, c = np.random.default_rng(0).standard_normal((3, SIDE, SIDE, SIDE), dtype=np.float32)
    cured = xlanb.compile(step.module)
    np.testing.assert_array_equal(cured(a, b, c), c + (a + b))
    assert not len(xlanb.spmd.findings(cured))


def _layer(w2: str) -> str:
    """down = tanh(x w1) w2, on a mesh of data=4 and model=2, with the annotation of w2."""
    dims = {"x": '[{"data"}, {}]', "w1": '[{}, {"model"}]', "w2": w2}
    quoted = (d.replace('"', '\\"') for d in dims.values())
    x, w1, w2 = (f'frontend_attributes={{xla.sdy.sharding="#sdy.sharding<@mesh, {d}>"}}' for d in quoted)
    return f"""HloModule layer, frontend_attributes={{xla.sdy.meshes={{mesh = #sdy.mesh<["data"=4, "model"=2]>}}}}, num_partitions=8

ENTRY main {{
  x = f32[64,32] parameter(0), {x}
  w1 = f32[32,128] parameter(1), {w1}
  w2 = f32[128,32] parameter(2), {w2}
  up = f32[64,128] dot(x, w1), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  act = f32[64,128] tanh(up)
  ROOT down = f32[64,32] dot(act, w2), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


def test_the_rows_of_a_weight_are_best_cut_as_the_columns_that_they_meet() -> None:
    exe = xlanb.compile(xlanb.hlo.parse(_layer('[{"data"}, {}]')))
    (gather,) = (c for c in xlanb.spmd.collectives(exe).collectives if c.kind == "all-gather")
    card = xlanb.spmd.why(exe, gather.name)
    assert "wanted    [{}, {}], that is {replicated}" in str(card)
    first = card.remedies[0].attempt()
    assert first.remedy.title == 'annotate parameter w2 [{"model"}, {}] instead of [{"data"}, {}]'
    assert first.is_better
    assert "all-gather" not in first.after.kinds


def test_a_program_without_remats_has_no_findings(gathered: Executable) -> None:
    assert str(xlanb.spmd.findings(gathered)) == "no involuntary full rematerialization"


def test_of_a_dump_it_says_what_is_known() -> None:
    card = xlanb.spmd.why(xlanb.hlo.parse(DUMPED), "all-reduce.7", on="h100")
    assert not card.needs
    assert not card.remedies
    assert UNRECORDED in str(card)
    assert "jit(h)/psum, h.py:5" in str(card)
    assert "h100" in str(card)
    assert "1.8 KiB" in str(card)


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    with pytest.raises(XlanbError, match=r"all-reduce\.7"):
        xlanb.spmd.why(xlanb.hlo.parse(DUMPED), "all-reduce.8")


def test_a_collective_in_a_loop_counts_as_often_as_the_loop_executes() -> None:
    text = """HloModule m, num_partitions=2
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b) }
body { t = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  v = f32[4] get-tuple-element(t), index=1
  one = s32[] constant(1)
  m = s32[] add(n, one)
  r = f32[4] all-reduce(v), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=add
  ROOT u = (s32[], f32[4]) tuple(m, r) }
condition { t = (s32[], f32[4]) parameter(0)
  n = s32[] get-tuple-element(t), index=0
  five = s32[] constant(5)
  ROOT less = pred[] compare(n, five), direction=LT }
ENTRY e { p = (s32[], f32[4]) parameter(0)
  ROOT w = (s32[], f32[4]) while(p), condition=condition, body=body, backend_config={"known_trip_count":{"n":"5"}} }
"""
    plan = xlanb.spmd.collectives(xlanb.hlo.parse(text))
    assert plan.collectives[0].executions == 5
    assert plan.bytes == 5 * 16
    assert list(plan.to_dataframe()["runs"]) == [5]


def test_annotations_of_a_program() -> None:
    program = PartitionedProgram(xlanb.hlo.parse(TEXT))
    found = [a for i in program.module.entry_computation if (a := annotation_of(i, program.meshes)) is not None]
    assert [a.kind for a in found] == [
        *(AnnotationKind.PARAMETER,) * 3,
        AnnotationKind.CONSTRAINT,
        AnnotationKind.RESULT,
    ]
    assert dims_text(found[3].sharding) == '[{}, {"x", "y"}, {}]'


def test_stepping_stones_move_one_axis_at_a_time() -> None:
    had, wanted = (parse_sharding(f"#sdy.sharding<@m, {d}>") for d in ('[{"y"}, {}, {"x"}]', '[{}, {"x", "y"}, {}]'))
    assert [dims_text(s) for s in stepping_stones(had, wanted)] == ['[{"y"}, {"x"}, {}]']
    assert stepping_stones(had, parse_sharding("#sdy.sharding<@m, [{}, {}, {}]>")) == []
    assert stepping_stones(had, had) == []


def test_card_and_table_as_html(gathered: Executable) -> None:
    plan = xlanb.spmd.collectives(gathered)
    card = xlanb.spmd.why(gathered, plan.collectives[0].name)
    for shown in (plan, card, card.remedies[0].attempt()):
        bundle = shown._repr_mimebundle_()
        assert "<table" in bundle["text/html"]
        assert bundle["text/plain"]


def test_a_page_shows_sizes_and_times_with_their_units(gathered: Executable) -> None:
    plan = xlanb.spmd.collectives(gathered)
    ((_, table),) = plan.tables
    frame = plan.to_dataframe()
    assert list(table["time"]) == [f"{s * 1e6:.1f} us" for s in frame["seconds"]]
    assert set(table["bytes"].map(type)) == {str}
    attempt = xlanb.spmd.why(gathered, plan.collectives[0].name).remedies[0].attempt()
    ((_, compared),) = attempt.tables
    assert {"bytes before", "time before", "bytes after", "time after"} <= set(compared.columns)

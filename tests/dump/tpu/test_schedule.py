"""The schedule of a TPU program: instructions in order, their cost, and concurrent transfers."""

from __future__ import annotations

import pytest

from xlanb.dump.tpu.chips import CHIPS
from xlanb.dump.tpu.schedule import CodeFacts, TpuScheduleRecord, schedule_of
from xlanb.errors import DumpError
from xlanb.hlo import parse

MODULE = """HloModule m, is_scheduled=true

%body (s: (s32[], f32[8])) -> (s32[], f32[8]) {
  %s = (s32[], f32[8]{0:T(128)}) parameter(0)
  %i = s32[] get-tuple-element(%s), index=0
  %v = f32[8]{0:T(128)} get-tuple-element(%s), index=1
  %twice = f32[8]{0:T(128)} add(%v, %v)
  ROOT %t = (s32[], f32[8]{0:T(128)}) tuple(%i, %twice)
}

%cond (c: (s32[], f32[8])) -> pred[] {
  %c = (s32[], f32[8]{0:T(128)}) parameter(0)
  %n = s32[] get-tuple-element(%c), index=0
  %k = s32[] constant(3)
  ROOT %less = pred[] compare(%n, %k), direction=LT
}

ENTRY %main (x: f32[8], i: s32[]) -> (f32[8], f32[16]) {
  %x = f32[8]{0:T(128)} parameter(0)
  %i0 = s32[] parameter(1)
  %copy-start = (f32[8]{0:T(128)S(1)}, f32[8]{0:T(128)}, u32[]{:S(2)}) copy-start(%x)
  %ag = (f32[8]{0:T(128)}, f32[16]{0:T(128)}) all-gather-start(%x), channel_id=1, replica_groups={{0,1}}, dimensions={0}, use_global_device_ids=true
  %neg = f32[8]{0:T(128)} negate(%x)
  %abs = f32[8]{0:T(128)} abs(%neg)
  %copy-done = f32[8]{0:T(128)S(1)} copy-done(%copy-start)
  %agd = f32[16]{0:T(128)} all-gather-done(%ag)
  %state = (s32[], f32[8]{0:T(128)}) tuple(%i0, %abs)
  %loop = (s32[], f32[8]{0:T(128)}) while(%state), condition=%cond, body=%body
  %out = f32[8]{0:T(128)} get-tuple-element(%loop), index=1
  %sum = f32[8]{0:T(128)S(1)} add(%out, %copy-done)
  ROOT %r = (f32[8]{0:T(128)S(1)}, f32[16]{0:T(128)}) tuple(%sum, %agd)
}
"""
FACTS = {
    "neg": CodeFacts(40, 2, {"MATMUL": 0.1, "VALU": 0.5}),
    "twice": CodeFacts(10, 0, {"VALU": 0.25}),
    "sum": CodeFacts(30, 0, {}),
}


@pytest.fixture
def schedule() -> TpuScheduleRecord:
    return schedule_of(parse(MODULE), FACTS, {"abs": "neg"}, {"neg": 2.5, "copy-start": 11.5}, CHIPS["v5e"])


def test_bodies_stand_before_their_loop(schedule: TpuScheduleRecord) -> None:
    """What takes no time (parameters, tuples) is omitted; a loop's instructions are one deeper."""
    rows = [(i.name, i.depth) for i in schedule.instructions]
    assert rows == [
        ("copy-start", 0),
        ("ag", 0),
        ("neg", 0),
        ("abs", 0),
        ("copy-done", 0),
        ("agd", 0),
        ("less", 1),
        ("twice", 1),
        ("loop", 0),
        ("sum", 0),
    ]
    assert [i.position for i in schedule.instructions] == list(range(10))


def test_instructions_know_their_program(schedule: TpuScheduleRecord) -> None:
    """`abs` shares the program of `neg`; the call's bundles are counted separately."""
    by_name = {i.name: i for i in schedule.instructions}
    assert (by_name["abs"].program, by_name["abs"].bundles, by_name["abs"].call_bundles) == ("neg", 40, 0.0)
    assert (by_name["neg"].call_bundles, by_name["neg"].busiest, by_name["neg"].empty) == (2.5, ("VALU", 0.5), 2)
    assert (by_name["agd"].program, by_name["agd"].bundles) == ("", 0)
    assert schedule.bundles == 120
    assert schedule.seconds(1500) == pytest.approx(1e-6)


def test_copies_and_collectives_run_beside(schedule: TpuScheduleRecord) -> None:
    """From the start until something waits, with bytes, memory spaces and the bundles between."""
    copy, gather = schedule.spans
    assert (copy.name, copy.done, copy.kind, copy.start, copy.end) == ("copy-start", "copy-done", "copy", 0, 4)
    assert (copy.size, copy.source, copy.target, copy.bundles, copy.is_collective) == (32, "HBM", "VMEM", 80, False)
    assert (gather.kind, gather.size, gather.bundles, gather.is_collective) == ("all-gather", 64, 80, True)


def test_tables_and_text(schedule: TpuScheduleRecord) -> None:
    """A row for each instruction that takes time, one for each span."""
    frame = schedule.frame().set_index("instruction")
    assert list(frame.index[:2]) == ["copy-start", "neg"]
    assert frame.loc["neg", "seconds"] == pytest.approx(42.5 / 1.5e9)
    assert frame.loc["neg", "mxu_share"] == pytest.approx(0.1)
    assert list(schedule.span_frame()["kind"]) == ["copy", "all-gather"]
    lines = str(schedule).splitlines()
    assert lines[0] == "schedule of m: 10 instructions, 120 bundles, loops counted once"
    assert "    2 neg: 40 bundles, VALU 50%" in lines
    assert "    0 copy-start: 11.5 bundles of the top level" in lines
    assert lines[-2] == "  copy-start (copy): 32 bytes HBM -> VMEM, 0 to 4, overlaps 80 bundles"


def test_schedule_without_programs() -> None:
    """A dump of HLO alone has spans, but no bundles and no times."""
    alone = schedule_of(parse(MODULE), {}, {}, {})
    assert [(s.kind, s.bundles) for s in alone.spans] == [("copy", 0), ("all-gather", 0)]
    assert alone.frame().empty
    assert alone.seconds(5) is None


def test_roofline_sets_limits_beside_the_bundles(schedule: TpuScheduleRecord) -> None:
    """Use XLA's cost analysis if it is known, otherwise the schedule."""
    own = schedule.roofline()
    assert own.flops == 4 * 8 + 1  # neg, abs, twice, sum and less; loops once
    # neg and abs 64 each, twice 64 and sum 32 of HBM; the copy 32, the collective 64
    assert own.hbm_bytes == 64 + 64 + 64 + 32 + 32 + 64
    assert own.static_seconds == pytest.approx(134 / 1.5e9)
    assert own.mxu_share == pytest.approx(0.1 * 80 / 120)
    told = schedule.roofline({"flops": 197e6, "bytes accessed": 819.0, "optimal_seconds": 2e-6})
    assert (told.compute_seconds, told.bound) == (pytest.approx(1e-6), "compute")
    assert told.hbm_bytes == own.hbm_bytes  # XLA's bytes have those of VMEM among them
    assert list(told.frame()["seconds"])[3] == 2e-6
    assert "bound by compute" in str(told).splitlines()[1]
    assert str(told).splitlines()[-1] == "  the bundles use 7% of the matrix units"


def test_roofline_needs_a_chip() -> None:
    """The error says what is missing."""
    with pytest.raises(DumpError, match=r"has no target_arguments.txt, or names none of v4, v5e, v5p, v6e, tpu7x"):
        schedule_of(parse(MODULE), {}, {}, {}).roofline()


def test_calls_that_double_at_each_level_are_refused() -> None:
    """Forty computations that each call the next one twice: a trillion instructions."""
    levels = ["%f0 (p: f32[]) -> f32[] {\n  %p = f32[] parameter(0)\n  ROOT %n0 = f32[] negate(%p)\n}"]
    levels += [
        f"%f{k} (p{k}: f32[]) -> f32[] {{\n  %p{k} = f32[] parameter(0)\n"
        f"  %a{k} = f32[] call(%p{k}), to_apply=%f{k - 1}\n  ROOT %b{k} = f32[] call(%a{k}), to_apply=%f{k - 1}\n}}"
        for k in range(1, 40)
    ]
    entry = "ENTRY %e (x: f32[]) -> f32[] {\n  %x = f32[] parameter(0)\n  ROOT %r = f32[] call(%x), to_apply=%f39\n}"
    with pytest.raises(DumpError, match="exceeds the limit of 500,000 instructions"):
        schedule_of(parse("\n\n".join(["HloModule m", *levels, entry])), {}, {}, {})

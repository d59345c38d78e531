"""What XLA:TPU leaves, as plain data and as text."""

from __future__ import annotations

import json

from xlanb.dump.tpu.bundles import parse_bundles
from xlanb.dump.tpu.chips import CHIPS
from xlanb.dump.tpu.memory_space import parse_memory_space
from xlanb.dump.tpu.program import TpuProgram
from xlanb.dump.tpu.schedule import CodeFacts, schedule_of
from xlanb.dump.tpu.utilization import Utilization
from xlanb.explorer.stage import Stage, TextRecord
from xlanb.explorer.trace import Trace
from xlanb.hlo import parse
from xlanb.view.parts.text_diff import text_pairs
from xlanb.view.parts.tpu import program_data, schedule_data, space_data
from xlanb.view.payload import build_payload
from xlanb.view.reprs import mimebundle
from xlanb.view.text import artifact_text

EVIL = "<script>alert(1)</script>"
BUNDLES = (
    "     0   :  { %v5_v0 = vld [vmem:[%s1_s0] sm:$0xff] }\n"
    "   0x1 LB: > { %v6_v1 = vadd.f32 1.0, %v5_v0  ;;  %v7_v2 = vadd.f32 2.0, %v5_v0 }\n"
    f"   0x2   :  {{ %9 = inlined_call /* %neg.1 = {EVIL} */ }}\n"
)


def program() -> TpuProgram:
    used = Utilization(("VALU", "VLOAD"), (4, 3), ((0, 1), (2, 0), (0, 0)))
    return TpuProgram("fusion.1", parse_bundles(BUNDLES), used, serves=("fusion.1", "fusion.2"), chip=CHIPS["v5e"])


def test_rows_have_a_column_for_each_unit() -> None:
    """The most used unit first; digits of use next to each bundle."""
    data = program_data(program(), 100)
    assert [u[0] for u in data["units"]] == ["VALU", "VLOAD", "BRANCH"]
    assert data["rows"][1] == [1, "LB", 1, "", 0, "%v6_v1 = vadd.f32 1.0, %v5_v0", 0, "%v7_v2 = vadd.f32 2.0, %v5_v0"]
    assert data["rows"][2][3] == "neg.1"
    assert data["use"] == ["01", "20", "00"]
    assert data["profile"] == [[0, 50, 0], [33, 0, 0]]
    assert data["loops"] == [[1, 1, 1]]
    assert "note" not in data


def test_long_programs_are_cut_with_a_word() -> None:
    """The profile is of the whole program all the same."""
    data = program_data(program(), 2)
    assert (len(data["rows"]), len(data["use"]), data["total"], len(data["profile"][0])) == (2, 2, 3, 3)
    assert data["note"].startswith("Shown: 2 of 3 bundles")


def test_text_has_the_use_in_front_of_each_bundle() -> None:
    """A digit for each unit, a point where it idles."""
    lines = artifact_text(program()).splitlines()
    assert lines[0].startswith("fusion.1 (also fusion.2): 3 bundles")
    assert lines[1] == "use of units, of {'VALU': 4, 'VLOAD': 3}: VALU 17%, VLOAD 11%"
    assert lines[3] == "2.    0x1 LB: > { %v6_v1 = vadd.f32 1.0, %v5_v0  ;;  %v7_v2 = vadd.f32 2.0, %v5_v0 }"


def test_memory_spaces_as_data() -> None:
    """The largest buffer first."""
    texts = (
        "buffer_id,buffer_name,alt_mem_benefit,size,definition_time,use_times,use_names,is_scoped\n"
        '1,"<1 a>",1e-9,8,0,"1","b, operand 0",0\n2,"<2 b{0}>",0,64,1,"2","c, operand 0",0\n',
        "buffer_id,size,offset,start_time,end_time\n1,8,0,0,1\n",
        "time,instruction_name\n0,a\n1,b\n2,c\n",
    )
    data = space_data(parse_memory_space("m", texts, capacity=128))
    assert [b[1] for b in data["buffers"]] == ["b{0}", "a"]
    assert (data["fast"], data["slow"], data["placed"], data["capacity"]) == ([8, 8, 0], [0, 64, 64], 1, 128)


def test_schedule_as_data() -> None:
    """Each instruction begins where those before it end."""
    module = parse(
        "HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  a = f32[8] negate(x)\n  b = f32[8] abs(a)\n  ROOT c = f32[8] tanh(b)\n}"
    )
    facts = {"a": CodeFacts(10, 0, {"VALU": 0.5}), "c": CodeFacts(5, 0, {})}
    data = schedule_data(schedule_of(module, facts, {}, {"a": 1.5, "b": 2.0}))
    assert [(r[0], r[2], r[3]) for r in data["rows"]] == [("a", 0.0, 10), ("b", 11.5, 0), ("c", 13.5, 5)]
    assert data["total"] == 18.5
    assert data["rows"][0][-3:] == [8.0, 64, 0]  # flops, bytes of HBM, scoped VMEM


def test_page_of_a_program_holds_no_markup_of_its_own() -> None:
    """Names out of a dump are data in a page."""
    html = mimebundle(program())["text/html"]
    assert EVIL not in html
    payload = build_payload([Trace("t", [Stage("llo", "fusion.1", None, program())])])
    assert json.dumps(payload["artifacts"][0])
    assert payload["artifacts"][0]["k"] == "bundles"


def test_texts_are_compared_line_by_line() -> None:
    """A line is kept, replaced, taken away or added."""
    pairs = list(text_pairs(["a", "b", "c", "d"], ["a", "x", "c", "d", "e"]))
    assert pairs == [("a", "a"), ("b", "x"), ("c", "c"), ("d", "d"), (None, "e")]
    assert list(text_pairs([], ["a"])) == [(None, "a")]
    assert list(text_pairs(["a"], [])) == [("a", None)]


def test_stage_between_texts_has_a_diff() -> None:
    """Rows as for HLO: distant equal ones are counted."""
    before = TextRecord("one", "\n".join(f"line {k}" for k in range(20)), "llo")
    after = TextRecord("two", before.text.replace("line 10", "line ten"), "llo")
    other = TextRecord("three", "x", "dot")
    stages = [Stage("llo_stage", "two", before, after), Stage("llo_stage", "three", after, other)]
    first, second = build_payload([Trace("t", stages)])["traces"][0]["stages"]
    (section,) = first["diff"]
    assert (section["name"], section["plain"], section["rows"][0], section["rows"][-1]) == ("two", 1, -7, -6)
    assert [r for r in section["rows"] if isinstance(r, list)] == [section["rows"][4]]
    assert "diff" not in second


def test_records_show_themselves_in_notebooks() -> None:
    """HTML with a text; a roofline is a table."""
    module = parse("HloModule m\nENTRY e {\n  x = f32[8] parameter(0)\n  ROOT a = f32[8] negate(x)\n}")
    schedule = schedule_of(module, {"a": CodeFacts(10, 0, {})}, {}, {}, CHIPS["v5e"])
    for record in (program(), schedule):
        bundle = record._repr_mimebundle_()
        assert "xlanb-static" in bundle["text/html"]
        assert bundle["text/plain"].count("\n") > 0
    shown = schedule.roofline()._repr_mimebundle_()
    assert "bound by memory" in shown["text/html"]
    assert "<td" in shown["text/html"]
    assert shown["text/plain"].startswith("roofline of one device of v5e: 197 Tflop/s, 819 GB/s")
